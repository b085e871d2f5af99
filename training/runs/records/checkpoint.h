// A replica in a file: safetensors, readable by Python's safetensors under the layout's names.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "models/layout.h"
#include "models/spec_text.h"
#include "training/runs/records/gpt_names.h"
#include "training/runs/records/safetensors.h"

namespace starling::training {

// `metadata` goes to the header's "__metadata__" (strings to strings). Written to a temporary file beside
// `path`, flushed and renamed. REQUIRES: arena.size() == layout.arena_size(). The gaps between tensors are
// not in the file.
Status write_safetensors(const std::string& path, const models::Layout& layout, std::span<const float> arena,
                         const Facts& metadata);

// The content of such a file.
std::string to_safetensors(const models::Layout& layout, std::span<const float> arena, const Facts& metadata);

struct Checkpoint {
  std::vector<float> arena;  // as `layout` says
  Facts metadata;
};
// The metadata key of a file that also holds the state of training (peer_state.h), in tensors whose names
// begin with "optimizer." or "sampler.".
inline constexpr const char* kFullCheckpoint = "checkpoint";
// Whether a tensor of this name, in a file with this metadata, is a parameter of the model.
bool is_parameter(const Facts& metadata, const std::string& tensor);

// The file must have exactly the tensors of `layout`, with their names, shapes and dtype F32, or a GPT's
// tensors under the names of nanoGPT or GPT-2 (gpt_names.h); the Error names the tensor. Rejects what
// SafetensorsFile::open() rejects.
Result<Checkpoint> read_safetensors(const std::string& path, const models::Layout& layout);
// Only the metadata, to learn which model a file holds.
Result<Facts> read_metadata(const std::string& path);

// Copies only the parameters from the file `from` to `to`, for inference, with the metadata of the network,
// the data and the training. Under the names of nanoGPT or GPT-2 it also writes the output layer that is tied
// to the embedding, as they do; an Error if the network is no GPT-2.
Status export_parameters(const std::string& from, const std::string& to,
                         TensorNames names = TensorNames::starling);

// The network in a file's metadata: "model", "layers" if the zoo does not have it, and for a text
// "tokenizer", the text form of its tokenizer (datasets/text/tokenizer.h).
Facts model_metadata(const models::ModelText& model, const std::string& tokenizer = {});
inline constexpr const char* kTokenizerFact = "tokenizer";
std::optional<models::ModelText> model_of(const Facts& metadata);

}  // namespace starling::training
