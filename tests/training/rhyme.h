// A text for tests: the same line several times.
#pragma once

#include <string>

namespace starling::training {

inline std::string rhyme(int lines) {
  std::string text;
  for (int line = 0; line < lines; ++line) text += "the cat sat on the mat, and the hat sat on the cat.\n";
  return text;
}

}  // namespace starling::training
