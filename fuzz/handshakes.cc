// The handshake on either side: a valid Hello, or an error and a closed link.
#include "fuzz/pipe.h"
#include "fuzz/repair.h"
#include "transport/handshake.h"

using namespace starling;

namespace {

asio::awaitable<void> shake(transport::LinkPtr link, bool dialer, bool* over) {
  wire::Hello mine;
  mine.swarm = "fuzz";
  mine.name = "one";
  mine.id = PeerId{7};
  mine.address = {"here", 1};
  // Not a conditional expression: GCC 12 destroys the result of its co_await twice.
  transport::LinkResult<wire::Hello> remote = wire::Hello{};
  if (dialer) {
    remote = co_await transport::introduce(*link, mine, std::chrono::seconds(60));
  } else {
    remote = co_await transport::admit(*link, mine, std::chrono::seconds(60));
  }
  if (remote) STARLING_CHECK(remote->swarm == mine.swarm && remote->id != mine.id);
  *over = true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  auto bytes = fuzz::copy(data + 1, size - 1);
  if (data[0] & 2) fuzz::repair(bytes);
  fuzz::Pipe pipe;
  bool over = false;
  transport::spawn(pipe.io.get_executor(), shake(pipe.far, (data[0] & 1) != 0, &over));
  pipe.feed(bytes);
  pipe.near->close();
  pipe.settle();
  STARLING_CHECK(over);
  return 0;
}
