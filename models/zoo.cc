// The models with a name.
#include <algorithm>
#include <array>
#include <initializer_list>

#include "base/text.h"
#include "models/gpt.h"
#include "models/spec.h"

namespace starling::models {
namespace {

struct Entry {
  const char* name;
  const char* description;
  std::vector<Layer> (*layers)(int classes);
};

// After LeCun et al., "Gradient-based learning applied to document recognition" (1998), with ReLUs and the
// channel counts that today's tutorials use.
std::vector<Layer> lenet(int classes) {
  return {Convolution{20, 3}, Relu{},      AveragePool{2}, Convolution{50, 5}, Relu{},
          AveragePool{2},     Linear{128}, Relu{},         Linear{classes}};
}

// After VGG (Simonyan and Zisserman, "Very deep convolutional networks", 2015), for 32x32 images: three pairs
// of 3x3 convolutions with batch normalization.
std::vector<Layer> vgg_small(int classes) {
  std::vector<Layer> layers;
  for (const int channels : {64, 128, 256}) {
    for (int i = 0; i < 2; ++i) {
      layers.insert(layers.end(), {Convolution{channels, 3, 1, 1, 1, false}, BatchNorm{}, Relu{}});
    }
    layers.push_back(MaxPool{2});
  }
  layers.insert(layers.end(), {GlobalAveragePool{}, Linear{classes}});
  return layers;
}

// Two 3x3 convolutions; if the shape changes, a 1x1 convolution in the shortcut.
Layer basic_block(int channels, int stride, bool same_shape) {
  Residual block{{Convolution{channels, 3, stride, 1, 1, false}, BatchNorm{}, Relu{},
                  Convolution{channels, 3, 1, 1, 1, false}, BatchNorm{}}};
  if (!same_shape) block.shortcut = {Convolution{channels, 1, stride, 0, 1, false}, BatchNorm{}};
  return block;
}

// He et al., "Deep residual learning" (CVPR 2016), for 32x32 images: a 3x3 convolution of stride 1 comes
// first, no pool, then stages of basic blocks, each stage with half the extents of the one before.
std::vector<Layer> resnet(int classes, std::initializer_list<int> stages, int blocks) {
  int channels = *stages.begin();
  std::vector<Layer> layers{Convolution{channels, 3, 1, 1, 1, false}, BatchNorm{}, Relu{}};
  for (const int next : stages) {
    for (int i = 0; i < blocks; ++i) {
      layers.push_back(basic_block(next, next == channels || i > 0 ? 1 : 2, next == channels || i > 0));
      layers.push_back(Relu{});
    }
    channels = next;
  }
  layers.insert(layers.end(), {GlobalAveragePool{}, Linear{classes}});
  return layers;
}

// The small networks of nanoGPT (Karpathy, 2022), without biases, and GPT-2 (Radford et al., 2019).
constexpr Gpt gpt(int layers, int heads, int features, int context, double dropout) {
  Gpt it{layers, heads, features, context};
  it.bias = false;
  it.dropout = dropout;
  return it;
}
Gpt gpt2() {
  Gpt it{12, 12, 768, 1024};
  it.tanh = true;
  return it;
}
// After Llama (Touvron et al., 2023) with two queries for each key, of the size of gpt-tiny.
Gpt llama_tiny() {
  Gpt it = gpt(4, 4, 128, 64, 0);
  it.groups = 2;
  it.hidden = 352;
  it.rms = it.swiglu = it.rotary = true;
  it.tied = false;
  return it;
}

constexpr std::array<Entry, 10> kZoo{{
    {"softmax", "multinomial logistic regression: one linear layer",
     [](int classes) -> std::vector<Layer> { return {Linear{classes}}; }},
    {"mlp", "two hidden layers of 256 and 128 ReLUs",
     [](int classes) -> std::vector<Layer> {
       return {Linear{256}, Relu{}, Linear{128}, Relu{}, Linear{classes}};
     }},
    {"lenet", "two convolutions (20 of 3x3, 50 of 5x5) with average pools, a hidden layer of 128", lenet},
    {"vgg-small", "six 3x3 convolutions of 64 to 256 channels with batch norm, for color images of 32x32",
     vgg_small},
    {"resnet8", "ResNet with three basic blocks of 16, 32 and 64 channels, for color images of 32x32",
     [](int classes) {
       return resnet(classes, {16, 32, 64}, 1);
     }},
    {"resnet18", "ResNet with eight basic blocks of 64 to 512 channels, the variant for 32x32",
     [](int classes) {
       return resnet(classes, {64, 128, 256, 512}, 2);
     }},
    {"gpt-tiny", "GPT of 4 layers, 4 heads, 128 features and a context of 64, for text",
     [](int tokens) { return gpt_layers(gpt(4, 4, 128, 64, 0), tokens); }},
    {"gpt-char", "GPT of 6 layers, 6 heads, 384 features, a context of 256 and dropout of 0.2, for text",
     [](int tokens) { return gpt_layers(gpt(6, 6, 384, 256, 0.2), tokens); }},
    {"gpt2", "GPT-2 of 12 layers, 12 heads, 768 features and a context of 1024, for text",
     [](int tokens) { return gpt_layers(gpt2(), tokens); }},
    {"llama-tiny", "a small Llama: RMS norm, SwiGLU, rotary positions, grouped keys; context 64, for text",
     [](int tokens) { return gpt_layers(llama_tiny(), tokens); }},
}};

const Entry* find(const std::string& name) {
  const auto* entry = std::ranges::find(kZoo, name, &Entry::name);
  return entry == kZoo.end() ? nullptr : entry;
}

}  // namespace

Result<Plan> make_model(const std::string& name, Shape input, int classes) {
  const Entry* entry = find(name);
  if (entry == nullptr) {
    return Error{"unknown model \"" + name + "\"; the models are " + one_of(model_names())};
  }
  std::vector<Layer> layers = entry->layers(classes);
  if (const int context = context_of(layers); context > 0) {
    if (input.tokens == 0)
      return Error{"model \"" + name +
                   "\" is for text, but the data has images or vectors; give --data a text, " +
                   "such as shakespeare or FILE.txt"};
    input.tokens = context;
  }
  return make_plan({name, input, std::move(layers)});
}

std::optional<std::vector<Layer>> zoo_layers(const std::string& name, int classes) {
  const Entry* entry = find(name);
  if (entry == nullptr) return std::nullopt;
  return entry->layers(classes);
}

int context_of(const std::vector<Layer>& layers) {
  const auto* embedding = layers.empty() ? nullptr : std::get_if<Embedding>(&layers.front().kind);
  return embedding == nullptr ? 0 : embedding->context;
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
