// Which requests and clients the HTTP server refuses: foreign hosts and pages, unknown paths, commands
// without the token, clients that guess it, bodies that are too long, too many streams. Functions of values
// and times; the server applies them.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "node/front/http_message.h"

namespace starling::node {

using HttpReply = std::function<void(HttpAnswer)>;

struct HttpRoute {
  std::string method;  // GET or POST
  std::string path;    // matched as a whole; letters, digits, '/' and '-'
  // Called by `Post`, never on the server's thread.
  std::function<HttpAnswer(const std::string& body)> answer = {};
  // A GET that does not end: the answer comes first, then everything that is published.
  bool streams = false;
  // Instead of `answer`: replies later, once, from any thread; without a reply the client gets a 503 after
  // HttpOptions::long_patience.
  std::function<void(const std::string& body, HttpReply reply)> later = {};
};

// The longest body of a request.
inline constexpr std::size_t kHttpBodyBytesMax = 64 * 1024;

// Whether only this machine can reach the host, a name or an IP literal.
bool is_loopback(const std::string& host);

// Whether a request with this Host header is meant for a server that listens at `bound`: an IP literal,
// localhost or the bound host, with or without a port.
bool is_own_host(std::string_view host, const std::string& bound);

// Where a client comes from. An IPv6 network of 64 bits, in which one machine may have any address, counts as
// one source.
struct HttpSource {
  std::string key;
  bool loopback = false;

  // `remote`: an IP literal.
  static HttpSource of(const std::string& remote);
};

// Open streams: in total, and of each source. The last ones are left to this machine.
inline constexpr std::size_t kHttpStreamsMax = 16;
inline constexpr std::size_t kHttpStreamsOfOthersMax = 12;
inline constexpr std::size_t kHttpStreamsPerSource = 4;
// Whether one more stream may begin.
bool may_stream(const std::vector<HttpSource>& open, const HttpSource& next);

// Who may send commands. Clients with a wrong token get a few answers a second, then no token of theirs is
// checked until the second is over.
class TokenGuard {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr int kWrongPerSecond = 4;  // of one source
  static constexpr std::size_t kSourcesMax = 1024;
  static constexpr auto kLogInterval = std::chrono::minutes(1);

  // `always`: commands from loopback need the token too. REQUIRES: a token, if `always`.
  TokenGuard(std::string token, bool always) : token_(std::move(token)), always_(always) {}

  // Why a command from `remote` is refused; nullopt: it is accepted.
  std::optional<HttpAnswer> refusal_of(const HttpHead& head, const std::string& remote, TimePoint now);

  // A line for the log about wrong tokens, if one is due: at once about the first, then at most one in
  // kLogInterval.
  std::optional<std::string> log_line(TimePoint now);

 private:
  struct Wrong {
    TimePoint since;
    int count = 0;
  };

  bool may_try(const std::string& source, TimePoint now);
  bool is_right(const std::string& authorization) const;

  std::string token_;
  bool always_;
  std::map<std::string, Wrong> wrong_;  // of the last second, by source
  std::uint64_t unreported_ = 0;
  std::string latest_;  // from where the latest wrong token came
  std::optional<TimePoint> logged_;
};

// Why a request is refused before its body is read; nullopt: it is accepted, and one of the routes fits.
std::optional<HttpAnswer> refusal_of(const HttpHead& head, const std::vector<HttpRoute>& routes,
                                     const std::string& bound_host);
// The same for what only a POST must have.
std::optional<HttpAnswer> body_refusal_of(const HttpHead& head);

}  // namespace starling::node
