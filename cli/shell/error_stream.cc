#include "cli/shell/error_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace starling::cli {
namespace {

constexpr std::size_t kWaitingBytesMax = 256 * 1024, kBufferBytes = 64 * 1024;
constexpr std::chrono::milliseconds kLastPatience(300);

// What waits for the reader of standard error. The lock of the C library's stream protects it.
class Waiting {
 public:
  explicit Waiting(std::string (*lost)(std::uint64_t)) : lost_(lost) {
    struct stat what {};
    if (::fstat(STDERR_FILENO, &what) != 0) return;
    is_file_ = S_ISREG(what.st_mode);
    is_socket_ = S_ISSOCK(what.st_mode);
    // A description of our own can be non-blocking without a change for the processes that share the other
    // one.
    if (S_ISFIFO(what.st_mode) || S_ISCHR(what.st_mode))
      own_ = ::open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  }

  void add(std::string_view text) {
    if (waiting_.size() + text.size() <= kWaitingBytesMax)
      waiting_ += text;
    else
      dropped_ += static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
  }

  // Writes what the reader takes now. Returns whether nothing waits any more.
  bool flush() {
    while (!waiting_.empty()) {
      const ssize_t written = put();
      if (written < 0 && errno == EINTR) continue;
      if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
      if (written < 0) {  // there is no reader, or no space
        waiting_.clear();
        dropped_ = 0;
        return true;
      }
      waiting_.erase(0, static_cast<std::size_t>(written));
      if (waiting_.empty() && dropped_ > 0) waiting_ = lost_(std::exchange(dropped_, 0));
    }
    return true;
  }

  void flush_within(std::chrono::milliseconds limit) {
    const auto until = std::chrono::steady_clock::now() + limit;
    while (!flush()) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      pollfd ready{STDERR_FILENO, POLLOUT, 0};
      if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) == 0) return;
    }
  }

 private:
  // write(2) of the beginning of what waits, which fails with EAGAIN instead of waiting.
  ssize_t put() const {
    if (is_file_) return ::write(STDERR_FILENO, waiting_.data(), waiting_.size());
    if (is_socket_)
      return ::send(STDERR_FILENO, waiting_.data(), waiting_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (own_ >= 0) return ::write(own_, waiting_.data(), waiting_.size());
    // No description of our own, for example of another user's terminal: a write may then wait if another
    // process fills the pipe in between.
    pollfd ready{STDERR_FILENO, POLLOUT, 0};
    if (::poll(&ready, 1, 0) == 0) {
      errno = EAGAIN;
      return -1;
    }
    return ::write(STDERR_FILENO, waiting_.data(), std::min<std::size_t>(waiting_.size(), PIPE_BUF));
  }

  std::string (*lost_)(std::uint64_t);
  int own_ = -1;
  bool is_file_ = false, is_socket_ = false;
  std::string waiting_;
  std::uint64_t dropped_ = 0;  // lines, since nothing waited
};

Waiting* g_waiting = nullptr;  // the process has one; it lives until the process ends

ssize_t take(void*, const char* text, std::size_t size) {
  g_waiting->add({text, size});
  g_waiting->flush();
  return static_cast<ssize_t>(size);
}

void end() {
  std::fflush(stderr);
  flockfile(stderr);
  g_waiting->flush_within(kLastPatience);
  funlockfile(stderr);
}

}  // namespace

void begin_error_stream(std::string (*lost)(std::uint64_t lines)) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  g_waiting = new Waiting(lost);
  cookie_io_functions_t functions{};
  functions.write = take;
  FILE* const stream = ::fopencookie(nullptr, "w", functions);
  if (stream == nullptr) return;
  static char buffer[kBufferBytes];
  std::setvbuf(stream, buffer, _IOLBF, sizeof buffer);
  stderr = stream;
  std::atexit(end);
}

}  // namespace starling::cli
