#include "node/front/http_rules.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace starling::node {
namespace {

bool is_ip_literal(const std::string& text) {
  in6_addr bytes;
  return ::inet_pton(AF_INET, text.c_str(), &bytes) == 1 || ::inet_pton(AF_INET6, text.c_str(), &bytes) == 1;
}

// "application/json", with or without parameters.
bool is_json(const std::string& content_type) {
  std::string type = content_type.substr(0, content_type.find(';'));
  while (type.ends_with(' ')) type.pop_back();
  return same_word(type, kJsonType);
}

// Whether a page of another site sent this request. Browsers send Sec-Fetch-Site only to this machine and
// over HTTPS, and the Origin with every POST, and with a GET if the page has another one.
bool is_foreign(const HttpHead& head) {
  if (same_word(head.header("sec-fetch-site"), "cross-site")) return true;
  const std::string origin = head.header("origin");
  const bool same_origin = same_word(origin, "http://" + head.header("host")) ||
                           same_word(origin, "https://" + head.header("host"));
  return !origin.empty() && !same_origin;
}

}  // namespace

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.") || host.starts_with("::ffff:127.");
}

bool is_own_host(std::string_view host, const std::string& bound) {
  // The name without brackets, and the port behind a colon.
  std::string name(host), port;
  const bool bracketed = name.starts_with('[');
  const std::size_t end = bracketed ? name.find(']') : std::min(name.find(':'), name.size());
  if (end == std::string::npos) return false;
  port = name.substr(end + (bracketed ? 1 : 0));
  name = name.substr(bracketed ? 1 : 0, end - (bracketed ? 1 : 0));
  if (!port.empty() && (port.front() != ':' || !parse_number<std::uint16_t>(port.substr(1)))) return false;
  if (bracketed) return is_ip_literal(name) && name != "::";
  // A page of another site reaches this machine at 0.0.0.0, too.
  return name == "localhost" || (!name.empty() && name == bound) ||
         (is_ip_literal(name) && name != "0.0.0.0");
}

HttpSource HttpSource::of(const std::string& remote) {
  std::array<unsigned char, 16> bytes{};
  const std::string literal = remote.substr(0, remote.find('%'));  // without the scope
  if (::inet_pton(AF_INET6, literal.c_str(), bytes.data()) != 1) return {remote, is_loopback(remote)};
  return {std::string(bytes.begin(), bytes.begin() + 8), is_loopback(remote)};
}

bool may_stream(const std::vector<HttpSource>& open, const HttpSource& next) {
  const auto own = std::ranges::count(open, next.key, &HttpSource::key);
  const auto others = std::ranges::count(open, false, &HttpSource::loopback);
  return open.size() < kHttpStreamsMax && own < static_cast<std::ptrdiff_t>(kHttpStreamsPerSource) &&
         (next.loopback || others < static_cast<std::ptrdiff_t>(kHttpStreamsOfOthersMax));
}

std::optional<HttpAnswer> refusal_of(const HttpHead& head, const std::vector<HttpRoute>& routes,
                                     const std::string& bound_host) {
  if (!is_own_host(head.header("host"), bound_host)) {
    return http_refusal(403, "the request names another host than this one; use the peer's address");
  }
  // A link to the page works from anywhere.
  if (is_foreign(head) && head.path != "/") {
    return http_refusal(403, "a page of another site sent this request; open the peer's own page");
  }
  bool takes_method = false;
  std::string methods;
  for (const HttpRoute& route : routes) {
    if (route.path != head.path) continue;
    if (route.method == head.method) takes_method = true;
    methods += (methods.empty() ? "" : " or ") + route.method;
  }
  if (methods.empty()) {
    std::vector<std::string> paths;
    for (const HttpRoute& route : routes) paths.push_back(route.path);
    return http_refusal(404, "unknown path; the paths are " + one_of(paths));
  }
  if (!takes_method) return http_refusal(405, "this path takes only " + methods);
  return std::nullopt;
}

std::optional<HttpAnswer> body_refusal_of(const HttpHead& head) {
  if (!is_json(head.header("content-type"))) {
    return http_refusal(415, std::string("a POST needs the header Content-Type: ") + kJsonType);
  }
  if (head.has("content-encoding") || head.has("transfer-encoding")) {
    return http_refusal(415, "a body must not be encoded");
  }
  const auto length = parse_number<std::uint64_t>(head.header("content-length"));
  if (!length) return http_refusal(411, "a POST needs the header Content-Length");
  if (*length > kHttpBodyBytesMax) {
    return http_refusal(413, "the body is longer than " + std::to_string(kHttpBodyBytesMax) + " bytes");
  }
  return std::nullopt;
}

// Takes the same time for every wrong token of the right length.
bool TokenGuard::is_right(const std::string& authorization) const {
  const std::string wanted = "Bearer " + token_;
  if (authorization.size() != wanted.size()) return false;
  unsigned char differs = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    differs |= static_cast<unsigned char>(authorization[i] ^ wanted[i]);
  return differs == 0;
}

// Whether a token from this source may be checked now.
bool TokenGuard::may_try(const std::string& source, TimePoint now) {
  std::erase_if(wrong_,
                [&](const auto& entry) { return now - entry.second.since >= std::chrono::seconds(1); });
  const auto at = wrong_.find(source);
  return at == wrong_.end() ? wrong_.size() < kSourcesMax : at->second.count < kWrongPerSecond;
}

std::optional<HttpAnswer> TokenGuard::refusal_of(const HttpHead& head, const std::string& remote,
                                                 TimePoint now) {
  const HttpSource source = HttpSource::of(remote);
  if (source.loopback && !always_) return std::nullopt;
  if (token_.empty()) {
    return http_refusal(403,
                        "this peer accepts commands only from its own machine; start it with --token-file to "
                        "accept them from others");
  }
  if (!head.has("authorization")) {
    return http_refusal(401, std::string(always_ ? "commands need" : "commands from another machine need") +
                                 " the peer's token, as Authorization: Bearer TOKEN");
  }
  const bool checked = may_try(source.key, now);
  if (checked && is_right(head.header("authorization"))) return std::nullopt;
  if (checked) ++wrong_.try_emplace(source.key, Wrong{now}).first->second.count;
  ++unreported_;
  latest_ = remote;
  if (checked) return http_refusal(401, "this is not the peer's token");
  return http_refusal(429, "too many wrong tokens came from this address; try again in a second");
}

std::optional<std::string> TokenGuard::log_line(TimePoint now) {
  if (unreported_ == 0 || (logged_ && now - *logged_ < kLogInterval)) return std::nullopt;
  const bool first = !logged_ || now - *logged_ >= 2 * kLogInterval;
  logged_ = now;
  const std::uint64_t count = std::exchange(unreported_, 0);
  if (first && count == 1) return "an HTTP command from " + latest_ + " was rejected: its token is wrong";
  return std::to_string(count) +
         " more HTTP commands were rejected because of wrong tokens, the latest from " + latest_;
}

}  // namespace starling::node
