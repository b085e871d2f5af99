#include "datasets/text/bytes.h"

#include <array>

namespace starling::datasets::text {
namespace {

constexpr std::array<char, 256> kBytes = [] {
  std::array<char, 256> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
  return bytes;
}();

class ByteTokenizer final : public Tokenizer {
 public:
  std::string_view kind() const override { return "bytes"; }
  std::size_t size() const override { return kBytes.size(); }
  Result<std::vector<std::uint16_t>> encode(std::string_view text) const override {
    std::vector<std::uint16_t> tokens;
    tokens.reserve(text.size());
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  std::string_view decode_one(std::uint16_t token) const override {
    STARLING_CHECK(token < size());
    return {&kBytes[token], 1};
  }
  std::string text() const override { return "starling tokenizer 1\nbytes\n"; }
};

}  // namespace

AnyTokenizer make_bytes() { return std::make_shared<const ByteTokenizer>(); }

}  // namespace starling::datasets::text
