#include "node/trainers/attachment.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <asio/read_until.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/streambuf.hpp>
#include <asio/use_awaitable.hpp>

#include "base/text.h"
#include "models/layout_text.h"
#include "node/trainers/outbox.h"
#include "node/work/free_memory.h"
#include "transport/coroutines.h"

namespace starling::node {
namespace {

using Protocol = asio::local::stream_protocol;

// The process at the other end: its user and its number.
std::optional<ucred> credentials(int socket) {
  ucred its{};
  socklen_t size = sizeof its;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &its, &size) != 0) return std::nullopt;
  return its;
}

// False if the kernel does not take all of it: the trainer reads nothing.
bool write_bytes(int socket, const std::string& bytes) {
  const auto written = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return written == static_cast<ssize_t>(bytes.size());
}

bool write_line(int socket, const std::string& line) {
  return write_bytes(socket, line.substr(0, kTrainerLineBytesMax - 1) + "\n");
}

bool write_line_with(int socket, const std::string& line, int descriptor) {
  std::string bytes = line + "\n";
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(bytes.size());
}

// Whether a socket is left at this path by a process that is gone.
bool is_abandoned(const sockaddr_un& address) {
  struct stat facts {};
  if (::lstat(address.sun_path, &facts) != 0 || !S_ISSOCK(facts.st_mode)) return false;
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const bool refused = probe >= 0 &&
                       ::connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
                       errno == ECONNREFUSED;
  if (probe >= 0) ::close(probe);
  return refused;
}

}  // namespace

// One connection.
struct Attachment::Caller {
  explicit Caller(Socket s) : socket(std::move(s)), limit(socket.get_executor()) {
    const auto its = credentials(socket.native_handle());
    process = its ? its->pid : 0;
    is_own = its && its->uid == ::geteuid();
  }

