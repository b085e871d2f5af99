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
  std::string note;  // what was left out; empty: nothing
};
// The metadata key of a file that also holds the state of training (peer_state.h), in tensors whose names
// begin with "optimizer." or "sampler.".
inline constexpr const char* kFullCheckpoint = "checkpoint";
// Whether a tensor of this name, in a file with this metadata, is a parameter of the model. PyTorch's
// counters of batches (num_batches_tracked) are none. Masks of attention are left out where files are read.
bool is_parameter(const Facts& metadata, const std::string& tensor);

// The file must have exactly the tensors of `layout`, in any order, with their names, shapes and dtype F32,
// F16, BF16 or F64, or a GPT's tensors under the names of nanoGPT or GPT-2 (gpt_names.h); the Error names the
// tensor. A vocabulary may be padded with fewer than kPaddingMax rows, which are left out. Rejects what
// SafetensorsFile::open() rejects.
Result<Checkpoint> read_safetensors(const std::string& path, const models::Layout& layout);
inline constexpr std::int64_t kPaddingMax = 128;  // nanoGPT pads 50,257 tokens to 50,304
// The outputs of the linear layer that ends the network, in the file; 0 if the file has no such layer.
Result<int> outputs_in(const std::string& path, const models::Layout& layout);
// An Error, with the tensor and the number of values, if values are not finite.
Status check_finite(const std::string& path, const models::Layout& layout, std::span<const float> arena);
// An Error if the file holds the state of a simulation.
Status check_is_model(const SafetensorsFile& file);
inline constexpr const char* kSimulationFact = "simulation";  // the metadata key of such a file
// Only the metadata, to learn which model a file holds. An Error if it holds none.
Result<Facts> read_metadata(const std::string& path);

// Copies only the parameters from the file `from` to `to`, for inference, with the metadata of the network,
// the data and the training. Under the names of nanoGPT or GPT-2 it also writes the output layer that is tied
// to the embedding, as they do, and all tensors as F32; an Error if the network is no GPT-2, or if `to` is
// the file `from`. `model`: the network, if the metadata do not name it.
Status export_parameters(const std::string& from, const std::string& to,
                         TensorNames names = TensorNames::starling,
                         const std::optional<models::ModelText>& model = {});

// The network in a file's metadata: "model", and "layers" if the zoo does not have it.
Facts model_metadata(const models::ModelText& model);
// What it says about the data (training/learning/data_facts.h): their description, and of a text the text
// form of its tokenizer (datasets/text/tokenizer.h).
inline constexpr const char* kDescriptionFact = "description";
inline constexpr const char* kTokenizerFact = "tokenizer";
std::optional<models::ModelText> model_of(const Facts& metadata);

}  // namespace starling::training
