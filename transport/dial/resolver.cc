#include "transport/dial/resolver.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

namespace starling::transport {
namespace {

using ResolverClock = std::chrono::steady_clock;

// What the last lookup of a name showed, in the order in which lookups that wait are started.
enum class Standing : std::uint8_t { proven, fresh, failed };

// Where the threads leave their answers, until the resolver ends.
class Mailbox {
 public:
  explicit Mailbox(asio::any_io_executor executor) : executor_(std::move(executor)) {}

  void post(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    if (executor_) asio::post(*executor_, std::move(work));
  }
  void close() {
    const std::lock_guard lock(mutex_);
    executor_.reset();
  }

 private:
  std::mutex mutex_;
  std::optional<asio::any_io_executor> executor_;
};

}  // namespace

std::optional<HostAddresses> addresses_without_lookup(const std::string& host) {
  if (host == "localhost") {
    return HostAddresses{asio::ip::address_v4::loopback(), asio::ip::address_v6::loopback()};
  }
  asio::error_code error;
  const asio::ip::address literal = asio::ip::make_address(host, error);
  if (error) return std::nullopt;
  return HostAddresses{literal};
}

Result<HostAddresses> look_up(const std::string& host) {
  asio::io_context unused;  // a blocking lookup needs no event loop
  asio::ip::tcp::resolver resolver(unused);
  asio::error_code error;
  HostAddresses found;
  for (const auto& entry : resolver.resolve(host, "", error)) found.push_back(entry.endpoint().address());
  if (error) {
    return Error{"the name " + host + " does not resolve (" + error.message() +
                 "); check its spelling and this machine's DNS, or give an IP address"};
  }
  return found;
}

// Shared by the resolver and the coroutines that wait for it. The threads know only the mailbox.
class Resolver::State : public std::enable_shared_from_this<State> {
 public:
  State(asio::any_io_executor executor, ResolverOptions options)
      : executor_(std::move(executor)),
        options_(std::move(options)),
        mailbox_(std::make_shared<Mailbox>(executor_)) {}

  void close() { mailbox_->close(); }

