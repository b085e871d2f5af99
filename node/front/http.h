// A small HTTP server for a running peer (client: http_client.h).
//
// One thread serves all connections, so slow clients delay nobody. A request has a bounded size and a bounded
// time to arrive; connections are bounded per client and in total, and the slowest make room for new ones.
// Anyone who can reach the server may read; a POST needs the same machine or the peer's token. A foreign web
// page in a browser on that machine can neither read nor send commands: requests with a foreign host name
// (DNS rebinding) or from another site are rejected, and a POST must be application/json, which browsers send
// to another origin only with a permission that this server never gives.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "node/front/http_rules.h"

namespace starling::node {

struct HttpOptions {
  std::string token{};                          // for a POST from another machine; empty: none is accepted
  bool token_always = false;                    // a POST from this machine needs the token too
  Duration patience = std::chrono::seconds(2);  // an answer that takes longer becomes a 503
  Duration long_patience = std::chrono::seconds(30);  // the same where the route replies later
  Duration request_time = std::chrono::seconds(5);    // in which the whole request must arrive
};

// Queues a function for the thread that owns the peer.
using Post = std::function<void(std::function<void()>)>;

// The longest head of a request, and the time in which a client must accept each 64 KB of an answer.
inline constexpr std::size_t kHttpHeadBytesMax = 16 * 1024;
inline constexpr auto kHttpSilenceMax = std::chrono::seconds(5);
// Connections without streams: of each source, and in total. When there are more, the oldest that waits for
// its client is closed.
inline constexpr std::size_t kHttpCallersPerSource = 8;
inline constexpr std::size_t kHttpCallersMax = 128;

class HttpServer {
 public:
  // Listens; port 0 takes any.
  static Result<std::unique_ptr<HttpServer>> start(const Address& at, std::vector<HttpRoute> routes,
                                                   Post post, HttpOptions options = {});
  // Calls no Post and no route any more. Ends the requests in progress; clients have a second to accept their
  // answers.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  const Address& address() const;  // with the actual port

  std::size_t streams() const;  // that are open
  // Sends to all streams. A stream ends when its client is `kStreamBytesMax` behind.
  void publish(const std::string& text);
  static constexpr std::size_t kStreamBytesMax = 8 << 20;

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace starling::node
