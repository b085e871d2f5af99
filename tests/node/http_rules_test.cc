#include "node/front/http_rules.h"

#include "tests/catch.h"

namespace starling::node {
namespace {

HttpHead head_with(const std::string& authorization) {
  HttpHead head{"POST", "/write", {}};
  if (!authorization.empty()) head.headers["authorization"] = authorization;
  return head;
}

int status_of(const std::optional<HttpAnswer>& refusal) { return refusal ? refusal->status : 200; }

}  // namespace

TEST_CASE("a host is accepted if it is an IP literal, localhost or the bound name") {
  for (const char* host : {"127.0.0.1", "127.0.0.1:7180", "[::1]:7180", "[::1]", "localhost", "localhost:1",
                           "10.1.2.3:7180", "box", "box:7180"}) {
    INFO(host);
    CHECK(is_own_host(host, "box"));
  }
  for (const char* host :
       {"", ":7180", "evil.example", "evil.example:7180", "localhost.evil.example", "127.0.0.1.evil.example",
        "box.evil.example", "[::1", "[evil]:1", "1.2.3.4.5", "localhost:1.evil.example",
        "localhost:", "127.0.0.1:99999", "[::1]evil", "[::1]:x", "0.0.0.0", "0.0.0.0:7180", "[::]"}) {
    INFO(host);
    CHECK_FALSE(is_own_host(host, "box"));
  }
}

TEST_CASE("a request's head is parsed strictly") {
  const auto head = parse_http_head(
      "GET /a/b?c=d HTTP/1.1\r\nHost: [::1]:80\r\nX-Empty:\r\nACCEPT: \t a, b \t\r\nAccept: c\r\n");
  REQUIRE(head.ok());
  CHECK(head->method == "GET");
  CHECK(head->path == "/a/b");
  CHECK(head->header("host") == "[::1]:80");
  CHECK(head->header("accept") == "a, b");
  CHECK(head->has("x-empty"));
  CHECK_FALSE(head->has("x-other"));
  const std::string first = "POST / HTTP/1.1\r\n";
  for (const std::string& text :
       {std::string(), std::string("GET"), std::string("GET /"), std::string("GET / HTTP/2.0"),
        std::string("GET  HTTP/1.1"), std::string("GET / / HTTP/1.1"), std::string("GET a HTTP/1.1"),
        std::string("G(T / HTTP/1.1"), std::string("GET http://a/ HTTP/1.1"), std::string("GET /\n HTTP/1.1"),
        first + "Host", first + "Host : a", first + ": a", first + "A: b\r\n continued", first + "A: b\nC: d",
        first + std::string("A: \0", 4), first + "Host: a\r\nhost: a",
        first + "Content-Length: 1\r\nContent-Length: 2"}) {
    INFO(text);
    CHECK_FALSE(parse_http_head(text).ok());
  }
}

TEST_CASE("streams are limited per source and in total, and other machines leave some to this one") {
  const HttpSource here = HttpSource::of("127.0.0.1");
  std::vector<HttpSource> open;
  for (std::size_t i = 0; i < kHttpStreamsPerSource; ++i) {
    CHECK(may_stream(open, HttpSource::of("10.0.0.1")));
    open.push_back(HttpSource::of("10.0.0.1"));
  }
  CHECK_FALSE(may_stream(open, HttpSource::of("10.0.0.1")));
  for (int i = 2; open.size() < kHttpStreamsOfOthersMax; ++i) {
    const HttpSource other = HttpSource::of("10.0.0." + std::to_string(i));
    CHECK(may_stream(open, other));
    open.push_back(other);
  }
  CHECK_FALSE(may_stream(open, HttpSource::of("10.0.1.1")));
  while (open.size() < kHttpStreamsMax) {
    CHECK(may_stream(open, here));
    open.push_back(here);
  }
  CHECK_FALSE(may_stream(open, HttpSource::of("127.0.0.2")));
}

TEST_CASE("addresses in one IPv6 network of 64 bits are one source") {
  CHECK(HttpSource::of("2001:db8::1").key == HttpSource::of("2001:db8:0:0:ffff::2").key);
  CHECK(HttpSource::of("2001:db8::1").key != HttpSource::of("2001:db8:0:1::1").key);
  CHECK(HttpSource::of("fe80::1%eth0").key == HttpSource::of("fe80::2").key);
  CHECK(HttpSource::of("10.0.0.1").key != HttpSource::of("10.0.0.2").key);
  CHECK(HttpSource::of("::1").loopback);
  CHECK_FALSE(HttpSource::of("::2").loopback);
}

TEST_CASE("a source with wrong tokens gets few answers a second, others are not affected") {
  TokenGuard guard("abcdefghijklmnop", false);
  const TokenGuard::TimePoint start{};
  const HttpHead right = head_with("Bearer abcdefghijklmnop"), wrong = head_with("Bearer abcdefghijklmnoq");
  for (int second = 0; second < 3; ++second) {
    const auto now = start + std::chrono::seconds(second);
    CHECK(status_of(guard.refusal_of(right, "10.0.0.1", now)) == 200);
    for (int i = 0; i < TokenGuard::kWrongPerSecond; ++i)
      CHECK(status_of(guard.refusal_of(wrong, "10.0.0.1", now)) == 401);
    const auto later = now + std::chrono::milliseconds(999);
    CHECK(status_of(guard.refusal_of(wrong, "10.0.0.1", later)) == 429);
    // Otherwise a client could find the token among the answers.
    CHECK(status_of(guard.refusal_of(right, "10.0.0.1", later)) == 429);
    CHECK(status_of(guard.refusal_of(right, "10.0.0.2", later)) == 200);
    CHECK(status_of(guard.refusal_of(wrong, "127.0.0.1", later)) == 200);
    // A request without a token is no attempt.
    CHECK(status_of(guard.refusal_of(head_with(""), "10.0.0.1", later)) == 401);
  }
}

TEST_CASE("wrong tokens from endless sources take bounded memory and are not checked") {
  TokenGuard guard("abcdefghijklmnop", false);
  const TokenGuard::TimePoint now{};
  const HttpHead right = head_with("Bearer abcdefghijklmnop"), wrong = head_with("Bearer abcdefghijklmnoq");
  for (std::size_t i = 0; i < TokenGuard::kSourcesMax; ++i) {
    const std::string source = "10.0." + std::to_string(i / 256) + "." + std::to_string(i % 256);
    REQUIRE(status_of(guard.refusal_of(wrong, source, now)) == 401);
  }
  CHECK(status_of(guard.refusal_of(wrong, "10.1.0.1", now)) == 429);
  CHECK(status_of(guard.refusal_of(right, "10.1.0.1", now + std::chrono::seconds(1))) == 200);
}

TEST_CASE("the log has the first wrong token at once, then at most a line a minute") {
  TokenGuard guard("abcdefghijklmnop", true);
  const HttpHead wrong = head_with("Bearer x");
  const TokenGuard::TimePoint start{};
  CHECK_FALSE(guard.log_line(start));
  guard.refusal_of(wrong, "127.0.0.1", start);
  CHECK(guard.log_line(start) == "an HTTP command from 127.0.0.1 was rejected: its token is wrong");
  for (int i = 0; i < 2400; ++i) {
    guard.refusal_of(wrong, i % 2 == 0 ? "10.0.0.1" : "10.0.0.2", start + std::chrono::seconds(1));
    REQUIRE_FALSE(guard.log_line(start + std::chrono::seconds(59)));
  }
  const auto line = guard.log_line(start + std::chrono::minutes(1));
  REQUIRE(line);
  CHECK(line->starts_with("2400 more HTTP commands"));
  CHECK(line->ends_with("10.0.0.2"));
  CHECK_FALSE(guard.log_line(start + std::chrono::minutes(5)));
  guard.refusal_of(wrong, "10.0.0.3", start + std::chrono::minutes(5));
  CHECK(guard.log_line(start + std::chrono::minutes(5)) ==
        "an HTTP command from 10.0.0.3 was rejected: its token is wrong");
}

TEST_CASE("with token_always, commands from loopback need the token too") {
  const HttpHead right = head_with("Bearer abcdefghijklmnop"), none = head_with("");
  const TokenGuard::TimePoint now{};
  for (const bool always : {false, true}) {
    TokenGuard guard("abcdefghijklmnop", always);
    for (const char* loopback : {"127.0.0.1", "::1"})
      CHECK(status_of(guard.refusal_of(none, loopback, now)) == (always ? 401 : 200));
    CHECK(status_of(guard.refusal_of(none, "10.0.0.1", now)) == 401);
    CHECK(status_of(guard.refusal_of(right, "127.0.0.1", now)) == 200);
  }
}

}  // namespace starling::node
