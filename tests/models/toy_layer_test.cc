// Adds a toy layer as docs/EXTENDING.md describes: a struct with its fields, and its LayerType.
#include <string>
#include <variant>
#include <vector>

#include "models/layer_types.h"
#include "tests/catch.h"

namespace starling::models {

struct ToyShift {
  double by = 1;
  int times = 1;
};

template <>
struct LayerType<ToyShift> {
  static constexpr const char *kName = "toy shift", *kPrefix = "shift";
  static constexpr Reads kReads = Reads::value;
  static constexpr std::tuple kKeys{LayerKey{"by", &ToyShift::by, true},
                                    LayerKey{"times", &ToyShift::times, false, 1}};
};

namespace {

using Kind = std::variant<Relu, ToyShift, Linear>;  // Layer::Kind with one more type

TEST_CASE("a new type of layer is listed by its name") {
  CHECK(layer_type_names<Kind>() == std::vector<std::string>{"relu", "toy shift", "linear"});
}

TEST_CASE("the keys of a new type of layer are read from its LayerType") {
  std::string keys;
  for_each_layer_type<Kind>([&]<class T>(T layer) {
    for_each_key<T>([&](const auto& key) {
      keys += std::string(LayerType<T>::kPrefix) + "." + key.name + (key.required ? "! " : " ");
      layer.*key.field = 3;
    });
    if constexpr (std::is_same_v<T, ToyShift>) CHECK((layer.by == 3 && layer.times == 3));
  });
  CHECK(keys == "shift.by! shift.times fc.features fc.bias fc.tied fc.deviation ");
}

}  // namespace
}  // namespace starling::models
