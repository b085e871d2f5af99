// The tokenizer whose tokens are the characters (code points) that occur in a text, in ascending order.
#pragma once

#include "datasets/text/tokenizer.h"

namespace starling::datasets::text {

// The characters of these texts. An Error if there is none, or there are more than kTokensMax. REQUIRES: the
// texts are UTF-8.
Result<AnyTokenizer> make_characters(std::span<const std::string_view> texts);

// Reads the text form after its first line.
Result<AnyTokenizer> parse_characters(std::string_view rest);

// UTF-8 of a character.
void append_character(char32_t character, std::string& text);
// The character for a message: 'x' (U+0078), or U+0007 if it is not printable.
std::string show_character(char32_t character);

}  // namespace starling::datasets::text
