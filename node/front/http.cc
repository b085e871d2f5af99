#include "node/front/http.h"

#include <arpa/inet.h>
#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/text.h"
#include "training/records/json.h"

namespace starling::node {
namespace {

constexpr std::size_t kThreads = 4;
constexpr std::size_t kWaitingMax = 16;            // accepted connections that no thread has taken yet
constexpr std::time_t kSilenceSeconds = 2;         // allowed to a client within a request or an answer
constexpr std::time_t kAnswerSeconds = 5;          // for which http_request waits
constexpr std::size_t kAnswerBytesMax = 64 << 20;  // that http_request accepts
constexpr std::size_t kPublishedMax = 64;          // pieces queued for one client
// A stream without news sends this often, to detect a client that is gone.
constexpr auto kHeartbeat = std::chrono::seconds(10);

// Threads for connections, and one more for each stream. When all are busy and enough connections wait,
// accepting waits too. (The library's own queue has no bound.)
class BoundedQueue : public httplib::TaskQueue {
 public:
  BoundedQueue() {
    for (std::size_t i = 0; i < kThreads + HttpServer::kStreamsMax; ++i)
      threads_.emplace_back([this] { work(); });
  }

  // The return type differs between the library's versions.
  using Enqueued = decltype(std::declval<httplib::TaskQueue&>().enqueue(nullptr));
  Enqueued enqueue(std::function<void()> task) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return tasks_.size() < kWaitingMax; });
    tasks_.push_back(std::move(task));
    changed_.notify_all();
    return static_cast<Enqueued>(true);
  }

  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return over_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      changed_.notify_all();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool over_ = false;
  std::vector<std::thread> threads_;
};

void put(httplib::Response& response, const HttpAnswer& answer) {
  response.status = answer.status;
  response.set_content(answer.body, answer.type.c_str());
  response.set_header("Cache-Control", "no-store");
}

