// Networks as text: layers as a TOML array, the form in which an experiment file, a flag, a checkpoint and a
// swarm's manifest contain a network that is not in the zoo.
//
//   [{ type = "convolution", channels = 64, kernel = 3 }, "relu", { type = "residual", layers = [...] },
//   "linear"]
//
// A layer is a table with a type and the fields of its struct in spec.h, or only the type if no other key is
// needed. The text may come from a peer: a network that is too long, too deep or too large is rejected before
// it uses memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "models/spec.h"

namespace starling::models {

inline constexpr std::size_t kLayersTextMax = 49'152;  // bytes; the limit of a setting on the wire
inline constexpr std::size_t kLayersMax = 1000;        // including those inside residual blocks
inline constexpr int kResidualDepthMax = 8;

// Names the layer by its position: "layer 4 (residual), layer 2 inside (dropout): ...".
struct SpecError : Error {
  std::uint32_t line = 1;  // the layer's line of the text, from 1
};

// Parses the array. Only the last layer may be a Linear of 0 features, which means one for each class.
Result<std::vector<Layer>, SpecError> parse_layers(std::string_view toml_array);

enum class Lines : std::uint8_t { one, many };
// The canonical text, without defaults, which parse_layers() reads back. With Lines::many each layer has its
// own line.
std::string format_layers(const std::vector<Layer>& layers, Lines lines = Lines::one);

// A network's name and its layers as canonical text; without layers it is one of the zoo.
struct ModelText {
  std::string name;
  std::string layers{};
  friend bool operator==(const ModelText&, const ModelText&) = default;
};

// Checks the name of a network with its own layers: it must differ from the zoo's names and not look like a
// file.
Status check_model_name(std::string_view name);
inline constexpr const char* kUnnamedModel = "custom";

// Reads the network of a TOML document, in [model] or at the top: `layers`, or type = "gpt" and the fields of
// Gpt (gpt.h), and optionally `name`. Without a
// name it is called `name`, or "custom" if that is not a valid name. A document with [model] may have other
// content, such as an experiment.
Result<ModelText, SpecError> read_model(std::string_view toml_document, std::string_view name);

// Reads only the layers of such a document, which may have `others` besides them. REQUIRES: it has layers or
// a type if it is valid TOML.
Result<std::vector<Layer>, SpecError> read_layers(std::string_view toml_document,
                                                  const std::vector<std::string>& others);

// Whether a model is given as a file: its path ends in ".toml" or ".TOML".
bool is_model_file(std::string_view name);

// The context of the network, if it is for text; 0 for others, and for one that make_model() rejects.
int context_of(const ModelText& model);

// The zoo's network or the network of these layers, for images of `input` and `classes` classes. The Error
// names the layer that does not fit, yields another number of logits, or exceeds a limit.
Result<Plan> make_model(const ModelText& model, Shape input, int classes);

}  // namespace starling::models
