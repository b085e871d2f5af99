// An HTTP server with a thread that owns its peer, and clients made by hand, for tests.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "node/front/http.h"
#include "node/front/http_client.h"
#include "tests/catch.h"
#include "tests/waiting.h"

namespace starling::node {

// The thread that owns the peer: runs posted work in order, unless it is held.
class HttpOwner {
 public:
  HttpOwner() : thread_([this] { loop(); }) {}
  ~HttpOwner() {
    hold(false);
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  Post post() {
    return [this](std::function<void()> work) {
      {
        const std::lock_guard lock(mutex_);
        works_.push_back(std::move(work));
      }
      changed_.notify_all();
    };
  }
  void hold(bool held) {
    {
      const std::lock_guard lock(mutex_);
      held_ = held;
    }
    changed_.notify_all();
  }
  void wait_until_asked(std::size_t times = 1) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return works_.size() >= times; });
  }
  std::thread::id id() const { return thread_.get_id(); }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return over_ || (!held_ && !works_.empty()); });
      if (over_) return;
      const auto work = std::move(works_.front());
      works_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> works_;
  bool held_ = false, over_ = false;
  std::thread thread_;
};

// A server with one route of each method, a page, and a stream.
struct HttpFixture {
  explicit HttpFixture(HttpOptions options = {.patience = kHang}) {
    std::vector<HttpRoute> routes;
    routes.push_back({"GET", "/", [](const std::string&) { return HttpAnswer{200, "page", "text/html"}; }});
    routes.push_back({"GET", "/read", [this](const std::string&) {
                        ++reads;
                        on_owner = std::this_thread::get_id() == owner.id();
                        return HttpAnswer{200, "{\"read\":true}"};
                      }});
    routes.push_back({"POST", "/write", [this](const std::string& body) {
                        ++writes;
                        return HttpAnswer{200, body};
                      }});
    routes.push_back({"GET", "/follow", [](const std::string&) { return HttpAnswer{200, "begin;"}; }, true});
    routes.push_back({.method = "GET", .path = "/later"});
    routes.back().later = [this](const std::string&, HttpReply reply) {
      replies.push_back(std::move(reply));
    };
    auto started = HttpServer::start({"127.0.0.1", 0}, std::move(routes), owner.post(), std::move(options));
    REQUIRE(started.ok());
    server = std::move(*started);
    at = server->address();
  }

  HttpOwner owner;
  std::vector<HttpReply> replies;  // of /later, on the owner's thread
  std::atomic<int> reads{0}, writes{0};
  std::atomic<bool> on_owner{false};
  std::unique_ptr<HttpServer> server;
  Address at;
};

// A connection made by hand.
class HttpTestCaller {
 public:
  // From 127.0.0.`last`: the server regards each address as another client.
  explicit HttpTestCaller(const Address& at, std::uint8_t last = 1)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in from{};
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl((127U << 24) | last);
    ::bind(fd_, reinterpret_cast<sockaddr*>(&from), sizeof from);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(at.port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  ~HttpTestCaller() { ::close(fd_); }
  HttpTestCaller(const HttpTestCaller&) = delete;
  HttpTestCaller& operator=(const HttpTestCaller&) = delete;

  bool connected() const { return connected_; }
  // False if the server has closed the connection.
  bool say(const std::string& text) const {
    for (std::size_t sent = 0; sent < text.size();) {
      const auto n = ::send(fd_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += static_cast<std::size_t>(n);
    }
    return true;
  }
  // Whether the server sends or closes within this time.
  bool hears_within(std::chrono::milliseconds time) const {
    pollfd asked{fd_, POLLIN, 0};
    return ::poll(&asked, 1, static_cast<int>(time.count())) > 0;
  }
  // False if the server closes before it has sent this.
  bool hear_until(const std::string& word) const {
    std::string text;
    char piece[4096];
    while (text.find(word) == std::string::npos) {
      const auto n = ::recv(fd_, piece, sizeof piece, 0);
      if (n <= 0) return false;
      text.append(piece, static_cast<std::size_t>(n));
    }
    return true;
  }
  // Everything until the server closes.
  std::string hear() const {
    std::string text;
    char piece[4096];
    for (;;) {
      const auto n = ::recv(fd_, piece, sizeof piece, 0);
      if (n <= 0) return text;
      text.append(piece, static_cast<std::size_t>(n));
    }
  }

 private:
  int fd_;
  bool connected_ = false;
};

// The whole answer.
inline std::string say(const Address& at, const std::string& text, std::uint8_t last = 1) {
  const HttpTestCaller caller(at, last);
  caller.say(text);
  return caller.hear();
}

inline bool has_status(const std::string& answer, int status) {
  return answer.starts_with("HTTP/1.1 " + std::to_string(status) + " ") &&
         (status == 200 || answer.find("{\"error\":\"") != std::string::npos);
}

}  // namespace starling::node
