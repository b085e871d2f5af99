// A replica in a file: safetensors, readable by Python's safetensors under the layout's names.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "models/layout.h"
#include "models/spec_text.h"

namespace starling::training {

// `metadata` goes to the header's "__metadata__" (strings to strings). Written to a temporary file beside
// `path`, flushed and renamed. REQUIRES: arena.size() == layout.arena_size(). The gaps between tensors are
// not in the file.
Status write_safetensors(const std::string& path, const models::Layout& layout, std::span<const float> arena,
                         const std::map<std::string, std::string>& metadata);

struct Checkpoint {
  std::vector<float> arena;  // as `layout` says
  std::map<std::string, std::string> metadata;
};
// Metadata of a file that holds besides the parameters what its peer remembered (training/peer_state.h), in tensors
// whose names begin with "optimizer." or "sampler.".
inline constexpr const char* kFullCheckpoint = "checkpoint";
bool is_full_checkpoint(const std::map<std::string, std::string>& metadata);
// Whether, in a file of this metadata, a tensor of this name is one of the model's.
bool is_parameter(const std::map<std::string, std::string>& metadata, const std::string& tensor);

// Every tensor of `layout`, and no other of a model, must be in the file with its name, shape and dtype F32; the
// sentence names the tensor. A file that is cut short, overlaps, has gaps or lies about its lengths is
// refused, and nothing larger than the file itself is allocated.
Result<Checkpoint> read_safetensors(const std::string& path, const models::Layout& layout);
// The metadata alone, to learn which model a file holds.
Result<std::map<std::string, std::string>> read_metadata(const std::string& path);

// Writes of the file `from` the model's tensors alone to `to`, with what its metadata says of the network, the data and
// the training: for inference.
Status export_parameters(const std::string& from, const std::string& to);

// What a file's metadata says of its network: "model", and "layers" of one that the zoo does not have.
std::map<std::string, std::string> model_metadata(const models::ModelText& model);
std::optional<models::ModelText> model_of(const std::map<std::string, std::string>& metadata);

}  // namespace starling::training
