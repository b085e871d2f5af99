#include "datasets/text/token_header.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace starling::datasets::text {
namespace {

struct HeaderKind {
  std::uint32_t magic, version;
  int bits;
};
constexpr std::array<HeaderKind, 2> kHeaders = {{{20240520, 1, 16}, {20240801, 7, 32}}};

// Other formats whose files are called .bin, too, or were renamed.
struct OtherFormat {
  std::string_view start;
  const char* name;
};
constexpr std::array<OtherFormat, 8> kOthers = {{
    {"\x93NUMPY", "a NumPy array; write its numbers with array.astype('<u2').tofile()"},
    {"PK\3\4", "a zip archive, as numpy.savez and torch.save write them"},
    {"\x89HDF\r\n", "an HDF5 file"},
    {"PAR1", "a Parquet file"},
    {"GGUF", "a model in GGUF"},
    {"\xc6\xd7\x34\x01", "a model of llm.c"},
    {"\xc8\xd7\x34\x01", "a tokenizer of llm.c"},
    {"\x8a\xd8\x34\x01", "an evaluation of llm.c"},
}};

}  // namespace

Result<std::optional<TokenHeader>> read_token_header(std::span<const std::uint8_t> start) {
  for (const OtherFormat& other : kOthers) {
    if (start.size() >= other.start.size() &&
        std::equal(other.start.begin(), other.start.end(), start.begin(),
                   [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; }))
      return Error{std::string("has no tokens: it is ") + other.name};
  }
  const auto number = [&](std::size_t index) {
    return starling::load<std::uint32_t>(std::as_bytes(start).data() + 4 * index);
  };
  const auto kind = start.size() < sizeof(std::uint32_t)
                        ? kHeaders.end()
                        : std::ranges::find(kHeaders, number(0), &HeaderKind::magic);
  if (kind == kHeaders.end()) return std::optional<TokenHeader>();
  if (start.size() < kTokenHeaderBytes)
    return Error{"has " + std::to_string(start.size()) + " bytes, fewer than the " +
                 std::to_string(kTokenHeaderBytes) + " of the header with which it begins"};
  if (number(1) != kind->version)
    return Error{"has a header of the version " + std::to_string(number(1)) + ", and only version " +
                 std::to_string(kind->version) + " is accepted after the number " +
                 std::to_string(kind->magic)};
  return std::optional(TokenHeader{kind->bits, number(2)});
}

}  // namespace starling::datasets::text
