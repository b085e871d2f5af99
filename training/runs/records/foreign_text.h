// Text that another machine or a model wrote, made fit for a terminal and for a row of a table: a control
// sequence could change the title and the screen, a line end could forge a row.
#pragma once

#include <string>
#include <string_view>

namespace starling::training {

// The text with U+FFFD in place of each character that is not printable (is_printable() in base/text.h) and
// of each byte that is not UTF-8. `keeps_lines`: ends of lines and tabs stay.
std::string fit_to_show(std::string_view text, bool keeps_lines);

// The bytes at the end of the text that are the beginning of a character of UTF-8: 0 to 3.
std::size_t begun_character(std::string_view text);

}  // namespace starling::training
