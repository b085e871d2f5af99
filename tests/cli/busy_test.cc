// A joiner and an address where connections end at once, as at a peer with too many of them.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "base/check.h"
#include "tests/catch.h"
#include "tests/cli/program.h"

namespace starling::cli_tests {
namespace {

// A port that accepts connections and closes them.
class BusyPort {
 public:
  BusyPort() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    STARLING_CHECK(::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof here;
    STARLING_CHECK(::bind(fd_, reinterpret_cast<sockaddr*>(&here), sizeof here) == 0);
    STARLING_CHECK(::listen(fd_, 16) == 0);
    STARLING_CHECK(::getsockname(fd_, reinterpret_cast<sockaddr*>(&here), &size) == 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(here.sin_port));
  }
  ~BusyPort() { ::close(fd_); }
  BusyPort(const BusyPort&) = delete;
  BusyPort& operator=(const BusyPort&) = delete;

  const std::string& address() const { return address_; }
  // Waits for a connection, and closes it; false if there is none.
  bool turn_away() const {
    pollfd waiting{fd_, POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(std::chrono::milliseconds(kHang).count())) != 1) return false;
    const int connection = ::accept(fd_, nullptr, nullptr);
    return connection >= 0 && ::close(connection) == 0;
  }

 private:
  int fd_;
  std::string address_;
};

}  // namespace

TEST_CASE("a joiner retries an address that closes its connections, until a peer answers there") {
  auto port = std::make_unique<BusyPort>();
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
