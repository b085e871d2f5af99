// A trainer outside the process as docs/TRAINERS.md has it, line by line and word by word, for tests of the
// peer's side. Nothing in it waits: `until` runs the loop and reads until a condition holds.
#pragma once

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>

#include "tests/catch.h"
#include "tests/waiting.h"

namespace starling::node::testing {

class TrainerStub {
 public:
  explicit TrainerStub(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    connected = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~TrainerStub() { die(); }
  TrainerStub(const TrainerStub&) = delete;
  TrainerStub& operator=(const TrainerStub&) = delete;

  // As the kernel does when the process ends.
  void die() {
    if (memory_ != nullptr) ::munmap(std::exchange(memory_, nullptr), bytes_);
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  void send(const std::string& line) {
    const std::string bytes = line + "\n";
    [[maybe_unused]] const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void declare(const std::vector<std::string>& what) {
    send("starling-trainer 1.0");
    for (const std::string& line : what) send(line);
    send("end");
  }

  // Reads what has arrived.
  void read() {
    char bytes[512];
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    for (;;) {
      iovec part{bytes, sizeof bytes};
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      const auto count = ::recvmsg(socket_, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
      if (count == 0 || (count < 0 && errno != EAGAIN)) is_over = true;
      if (count <= 0) break;
      for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head))
        std::memcpy(&descriptor_, CMSG_DATA(head), sizeof descriptor_);
      text_.append(bytes, static_cast<std::size_t>(count));
    }
    for (std::size_t end = text_.find('\n'); end != std::string::npos; end = text_.find('\n')) {
      lines.push_back(text_.substr(0, end));
      text_.erase(0, end + 1);
      if (lines.back().starts_with("region ")) map(std::stoul(lines.back().substr(7)));
    }
  }
  bool has(const std::string& begin) const {
    for (const std::string& line : lines)
      if (line.starts_with(begin)) return true;
    return false;
  }

  volatile std::uint64_t& word(std::size_t at) { return *reinterpret_cast<std::uint64_t*>(memory_ + at); }
  volatile double& real(std::size_t at) { return *reinterpret_cast<double*>(memory_ + at); }
  float* arena() { return reinterpret_cast<float*>(memory_ + word(64)); }
  float* post() { return reinterpret_cast<float*>(memory_ + word(72)); }
  float* reply() { return reinterpret_cast<float*>(memory_ + word(80)); }
  std::uint64_t floats() { return word(32); }
  std::string table() {
    return {reinterpret_cast<const char*>(memory_ + word(48)), static_cast<std::size_t>(word(56))};
  }

  // Steps so far, of 10 samples.
  void count(std::uint64_t steps, double loss = 1) {
    word(2056) = 10 * steps;
    real(2064) = loss;
    word(2048) = steps;
  }
  void post(const std::vector<float>& snapshot) {
    std::copy(snapshot.begin(), snapshot.end(), post());
    word(2104) = word(2048);
    word(2112) = word(2056);
    word(2120) = word(1048);
    word(2096) = word(2096) + 1;
    send("ring");
  }
  bool is_answered() { return word(1040) == word(2096); }
  std::uint64_t allowed() { return word(1024); }
  std::uint64_t ring_at() { return word(1032); }

  std::vector<std::string> lines;
  bool connected = false, is_over = false;

 private:
  void map(std::size_t bytes) {
    bytes_ = bytes;
    void* const begin = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    REQUIRE(begin != MAP_FAILED);
    memory_ = static_cast<std::byte*>(begin);
    ::close(descriptor_);
  }

  int socket_, descriptor_ = -1;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
  std::string text_;
};

// Runs the loop until the condition holds; false after kHang.
inline bool until(asio::io_context& io, const std::function<bool()>& condition) {
  return eventually([&] {
    io.restart();
    io.poll();
    return condition();
  });
}

}  // namespace starling::node::testing
