#include "node/launch/process.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <asio/local/stream_protocol.hpp>
#include <asio/post.hpp>
#include <asio/read_until.hpp>
#include <asio/redirect_error.hpp>
#include <asio/streambuf.hpp>
#include <asio/use_awaitable.hpp>

#include "transport/coroutines.h"

namespace starling::node {
namespace {

constexpr int kKilled = 130;
constexpr std::size_t kQueuedBytesMax = 256 * 1024;
constexpr std::size_t kCommandBytesMax = 1024;

// A descriptor that is readable once the process has ended: its number may be used again, and another
// process, such as a script, may be between it and this one. -1 with errno ESRCH: it has ended.
int open_process(int process) { return static_cast<int>(::syscall(SYS_pidfd_open, process, 0)); }

}  // namespace

// ---- the link to the launcher ----

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

// ---- the process ----

bool has_ended(int process) {
  const int descriptor = open_process(process);
  if (descriptor < 0) return errno == ESRCH;
  pollfd ended{descriptor, POLLIN, 0};
  const bool has = ::poll(&ended, 1, 0) == 1;
  ::close(descriptor);
  return has;
}

Process::Process(asio::io_context& io, const ProcessOptions& options, Background& disk)
    : options_(options), io_(io), disk_(disk), signals_(io), parent_(io), timer_(io) {}

void Process::catch_signals() {
  // Never destroyed: signals that arrive when this object is gone must not cut the last words of the log
  // short.
  static asio::signal_set& until_the_end = *new asio::signal_set(*new asio::io_context);
  struct sigaction hangup {};
  const bool hangs_up = ::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN;
  for (asio::signal_set* const set : {&signals_, &until_the_end}) {
    set->add(SIGINT);
    set->add(SIGTERM);
    if (hangs_up) set->add(SIGHUP);  // the terminal is gone; it is ignored under nohup
  }
}

void Process::start(ProcessEvents events) {
  events_ = std::move(events);
  watch_signals();
  watch_parent();
  tick();
}

void Process::watch_parent() {
  if (options_.parent == 0) return;
  const int descriptor = open_process(options_.parent);
  const auto gone = [this] {
    spdlog::info("the program that started this peer has ended");
    events_.leave();
  };
  if (descriptor >= 0) {
    parent_.assign(descriptor);
    parent_.async_wait(asio::posix::stream_descriptor::wait_read, [gone](const asio::error_code& error) {
      if (!error) gone();
    });
  } else if (errno == ESRCH) {
    asio::post(io_, gone);
  }  // else the kernel is older than Linux 5.3
}

void Process::watch_signals() {
  signals_.async_wait([this](const asio::error_code& error, int number) {
    if (error) return;
    const auto now = Clock::now();
    if (!signalled_) {
      signalled_ = now;
      events_.leave();
    } else if (number == SIGINT && now - *signalled_ >= training::kSameWish) {
      std::_Exit(kKilled);
    }
    watch_signals();
  });
}

void Process::connect_launcher(const training::PeerReport& first) {
  if (options_.control_fd < 0) return;
  launcher_ = std::make_unique<LauncherLink>(
      io_.get_executor(), options_.control_fd,
      [this](const std::string& command) {
        if (command == training::kLeaveCommand) return events_.leave();
        events_.command(command);
      },
      [this] {
        launcher_gone_ = true;
        events_.leave();
      });
  launcher_->report(first);
}

void Process::tick() {
  events_.tick();
  timer_.expires_after(kTickInterval);
  timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    lag_ = Clock::now() - timer_.expiry();
    tick();
  });
}

void Process::stop() {
  timer_.cancel();
  signals_.cancel();
  asio::error_code ignored;
  parent_.close(ignored);
  launcher_.reset();
}

void Process::report(const training::PeerReport& report) {
  if (launcher_) launcher_->report(report);
}

void Process::report_last(const training::PeerReport& report) {
  if (launcher_ && !launcher_gone_) launcher_->report_last(report, kLastReportLimit);
}

std::string loss_text(std::optional<double> loss) {
  return loss && std::isfinite(*loss) ? fmt::format("loss {:.4f}", *loss) : "loss unknown";
}

bool Process::is_time_to_log() {
  if (Clock::now() - last_log_ < kLogInterval) return false;
  last_log_ = Clock::now();
  return true;
}

std::optional<std::uint64_t> Process::due_snapshot(std::uint64_t swarm_samples, std::uint64_t epoch_samples) {
  if (options_.snapshots == 0 || !saves()) return std::nullopt;
  const std::uint64_t due = swarm_samples * options_.snapshots / epoch_samples;
  if (due <= snapshots_ || saves_ >= kSavesMax) return std::nullopt;
  snapshots_ = due;
  return due;
}

void Process::save(std::vector<std::string> paths, Replica& replica, const training::Experiment& experiment,
                   std::function<void(std::string path)> done) {
  std::vector<float> parameters(replica.arena.size());
  replica.arena.read(0, parameters);
  ++saves_;
  disk_.run(
      [paths = std::move(paths), &replica, &experiment, parameters = std::move(parameters)] {
        for (const std::string& path : paths) {
          const Status written = write_replica(path, replica, experiment, parameters);
          if (written) return path;
          spdlog::error("{}", written.error().message);
        }
        return std::string();
      },
      [this, done = std::move(done)](std::string written) {
        --saves_;
        done(std::move(written));
      });
}

}  // namespace starling::node
