// Reads a byte-pair encoding as GPT-2 publishes it. vocab.json is one object: token text -> number, with all
// numbers from 0 on. merges.txt has a line per merge, two token texts and a space between them; a first line
// "#version: ..." is accepted. In token texts GPT-2's table of printable characters stands for the 256 bytes;
// tokens that no merge makes are those that encode() makes only of their whole text, if they are special.
#pragma once

#include <string_view>

#include "datasets/text/tokenizer.h"

namespace starling::datasets::text {

// The Error begins with the name of one of the two files.
Result<AnyTokenizer> parse_gpt2(std::string_view vocab_json, std::string_view merges_txt);

// The character that stands for the byte in token texts: the byte itself if it is printable in Latin-1, else
// one of the characters from U+0100 on.
char32_t gpt2_character(unsigned char byte);

}  // namespace starling::datasets::text
