// The bytes of an HTTP request, as the server reads them: a refusal that is a complete answer, or a request
// within the limits for one of the routes; and the bodies of commands.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "node/front/answers.h"
#include "node/front/http_rules.h"
#include "training/runs/records/json.h"

using namespace starling;
using namespace starling::node;

namespace {

const std::vector<HttpRoute>& routes() {
  static const std::vector<HttpRoute> routes{{"GET", "/", {}},
                                             {"GET", "/api/v1/live", {}, true},
                                             {"POST", "/api/v1/topology", {}},
                                             {"GET", "/metrics", {}}};
  return routes;
}

bool is_one_line(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
}

void check(const HttpAnswer& answer) {
  STARLING_CHECK(answer.status >= 400 && answer.status < 500);
  const auto json = training::parse_json(answer.body);
  STARLING_CHECK(json.is_object() && json.contains("error") && json["error"].is_string());
  const std::string head = http_head_of(answer);
  STARLING_CHECK(head.starts_with("HTTP/1.1 ") && head.ends_with("\r\n\r\n"));
  STARLING_CHECK(head.find("\r\n\r\n") == head.size() - 4);
}

void check(const HttpHead& head) {
  STARLING_CHECK(!head.method.empty() && head.path.starts_with('/'));
  STARLING_CHECK(is_one_line(head.method) && is_one_line(head.path));
  STARLING_CHECK(head.path.find_first_of(" ?") == std::string::npos);
  for (const auto& [name, value] : head.headers) {
    STARLING_CHECK(!name.empty() && is_one_line(name) && is_one_line(value));
    STARLING_CHECK(std::ranges::none_of(name, [](char c) { return ('A' <= c && c <= 'Z') || c == ':'; }));
    STARLING_CHECK(value.empty() || (value.front() != ' ' && value.back() != ' '));
  }
}

// Without a token of their own, clients elsewhere may send no commands, however often they try.
void check_commands(const HttpHead& head, const std::string& remote) {
  TokenGuard open("", false), closed("the token", true);
  const bool knows = head.header("authorization") == "Bearer the token";
  for (int n = 0; n < 8; ++n) {
    const TokenGuard::TimePoint now{std::chrono::milliseconds(100 * n)};
    STARLING_CHECK(HttpSource::of(remote).loopback || open.refusal_of(head, remote, now).has_value());
    if (const auto refused = closed.refusal_of(head, remote, now)) {
      STARLING_CHECK(!knows);
      check(*refused);
    } else {
      STARLING_CHECK(knows);
    }
    if (const auto line = closed.log_line(now)) STARLING_CHECK(is_one_line(*line));
  }
}

void take_request(std::string_view text) {
  const auto head = parse_http_head(text.substr(0, text.find("\r\n\r\n")));
  if (!head) return check(http_refusal(400, head.error().message));
  check(*head);
  if (head->method == "POST") check_commands(*head, "192.0.2.7");
  if (const auto refused = refusal_of(*head, routes(), "starling.example")) return check(*refused);
  STARLING_CHECK(is_own_host(head->header("host"), "starling.example"));
  STARLING_CHECK(std::ranges::any_of(
      routes(), [&](const HttpRoute& it) { return it.path == head->path && it.method == head->method; }));
  if (head->method != "POST") return;
  if (const auto refused = body_refusal_of(*head)) return check(*refused);
  const auto length = parse_number<std::size_t>(head->header("content-length"));
  STARLING_CHECK(length && *length <= kHttpBodyBytesMax);
}

void take_body(const std::string& body) {
  if (const auto address = parse_introduction(body)) {
    STARLING_CHECK(is_host(address->host) && address->port > 0);
    STARLING_CHECK(*parse_introduction(introduction_json(*address)) == *address);
  } else {
    STARLING_CHECK(!address.error().message.empty());
  }
  if (const auto level = parse_log_level(body))
    STARLING_CHECK(*parse_log_level(log_level_json(*level)) == *level);
  static_cast<void>(parse_topology_request(body));
  if (const auto status = parse_status(body)) STARLING_CHECK(parse_status(to_json(*status)).ok());
  if (const auto members = parse_members(body)) STARLING_CHECK(parse_members(to_json(*members)).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0: {  // the address of a client, as the server formats it
      const HttpSource source = HttpSource::of(std::string(text.substr(0, 64)));
      STARLING_CHECK(source.key.size() <= 64);
      static_cast<void>(may_stream({source, source}, source));
      break;
    }
    case 1:
      static_cast<void>(is_own_host(text, "starling.example"));
      break;
    case 2:
      take_body(std::string(text));
      break;
    default:
      take_request(text);
  }
  return 0;
}
