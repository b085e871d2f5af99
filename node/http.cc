#include "node/http.h"

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
#include "training/json.h"

namespace starling::node {
namespace {

constexpr std::size_t kThreads = 4;
constexpr std::size_t kWaitingMax = 16;            // accepted connections that no thread has taken yet
constexpr std::time_t kSilenceSeconds = 2;         // of a client in the middle of a request or an answer
constexpr std::time_t kAnswerSeconds = 5;          // that http_request waits for
constexpr std::size_t kAnswerBytesMax = 64 << 20;  // that http_request takes
constexpr const char* kJson = "application/json";

// Threads for connections, as many as there are: where all are busy and enough connections wait, accepting
// waits too. (The library's own queue has no bound.)
class BoundedQueue : public httplib::TaskQueue {
 public:
  BoundedQueue() {
    for (std::size_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { work(); });
  }

  // What it returns differs between the library's versions.
  using Enqueued = decltype(std::declval<httplib::TaskQueue&>().enqueue(nullptr));
  Enqueued enqueue(std::function<void()> task) override {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return tasks_.size() < kWaitingMax; });
      tasks_.push_back(std::move(task));
    }
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
  response.set_content(answer.json, kJson);
}

// Not the library's: that would let several processes share a port.
void allow_fast_restart(socket_t socket) {
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

bool is_ip_literal(const std::string& text) {
  in6_addr bytes;
  return ::inet_pton(AF_INET, text.c_str(), &bytes) == 1 || ::inet_pton(AF_INET6, text.c_str(), &bytes) == 1;
}

// "application/json", perhaps with parameters behind it.
bool is_json(const std::string& content_type) {
  std::string type = content_type.substr(0, content_type.find(';'));
  while (type.ends_with(' ')) type.pop_back();
  std::transform(type.begin(), type.end(), type.begin(),
                 [](char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return type == kJson;
}

// Why a request is refused before a byte of its body is read; nullopt: it is not. The library bounds a body
// only where its length is announced.
std::optional<HttpAnswer> refusal_of(const httplib::Request& request, const std::vector<HttpRoute>& routes,
                                     const std::string& bound_host) {
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
    return http_refusal(404, "there is no such path; it would be " + one_of(paths));
  }
  if (!takes_method) return http_refusal(405, "this path takes " + methods + " alone");
  if (request.method != "POST") return std::nullopt;
  if (!is_json(request.get_header_value("Content-Type"))) {
    return http_refusal(415, std::string("a POST needs the header Content-Type: ") + kJson);
  }
  if (request.has_header("Content-Encoding") || request.has_header("Transfer-Encoding")) {
    return http_refusal(415, "a body must come as it is, without an encoding");
  }
  const auto length = parse_number<std::uint64_t>(request.get_header_value("Content-Length"));
  if (!length) return http_refusal(411, "a POST needs the header Content-Length");
  if (*length > kHttpBodyBytesMax) {
    return http_refusal(413, "the body is longer than " + std::to_string(kHttpBodyBytesMax) + " bytes");
  }
  return std::nullopt;
}

}  // namespace

HttpAnswer http_refusal(int status, const std::string& sentence) {
  return {status, training::to_line({{"error", sentence}})};
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

namespace {

// Where the server's threads meet the peer's: a thread of the server asks and waits, the peer's answers.
class Meeting {
 public:
  // 503 where no answer has come after `patience`, or once close() was called.
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

  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
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
    {
      const std::lock_guard lock(mutex_);
      slot = std::move(given);
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
};

}  // namespace

struct HttpServer::State {
  Address address;
  std::vector<HttpRoute> routes;
  std::shared_ptr<Meeting> meeting = std::make_shared<Meeting>();
  httplib::Server server;
  std::future<void> listening;
};

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const Address& at, std::vector<HttpRoute> routes,
                                                      Post post, Duration patience) {
  auto state = std::make_unique<State>();
  httplib::Server& server = state->server;
  server.new_task_queue = [] { return new BoundedQueue; };
  server.set_socket_options(allow_fast_restart);
  server.set_keep_alive_max_count(1);  // so no idle connection holds a thread
  server.set_keep_alive_timeout(kSilenceSeconds);
  server.set_read_timeout(kSilenceSeconds);
  server.set_write_timeout(kSilenceSeconds);
  server.set_payload_max_length(kHttpBodyBytesMax);

  state->routes = std::move(routes);
  server.set_pre_routing_handler([&routes = state->routes, host = at.host](const httplib::Request& request,
                                                                           httplib::Response& response) {
    const auto refusal = refusal_of(request, routes, host);
    if (!refusal) return httplib::Server::HandlerResponse::Unhandled;
    put(response, *refusal);
    return httplib::Server::HandlerResponse::Handled;
  });
  server.set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (response.body.empty()) put(response, http_refusal(response.status, "the request is not valid HTTP"));
  });
  for (const HttpRoute& route : state->routes) {
    const auto handle = [&route, post, patience, meeting = state->meeting](const httplib::Request& request,
                                                                           httplib::Response& response) {
      put(response, Meeting::ask(meeting, post, route, request.body, patience));
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
  // A server that has not begun to accept yet hears no stop, and it must hear it once.
  bool told = false;
  while (state_->listening.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    if (told || !state_->server.is_running()) continue;
    state_->server.stop();
    told = true;
  }
}

const Address& HttpServer::address() const {
  return state_->address;
}

Result<HttpAnswer> http_request(const Address& at, const std::string& method, const std::string& path,
                                const std::string& body) {
  httplib::Client client(at.host, at.port);
  client.set_connection_timeout(kAnswerSeconds);
  client.set_read_timeout(kAnswerSeconds);
  client.set_write_timeout(kAnswerSeconds);
  httplib::Request request;
  request.method = method;
  request.path = path;
  request.set_header("Host", to_string(at));
  if (method == "POST") {
    request.set_header("Content-Type", kJson);
    request.body = body;
  }
  HttpAnswer answer;
  bool too_long = false;
  request.content_receiver = [&](const char* data, std::size_t size, std::uint64_t, std::uint64_t) {
    too_long = answer.json.size() + size > kAnswerBytesMax;
    if (!too_long) answer.json.append(data, size);
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
      return Error{"nobody answers at " + to_string(at) + "; a peer does where it is started with --http"};
    default:
      return Error{"what listens at " + to_string(at) +
                   (too_long ? " does not stop talking" : " gives no answer") +
                   "; a peer does at its --http address"};
  }
}

}  // namespace starling::node