  static asio::awaitable<Result<HostAddresses>> resolve(std::shared_ptr<State> self, std::string host,
                                                        ResolverClock::time_point deadline) {
    if (auto known = addresses_without_lookup(host)) co_return std::move(*known);
    Name& name = self->remember(host);
    if (name.failure && ResolverClock::now() - name.asked < self->options_.failure_kept) {
      co_return *name.failure;
    }
    const auto waiter = std::make_shared<Waiter>(self->executor_, deadline);
    if (name.waiters.empty() && !name.running) self->queue_.push_back(host);
    name.waiters.push_back(waiter);
    self->start_lookups();
    asio::error_code ignored;
    if (!waiter->answer) {
      co_await waiter->timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    if (waiter->answer) co_return std::move(*waiter->answer);
    // A name with waiters is not forgotten.
    std::erase(name.waiters, waiter);
    if (name.waiters.empty()) std::erase(self->queue_, host);
    co_return Error{"its name was not resolved in time"};
  }

  std::optional<asio::ip::address> last_good(const std::string& host) {
    const auto found = names_.find(host);
    if (found == names_.end() || !found->second.good) return std::nullopt;
    Name& name = found->second;
    const std::optional<asio::ip::address> good = name.good;
    const bool old = ResolverClock::now() - name.asked >= options_.answer_kept;
    if (old && !name.running && name.waiters.empty() && may_start(Standing::failed)) {
      start(host, name, Standing::failed);
    }
    return good;
  }

  void connected(const std::string& host, const asio::ip::address& address) {
    if (const auto found = names_.find(host); found != names_.end()) found->second.good = address;
  }

 private:
  struct Waiter {
    Waiter(const asio::any_io_executor& executor, ResolverClock::time_point deadline)
        : timer(executor, deadline) {}
    asio::steady_timer timer;
    std::optional<Result<HostAddresses>> answer;
  };
  struct Name {
    std::optional<asio::ip::address> good;  // the last connection's
    std::optional<Error> failure;           // of the last lookup
    bool answered = false;                  // the last lookup succeeded
    ResolverClock::time_point asked{};      // when the last lookup ended
    std::optional<Standing> running;        // of the lookup under way
    std::vector<std::shared_ptr<Waiter>> waiters;
  };

  static Standing standing_of(const Name& name) {
    return name.answered ? Standing::proven : name.failure ? Standing::failed : Standing::fresh;
  }
  std::size_t& running(Standing standing) { return running_[static_cast<std::size_t>(standing)]; }

  Name& remember(const std::string& host) {
    if (!names_.contains(host) && names_.size() >= kNamesMax) {
      auto oldest = names_.end();
      for (auto it = names_.begin(); it != names_.end(); ++it) {
        const bool idle = !it->second.running && it->second.waiters.empty();
        if (idle && (oldest == names_.end() || it->second.asked < oldest->second.asked)) oldest = it;
      }
      if (oldest != names_.end()) names_.erase(oldest);
    }
    return names_[host];
  }

  bool may_start(Standing standing) {
    const std::size_t unproven = running(Standing::fresh) + running(Standing::failed);
    if (unproven + running(Standing::proven) >= kThreads) return false;
    if (standing != Standing::proven && unproven >= kUnprovenMax) return false;
    return standing != Standing::failed || running(Standing::failed) < kFailedMax;
  }

  void start_lookups() {
    for (const Standing standing : {Standing::proven, Standing::fresh, Standing::failed}) {
      while (may_start(standing)) {
        const auto next = std::ranges::find_if(
            queue_, [&](const std::string& host) { return standing_of(names_.at(host)) == standing; });
        if (next == queue_.end()) break;
        const std::string host = *next;
        queue_.erase(next);
        start(host, names_.at(host), standing);
      }
    }
  }

  void start(const std::string& host, Name& name, Standing standing) {
    name.running = standing;
    ++running(standing);
    auto work = [host, look_up = options_.look_up, mailbox = mailbox_, weak = weak_from_this()] {
      auto answer = look_up(host);
      mailbox->post([weak, host, answer = std::move(answer)]() mutable {
        if (const auto self = weak.lock()) self->finish(host, std::move(answer));
      });
    };
    try {
      std::thread(std::move(work)).detach();
    } catch (const std::system_error&) {
      mailbox_->post([weak = weak_from_this(), host] {
        if (const auto self = weak.lock())
          self->finish(host, Error{"no thread can be started to look it up"});
      });
    }
  }

  void finish(const std::string& host, Result<HostAddresses> answer) {
    Name& name = names_.at(host);
    --running(*std::exchange(name.running, std::nullopt));
    name.asked = ResolverClock::now();
    if (answer.ok() && answer->empty()) answer = Error{"its name has no address"};
    name.answered = answer.ok();
    name.failure.reset();
    if (!answer.ok()) name.failure = answer.error();
    if (answer.ok() && name.good && std::ranges::count(*answer, *name.good) == 0) name.good.reset();
    for (const auto& waiter : std::exchange(name.waiters, {})) {
      waiter->answer = answer;
      waiter->timer.cancel();
    }
    start_lookups();
  }

  asio::any_io_executor executor_;
  ResolverOptions options_;
  std::shared_ptr<Mailbox> mailbox_;
  std::map<std::string, Name> names_;
  std::deque<std::string> queue_;         // names with waiters, to be looked up
  std::array<std::size_t, 3> running_{};  // by Standing at the start
};

Resolver::Resolver(asio::any_io_executor executor, ResolverOptions options)
    : state_(std::make_shared<State>(std::move(executor), std::move(options))) {}

Resolver::~Resolver() { state_->close(); }

asio::awaitable<Result<HostAddresses>> Resolver::resolve(std::string host,
                                                         ResolverClock::time_point deadline) {
  return State::resolve(state_, std::move(host), deadline);
}
std::optional<asio::ip::address> Resolver::last_good(const std::string& host) {
  return state_->last_good(host);
}
void Resolver::connected(const std::string& host, const asio::ip::address& address) {
  state_->connected(host, address);
}

}  // namespace starling::transport
