// Learns the merges of a byte-pair encoding from texts.
#pragma once

#include <functional>

#include "datasets/text/tokenizer.h"

namespace starling::datasets::text {

struct BpeTraining {
  std::size_t size = 0;  // tokens of the vocabulary, 256 to kTokensMax
  bool in_words = true;  // counts pairs within words (text/words.h) only
  // Called from time to time with the number of merges that are learned, and how many there will be.
  std::function<void(std::size_t merges, std::size_t of)> progress = {};
};

// Joins the most frequent pair of neighbors, again and again; of equally frequent ones that with the smaller
// left, then the smaller right token. Token N is the byte N, and merge N makes the token 256 + N. The
// vocabulary is smaller if no pair is left that occurs twice and has at most kTokenBytesMax bytes. A pair
// never reaches from one text into the next. Time and memory grow with the number of different words.
Result<AnyTokenizer> train_bpe(std::span<const std::string_view> texts, const BpeTraining& training);

}  // namespace starling::datasets::text
