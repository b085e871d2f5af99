// HTTP for people, scripts and dashboards: a small server for a running peer and the call that asks one. The
// .cc file is the only code that knows the HTTP library.
//
// The server has a few threads, bounded connections, requests, streams and waits. Whoever reaches it may
// read; a POST is heard from its own machine, or with the peer's token. A web page of somebody else's in a
// browser on that machine can neither read it nor make it do anything: requests under a foreign host name are
// refused (a page whose name was rebound to this address), and a POST must be application/json, which
// browsers send nowhere else without permission that is never given.
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
  std::string path;    // matched whole; letters, digits, '/' and '-'
  // Called where `Post` runs it, and never on a thread of the server.
  std::function<HttpAnswer(const std::string& body)> answer;
  // A GET that does not end: the answer is the beginning, and what is published() follows, as it comes.
  bool streams = false;
};

struct HttpOptions {
  std::string token;                            // that a POST from elsewhere must name; empty: there is none
  Duration patience = std::chrono::seconds(2);  // a route whose answer takes longer is answered with 503
};

// Runs a function soon on the thread that owns the peer.
using Post = std::function<void(std::function<void()>)>;

// Longest body of a request, in bytes.
inline constexpr std::size_t kHttpBodyBytesMax = 64 * 1024;

class HttpServer {
 public:
  // Listens; port 0 takes any.
  static Result<std::unique_ptr<HttpServer>> start(const Address& at, std::vector<HttpRoute> routes,
                                                   Post post, HttpOptions options = {});
  // Calls no Post and no route any more once it begins. Ends what is being answered, then waits for its
  // threads: for one that a client keeps busy without end, as long as the client does.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  const Address& address() const;  // the port that was taken

  // Streams that are open; each takes a thread, so there are at most kStreamsMax.
  std::size_t streams() const;
  static constexpr std::size_t kStreamsMax = 16;
  // To all of them. A stream whose client has not taken the last `kStreamBytesMax` is ended.
  void publish(const std::string& text);
  static constexpr std::size_t kStreamBytesMax = 8 << 20;

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Whether a request with this Host header is meant for a server that was told to listen at `bound`: an IP
// literal, localhost or the bound host, with or without a port.
bool is_own_host(std::string_view host, const std::string& bound);

// Asks the server at `at`, with `token` where there is one, and returns what it says, whatever its status. An
// Error says, as one sentence, why there was no answer.
Result<HttpAnswer> http_request(const Address& at, const std::string& method, const std::string& path,
                                const std::string& body = "", const std::string& token = "");

}  // namespace starling::node
