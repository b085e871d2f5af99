// The models that have a name.
#include <array>

#include "base/text.h"
#include "models/spec.h"

namespace starling::models {
namespace {

struct Entry {
  const char* name;
  const char* description;
  std::vector<Layer> (*layers)(int classes);
};

std::vector<Layer> softmax(int classes) {
  return {Linear{classes}};
}

std::vector<Layer> mlp(int classes) {
  return {Linear{256}, Relu{}, Linear{128}, Relu{}, Linear{classes}};
}

// After LeCun et al., "Gradient-based learning applied to document recognition" (1998), with ReLUs and the
// channel counts that today's tutorials use.
std::vector<Layer> lenet(int classes) {
  return {Convolution{20, 3}, Relu{},      AveragePool{2}, Convolution{50, 5}, Relu{},
          AveragePool{2},     Linear{128}, Relu{},         Linear{classes}};
}

constexpr std::array<Entry, 3> kZoo{{
    {"softmax", "multinomial logistic regression: one linear layer", softmax},
    {"mlp", "two hidden layers of 256 and 128 ReLUs", mlp},
    {"lenet", "two convolutions (20 of 3x3, 50 of 5x5) with average pools, a hidden layer of 128", lenet},
}};

const Entry* find(const std::string& name) {
  for (const Entry& entry : kZoo) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace

Result<Plan> make_model(const std::string& name, Shape input, int classes) {
  const Entry* entry = find(name);
  if (entry == nullptr) {
    return Error{"there is no model \"" + name + "\"; the models are " + one_of(model_names())};
  }
  return make_plan({name, input, entry->layers(classes)});
}

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Entry& entry : kZoo) list.emplace_back(entry.name);
    return list;
  }();
  return names;
}

std::string describe_model(const std::string& name) {
  const Entry* entry = find(name);
  return entry == nullptr ? std::string() : entry->description;
}

}  // namespace starling::models
