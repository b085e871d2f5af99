#include "datasets/text/token_header.h"

#include "base/bytes.h"

namespace starling::datasets::text {

Result<std::optional<std::uint64_t>> read_token_header(std::span<const std::uint8_t> start) {
  constexpr std::uint32_t kMagic = 20240520, kVersion = 1;
  const auto number = [&](std::size_t index) {
    return starling::load<std::uint32_t>(std::as_bytes(start).data() + 4 * index);
  };
  if (start.size() < sizeof(std::uint32_t) || number(0) != kMagic) return std::optional<std::uint64_t>();
  if (start.size() < kTokenHeaderBytes)
    return Error{"has " + std::to_string(start.size()) + " bytes, fewer than the " +
                 std::to_string(kTokenHeaderBytes) + " of the header with which it begins"};
  if (number(1) != kVersion)
    return Error{"has a header of the version " + std::to_string(number(1)) + ", and only version " +
                 std::to_string(kVersion) + " with tokens of 16 bits is accepted"};
  return std::optional<std::uint64_t>(number(2));
}

}  // namespace starling::datasets::text
