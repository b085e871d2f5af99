#include "node/launch/launcher_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <utility>

#include <asio/local/stream_protocol.hpp>
#include <asio/read_until.hpp>
#include <asio/redirect_error.hpp>
#include <asio/streambuf.hpp>
#include <asio/use_awaitable.hpp>

#include "transport/coroutines.h"

namespace starling::node {

namespace {

constexpr std::size_t kQueuedBytesMax = 256 * 1024;
constexpr std::size_t kCommandBytesMax = 1024;

}  // namespace

struct LauncherLink::State {
  State(const asio::any_io_executor& executor, int fd) : socket(executor) {
    asio::error_code ignored;
    socket.assign(asio::local::stream_protocol(), fd, ignored);
    socket.non_blocking(true, ignored);
  }

  // Writes as much as the kernel takes; the rest waits for the next report.
  void flush() {
    while (!queued.empty()) {
      const auto written =
          ::send(socket.native_handle(), queued.data(), queued.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (written <= 0) return;
      queued.erase(0, static_cast<std::size_t>(written));
    }
  }

  static asio::awaitable<void> listen(std::shared_ptr<State> self) {
    asio::streambuf input(kCommandBytesMax);
    for (;;) {
      asio::error_code error;
      const auto bytes = co_await asio::async_read_until(self->socket, input, '\n',
                                                         asio::redirect_error(asio::use_awaitable, error));
      if (self->closed) co_return;
      if (error) co_return self->on_gone();
      const auto* text = static_cast<const char*>(input.data().data());
      self->on_command(std::string(text, bytes - 1));
      input.consume(bytes);
    }
  }

  asio::local::stream_protocol::socket socket;
  std::string queued;
  std::function<void(std::string)> on_command;
  std::function<void()> on_gone;
  bool closed = false;
};

LauncherLink::LauncherLink(const asio::any_io_executor& executor, int fd,
                           std::function<void(std::string)> on_command, std::function<void()> on_gone)
    : state_(std::make_shared<State>(executor, fd)) {
  state_->on_command = std::move(on_command);
  state_->on_gone = std::move(on_gone);
  transport::spawn(executor, State::listen(state_));
}

LauncherLink::~LauncherLink() {
  state_->closed = true;
  asio::error_code ignored;
  state_->socket.close(ignored);
}

void LauncherLink::report(const training::PeerReport& report) {
  if (state_->queued.size() < kQueuedBytesMax) state_->queued += training::to_json(report) + "\n";
  state_->flush();
}

void LauncherLink::report_last(const training::PeerReport& report, Duration at_most) {
  state_->queued += training::to_json(report) + "\n";
  const auto until = std::chrono::steady_clock::now() + at_most;
  for (;;) {
    state_->flush();
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (state_->queued.empty() || left.count() <= 0) return;
    pollfd ready{state_->socket.native_handle(), POLLOUT, 0};
    if (::poll(&ready, 1, static_cast<int>(left.count())) <= 0 || (ready.revents & (POLLERR | POLLHUP)) != 0)
      return;
  }
}

}  // namespace starling::node
