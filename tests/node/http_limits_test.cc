// Clients that are slow, large or many, with real sockets.
#include <algorithm>

#include "node/front/http.h"
#include "node/front/status.h"
#include "tests/node/http_fixture.h"

namespace starling::node {
namespace {

const std::string kRead = "GET /read HTTP/1.1\r\nHost: localhost\r\n";
const std::string kFollow = "GET /follow HTTP/1.1\r\nHost: localhost\r\n\r\n";
const std::string kWrite = "POST /write HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";

// The longest time for an answer to a probe, of `times`, by Beats. Before each, the slow clients send a line.
std::chrono::milliseconds slowest_probe(const Address& at, const std::deque<HttpTestCaller>& slow,
                                        int times) {
  const Beats beats;
  std::chrono::milliseconds slowest{};
  for (int i = 0; i < times; ++i) {
    for (const HttpTestCaller& caller : slow) caller.say("X-Slow: 1\r\n");
    const auto begun = beats.passed();
    REQUIRE(has_status(say(at, kRead + "\r\n"), 200));
    slowest = std::max(slowest, beats.passed() - begun);
  }
  return slowest;
}

}  // namespace

TEST_CASE("a head without end takes bounded memory, and its connection is closed") {
  HttpFixture http;
  const std::string header = "X: " + std::string(4096, 'x') + "\r\n";
  const HttpTestCaller caller(http.at);
  caller.say(kRead);
  const std::uint64_t before = resident_bytes();
  std::uint64_t most = before;
  int sent = 0;
  for (; sent < 80'000 && caller.say(header); ++sent)
    if (sent % 100 == 0) most = std::max(most, resident_bytes());
  most = std::max(most, resident_bytes());
  CHECK(sent < 80'000);
  CHECK(most - before < std::uint64_t{10} << 20);
  CHECK(has_status(say(http.at, kRead + "\r\n"), 200));
}

TEST_CASE("a head may have 16 KB, in any pieces") {
  HttpFixture http;
  const auto head_of = [](std::size_t bytes) {
    const std::string start = kRead + "X: ";
    return start + std::string(bytes - start.size() - 4, 'x') + "\r\n\r\n";
  };
  CHECK(has_status(say(http.at, head_of(kHttpHeadBytesMax)), 200));
  CHECK(has_status(say(http.at, head_of(kHttpHeadBytesMax + 1)), 431));
  CHECK(has_status(say(http.at, std::string(kHttpHeadBytesMax + 1, 'x')), 431));
  const HttpTestCaller caller(http.at);
  for (const char c : head_of(200)) REQUIRE(caller.say(std::string(1, c)));
  CHECK(has_status(caller.hear(), 200));
}

TEST_CASE("slow clients of many sources keep their connections, and delay no probe") {
  HttpFixture http({.patience = kHang, .request_time = std::chrono::minutes(10)});
  std::deque<HttpTestCaller> slow;
  for (std::uint8_t i = 0; i < 64; ++i)
    CHECK(slow.emplace_back(http.at, static_cast<std::uint8_t>(10 + i)).say(kRead));
  const auto slowest = slowest_probe(http.at, slow, 20);
  CAPTURE(slowest.count());
  CHECK(slowest < std::chrono::seconds(1));
  for (const HttpTestCaller& caller : slow) {
    caller.say("\r\n");
    CHECK(has_status(caller.hear(), 200));
  }
}

TEST_CASE("slow clients of one source replace each other, and delay no probe of the same source") {
  HttpFixture http({.patience = kHang, .request_time = std::chrono::minutes(10)});
  std::deque<HttpTestCaller> slow;
  for (int i = 0; i < 64; ++i) CHECK(slow.emplace_back(http.at).say(kRead));
  const auto slowest = slowest_probe(http.at, slow, 20);
  CAPTURE(slowest.count());
  CHECK(slowest < std::chrono::seconds(1));
  int answered = 0, refused = 0;
  for (const HttpTestCaller& caller : slow) {
    caller.say("\r\n");
    const std::string answer = caller.hear();
    answered += has_status(answer, 200) ? 1 : 0;
    refused += has_status(answer, 429) ? 1 : 0;
  }
  CHECK(answered < static_cast<int>(kHttpCallersPerSource));
  CHECK(refused > 0);
}

TEST_CASE("when all sources together have too many connections, the oldest is closed") {
  HttpFixture http({.patience = kHang, .request_time = std::chrono::minutes(10)});
  std::deque<HttpTestCaller> slow;
  for (std::size_t i = 0; i < kHttpCallersMax; ++i) {
    const auto last = static_cast<std::uint8_t>(10 + i / kHttpCallersPerSource);
    REQUIRE(slow.emplace_back(http.at, last).say(kRead));
  }
  CHECK(has_status(say(http.at, kRead + "\r\n"), 200));
  CHECK(has_status(slow.front().hear(), 429));
  slow.back().say("\r\n");
  CHECK(has_status(slow.back().hear(), 200));
}

TEST_CASE("requests that wait for a busy peer are not closed, and further ones of their source are") {
  HttpFixture http({.patience = std::chrono::hours(1)});
  http.owner.hold(true);
  std::deque<HttpTestCaller> waiting;
  for (std::size_t i = 0; i < kHttpCallersPerSource; ++i) {
    REQUIRE(waiting.emplace_back(http.at).say(kRead + "\r\n"));
    http.owner.wait_until_asked(i + 1);
  }
  CHECK(say(http.at, kRead + "\r\n").empty());
  http.owner.hold(false);
  for (const HttpTestCaller& caller : waiting) CHECK(has_status(caller.hear(), 200));
}

TEST_CASE("a request must arrive in time as a whole, however often its client sends") {
  HttpFixture http({.patience = kHang, .request_time = std::chrono::milliseconds(200)});
  CHECK(has_status(say(http.at, ""), 408));
  for (const std::string& start : {kRead, kWrite + "Content-Length: 60000\r\n\r\n"}) {
    const HttpTestCaller caller(http.at);
    REQUIRE(caller.say(start));
    while (!caller.hears_within(std::chrono::milliseconds(20))) caller.say("x:1\r\n");
    CHECK(has_status(caller.hear(), 408));
  }
  CHECK(http.reads == 0);
  CHECK(http.writes == 0);
}

TEST_CASE("a body may arrive in pieces, after the server agreed to it") {
  HttpFixture http;
  const HttpTestCaller caller(http.at);
  caller.say(kWrite + "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n");
  REQUIRE(caller.hear_until("HTTP/1.1 100 Continue\r\n\r\n"));
  caller.say("12");
  caller.say("34");
  const std::string answer = caller.hear();
  CHECK(has_status(answer, 200));
  CHECK(answer.ends_with("\r\n\r\n1234"));
}

TEST_CASE("a stream sends what is published, ends with the server, and delays no other request") {
  HttpFixture http;
  CHECK(http.server->streams() == 0);
  std::deque<HttpTestCaller> pages;
  for (std::size_t i = 0; i < kHttpStreamsMax; ++i) {
    pages.emplace_back(http.at, static_cast<std::uint8_t>(1 + i / kHttpStreamsPerSource)).say(kFollow);
    REQUIRE(pages.back().hear_until("begin"));
  }
  CHECK(http.server->streams() == kHttpStreamsMax);
  CHECK(has_status(say(http.at, kRead + "\r\n"), 200));
  const std::string refused = say(http.at, kFollow, 200);
  CHECK(has_status(refused, 503));
  CHECK(refused.find("enough pages") != std::string::npos);

  http.server->publish("one;");
  http.server->publish("two;");
  for (const HttpTestCaller& page : pages) CHECK(page.hear_until("two;"));
  // A client that does not read is disconnected; the others are not.
  const std::string much(1 << 20, 'x');
  for (int i = 0; i < 40; ++i) http.server->publish(much);
  http.server.reset();
  for (const HttpTestCaller& page : pages) page.hear();
}

TEST_CASE("one source has a limited number of streams, and a closed page makes room at once") {
  HttpFixture http;
  std::deque<HttpTestCaller> pages;
  for (std::size_t i = 0; i < kHttpStreamsPerSource; ++i) {
    pages.emplace_back(http.at).say(kFollow);
    REQUIRE(pages.back().hear_until("begin"));
  }
  CHECK(has_status(say(http.at, kFollow), 503));
  const HttpTestCaller other(http.at, 2);
  other.say(kFollow);
  CHECK(other.hear_until("begin"));
  pages.pop_front();
  pages.emplace_back(http.at).say(kFollow);
  CHECK(pages.back().hear_until("begin"));
}

TEST_CASE("a page of another site cannot request anything but the page, and cannot show it in a frame") {
  HttpFixture http;
  const std::string foreign = "Sec-Fetch-Site: cross-site\r\n";
  CHECK(has_status(say(http.at, kRead + foreign + "\r\n"), 403));
  CHECK(has_status(say(http.at, "GET /follow HTTP/1.1\r\nHost: localhost\r\n" + foreign + "\r\n"), 403));
  CHECK(has_status(say(http.at, kWrite + foreign + "Content-Length: 2\r\n\r\n{}"), 403));
  // Browsers do not send Sec-Fetch-Site to other machines over plain HTTP.
  for (const std::string origin : {"http://evil.example", "http://localhost:1",
                                   "http://localhost.evil.example", "http://10.0.0.1", "null", "localhost"}) {
    INFO(origin);
    CHECK(has_status(say(http.at, kRead + "Origin: " + origin + "\r\n\r\n"), 403));
    CHECK(has_status(say(http.at, kWrite + "Origin: " + origin + "\r\nContent-Length: 2\r\n\r\n{}"), 403));
  }
  CHECK(http.reads == 0);
  CHECK(http.writes == 0);
  for (const std::string site : {"same-origin", "same-site", "none"})
    CHECK(has_status(say(http.at, kRead + "Sec-Fetch-Site: " + site + "\r\n\r\n"), 200));
  for (const std::string origin : {"http://localhost", "https://LOCALHOST"})
    for (const std::string& request : {kRead + "Origin: " + origin + "\r\n\r\n",
                                       kWrite + "Origin: " + origin + "\r\nContent-Length: 2\r\n\r\n{}"})
      CHECK(has_status(say(http.at, request), 200));
  for (const std::string& answer :
       {say(http.at, "GET / HTTP/1.1\r\nHost: localhost\r\n" + foreign + "\r\n"),
        say(http.at, kRead + "\r\n"), say(http.at, "GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        say(http.at, "noise\r\n\r\n")}) {
    INFO(answer);
    CHECK(answer.find("\r\nX-Frame-Options: DENY\r\n") != std::string::npos);
    CHECK(answer.find("frame-ancestors 'none'") != std::string::npos);
    CHECK(has_status(answer, 200) ==
          (answer.ends_with("page") || answer.find("{\"read\"") != std::string::npos));
  }
}

TEST_CASE("a client that guesses the token is slowed down, and the token works again a second later") {
  HttpFixture http({.token = "abcdefghijklmnop", .token_always = true, .patience = kHang});
  const auto order = [&](const std::string& token, std::uint8_t last = 1) {
    const std::string answer =
        say(http.at, kWrite + "Authorization: Bearer " + token + "\r\nContent-Length: 2\r\n\r\n{}", last);
    return std::stoi(answer.substr(std::string("HTTP/1.1 ").size(), 3));
  };
  CHECK(http_request(http.at, "POST", "/write", "{}")->status == 401);
  CHECK(http_request(http.at, "GET", "/read")->status == 200);
  CHECK(order("abcdefghijklmnop") == 200);
  int wrong = 0, status = 0;
  for (; wrong < 100 && status != 429; ++wrong) {
    status = order("abcdefghijklmnoq");
    CHECK((status == 401 || status == 429));
  }
  CHECK(status == 429);
  CHECK(wrong > TokenGuard::kWrongPerSecond);
  CHECK(order("abcdefghijklmnop", 2) == 200);
  while (order("abcdefghijklmnop") == 429) {
  }
  CHECK(http.writes == 3);
}

}  // namespace starling::node
