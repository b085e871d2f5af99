// A peer under a service manager.
#include "tests/catch.h"
#include "tests/cli/program.h"
#include "tests/node/manager.h"

namespace starling::cli_tests {
namespace {

TEST_CASE("a peer reports its state to the service manager") {
  const std::string path = "@starling-service-" + std::to_string(getpid());
  const node::Manager manager(path);
  Program peer({"peer", "--listen", "127.0.0.1:0", "--model", "softmax", "--data", "glyphs", "--steps", "60",
                "--pace", "20ms"},
               {{"NOTIFY_SOCKET", path}, {"WATCHDOG_USEC", "300000"}});
  std::string all;
  const auto hear = [&] {  // the socket holds ten messages, and further ones are lost
    for (std::string text; !(text = manager.heard()).empty();) all += text + "\n";
  };
  std::optional<Outcome> outcome;
  while (!(outcome = peer.finish_within(std::chrono::milliseconds(20)))) hear();
  hear();
  INFO(outcome->err);
  REQUIRE(outcome->exit_code == 0);
  INFO(all);
  CHECK(all.starts_with("READY=1\nSTATUS=listens at 127.0.0.1:"));
  CHECK(all.ends_with("STOPPING=1\n"));
  CHECK(all.find("STATUS=training\n") != std::string::npos);
  CHECK(all.find("WATCHDOG=1\n") != std::string::npos);
  CHECK(all.find("READY=1", 1) == std::string::npos);
}

}  // namespace
}  // namespace starling::cli_tests
