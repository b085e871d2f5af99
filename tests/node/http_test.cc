#include "node/front/http.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>

#include "tests/node/http_fixture.h"

namespace starling::node {
namespace {

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

}  // namespace

TEST_CASE("a request is answered on the peer's own thread") {
  HttpFixture http;
  const auto answer = http_request(http.at, "GET", "/read");
  REQUIRE(answer.ok());
  CHECK(answer->status == 200);
  CHECK(answer->body == "{\"read\":true}");
  CHECK(http.on_owner);
  const auto echo = http_request(http.at, "POST", "/write", "{\"a\":1}");
  REQUIRE(echo.ok());
  CHECK(echo->body == "{\"a\":1}");
}

TEST_CASE("a foreign web page can neither read a peer nor send it commands") {
  HttpFixture http;
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
  CHECK(has_status(preflight, 403));
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
  HttpFixture http;
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
  HttpFixture http({.patience = kHang, .request_time = std::chrono::seconds(1)});
  const std::string start = "GET /read HTTP/1.1\r\nHost: localhost\r\n";
  say(http.at, "\r\n\r\n");
  say(http.at, std::string(100'000, 'x'));
  say(http.at, "STRL" + std::string(60, '\0'));
  say(http.at, "GET /" + std::string(8000, 'a') + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  say(http.at, "GET /" + std::string(100'000, 'a') + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  say(http.at, start + "Range: bytes=" + std::string(7000, '1') + "-\r\n\r\n");
  say(http.at, start + "X: " + std::string(100'000, 'b') + "\r\n\r\n");
  CHECK(eventually([&] {  // a request may take a second
    const auto answer = http_request(http.at, "GET", "/read");
    return answer.ok() && answer->status == 200;
  }));
}

TEST_CASE("a busy peer is reported so, in bounded time, and answers the next request") {
  HttpFixture http({.patience = std::chrono::milliseconds(50)});
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

TEST_CASE("an answer's lease ends when its client has read it or is gone") {
  const auto lease = std::make_shared<int>(0);
  HttpOwner owner;
  HttpRoute route{.method = "GET", .path = "/large"};
  route.later = [&](const std::string&, const HttpReply& reply) {
    reply({200, std::string(std::size_t{16} << 20, 'x'), "text/plain", lease});
  };
  const auto server = HttpServer::start({"127.0.0.1", 0}, {route}, owner.post());
  REQUIRE(server.ok());
  const Address at = (*server)->address();
  {
    const HttpTestCaller silent(at);
    REQUIRE(silent.say("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    REQUIRE(eventually([&] { return lease.use_count() == 2; }));
    const auto answer = http_request(at, "GET", "/large");
    REQUIRE(answer.ok());
    CHECK(answer->body.size() == std::size_t{16} << 20);
    REQUIRE(eventually([&] { return lease.use_count() == 2; }));
  }
  REQUIRE(eventually([&] { return lease.use_count() == 1; }));
}

TEST_CASE("an answer that never ends, byte by byte, is given up") {
  for (const std::string begin :
       {"HTTP/1.1 200 OK\r\nX-Head: ", "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"}) {
    asio::io_context io;
    asio::ip::tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
    std::thread server([&] {
      auto socket = acceptor.accept();
      asio::error_code ended;
      for (asio::write(socket, asio::buffer(begin), ended); !ended;
           asio::write(socket, asio::buffer("x", 1), ended))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    const Address at{"127.0.0.1", acceptor.local_endpoint().port()};
    const auto answer = http_request(at, "GET", "/", "", "", std::chrono::milliseconds(200), Duration{0});
    server.join();
    REQUIRE_FALSE(answer.ok());
    CHECK(answer.error().connected);
    CHECK(answer.error().message.find("did not answer within 200ms") != std::string::npos);
  }
}

TEST_CASE("an answer may come later, from any thread, and only the first one counts") {
  HttpFixture http({.patience = std::chrono::milliseconds(50), .long_patience = kHang});
  Result<HttpAnswer, NoAnswer> answer = HttpAnswer{};
  std::thread client([&] { answer = http_request(http.at, "GET", "/later"); });
  HttpReply reply;
  while (!reply) {
    std::atomic<bool> looked{false};
    http.owner.post()([&] {
      if (!http.replies.empty()) reply = http.replies.front();
      looked = true;
      looked.notify_all();
    });
    looked.wait(false);
  }
  // Others are answered meanwhile.
  CHECK(eventually([&] {
    const auto read = http_request(http.at, "GET", "/read");
    return read.ok() && read->status == 200;
  }));
  reply({200, "late"});
  reply({200, "twice"});
  client.join();
  REQUIRE(answer.ok());
  CHECK(answer->body == "late");
  http.server.reset();
  reply({200, "after the end"});
}

TEST_CASE("a client waits as long as it is told, and then says for how long it has") {
  HttpFixture http({.patience = std::chrono::hours(1)});
  http.owner.hold(true);
  const auto answer = http_request(http.at, "GET", "/read", "", "", std::chrono::milliseconds(50));
  REQUIRE_FALSE(answer.ok());
  CHECK(answer.error().connected);
  CHECK(answer.error().message.ends_with(" did not answer within 50ms"));
  http.owner.hold(false);
}

TEST_CASE("a server that ends answers the waiting clients, and calls no handler afterwards") {
  HttpFixture http({.patience = std::chrono::hours(1)});
  http.owner.hold(true);
  Result<HttpAnswer, NoAnswer> answer = HttpAnswer{};
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

TEST_CASE("commands from another machine need the token") {
  const Address other = other_address_of_this_machine();
  if (other.host.empty()) return;  // the machine has only loopback
  HttpOwner owner;
  const auto serve = [&](const std::string& token) {
    std::vector<HttpRoute> routes;
    routes.push_back({"POST", "/write", [](const std::string& body) { return HttpAnswer{200, body}; }});
    routes.push_back({"GET", "/read", [](const std::string&) { return HttpAnswer{200, "{}"}; }});
    auto server =
        HttpServer::start(other, std::move(routes), owner.post(), {.token = token, .patience = kHang});
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
  HttpFixture http;
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
