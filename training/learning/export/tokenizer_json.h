// A tokenizer as the file tokenizer.json of the library `tokenizers`.
#pragma once

#include <string>

#include "base/result.h"
#include "datasets/text/tokenizer.h"

namespace starling::training {

// The file. There, characters that the vocabulary lacks are left out of the tokens, where encode() is an
// Error. An Error if two tokens have the same bytes, or if a special token is not UTF-8, which the library
// cannot represent.
Result<std::string> tokenizer_json(const datasets::text::Tokenizer& tokenizer);

}  // namespace starling::training
