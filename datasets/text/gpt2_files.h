// Reads a byte-pair encoding as GPT-2 publishes it. vocab.json is one object: token text -> number, with all
// numbers from 0 on. merges.txt has a line per merge, two token texts and a space between them; a first line
// "#version: ..." is accepted. In token texts GPT-2's table of printable characters stands for the 256 bytes.
// Two more files may name tokens that were added: added_tokens.json as vocab.json does, and tokenizer.json in
// its array "added_tokens", each with "id" and "content"; these contents are plain text.
//
// Tokens that no merge makes are made by encode() only of their whole text, if they are special: all added
// ones, and those whose text is in angles or brackets, as <|endoftext|>, </s> and [PAD].
#pragma once

#include <string_view>

#include "datasets/text/tokenizer.h"

namespace starling::datasets::text {

struct Gpt2Files {
  std::string_view vocab_json, merges_txt;
  std::string_view added_tokens_json = {}, tokenizer_json = {};  // empty: there is none
};

// The Error begins with the name of one of the files.
Result<AnyTokenizer> parse_gpt2(const Gpt2Files& files);

// The character that stands for the byte in token texts: the byte itself if it is printable in Latin-1, else
// one of the characters from U+0100 on.
char32_t gpt2_character(unsigned char byte);

}  // namespace starling::datasets::text
