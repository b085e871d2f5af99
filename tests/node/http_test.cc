#include "node/front/http.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/catch.h"

namespace starling::node {
namespace {

// The thread that owns the peer: runs posted work in order, unless it is held.
class Owner {
 public:
  Owner() : thread_([this] { loop(); }) {}
  ~Owner() {
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
  void wait_until_asked() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !works_.empty(); });
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

// An address of this machine other than loopback; an empty host if it has none.
Address other_address_of_this_machine() {
  ifaddrs* all = nullptr;
  Address found;
  if (::getifaddrs(&all) != 0) return found;
  for (const ifaddrs* it = all; it != nullptr && found.host.empty(); it = it->ifa_next) {
    if (it->ifa_addr == nullptr || it->ifa_addr->sa_family != AF_INET || (it->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    char text[INET_ADDRSTRLEN];
    const auto* address = reinterpret_cast<const sockaddr_in*>(it->ifa_addr);
    if (::inet_ntop(AF_INET, &address->sin_addr, text, sizeof text) != nullptr) found.host = text;
  }
  ::freeifaddrs(all);
  return found;
}

// A server with one route of each method, and a stream.
struct Fixture {
  explicit Fixture(Duration patience = std::chrono::seconds(20)) {
    std::vector<HttpRoute> routes;
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
    auto started = HttpServer::start({"127.0.0.1", 0}, std::move(routes), owner.post(),
                                     {.token = {}, .patience = patience});
    REQUIRE(started.ok());
    server = std::move(*started);
    at = server->address();
  }

  Owner owner;
  std::atomic<int> reads{0}, writes{0};
  std::atomic<bool> on_owner{false};
  std::unique_ptr<HttpServer> server;
  Address at;
};

// A connection made by hand.
class Caller {
 public:
  explicit Caller(const Address& at) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(at.port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  ~Caller() { ::close(fd_); }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  bool connected() const { return connected_; }
  void say(const std::string& text) const {
    for (std::size_t sent = 0; sent < text.size();) {
      const auto n = ::send(fd_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += static_cast<std::size_t>(n);
    }
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

std::string say(const Address& at, const std::string& text) {
  const Caller caller(at);
  caller.say(text);
  return caller.hear();
}

bool has_status(const std::string& answer, int status) {
  return answer.starts_with("HTTP/1.1 " + std::to_string(status) + " ") &&
         (status == 200 || answer.find("{\"error\":\"") != std::string::npos);
}

}  // namespace

TEST_CASE("a request is answered on the peer's own thread") {
  Fixture http;
  const auto answer = http_request(http.at, "GET", "/read");
  REQUIRE(answer.ok());
  CHECK(answer->status == 200);
  CHECK(answer->body == "{\"read\":true}");
  CHECK(http.on_owner);
  const auto echo = http_request(http.at, "POST", "/write", "{\"a\":1}");
  REQUIRE(echo.ok());
  CHECK(echo->body == "{\"a\":1}");
}

TEST_CASE("a host is accepted if it is an IP literal, localhost or the bound name") {
  for (const char* host : {"127.0.0.1", "127.0.0.1:7180", "[::1]:7180", "[::1]", "localhost", "localhost:1",
                           "10.1.2.3:7180", "box", "box:7180"}) {
    INFO(host);
    CHECK(is_own_host(host, "box"));
  }
  for (const char* host : {"", ":7180", "evil.example", "evil.example:7180", "localhost.evil.example",
                           "127.0.0.1.evil.example", "box.evil.example", "[::1", "[evil]:1", "1.2.3.4.5"}) {
    INFO(host);
    CHECK_FALSE(is_own_host(host, "box"));
  }
}

TEST_CASE("a foreign web page can neither read a peer nor send it commands") {
  Fixture http;
  const std::string json = "Content-Type: application/json\r\n";
  // A host name that was rebound to this address, and a missing one.
  CHECK(has_status(say(http.at, "GET /read HTTP/1.1\r\nHost: evil.example\r\n\r\n"), 403));
  CHECK(has_status(say(http.at, "GET /read HTTP/1.0\r\n\r\n"), 403));
  CHECK(has_status(say(http.at, "POST /write HTTP/1.1\r\nHost: evil.example:80\r\n" + json +
                                    "Content-Length: 2\r\n\r\n{}"),
                   403));
  // Forms and simple requests, which a browser sends without a preflight request.
  for (const char* type : {"", "Content-Type: text/plain\r\n", "Content-Type: application/jsonp\r\n",
                           "Content-Type: application/x-www-form-urlencoded\r\n",
                           "Content-Type: text/plain;application/json\r\n",
                           "Content-Type: multipart/form-data; boundary=a\r\n"}) {
    INFO(type);
    CHECK(has_status(say(http.at, std::string("POST /write HTTP/1.1\r\nHost: 127.0.0.1\r\n") + type +
                                      "Content-Length: 2\r\n\r\n{}"),
                     415));
  }
  // The preflight request.
  const std::string preflight =
      say(http.at,
          "OPTIONS /write HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil.example\r\n"
          "Access-Control-Request-Method: POST\r\n\r\n");
  CHECK(has_status(preflight, 405));
  CHECK(preflight.find("Access-Control-Allow") == std::string::npos);
  CHECK(http.reads == 0);
  CHECK(http.writes == 0);
  CHECK(has_status(say(http.at,
                       "POST /write HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: Application/JSON ; "
                       "charset=utf-8\r\nContent-Length: 2\r\n\r\n{}"),
                   200));
  CHECK(http.writes == 1);
}

TEST_CASE("a request without a route is rejected with the fitting status before its body is read") {
  Fixture http;
  const std::string start = " HTTP/1.1\r\nHost: localhost\r\n";
  CHECK(has_status(say(http.at, "GET /other" + start + "\r\n"), 404));
  CHECK(has_status(say(http.at, "GET /write" + start + "\r\n"), 405));
  CHECK(has_status(say(http.at, "POST /read" + start + "Content-Length: 0\r\n\r\n"), 405));
  CHECK(has_status(say(http.at, "PUT /write" + start + "Transfer-Encoding: chunked\r\n\r\n"), 405));
  const std::string post = "POST /write" + start + "Content-Type: application/json\r\n";
  CHECK(has_status(say(http.at, post + "\r\n"), 411));
  CHECK(has_status(say(http.at, post + "Content-Length: -1\r\n\r\n"), 411));
  CHECK(has_status(
      say(http.at, post + "Content-Length: " + std::to_string(kHttpBodyBytesMax + 1) + "\r\n\r\n"), 413));
  CHECK(has_status(say(http.at, post + "Content-Length: 99999999999999999999\r\n\r\n"), 411));
  CHECK(has_status(say(http.at, post + "Transfer-Encoding: chunked\r\n\r\n"), 415));
  CHECK(has_status(say(http.at, post + "Content-Encoding: br\r\nContent-Length: 2\r\n\r\n{}"), 415));
  CHECK(http.reads == 0);
  CHECK(http.writes == 0);
  CHECK(has_status(say(http.at, post + "Content-Length: 4096\r\n\r\n" + std::string(4096, ' ')), 200));
}

TEST_CASE("noise, long lines and broken requests do not harm the server") {
  Fixture http;
  const std::string start = "GET /read HTTP/1.1\r\nHost: localhost\r\n";
  say(http.at, "\r\n\r\n");
  say(http.at, std::string(100'000, 'x'));
  say(http.at, "STRL" + std::string(60, '\0'));
  say(http.at, "GET /" + std::string(8000, 'a') + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  say(http.at, "GET /" + std::string(100'000, 'a') + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  say(http.at, start + "Range: bytes=" + std::string(7000, '1') + "-\r\n\r\n");
  say(http.at, start + "X: " + std::string(100'000, 'b') + "\r\n\r\n");
  const auto answer = http_request(http.at, "GET", "/read");
  REQUIRE(answer.ok());
  CHECK(answer->status == 200);
}

TEST_CASE("a busy peer is reported so, in bounded time, and answers the next request") {
  Fixture http(std::chrono::milliseconds(50));
  http.owner.hold(true);
  const auto busy = http_request(http.at, "GET", "/read");
  REQUIRE(busy.ok());
  CHECK(busy->status == 503);
  CHECK(busy->body.find("too busy") != std::string::npos);
  http.owner.hold(false);
  for (int status = 503; status != 200;) {
    const auto answer = http_request(http.at, "GET", "/read");
    REQUIRE(answer.ok());
    status = answer->status;
  }
}

TEST_CASE("a server that ends answers the waiting clients, and calls no handler afterwards") {
  Fixture http(std::chrono::hours(1));
  http.owner.hold(true);
  Result<HttpAnswer> answer = HttpAnswer{};
  std::thread client([&] { answer = http_request(http.at, "GET", "/read"); });
  http.owner.wait_until_asked();
  http.server.reset();
  client.join();
  REQUIRE(answer.ok());
  CHECK(answer->status == 503);
  http.owner.hold(false);
  std::atomic<bool> passed{false};
  http.owner.post()([&] {
    passed = true;
    passed.notify_all();
  });
  passed.wait(false);
  CHECK(http.reads == 0);
}

TEST_CASE("endless connections take a bounded number of descriptors, and silent ones time out") {
  Fixture http;
  std::deque<Caller> silent;
  for (int i = 0; i < 8; ++i) CHECK(silent.emplace_back(http.at).connected());
  const auto answer = http_request(http.at, "GET", "/read");
  REQUIRE(answer.ok());
  CHECK(answer->status == 200);
  for (const Caller& caller : silent) CHECK(caller.hear().empty());
}

TEST_CASE("a stream sends what is published, ends with the server, and blocks no other request's thread") {
  Fixture http;
  CHECK(http.server->streams() == 0);
  std::deque<Caller> pages;
  for (std::size_t i = 0; i < HttpServer::kStreamsMax; ++i) {
    pages.emplace_back(http.at).say("GET /follow HTTP/1.1\r\nHost: localhost\r\n\r\n");
    REQUIRE(pages.back().hear_until("begin"));
  }
  CHECK(http.server->streams() == HttpServer::kStreamsMax);
  const auto answer = http_request(http.at, "GET", "/read");
  REQUIRE(answer.ok());
  CHECK(answer->status == 200);
  const auto refused = http_request(http.at, "GET", "/follow");
  REQUIRE(refused.ok());
  CHECK(refused->status == 503);
  CHECK(refused->body.find("enough pages") != std::string::npos);

  http.server->publish("one;");
  http.server->publish("two;");
  for (const Caller& page : pages) CHECK(page.hear_until("two;"));
  // A client that does not read is disconnected; the others are not.
  const std::string much(1 << 20, 'x');
  for (int i = 0; i < 40; ++i) http.server->publish(much);
  http.server.reset();
  for (const Caller& page : pages) page.hear();
}

TEST_CASE("commands from another machine need the token") {
  const Address other = other_address_of_this_machine();
  if (other.host.empty()) return;  // the machine has only loopback
  Owner owner;
  const auto serve = [&](const std::string& token) {
    std::vector<HttpRoute> routes;
    routes.push_back({"POST", "/write", [](const std::string& body) { return HttpAnswer{200, body}; }});
    routes.push_back({"GET", "/read", [](const std::string&) { return HttpAnswer{200, "{}"}; }});
    auto server = HttpServer::start(other, std::move(routes), owner.post(),
                                    {.token = token, .patience = std::chrono::seconds(20)});
    REQUIRE(server.ok());
    return std::move(*server);
  };
  const std::string token = "abcdefghijklmnop";
  {
    const auto server = serve(token);
    const Address at = server->address();
    CHECK(http_request(at, "GET", "/read")->status == 200);
    CHECK(http_request(at, "POST", "/write", "{}")->status == 401);
    CHECK(http_request(at, "POST", "/write", "{}", "abcdefghijklmnoq")->status == 401);
    CHECK(http_request(at, "POST", "/write", "{}", "abcdefghijklmno")->status == 401);
    CHECK(http_request(at, "POST", "/write", "{}", token)->status == 200);
  }
  const auto server = serve("");
  const auto refused = http_request(server->address(), "POST", "/write", "{}", "");
  CHECK(refused->status == 403);
  CHECK(refused->body.find("--token-file") != std::string::npos);
}

TEST_CASE("a port that is taken is an error, even among Starling's own") {
  Fixture http;
  const auto second = HttpServer::start(http.at, {}, http.owner.post());
  REQUIRE_FALSE(second.ok());
  CHECK(second.error().message.find(to_string(http.at)) != std::string::npos);
  CHECK_FALSE(HttpServer::start({"192.0.2.1", 0}, {}, http.owner.post()).ok());
}

TEST_CASE("a call without an answer is an error that contains the address") {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof here;
  REQUIRE(::bind(listener, reinterpret_cast<sockaddr*>(&here), sizeof here) == 0);
  REQUIRE(::getsockname(listener, reinterpret_cast<sockaddr*>(&here), &size) == 0);
  const Address at{"127.0.0.1", ntohs(here.sin_port)};

  const auto nobody = http_request(at, "GET", "/read");
  REQUIRE_FALSE(nobody.ok());
  CHECK(nobody.error().message.find("nothing listens at " + to_string(at)) != std::string::npos);

  REQUIRE(::listen(listener, 1) == 0);
  for (const std::string greeting : {"", "SSH-2.0-OpenSSH\r\n"}) {
    std::thread stranger([&] {
      const int fd = ::accept(listener, nullptr, nullptr);
      ::send(fd, greeting.data(), greeting.size(), MSG_NOSIGNAL);
      ::close(fd);
    });
    const auto strange = http_request(at, "GET", "/read");
    stranger.join();
    REQUIRE_FALSE(strange.ok());
    CHECK(strange.error().message.find(to_string(at)) != std::string::npos);
  }
  ::close(listener);
}

}  // namespace starling::node
