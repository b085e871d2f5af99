// A joiner and an address where connections end at once, as at a peer with too many of them.
#include <memory>
#include <string>

#include "tests/catch.h"
#include "tests/cli/program.h"
#include "tests/cli/silent_port.h"

namespace starling::cli_tests {
TEST_CASE("a joiner retries an address that closes its connections, until a peer answers there") {
  auto port = std::make_unique<SilentPort>();
  const std::string address = port->address();
  Program joiner({"peer", "--listen", "127.0.0.1:0", "--join", address});
  for (int i = 0; i < 4; ++i) REQUIRE(port->turn_away());
  REQUIRE(joiner.wait_for_error_text("closed the connection without an answer"));
  port.reset();
  Program first({"peer", "--listen", address, "--model", "softmax", "--pace", "5ms"});
  const bool joined = joiner.wait_for_error_text("training begins");
  INFO(joiner.error_text());
  CHECK(joined);
  kill_at_once(joiner);
  kill_at_once(first);
}

}  // namespace starling::cli_tests
