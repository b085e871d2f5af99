// Arbitrary bytes on a connection: a Link yields complete, validated frames or one error, and reads nothing
// twice.
#include "tests/fuzz/pipe.h"
#include "tests/fuzz/repair.h"
#include "transport/links/link.h"

using namespace starling;

namespace {

asio::awaitable<void> read_all(transport::LinkPtr link, bool* ended) {
  link->accept_relayed();
  for (;;) {
    const auto frame = co_await link->read();
    if (!frame) break;
    if (frame->kind == wire::FrameKind::chunk) {
      STARLING_CHECK(wire::payload_fits(frame->chunk, frame->body.size()));
      STARLING_CHECK(frame->chunk.floats > 0 && frame->chunk.floats <= wire::kChunkFloatsMax);
      STARLING_CHECK(reinterpret_cast<std::uintptr_t>(frame->body.data()) % 64 == 0);
    } else {
      static_cast<void>(transport::message_in(*link, *frame));
    }
  }
  STARLING_CHECK(!(co_await link->read()).ok());
  *ended = true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  auto bytes = fuzz::copy(data + 1, size - 1);
  if (data[0] % 8 != 0) fuzz::repair(bytes);
  fuzz::Pipe pipe;
  bool ended = false;
  transport::spawn(pipe.io.get_executor(), read_all(pipe.far, &ended));
  pipe.feed(bytes);
  STARLING_CHECK(ended);
  return 0;
}
