#include "datasets/text/words.h"

#include <array>

#include "base/text.h"
#include "datasets/text/unicode.h"

namespace starling::datasets::text {
namespace {

struct Step {
  CharacterClass kind;
  std::size_t end;  // of the character
};

Step step(std::string_view text, std::size_t begin) {
  std::size_t at = begin;
  const auto character = next_character(text, at);
  if (!character) return {CharacterClass::other, begin + 1};
  return {class_of(*character), at};
}

// The end of the characters of this class from `at` on.
std::size_t end_of_class(std::string_view text, std::size_t at, CharacterClass kind) {
  while (at < text.size()) {
    const Step next = step(text, at);
    if (next.kind != kind) break;
    at = next.end;
  }
  return at;
}

}  // namespace

std::size_t end_of_word(std::string_view text, std::size_t begin) {
  constexpr std::array<std::string_view, 7> kContractions = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
  if (text[begin] == '\'') {
    for (const std::string_view contraction : kContractions)
      if (text.substr(begin).starts_with(contraction)) return begin + contraction.size();
  }
  const std::size_t start = begin + (text[begin] == ' ' ? 1 : 0);  // a space belongs to the word after it
  if (start < text.size()) {
    const Step first = step(text, start);
    if (first.kind != CharacterClass::space) return end_of_class(text, first.end, first.kind);
  }
  // White space: without its last character if a word follows, unless that is the only one.
  std::size_t last = begin, end = begin;
  while (end < text.size()) {
    const Step next = step(text, end);
    if (next.kind != CharacterClass::space) break;
    last = end;
    end = next.end;
  }
  return end == text.size() || last == begin ? end : last;
}

}  // namespace starling::datasets::text
