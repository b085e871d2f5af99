// Byte-pair encoding (Sennrich et al., "Neural machine translation of rare words with subword units", ACL
// 2016) over bytes, as GPT-2 uses it: a text begins as the tokens of its bytes, and pairs of neighbors are
// joined to larger tokens in a fixed order of precedence, the leftmost occurrence first. It encodes any
// bytes.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "datasets/text/tokenizer.h"

namespace starling::datasets::text {

struct Merge {
  std::uint16_t left = 0, right = 0, result = 0;
};

// A token that no merge makes.
struct OtherToken {
  std::uint16_t token = 0;
  std::string bytes;
  bool is_special = false;  // encode() makes it of its text; always true if that is <|...|>
};

struct BpeRules {
  std::size_t size = 0;                    // tokens of the vocabulary
  bool in_words = true;                    // pairs are joined within words (text/words.h) only
  std::array<std::uint16_t, 256> bytes{};  // the token of each byte
  std::vector<Merge> merges;               // the pair to join first comes first
  std::vector<OtherToken> others;
};

// An Error unless every token has exactly one sequence of 1 to kTokenBytesMax bytes, and every merge joins
// tokens of bytes or of earlier merges. Several merges may have the same result if its bytes are the same.
Result<AnyTokenizer> make_bpe(BpeRules rules);

// The rules of a tokenizer that make_bpe() made; null for another one.
const BpeRules* rules_of(const Tokenizer& tokenizer);

// Reads the text form after its first line.
Result<AnyTokenizer> parse_bpe(std::string_view rest);

}  // namespace starling::datasets::text
