// Divides a text into words as GPT-2 does before it joins bytes (Radford et al., "Language models are
// unsupervised multitask learners", 2019; the pattern is in its file encoder.py):
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
#pragma once

#include <cstddef>
#include <string_view>

namespace starling::datasets::text {

// The end of the word that begins at `begin`. A byte that is not part of UTF-8 counts as punctuation.
// REQUIRES: begin < text.size().
std::size_t end_of_word(std::string_view text, std::size_t begin);

}  // namespace starling::datasets::text
