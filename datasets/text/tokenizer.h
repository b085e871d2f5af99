// Turns text into tokens, which are numbers below the size of a vocabulary, and back. A tokenizer does not
// change, so several threads may use it. Its text form is part of files, checkpoints and manifests:
//
//   starling tokenizer 1
//   characters 41-5a 61 e9        the code points, hexadecimal and ascending; token 0 is the first one
//
//   starling tokenizer 1
//   bytes                         token N is the byte N
//
//   starling tokenizer 1
//   bpe SIZE words                pairs are joined within words (text/words.h); "anywhere": in the whole text
//   bytes N0 N1 ... N255          the tokens of the 256 bytes
//   LEFT RIGHT [RESULT]           a pair of tokens that becomes one, the pair to join first on top; without
//                                 RESULT it is the previous result + 1, at first 256
//   other N HEX                   a token that no merge makes, and its bytes
//   special N HEX                 a special one, which encode() makes of its text; "other" if that is <|...|>
//   end
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace starling::datasets::text {

inline constexpr std::size_t kTokensMax = 65'536;  // of a vocabulary
inline constexpr std::size_t kTokenBytesMax = 256;
inline constexpr std::size_t kTokenizerBytesMax = 4'000'000;  // of the text form

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string_view kind() const = 0;  // "characters", "bytes" or "bpe"
  virtual std::size_t size() const = 0;       // tokens of the vocabulary
  // The Error names the offset, in bytes, of what the vocabulary lacks. "bytes" and "bpe" lack nothing.
  virtual Result<std::vector<std::uint16_t>> encode(std::string_view text) const = 0;
  // The same without special tokens: their texts are ordinary ones.
  virtual Result<std::vector<std::uint16_t>> encode_plain(std::string_view text) const {
    return encode(text);
  }
  virtual bool is_special(std::uint16_t /*token*/) const { return false; }
  // The bytes of a token, which may be a part of a character. REQUIRES: token < size().
  virtual std::string_view decode_one(std::uint16_t token) const = 0;
  virtual std::string text() const = 0;  // the text form

  std::string decode(std::span<const std::uint16_t> tokens) const;
  std::uint64_t fingerprint() const;  // equal for equal text forms
};

using AnyTokenizer = std::shared_ptr<const Tokenizer>;

}  // namespace starling::datasets::text
