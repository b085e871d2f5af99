// Reads the text form of a tokenizer (text/tokenizer.h), which may come from another peer: memory and time
// are bounded by kTokensMax, kTokenBytesMax and kTokenizerBytesMax.
#pragma once

#include <string_view>

#include "base/result.h"
#include "datasets/text/tokenizer.h"

namespace starling::datasets::text {

// The Error says which line is wrong, or which merge, and what would be right.
Result<AnyTokenizer> parse_tokenizer(std::string_view text);

}  // namespace starling::datasets::text