// The library's own options would let several processes share a port.
void allow_fast_restart(socket_t socket) {
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

bool is_ip_literal(const std::string& text) {
  in6_addr bytes;
  return ::inet_pton(AF_INET, text.c_str(), &bytes) == 1 || ::inet_pton(AF_INET6, text.c_str(), &bytes) == 1;
}

// "application/json", with or without parameters.
bool is_json(const std::string& content_type) {
  std::string type = content_type.substr(0, content_type.find(';'));
  while (type.ends_with(' ')) type.pop_back();
  std::ranges::transform(type, type.begin(),
                         [](char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return type == kJsonType;
}

// Whether the request has the token. Takes the same time for every wrong token of the right length.
bool bears(const httplib::Request& request, const std::string& token) {
  const std::string given = request.get_header_value("Authorization"), wanted = "Bearer " + token;
  if (token.empty() || given.size() != wanted.size()) return false;
  unsigned char differs = 0;
  for (std::size_t i = 0; i < given.size(); ++i) differs |= static_cast<unsigned char>(given[i] ^ wanted[i]);
  return differs == 0;
}

// Why a request is rejected before its body is read; nullopt: it is accepted. The library bounds a body only
// if its length is announced.
std::optional<HttpAnswer> refusal_of(const httplib::Request& request, const std::vector<HttpRoute>& routes,
                                     const std::string& bound_host, const std::string& token) {
  if (!is_own_host(request.get_header_value("Host"), bound_host)) {
    return http_refusal(403, "the request names another host than this one; use the peer's address");
  }
  bool takes_method = false;
  std::string methods;
  for (const HttpRoute& route : routes) {
    if (route.path != request.path) continue;
    if (route.method == request.method) takes_method = true;
    methods += (methods.empty() ? "" : " or ") + route.method;
  }
  if (methods.empty()) {
    std::vector<std::string> paths;
    for (const HttpRoute& route : routes) paths.push_back(route.path);
    return http_refusal(404, "unknown path; the paths are " + one_of(paths));
  }
  if (!takes_method) return http_refusal(405, "this path takes only " + methods);
  if (request.method != "POST") return std::nullopt;
  if (!is_loopback(request.remote_addr) && !bears(request, token)) {
    return http_refusal(
        token.empty() ? 403 : 401,
        token.empty()
            ? "this peer accepts commands only from its own machine; start it with --token-file to accept "
              "them from others"
            : "commands from another machine need the peer's token, as Authorization: Bearer TOKEN");
  }
  if (!is_json(request.get_header_value("Content-Type"))) {
    return http_refusal(415, std::string("a POST needs the header Content-Type: ") + kJsonType);
  }
  if (request.has_header("Content-Encoding") || request.has_header("Transfer-Encoding")) {
    return http_refusal(415, "a body must not be encoded");
  }
  const auto length = parse_number<std::uint64_t>(request.get_header_value("Content-Length"));
  if (!length) return http_refusal(411, "a POST needs the header Content-Length");
  if (*length > kHttpBodyBytesMax) {
    return http_refusal(413, "the body is longer than " + std::to_string(kHttpBodyBytesMax) + " bytes");
  }
  return std::nullopt;
}

// What the server's threads and the peer's share. A thread of the server asks and waits, and the peer's
// thread answers; and published pieces wait for the clients of streams.
class Meeting {
 public:
  struct Follower {
    std::deque<std::string> pieces;
    std::size_t bytes = 0;
    bool over = false;
  };

  // 503 if no answer comes within `patience`, or after close().
  static HttpAnswer ask(const std::shared_ptr<Meeting>& meeting, const Post& post, const HttpRoute& route,
                        std::string body, Duration patience) {
    auto answer = std::make_shared<std::optional<HttpAnswer>>();
    std::unique_lock lock(meeting->mutex_);
    if (!meeting->closed_) {
      post([meeting, answer, call = route.answer, body = std::move(body)] {
        meeting->answer(*answer, call, body);
      });
    }
    meeting->changed_.wait_for(lock, patience, [&] { return meeting->closed_ || answer->has_value(); });
    if (answer->has_value()) return **answer;
    return http_refusal(503, meeting->closed_ ? "the peer is ending" : "the peer is too busy to answer now");
  }

  // Null if there are enough streams.
  std::shared_ptr<Follower> follow() {
    const std::lock_guard lock(mutex_);
    if (closed_ || followers_.size() >= HttpServer::kStreamsMax) return nullptr;
    return followers_.emplace_back(std::make_shared<Follower>());
  }
  void leave(const std::shared_ptr<Follower>& follower) {
    const std::lock_guard lock(mutex_);
    std::erase(followers_, follower);
  }
  std::size_t followers() const {
    const std::lock_guard lock(mutex_);
    return followers_.size();
  }
  void publish(const std::string& text) {
    const std::lock_guard lock(mutex_);
    for (const auto& follower : followers_) {
      follower->bytes += text.size();
      follower->over = follower->over || follower->bytes > HttpServer::kStreamBytesMax ||
                       follower->pieces.size() >= kPublishedMax;
      if (!follower->over) follower->pieces.push_back(text);
    }
    changed_.notify_all();
  }
  // The next piece for the client; empty: none came within kHeartbeat; nullopt: the stream is over.
  std::optional<std::string> next(Follower& follower) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kHeartbeat, [&] { return closed_ || follower.over || !follower.pieces.empty(); });
    if (closed_ || follower.over) return std::nullopt;
    if (follower.pieces.empty()) return "";
    std::string piece = std::move(follower.pieces.front());
    follower.pieces.pop_front();
    follower.bytes -= piece.size();
    return piece;
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  void answer(std::optional<HttpAnswer>& slot, const std::function<HttpAnswer(const std::string&)>& call,
              const std::string& body) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return;
    }
    HttpAnswer given = call(body);
    const std::lock_guard lock(mutex_);
    slot = std::move(given);
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Follower>> followers_;
  bool closed_ = false;
};

// Sends the beginning, then everything that is published, until the client or the server ends.
void stream(const std::shared_ptr<Meeting>& meeting, const std::shared_ptr<Meeting::Follower>& follower,
            const HttpAnswer& beginning, httplib::Response& response) {
  response.set_header("Cache-Control", "no-store");
  response.set_chunked_content_provider(
      beginning.type.c_str(),
      [meeting, follower, begun = false, first = beginning.body](std::size_t,
                                                                 httplib::DataSink& sink) mutable {
        std::optional<std::string> piece = first;
        if (std::exchange(begun, true)) {
          first.clear();
          piece = meeting->next(*follower);
          if (!piece) {
            sink.done();
            return true;
          }
          if (piece->empty()) piece = ":\n\n";
        }
        return sink.write(piece->data(), piece->size());
      },
      [meeting, follower](bool) { meeting->leave(follower); });
}

}  // namespace

HttpAnswer http_refusal(int status, const std::string& sentence) {
  return {status, training::to_line({{"error", sentence}})};
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.") || host.starts_with("::ffff:127.");
}

bool is_own_host(std::string_view host, const std::string& bound) {
  std::string name(host);
  if (name.starts_with('[')) {
    const std::size_t end = name.find(']');
    if (end == std::string::npos) return false;
    return is_ip_literal(name.substr(1, end - 1));
  }
  if (std::count(name.begin(), name.end(), ':') == 1) name.resize(name.find(':'));
  return name == "localhost" || (!name.empty() && name == bound) || is_ip_literal(name);
}

