#include "node/front/http.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/write.hpp>

#include "base/text.h"
#include "transport/coroutines.h"
#include "transport/links/listen_error.h"
#include "transport/links/tcp_socket.h"

namespace starling::node {
namespace {

using asio::ip::tcp;
using HttpClock = std::chrono::steady_clock;

constexpr std::size_t kSliceBytes = 64 * 1024;  // of an answer, for which the client has kHttpSilenceMax
// Read and ignored after a refusal, so that the client can read it.
constexpr std::size_t kIgnoredBytesMax = 1024 * 1024;
constexpr auto kIgnoredTime = std::chrono::seconds(1);
constexpr auto kPartingTime = std::chrono::seconds(1);  // for clients to accept their answers at the end
constexpr auto kAcceptPause = std::chrono::milliseconds(100);  // when no connection can be accepted
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::size_t kPublishedMax = 64;  // pieces queued for one client
// A stream without news sends this often, to detect a client that is gone.
constexpr auto kHeartbeat = std::chrono::seconds(10);

// A connection with one request. All of it is used on the server's thread.
struct HttpCaller : std::enable_shared_from_this<HttpCaller> {
  enum class Stage { receiving, asking, sending };

  HttpCaller(tcp::socket connection, std::string from)
      : socket(std::move(connection)),
        limit(socket.get_executor()),
        news(socket.get_executor()),
        remote(std::move(from)),
        source(HttpSource::of(remote)) {}

  // From now on reads and writes fail after `time`.
  void allow(Duration time) {
    late = false;
    limit.expires_after(time);
    limit.async_wait([self = shared_from_this()](const asio::error_code& canceled) {
      if (canceled || self->limit.expiry() > HttpClock::now()) return;
      self->late = true;
      asio::error_code ignored;
      self->socket.cancel(ignored);
    });
  }

  // Adds what arrives to the input; false: nothing more will.
  asio::awaitable<bool> read() {
    std::array<char, 4096> piece;
    asio::error_code error;
    const std::size_t n = co_await socket.async_read_some(asio::buffer(piece),
                                                          asio::redirect_error(asio::use_awaitable, error));
    if (error || late || dropped) co_return false;
    input.append(piece.data(), n);
    co_return true;
  }

  // False: the client has not accepted all of it.
  asio::awaitable<bool> write(std::string_view text) {
    while (!text.empty()) {
      allow(kHttpSilenceMax);
      const std::string_view slice = text.substr(0, kSliceBytes);
      asio::error_code error;
      co_await asio::async_write(socket, asio::buffer(slice),
                                 asio::redirect_error(asio::use_awaitable, error));
      if (error || late) co_return false;
      text.remove_prefix(slice.size());
    }
    co_return true;
  }

  // To make room for others. A client whose request has not arrived is told.
  void drop() {
    dropped = true;
    asio::error_code ignored;
    if (stage == Stage::receiving) {
      socket.cancel(ignored);
    } else {
      socket.close(ignored);
    }
  }

  void add(const std::shared_ptr<const std::string>& piece) {
    bytes_behind += piece->size();
    if (bytes_behind > HttpServer::kStreamBytesMax || pieces.size() >= kPublishedMax) drop();
    pieces.push_back(piece);
    news.raise();
  }

  tcp::socket socket;
  asio::steady_timer limit;
  transport::Signal news;  // an answer, a published piece, or the end
  const std::string remote;
  const HttpSource source;
  Stage stage = Stage::receiving;
  bool stream = false, late = false, dropped = false;
  std::string input;
  std::optional<HttpAnswer> answer;
  std::deque<std::shared_ptr<const std::string>> pieces;  // of a stream, not yet sent
  std::size_t bytes_behind = 0;
};
using HttpCallerPtr = std::shared_ptr<HttpCaller>;

// Where the peer's thread leaves its answers. It may do so after the server's end.
struct HttpDoor {
  std::mutex mutex;
  asio::io_context* inside = nullptr;  // null after the end
};

// The refusal of a request that did not arrive. Status 0: the client is gone.
HttpAnswer refusal_of_silence(const HttpCaller& caller) {
  if (caller.dropped) return http_refusal(429, "too many unfinished requests came from this address");
  if (caller.late) return http_refusal(408, "the request did not arrive in time");
  return {0, "", ""};
}

Result<tcp::acceptor> open_http(asio::io_context& io, const Address& at) {
  asio::error_code error;
  tcp::resolver resolver(io);
  for (const auto& found :
       resolver.resolve(at.host, std::to_string(at.port), tcp::resolver::passive, error)) {
    const tcp::endpoint endpoint = found.endpoint();
    tcp::acceptor acceptor(io);
    if (acceptor.open(endpoint.protocol(), error); error) continue;
    acceptor.set_option(asio::socket_base::reuse_address(true), error);
    if (endpoint.address().is_v6()) acceptor.set_option(asio::ip::v6_only(false), error);
    if (acceptor.bind(endpoint, error); error) continue;
    if (acceptor.listen(asio::socket_base::max_listen_connections, error); error) continue;
    return acceptor;
  }
  return transport::listen_error(at, error, " for HTTP");
}

}  // namespace

struct HttpServer::State {
  State(std::vector<HttpRoute> r, Post p, HttpOptions o, std::string host)
      : routes(std::move(r)),
        post(std::move(p)),
        patience(o.patience),
        long_patience(o.long_patience),
        request_time(o.request_time),
        bound_host(std::move(host)),
        guard(std::move(o.token), o.token_always) {}

