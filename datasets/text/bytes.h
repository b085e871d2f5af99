// The tokenizer whose tokens are the 256 bytes.
#pragma once

#include "datasets/text/tokenizer.h"

namespace starling::datasets::text {

AnyTokenizer make_bytes();

}  // namespace starling::datasets::text
