#include "datasets/text/tokenizer.h"

#include "base/hash.h"

namespace starling::datasets::text {

std::string Tokenizer::decode(std::span<const std::uint16_t> tokens) const {
  std::string decoded;
  for (const std::uint16_t token : tokens) decoded += decode_one(token);
  return decoded;
}

std::uint64_t Tokenizer::fingerprint() const { return hash64(text()); }

}  // namespace starling::datasets::text
