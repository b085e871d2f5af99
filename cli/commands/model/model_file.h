// How commands name a saved model: FILE or --checkpoint, and --model (saved_model.cc).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/shell/arguments.h"
#include "cli/shell/command.h"
#include "models/layout.h"
#include "models/spec_text.h"

namespace starling::cli {

inline const Positional kModelFile{
    "FILE", "the model: a safetensors file, such as a checkpoint of a peer, or a folder of checkpoints",
    false};
inline const Flag kCheckpointFlag{"--checkpoint", "FILE", "the same as FILE"};

// The path of the model: FILE or --checkpoint. In a folder: model.safetensors, or the newest complete
// checkpoint. No output replaces it (datasets/inputs.h).
Result<std::string> model_file(const Arguments& arguments);

// The network of the file: --model, or what the file's metadata names.
Result<models::ModelText> find_model(const Arguments& arguments, const std::string& checkpoint);

// The network's parameters in the file, in the order of the layout, with a warning if the file says less than
// it should. An Error if a tensor does not fit, or has values that are not finite.
Result<std::vector<float>> read_parameters(const std::string& path, const models::Layout& layout);

}  // namespace starling::cli
