// Networks as text: layers as a TOML array, which is how an experiment file, a flag, a checkpoint and a
// swarm's manifest carry a network that the zoo does not have.
//
//   [{ type = "convolution", channels = 64, kernel = 3 }, "relu", { type = "residual", layers = [...] },
//   "linear"]
//
// A layer is a table with a type and the fields of its struct in spec.h, or the type alone where no other key
// is needed. The text may come from a stranger: what is too long, too deep or too much is refused before it
// costs anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "models/spec.h"

namespace starling::models {

inline constexpr std::size_t kLayersTextMax = 49'152;  // bytes; what a setting may have on the wire
inline constexpr std::size_t kLayersMax = 1000;        // those inside of residual blocks included
inline constexpr int kResidualDepthMax = 8;

// Names the layer by its place: "layer 4 (residual), layer 2 inside (dropout): ...".
struct SpecError : Error {
  std::uint32_t line = 1;  // of the text, from 1, where the layer stands
};

// What the array says. The last layer alone may be a Linear of 0 features: one for each class, see
// make_model().
Result<std::vector<Layer>, SpecError> parse_layers(std::string_view toml_array);

enum class Lines : std::uint8_t { one, many };
// The canonical text, which parse_layers() reads back to the same: types alone where that will do, no
// defaults. In many lines each layer has its own.
std::string format_layers(const std::vector<Layer>& layers, Lines lines = Lines::one);

// A network by name, and its layers as canonical text; without layers it is one of the zoo.
struct ModelText {
  std::string name;
  std::string layers{};
  friend bool operator==(const ModelText&, const ModelText&) = default;
};

// What a network with layers of its own may be called: not as one of the zoo, nor as a file.
Status check_model_name(std::string_view name);
inline constexpr const char* kUnnamedModel = "custom";

// The network of a TOML document: `layers` and perhaps `name`, in [model] or at the top. Without a name it is
// called `name`, or "custom" where that is none. A document with [model] may hold anything else beside it,
// such as an experiment.
Result<ModelText, SpecError> read_model(std::string_view toml_document, std::string_view name);

// The layers of such a document alone. REQUIRES: it is TOML that has some.
Result<std::vector<Layer>, SpecError> read_layers(std::string_view toml_document);

// Whether a model is given as a file: its path ends in ".toml".
bool is_model_file(std::string_view name);

// The network for images of `input` and `classes` classes, the zoo's or that of its layers. A network that
// does not fit, yields another number of logits or is beyond all measure is an Error that names the layer.
Result<Plan> make_model(const ModelText& model, Shape input, int classes);

}  // namespace starling::models
