#include "training/runs/records/foreign_text.h"

#include <algorithm>

#include "base/text.h"

namespace starling::training {

std::string fit_to_show(std::string_view text, bool keeps_lines) {
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (!next_character(text, at)) at = begin + 1;
    const std::string_view character = text.substr(begin, at - begin);
    const bool is_kept = keeps_lines && (character == "\n" || character == "\t");
    shown += is_kept || is_printable(character) ? character : "\xef\xbf\xbd";
  }
  return shown;
}

std::size_t begun_character(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0U) == 0x80U) continue;
    const std::size_t length = byte >= 0xF0U ? 4 : byte >= 0xE0U ? 3 : byte >= 0xC0U ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

}  // namespace starling::training
