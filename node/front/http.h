// A small HTTP server for a running peer, and a client. Only the .cc file uses the HTTP library.
//
// The server has a few threads and bounds connections, requests, streams and waits. Anyone who can reach it
// may read; a POST needs the same machine or the peer's token. A foreign web page in a browser on that
// machine can neither read nor send commands: requests with a foreign host name are rejected (DNS rebinding),
// and a POST must be application/json, which browsers send to another origin only with a permission that this
// server never gives.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"

namespace starling::node {

inline constexpr const char* kJsonType = "application/json";

struct HttpAnswer {
  int status = 200;
  std::string body;
  std::string type = kJsonType;
};
// {"error": sentence}
HttpAnswer http_refusal(int status, const std::string& sentence);

struct HttpRoute {
  std::string method;  // GET or POST
  std::string path;    // matched as a whole; letters, digits, '/' and '-'
  // Called by `Post`, never on a thread of the server.
  std::function<HttpAnswer(const std::string& body)> answer;
  // A GET that does not end: the answer comes first, then everything that is published.
  bool streams = false;
};

struct HttpOptions {
  std::string token;                            // for a POST from another machine; empty: none is accepted
  Duration patience = std::chrono::seconds(2);  // an answer that takes longer becomes a 503
};

// Queues a function for the thread that owns the peer.
using Post = std::function<void(std::function<void()>)>;

// The longest body of a request.
inline constexpr std::size_t kHttpBodyBytesMax = 64 * 1024;

class HttpServer {
 public:
  // Listens; port 0 takes any.
  static Result<std::unique_ptr<HttpServer>> start(const Address& at, std::vector<HttpRoute> routes,
                                                   Post post, HttpOptions options = {});
  // Calls no Post and no route any more. Ends the requests in progress, then waits for its threads; a client
  // that keeps a thread busy delays it.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  const Address& address() const;  // with the actual port

  // Open streams; each takes a thread, so there are at most kStreamsMax.
  std::size_t streams() const;
  static constexpr std::size_t kStreamsMax = 16;
  // Sends to all streams. A stream ends when its client is `kStreamBytesMax` behind.
  void publish(const std::string& text);
  static constexpr std::size_t kStreamBytesMax = 8 << 20;

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Whether only this machine can reach the host, a name or an IP literal.
bool is_loopback(const std::string& host);

// Whether a request with this Host header is meant for a server that listens at `bound`: an IP literal,
// localhost or the bound host, with or without a port.
bool is_own_host(std::string_view host, const std::string& bound);

// Sends a request to the server at `at`, with `token` unless it is empty, and returns the answer of any
// status. The Error is one sentence: why there was no answer.
Result<HttpAnswer> http_request(const Address& at, const std::string& method, const std::string& path,
                                const std::string& body = "", const std::string& token = "");

}  // namespace starling::node
