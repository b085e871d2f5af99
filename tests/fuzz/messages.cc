// The bytes of a control message: rejected, or decoded to a message that survives another round trip.
#include <algorithm>

#include "base/check.h"
#include "tests/fuzz/repair.h"
#include "wire/codec.h"

using namespace starling;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Aligned to 8 bytes, as in a link.
  std::vector<std::uint64_t> aligned((size + 7) / 8);
  const MutableBytes bytes = std::as_writable_bytes(std::span(aligned)).first(size);
  std::copy_n(reinterpret_cast<const std::byte*>(data), size, bytes.begin());
  const auto message = wire::decode_message(bytes);
  if (!message) {
    STARLING_CHECK(!message.error().message.empty());
    return 0;
  }
  auto frame = wire::encode_frame(*message);
  STARLING_CHECK(frame.ok());
  const auto again = wire::decode_message(MutableBytes(*frame).subspan(wire::kFrameHeaderBytes));
  STARLING_CHECK(again.ok() && *again == *message);
  return 0;
}