  // Without its end; nullopt at the end of the connection, or if a line is too long.
  asio::awaitable<std::optional<std::string>> read_line() {
    asio::error_code error;
    const auto bytes = co_await asio::async_read_until(socket, input, '\n',
                                                       asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return std::nullopt;
    std::string line(static_cast<const char*>(input.data().data()), bytes - 1);
    input.consume(bytes);
    co_return line;
  }
  void close() {
    asio::error_code ignored;
    limit.cancel();
    socket.close(ignored);
  }

  Socket socket;
  asio::steady_timer limit;
  asio::streambuf input{kTrainerLineBytesMax};
  pid_t process = 0;
  bool is_own = false;
  bool has_declared = false;
  Outbox waiting;
  bool is_sending = false;
  bool wants_events = false;
};

Attachment::~Attachment() { close(); }

Status Attachment::open(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return Error{
        fmt::format("'{}' is not a path of 1 to {} bytes", path.substr(0, 200), sizeof address.sun_path - 1)};
  std::memcpy(address.sun_path, path.data(), path.size());
  if (is_abandoned(address)) ::unlink(path.c_str());
  asio::error_code error;
  acceptor_.open(Protocol(), error);
  const mode_t before = ::umask(0177);  // the socket is never open to others
  if (!error) acceptor_.bind(Protocol::endpoint(path), error);
  ::umask(before);
  if (!error) {
    path_ = path;
    if (::lstat(path.c_str(), &made_) != 0) made_ = {};
    acceptor_.listen(Protocol::acceptor::max_listen_connections, error);
  }
  if (error == asio::error::address_in_use)
    return Error{"cannot listen at " + path + ": another peer listens there, or it is another kind of file"};
  if (error) return Error{"cannot listen at " + path + ": " + error.message()};
  transport::spawn(acceptor_.get_executor(), accept());
  return Done{};
}

void Attachment::close() {
  asio::error_code ignored;
  acceptor_.close(ignored);
  struct stat there {};
  if (!path_.empty() && ::lstat(path_.c_str(), &there) == 0 && there.st_dev == made_.st_dev &&
      there.st_ino == made_.st_ino)
    ::unlink(path_.c_str());  // and no other file that took its place
  path_.clear();
  for (const auto& caller : callers_) caller->close();
  if (attached_) attached_->close();
}

asio::awaitable<void> Attachment::accept() {
  for (;;) {
    asio::error_code error;
    Socket socket = co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (!acceptor_.is_open()) co_return;
    if (error) {  // for example no descriptor is left
      asio::steady_timer pause(acceptor_.get_executor(), std::chrono::milliseconds(100));
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    auto caller = std::make_shared<Caller>(std::move(socket));
    if (!caller->is_own) continue;  // closes it
    if (callers_.size() >= kCallersMax) {
      callers_.front()->close();  // its coroutine removes it
      callers_.erase(callers_.begin());
    }
    callers_.push_back(caller);
    transport::spawn(acceptor_.get_executor(), serve(caller));
    transport::spawn(acceptor_.get_executor(), limit_declaration(caller));
  }
}

asio::awaitable<void> Attachment::limit_declaration(std::shared_ptr<Caller> caller) {
  caller->limit.expires_after(
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(kDeclarationLimit));
  asio::error_code error;
  co_await caller->limit.async_wait(asio::redirect_error(asio::use_awaitable, error));
  if (!error && !caller->has_declared) caller->close();
}

asio::awaitable<void> Attachment::serve(std::shared_ptr<Caller> caller) {
  if (!co_await read_declaration(*caller)) co_return leave(caller);
  std::erase(callers_, caller);
  attached_ = caller;
  if (!share_region(*caller)) co_return leave(caller);
  for (;;) {
    const auto line = co_await caller->read_line();
    if (!line) co_return leave(caller);
    take(*line);
  }
}

// False: the trainer is refused, or gone.
asio::awaitable<bool> Attachment::read_declaration(Caller& caller) {
  DeclarationReader reader;
  for (;;) {
    const auto line = co_await caller.read_line();
    if (!line) co_return false;
    const auto complete = reader.take(*line);
    if (!complete) {
      refuse(caller, complete.error().message);
      co_return false;
    }
    if (*complete) break;
  }
  caller.has_declared = true;
  const Status admitted = admit(reader.declaration());
  if (!admitted) refuse(caller, admitted.error().message);
  co_return admitted.ok();
}

Status Attachment::admit(const Declaration& declaration) {
  if (attached_) return Error{fmt::format("process {} trains for this peer already", attached_->process)};
  if (declaration_) {
    if (const auto differs = models::difference(declaration_->layout(), declaration.layout()))
      return Error{"this peer's model differs from the trainer's: " + *differs};
    if (declaration.view != declaration_->view)
      return Error{
          fmt::format("the first trainer of this peer had mode {}", declaration_->view ? "view" : "copy")};
    if (!declaration_->states.empty() && !declaration.states.empty() &&
        declaration.state_fingerprint() != declaration_->state_fingerprint())
      return Error{"the first trainer of this peer had another optimizer, whose state has other tensors"};
    gives_state_ = !declaration_->states.empty() && !declaration.states.empty();
    return Done{};
  }
  Declaration admitted = declaration;
  const auto free = free_memory();
  if (free && Region::bytes_for(admitted) > *free && !admitted.states.empty()) {
    admitted.states.clear();
    spdlog::warn(
        "this machine has too little memory left for the state of the trainer's optimizer, which is "
        "neither copied to newcomers nor received");
  }
  if (const std::size_t need = Region::bytes_for(admitted); free && need > *free) {
    return Error{fmt::format("this machine has {:.1f} GB of memory left, and the region needs {:.1f} GB",
                             1e-9 * static_cast<double>(*free), 1e-9 * static_cast<double>(need))};
  }
  auto region = Region::make(admitted);
  if (!region) return region.error();
  region_ = std::move(*region);
  gives_state_ = !admitted.states.empty();
  declaration_ = std::move(admitted);
  return Done{};
}

bool Attachment::share_region(Caller& caller) {
  region_->clear_trainer_words();
  spdlog::info("process {} trains: {}, {} tensors, mode {}", caller.process, declaration_->device,
               declaration_->tensors.size(), declaration_->view ? "view" : "copy");
  return write_line_with(caller.socket.native_handle(), fmt::format("region {}", region_->bytes()),
                         region_->descriptor());
}

bool Attachment::ask_for_state() {
  if (!is_started_ || !gives_state_) return false;
  region_->set(PeerWord::state_asked, ++state_asked_);
  ring();
  return true;
}

bool Attachment::state_is_given() const {
  return is_ready_ && region_->get(TrainerWord::state_given) >= state_asked_;
}

void Attachment::offer_state(std::uint64_t era) {
  region_->set(PeerWord::state_era, std::exchange(received_state_, false) ? era + 1 : 0);
}

void Attachment::take(std::string_view line) {
  if (line == "ready" && !is_ready_) {
    is_ready_ = true;
    events_.ready();
  } else if (line == "ring" && is_ready_) {
    events_.rang();
  } else if (line == "bye" && is_ready_) {
    events_.bye();
  } else if (line == "events" && is_ready_ && !attached_->wants_events) {
    attached_->wants_events = true;
    attached_->waiting.answer(answers_.events());
    send_later(attached_);
  } else if (line == "members" && is_ready_) {
    attached_->waiting.answer(answers_.members());
    send_later(attached_);
  }
}

void Attachment::leave(const std::shared_ptr<Caller>& caller) {
  caller->close();
  std::erase(callers_, caller);
  if (attached_ != caller) return;
  attached_.reset();
  is_ready_ = is_started_ = false;
  events_.gone();
}

void Attachment::refuse(Caller& caller, const std::string& why) {
  const auto unlogged = refusals_.count(LogLimiter::Clock::now(), "refused", std::to_string(caller.process));
  if (unlogged)
    spdlog::warn("refused a trainer (process {}): {}", caller.process, with_unlogged(why, *unlogged));
  write_line(caller.socket.native_handle(), "refused " + why);
}

bool Attachment::wants_events() const { return attached_ && attached_->wants_events; }

void Attachment::say(const std::string& text) {
  if (!attached_) return;
  attached_->waiting.push(("say " + text).substr(0, kTrainerLineBytesMax - 1));
  send_later(attached_);
}

void Attachment::tell(const std::string& event) {
  if (!wants_events()) return;
  attached_->waiting.push("event " + event);
  send_later(attached_);
}

void Attachment::send_later(const std::shared_ptr<Caller>& caller) {
  if (std::exchange(caller->is_sending, true)) return;
  transport::spawn(acceptor_.get_executor(), send_waiting(caller));
}

// The kernel reports a local socket as writable while three quarters of its memory are free. So what waits
// here leaves room for `ring` and `over`.
asio::awaitable<void> Attachment::send_waiting(std::shared_ptr<Caller> caller) {
  while (!caller->waiting.is_empty()) {
    asio::error_code error;
    co_await caller->socket.async_wait(Socket::wait_write, asio::redirect_error(asio::use_awaitable, error));
    if (error || !caller->socket.is_open()) co_return;
    if (!write_bytes(caller->socket.native_handle(), caller->waiting.take())) caller->close();
  }
  caller->is_sending = false;
}

// A trainer that reads nothing is as good as gone; its coroutine notices the closed socket. A ring that does
// not fit is not needed: the trainer has lines to read.
void Attachment::send(const std::string& line) {
  if (!attached_ || !attached_->socket.is_open()) return;
  if (!write_line(attached_->socket.native_handle(), line) && line != "ring") attached_->close();
}

}  // namespace starling::node