struct HttpServer::State {
  Address address;
  std::vector<HttpRoute> routes;
  HttpOptions options;
  std::shared_ptr<Meeting> meeting = std::make_shared<Meeting>();
  httplib::Server server;
  std::future<void> listening;
};

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const Address& at, std::vector<HttpRoute> routes,
                                                      Post post, HttpOptions options) {
  auto state = std::make_unique<State>();
  state->options = std::move(options);
  httplib::Server& server = state->server;
  server.new_task_queue = [] { return new BoundedQueue; };
  server.set_socket_options(allow_fast_restart);
  server.set_keep_alive_max_count(1);  // an idle connection must not hold a thread
  server.set_keep_alive_timeout(kSilenceSeconds);
  server.set_read_timeout(kSilenceSeconds);
  server.set_write_timeout(kSilenceSeconds);
  server.set_payload_max_length(kHttpBodyBytesMax);

  state->routes = std::move(routes);
  server.set_pre_routing_handler([&routes = state->routes, &token = state->options.token, host = at.host](
                                     const httplib::Request& request, httplib::Response& response) {
    const auto refusal = refusal_of(request, routes, host, token);
    if (!refusal) return httplib::Server::HandlerResponse::Unhandled;
    put(response, *refusal);
    return httplib::Server::HandlerResponse::Handled;
  });
  server.set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (response.body.empty()) put(response, http_refusal(response.status, "the request is not valid HTTP"));
  });
  for (const HttpRoute& route : state->routes) {
    const auto handle = [&route, post, patience = state->options.patience, meeting = state->meeting](
                            const httplib::Request& request, httplib::Response& response) {
      const auto follower = route.streams ? meeting->follow() : nullptr;
      if (route.streams && !follower)
        return put(response, http_refusal(503, "enough pages follow this peer already"));
      const HttpAnswer answer = Meeting::ask(meeting, post, route, request.body, patience);
      if (follower && answer.status == 200) return stream(meeting, follower, answer, response);
      if (follower) meeting->leave(follower);
      put(response, answer);
    };
    if (route.method == "GET") server.Get(route.path, handle);
    if (route.method == "POST") server.Post(route.path, handle);
  }

  const int port = at.port == 0                            ? server.bind_to_any_port(at.host)
                   : server.bind_to_port(at.host, at.port) ? int{at.port}
                                                           : -1;
  if (port < 0) {
    return Error{"cannot listen at " + to_string(at) +
                 " for HTTP: the address is not one of this machine's, or the port is taken"};
  }
  state->address = {at.host, static_cast<std::uint16_t>(port)};
  state->listening = std::async(std::launch::async, [&server] { server.listen_after_bind(); });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

HttpServer::~HttpServer() {
  state_->meeting->close();
  // stop() has no effect before the server accepts, so wait until it does.
  bool stopped = false;
  while (state_->listening.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    if (stopped || !state_->server.is_running()) continue;
    state_->server.stop();
    stopped = true;
  }
}

const Address& HttpServer::address() const { return state_->address; }

std::size_t HttpServer::streams() const { return state_->meeting->followers(); }

void HttpServer::publish(const std::string& text) { state_->meeting->publish(text); }

Result<HttpAnswer> http_request(const Address& at, const std::string& method, const std::string& path,
                                const std::string& body, const std::string& token) {
  httplib::Client client(at.host, at.port);
  client.set_connection_timeout(kAnswerSeconds);
  client.set_read_timeout(kAnswerSeconds);
  client.set_write_timeout(kAnswerSeconds);
  httplib::Request request;
  request.method = method;
  request.path = path;
  request.set_header("Host", to_string(at));
  if (!token.empty()) request.set_header("Authorization", "Bearer " + token);
  if (method == "POST") {
    request.set_header("Content-Type", kJsonType);
    request.body = body;
  }
  HttpAnswer answer;
  bool too_long = false;
  request.content_receiver = [&](const char* data, std::size_t size, std::uint64_t, std::uint64_t) {
    too_long = answer.body.size() + size > kAnswerBytesMax;
    if (!too_long) answer.body.append(data, size);
    return !too_long;
  };
  const httplib::Result result = client.send(request);
  if (result) {
    answer.status = result->status;
    return answer;
  }
  switch (result.error()) {
    case httplib::Error::Connection:
    case httplib::Error::ConnectionTimeout:
      return Error{"nothing listens at " + to_string(at) + "; give the --http address of a running peer"};
    default:
      return Error{"the server at " + to_string(at) +
                   (too_long ? " sent an answer that is too long" : " did not answer") +
                   "; give the --http address of a running peer"};
  }
}

}  // namespace starling::node
