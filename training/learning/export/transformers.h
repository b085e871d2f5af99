// A GPT as a folder that the Python library transformers opens: config.json, model.safetensors and, of a
// model with a tokenizer, tokenizer.json and tokenizer_config.json.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "datasets/text/tokenizer.h"
#include "models/spec.h"

namespace starling::training {

// Makes the folder if it does not exist, and replaces these files in it; an Error if they are of another
// model, unless `force`. The network becomes a GPT-2 whose missing biases are zeros; the Error says why the
// GPT-2 of transformers cannot compute it. `tokenizer` may be null.
Status write_transformers(const std::string& folder, const models::Plan& plan,
                          std::span<const float> parameters, const datasets::text::AnyTokenizer& tokenizer,
                          bool force = false);

}  // namespace starling::training