  asio::awaitable<void> accept_all();
  void admit(tcp::socket socket);
  bool make_room(const HttpSource* source);
  bool admit_stream(HttpCaller& caller);

  asio::awaitable<void> serve(HttpCallerPtr caller);
  asio::awaitable<std::optional<HttpAnswer>> receive(HttpCallerPtr caller, const HttpRoute*& route);
  std::optional<HttpAnswer> refusal_of_command(const HttpHead& head, const HttpCaller& caller);
  asio::awaitable<HttpAnswer> ask(HttpCallerPtr caller, const HttpRoute& route);
  asio::awaitable<void> stream(HttpCallerPtr caller, HttpAnswer beginning);
  asio::awaitable<void> ignore_rest(HttpCallerPtr caller);
  void leave(const HttpCallerPtr& caller);
  void log_wrong_tokens();
  void end();

  asio::io_context io{1};
  Address address;
  const std::vector<HttpRoute> routes;
  const Post post;
  const Duration patience, long_patience, request_time;
  const std::string bound_host;
  TokenGuard guard;
  std::shared_ptr<HttpDoor> door = std::make_shared<HttpDoor>();
  std::optional<tcp::acceptor> acceptor;
  asio::steady_timer pause{io}, log_time{io}, parting{io};
  std::vector<HttpCallerPtr> callers;  // the oldest first
  std::atomic<std::size_t> streams{0};
  bool ending = false;
  std::thread thread;
};

asio::awaitable<void> HttpServer::State::accept_all() {
  while (!ending) {
    tcp::socket socket(io);
    asio::error_code error;
    co_await acceptor->async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
    if (ending) break;
    if (!error) {
      admit(std::move(socket));
      continue;
    }
    // Usually the process has no file descriptors left; the connection waits in the kernel's queue.
    pause.expires_after(kAcceptPause);
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
}

void HttpServer::State::admit(tcp::socket socket) {
  asio::error_code error;
  const tcp::endpoint remote = socket.remote_endpoint(error);
  if (error) return;
  socket.set_option(tcp::no_delay(true), error);
  const auto caller = std::make_shared<HttpCaller>(std::move(socket), transport::to_address(remote).host);
  if (!make_room(&caller->source) || !make_room(nullptr)) return;
  callers.push_back(caller);
  caller->allow(request_time);
  transport::spawn(io.get_executor(), serve(caller));
}

// Of one source, or in total. False: all wait for the peer.
bool HttpServer::State::make_room(const HttpSource* source) {
  const auto counts = [&](const HttpCallerPtr& caller) {
    return !caller->stream && (source == nullptr || caller->source.key == source->key);
  };
  const std::size_t limit = source == nullptr ? kHttpCallersMax : kHttpCallersPerSource;
  if (static_cast<std::size_t>(std::ranges::count_if(callers, counts)) < limit) return true;
  const auto oldest = std::ranges::find_if(callers, [&](const HttpCallerPtr& caller) {
    return counts(caller) && caller->stage != HttpCaller::Stage::asking;
  });
  if (oldest == callers.end()) return false;
  (*oldest)->drop();
  callers.erase(oldest);
  return true;
}

// Before it refuses, it closes the streams whose clients are gone, which is otherwise noticed at the next
// write.
bool HttpServer::State::admit_stream(HttpCaller& caller) {
  for (const bool again : {false, true}) {
    std::vector<HttpSource> open;
    for (const HttpCallerPtr& other : callers) {
      if (!other->stream) continue;
      if (again && !other->dropped && transport::remote_ended(other->socket)) other->drop();
      if (!other->dropped) open.push_back(other->source);
    }
    caller.stream = may_stream(open, caller.source);
    if (caller.stream) break;
  }
  if (caller.stream) ++streams;
  return caller.stream;
}

asio::awaitable<void> HttpServer::State::serve(HttpCallerPtr caller) {
  const HttpRoute* route = nullptr;
  std::optional<HttpAnswer> answer = co_await receive(caller, route);
  const bool whole = !answer.has_value();
  if (whole && route->streams && !admit_stream(*caller))
    answer = http_refusal(503, "enough pages follow this peer already");
  if (!answer) answer = co_await ask(caller, *route);
  if (caller->stream && answer->status == 200) {
    co_await stream(caller, std::move(*answer));
  } else if (answer->status != 0) {
    caller->stage = HttpCaller::Stage::sending;
    std::string first = http_head_of(*answer);
    const bool short_enough = answer->body.size() <= kSliceBytes;  // for one packet with the head
    if (short_enough) first += answer->body;
    bool sent = co_await caller->write(first);
    if (sent && !short_enough) sent = co_await caller->write(answer->body);
    if (sent && !whole && !caller->dropped) co_await ignore_rest(caller);
  }
  leave(caller);
}

// The request without its head becomes the caller's input. A refusal, or nullopt.
asio::awaitable<std::optional<HttpAnswer>> HttpServer::State::receive(HttpCallerPtr caller,
                                                                      const HttpRoute*& route) {
  constexpr std::string_view kEnd = "\r\n\r\n";
  std::string& input = caller->input;
  std::size_t end = std::string::npos;
  for (std::size_t searched = 0; (end = input.find(kEnd, searched)) == std::string::npos;) {
    if (input.size() >= kHttpHeadBytesMax) break;
    searched = input.size() - std::min(input.size(), kEnd.size() - 1);
    const bool arrived = co_await caller->read();
    if (!arrived) co_return refusal_of_silence(*caller);
    if (is_from_a_peer(input))
      co_return http_refusal(400, "this is a peer's --http address; join its --listen address");
  }
  if (end > kHttpHeadBytesMax - kEnd.size()) {
    co_return http_refusal(
        431, "the request's head is longer than " + std::to_string(kHttpHeadBytesMax) + " bytes");
  }
  const Result<HttpHead> head = parse_http_head(std::string_view(input).substr(0, end));
  if (!head) co_return http_refusal(400, head.error().message);
  if (auto refused = refusal_of(*head, routes, bound_host)) co_return refused;
  if (head->method == "POST") {
    if (auto refused = refusal_of_command(*head, *caller)) co_return refused;
  }
  route = &*std::ranges::find_if(
      routes, [&](const HttpRoute& r) { return r.path == head->path && r.method == head->method; });
  input.erase(0, end + kEnd.size());
  // Otherwise a GET, whose body is ignored.
  const std::size_t length =
      head->method == "POST" ? *parse_number<std::size_t>(head->header("content-length")) : 0;
  if (input.size() < length && same_word(head->header("expect"), "100-continue")) {
    asio::error_code ignored;
    co_await asio::async_write(caller->socket, asio::buffer(kContinue),
                               asio::redirect_error(asio::use_awaitable, ignored));
  }
  input.reserve(length);
  while (input.size() < length) {
    const bool arrived = co_await caller->read();
    if (!arrived) co_return refusal_of_silence(*caller);
  }
  input.resize(length);
  co_return std::nullopt;
}

std::optional<HttpAnswer> HttpServer::State::refusal_of_command(const HttpHead& head,
                                                                const HttpCaller& caller) {
  auto refused = guard.refusal_of(head, caller.remote, HttpClock::now());
  log_wrong_tokens();
  return refused ? refused : body_refusal_of(head);
}

asio::awaitable<HttpAnswer> HttpServer::State::ask(HttpCallerPtr caller, const HttpRoute& route) {
  if (ending) co_return http_refusal(503, "the peer is ending");
  caller->stage = HttpCaller::Stage::asking;
  caller->limit.cancel();
  const HttpReply reply = [to = door, from = std::weak_ptr(caller)](HttpAnswer answer) {
    const std::lock_guard lock(to->mutex);
    if (to->inside == nullptr) return;
    asio::post(*to->inside, [from, answer = std::move(answer)]() mutable {
      const HttpCallerPtr asked = from.lock();
      if (!asked || asked->answer) return;  // the first one counts
      asked->answer = std::move(answer);
      asked->news.raise();
    });
  };
  post([to = door, reply, call = route.answer, later = route.later, body = std::move(caller->input)] {
    {
      const std::lock_guard lock(to->mutex);
      if (to->inside == nullptr) return;
    }
    if (later) return later(body, reply);
    reply(call(body));
  });
  const auto deadline = HttpClock::now() + (route.later ? long_patience : patience);
  while (!caller->answer && !ending && HttpClock::now() < deadline)
    co_await caller->news.wait_until(deadline);
  caller->stage = HttpCaller::Stage::sending;
  if (caller->answer) co_return std::move(*caller->answer);
  co_return http_refusal(503, ending ? "the peer is ending" : "the peer is too busy to answer now");
}

// Sends the beginning, then everything that is published, until the client or the server ends.
asio::awaitable<void> HttpServer::State::stream(HttpCallerPtr caller, HttpAnswer beginning) {
  std::string first = http_head_of(beginning, true) + std::exchange(beginning.body, {});
  bool sent = co_await caller->write(first);
  first = {};
  while (sent && !ending && !caller->dropped) {
    if (caller->pieces.empty()) {
      co_await caller->news.wait_until(HttpClock::now() + kHeartbeat);
      if (caller->pieces.empty() && !ending && !caller->dropped) sent = co_await caller->write(":\n\n");
      continue;
    }
    const auto piece = std::move(caller->pieces.front());
    caller->pieces.pop_front();
    caller->bytes_behind -= piece->size();
    sent = co_await caller->write(*piece);
  }
}

// Closing at once, with unread input, would make the client's kernel discard the answer.
asio::awaitable<void> HttpServer::State::ignore_rest(HttpCallerPtr caller) {
  asio::error_code ignored;
  caller->socket.shutdown(tcp::socket::shutdown_send, ignored);
  caller->allow(kIgnoredTime);
  for (std::size_t bytes = 0; bytes < kIgnoredBytesMax; bytes += caller->input.size()) {
    caller->input.clear();
    const bool arrived = co_await caller->read();
    if (!arrived) break;
  }
}

void HttpServer::State::leave(const HttpCallerPtr& caller) {
  if (caller->stream) --streams;
  std::erase(callers, caller);
  caller->limit.cancel();
  asio::error_code ignored;
  caller->socket.shutdown(tcp::socket::shutdown_both, ignored);
  caller->socket.close(ignored);
  if (ending && callers.empty()) parting.cancel();
}

void HttpServer::State::log_wrong_tokens() {
  const auto line = guard.log_line(HttpClock::now());
  if (!line || ending) return;
  spdlog::warn("{}", *line);
  log_time.expires_after(TokenGuard::kLogInterval);
  log_time.async_wait([this](const asio::error_code& canceled) {
    if (!canceled) log_wrong_tokens();
  });
}

void HttpServer::State::end() {
  ending = true;
  asio::error_code ignored;
  acceptor->close(ignored);
  pause.cancel();
  log_time.cancel();
  for (const HttpCallerPtr& caller : callers) {
    if (caller->stage == HttpCaller::Stage::receiving) caller->socket.close(ignored);
    caller->news.raise();
  }
  if (callers.empty()) return;
  parting.expires_after(kPartingTime);
  parting.async_wait([this](const asio::error_code& canceled) {
    if (!canceled) io.stop();
  });
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const Address& at, std::vector<HttpRoute> routes,
                                                      Post post, HttpOptions options) {
  auto state = std::make_unique<State>(std::move(routes), std::move(post), std::move(options), at.host);
  auto acceptor = open_http(state->io, at);
  if (!acceptor) return acceptor.error();
  state->acceptor = std::move(*acceptor);
  asio::error_code ignored;
  state->address = {at.host, state->acceptor->local_endpoint(ignored).port()};
  state->door->inside = &state->io;
  transport::spawn(state->io.get_executor(), state->accept_all());
  state->thread = std::thread([s = state.get()] { s->io.run(); });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

HttpServer::~HttpServer() {
  {
    const std::lock_guard lock(state_->door->mutex);
    state_->door->inside = nullptr;
  }
  asio::post(state_->io, [state = state_.get()] { state->end(); });
  state_->thread.join();
}

const Address& HttpServer::address() const { return state_->address; }

std::size_t HttpServer::streams() const { return state_->streams; }

void HttpServer::publish(const std::string& text) {
  asio::post(state_->io, [state = state_.get(), piece = std::make_shared<const std::string>(text)] {
    for (const HttpCallerPtr& caller : state->callers)
      if (caller->stream && !caller->dropped) caller->add(piece);
  });
}

}  // namespace starling::node
