#include "node/discovery/avahi.h"

#include <avahi-client/client.h>
#include <avahi-client/lookup.h>
#include <avahi-client/publish.h>
#include <avahi-common/alternative.h>
#include <avahi-common/error.h>
#include <avahi-common/malloc.h>
#include <avahi-common/simple-watch.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include <asio/post.hpp>

#include "node/discovery/announcement.h"

namespace starling::node {
namespace {

constexpr const char* kServiceType = "_starling._tcp";
constexpr std::size_t kResolvingMax = 16;    // at a time
constexpr std::size_t kWaitingMax = 1024;    // services to resolve
constexpr std::size_t kServiceNameMax = 63;  // bytes (RFC 6763, section 4.1.1)
constexpr int kRenamesMax = 50;
constexpr int kReconnectPauseMs = 1000;

Error no_daemon(int error) {
  return Error{std::string("no Avahi daemon answers on this machine (") + ::avahi_strerror(error) +
               "); install and start avahi-daemon"};
}

// A service, as the browser reports it: once for each interface and protocol. The names are strangers'.
struct FoundService {
  AvahiIfIndex interface = AVAHI_IF_UNSPEC;
  AvahiProtocol protocol = AVAHI_PROTO_UNSPEC;
  std::string name, type, domain;

  friend bool operator==(const FoundService&, const FoundService&) = default;
  std::string key() const {
    return std::to_string(interface) + " " + std::to_string(protocol) + " " + name + "." + type + "." +
           domain;
  }
};

std::vector<std::string> strings_of(AvahiStringList* list) {
  std::vector<std::string> strings;  // at most one too many, and one byte too many, which is rejected later
  for (; list != nullptr && strings.size() <= kTxtStringsMax; list = ::avahi_string_list_get_next(list)) {
    const std::size_t bytes = std::min(::avahi_string_list_get_size(list), kTxtBytesMax + 1);
    strings.emplace_back(reinterpret_cast<const char*>(::avahi_string_list_get_text(list)), bytes);
  }
  return strings;
}

AvahiProtocol protocol_of(LocalService::Family family) {
  switch (family) {
    case LocalService::Family::v4:
      return AVAHI_PROTO_INET;
    case LocalService::Family::v6:
      return AVAHI_PROTO_INET6;
    case LocalService::Family::any:
      break;
  }
  return AVAHI_PROTO_UNSPEC;
}

using AvahiPoller = std::unique_ptr<AvahiSimplePoll, decltype(&::avahi_simple_poll_free)>;

}  // namespace

// Callbacks note what happened, or pass it on; the thread acts on it between two of them. Browser, resolvers
// and group belong to the client, which frees them.
class Avahi::Own {
 public:
  Own(asio::any_io_executor executor, AvahiEvents events)
      : executor_(std::move(executor)),
        events_(std::make_shared<const AvahiEvents>(std::move(events))),
        poll_(::avahi_simple_poll_new(), &::avahi_simple_poll_free),
        wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        thread_([this] { run(); }) {}
  ~Own() {
    over_ = true;
    wake();
    thread_.join();
    if (wake_fd_ >= 0) ::close(wake_fd_);
  }
  Own(const Own&) = delete;
  Own& operator=(const Own&) = delete;

  void order(std::optional<LocalService> service) {
    {
      const std::lock_guard lock(mutex_);
      order_ = std::move(service);
      ordered_ = true;
    }
    wake();
  }

 private:
  // Unlike avahi_simple_poll_wakeup(), it also counts just before the thread waits.
  void wake() const { ::eventfd_write(wake_fd_, 1); }

  template <class... Values>
  void post(std::function<void(Values...)> AvahiEvents::*event, std::type_identity_t<Values>... values) {
    if (over_) return;
    asio::post(executor_, [events = events_, event, ... values = std::move(values)]() mutable {
      ((*events).*event)(std::move(values)...);
    });
  }

  void run();
  int connect(AvahiClientFlags flags);
  void disconnect();
  void advance();
  void reconnect();
  void take_order();
  void browse();
  void publish();
  int add_service();
  bool rename();
  void report(int error);
  void resolve();

  // Called by the library, on the thread.
  static void on_wake(AvahiWatch*, int fd, AvahiWatchEvent, void*) {
    eventfd_t count = 0;
    ::eventfd_read(fd, &count);
  }
  static void on_client(AvahiClient*, AvahiClientState state, void* data);
  static void on_service(AvahiServiceBrowser*, AvahiIfIndex interface, AvahiProtocol protocol,
                         AvahiBrowserEvent event, const char* name, const char* type, const char* domain,
                         AvahiLookupResultFlags, void* data);
  static void on_resolved(AvahiServiceResolver* resolver, AvahiIfIndex, AvahiProtocol,
                          AvahiResolverEvent event, const char*, const char*, const char*, const char*,
                          const AvahiAddress* address, std::uint16_t port, AvahiStringList* txt,
                          AvahiLookupResultFlags, void* data);
  static void on_group(AvahiEntryGroup*, AvahiEntryGroupState state, void* data);

  asio::any_io_executor executor_;
  std::shared_ptr<const AvahiEvents> events_;
  AvahiPoller poll_;
  int wake_fd_;
  std::atomic<bool> over_{false};
  std::mutex mutex_;
  std::optional<LocalService> order_;  // with ordered_, guarded by the mutex
  bool ordered_ = false;

  // The thread's own.
  AvahiClient* client_ = nullptr;
  AvahiServiceBrowser* browser_ = nullptr;
  AvahiEntryGroup* group_ = nullptr;
  std::deque<FoundService> waiting_;
  std::map<AvahiServiceResolver*, FoundService> resolving_;
  std::optional<LocalService> service_;  // to be announced
  std::string name_;                     // that it has now
  int renames_ = 0;
  bool opened_ = false;   // the daemon has answered once
  bool broken_ = false;   // the connection is to be made again
  bool publish_ = false;  // the service is to be announced again

  std::thread thread_;  // last: it uses the others
};

// ---- the connection to the daemon ----

void Avahi::Own::run() {
  if (!poll_ || wake_fd_ < 0) return post(&AvahiEvents::opened, no_daemon(AVAHI_ERR_NO_MEMORY));
  const AvahiPoll* const api = ::avahi_simple_poll_get(poll_.get());
  api->watch_new(api, wake_fd_, AVAHI_WATCH_IN, on_wake, nullptr);
  int error = connect(AvahiClientFlags{});
  if (error == AVAHI_OK) {
    browse();
    if (broken_) error = ::avahi_client_errno(client_);
  }
  if (error == AVAHI_OK) {
    while (!over_) {
      advance();
      const int pause_ms = broken_ ? kReconnectPauseMs : -1;
      if (::avahi_simple_poll_iterate(poll_.get(), pause_ms) != 0) break;
    }
  } else {
    post(&AvahiEvents::opened, no_daemon(error));
  }
  disconnect();
}

int Avahi::Own::connect(AvahiClientFlags flags) {
  int error = AVAHI_OK;
  client_ = ::avahi_client_new(::avahi_simple_poll_get(poll_.get()), flags, on_client, this, &error);
  return client_ == nullptr ? error : AVAHI_OK;
}

void Avahi::Own::disconnect() {
  if (client_ != nullptr) ::avahi_client_free(client_);
  client_ = nullptr;
  browser_ = nullptr;
  group_ = nullptr;
  waiting_.clear();
  resolving_.clear();
}

void Avahi::Own::on_client(AvahiClient*, AvahiClientState state, void* data) {
  Own& self = *static_cast<Own*>(data);
  if (state == AVAHI_CLIENT_FAILURE) self.broken_ = true;
  // The name of the host was settled, at first or again, and with it the daemon lost all services.
  if (state == AVAHI_CLIENT_S_RUNNING) self.publish_ = true;
}

void Avahi::Own::reconnect() {
  if (browser_ != nullptr) post(&AvahiEvents::changed, false);
  disconnect();
  broken_ = connect(AVAHI_CLIENT_NO_FAIL) != AVAHI_OK;  // D-Bus itself may be away
}

void Avahi::Own::advance() {
  take_order();
  if (broken_) reconnect();
  if (client_ == nullptr) return;
  const AvahiClientState state = ::avahi_client_get_state(client_);
  if (state == AVAHI_CLIENT_CONNECTING || state == AVAHI_CLIENT_FAILURE) return;
  if (browser_ == nullptr) browse();
  if (state == AVAHI_CLIENT_S_RUNNING && publish_) publish();
  resolve();
}

void Avahi::Own::take_order() {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(ordered_, false)) return;
  service_ = std::move(order_);
  name_ = service_ ? service_->name.substr(0, kServiceNameMax) : "";
  renames_ = 0;
  publish_ = true;
}

// ---- announcing ----

void Avahi::Own::publish() {
  publish_ = false;
  if (group_ != nullptr) ::avahi_entry_group_reset(group_);
  if (!service_) return;
  if (group_ == nullptr) group_ = ::avahi_entry_group_new(client_, on_group, this);
  if (group_ == nullptr) return report(::avahi_client_errno(client_));
  int error = add_service();
  while (error == AVAHI_ERR_COLLISION && rename()) error = add_service();
  if (error == AVAHI_OK) error = ::avahi_entry_group_commit(group_);
  if (error != AVAHI_OK) report(error);
}

int Avahi::Own::add_service() {
  AvahiStringList* txt = nullptr;
  for (const std::string& string : service_->txt) txt = ::avahi_string_list_add(txt, string.c_str());
  const int error = ::avahi_entry_group_add_service_strlst(
      group_, AVAHI_IF_UNSPEC, protocol_of(service_->family), AvahiPublishFlags{}, name_.c_str(),
      kServiceType, nullptr, nullptr, service_->port, txt);
  ::avahi_string_list_free(txt);
  return error;
}

// "north" becomes "north #2".
bool Avahi::Own::rename() {
  if (++renames_ > kRenamesMax) return false;
  const std::unique_ptr<char, decltype(&::avahi_free)> other(::avahi_alternative_service_name(name_.c_str()),
                                                             &::avahi_free);
  if (other) name_ = other.get();
  return other != nullptr;
}

void Avahi::Own::on_group(AvahiEntryGroup*, AvahiEntryGroupState state, void* data) {
  Own& self = *static_cast<Own*>(data);
  if (state == AVAHI_ENTRY_GROUP_COLLISION) {
    self.publish_ = self.rename();
    if (!self.publish_) self.report(AVAHI_ERR_COLLISION);
  } else if (state == AVAHI_ENTRY_GROUP_FAILURE) {
    self.report(::avahi_client_errno(self.client_));
  }
}

void Avahi::Own::report(int error) {
  if (error == AVAHI_ERR_DISCONNECTED) return;  // on_client() is told, too
  post(&AvahiEvents::unannounced, ::avahi_strerror(error));
}

// ---- finding ----

void Avahi::Own::browse() {
  browser_ = ::avahi_service_browser_new(client_, AVAHI_IF_UNSPEC, AVAHI_PROTO_UNSPEC, kServiceType, nullptr,
                                         AVAHI_LOOKUP_USE_MULTICAST, on_service, this);
  if (browser_ == nullptr) {
    broken_ = true;
  } else if (std::exchange(opened_, true)) {
    post(&AvahiEvents::changed, true);
  } else {
    post(&AvahiEvents::opened, Done{});
  }
}

void Avahi::Own::on_service(AvahiServiceBrowser*, AvahiIfIndex interface, AvahiProtocol protocol,
                            AvahiBrowserEvent event, const char* name, const char* type, const char* domain,
                            AvahiLookupResultFlags, void* data) {
  Own& self = *static_cast<Own*>(data);
  if (event == AVAHI_BROWSER_FAILURE) self.broken_ = true;
  if (event != AVAHI_BROWSER_NEW && event != AVAHI_BROWSER_REMOVE) return;
  const FoundService service{interface, protocol, name, type, domain};
  if (event == AVAHI_BROWSER_NEW) {
    if (self.waiting_.size() < kWaitingMax) self.waiting_.push_back(service);
    return;
  }
  std::erase(self.waiting_, service);
  const auto resolving =
      std::ranges::find(self.resolving_, service, [](const auto& it) { return it.second; });
  if (resolving != self.resolving_.end()) {
    ::avahi_service_resolver_free(resolving->first);
    self.resolving_.erase(resolving);
  }
  self.post(&AvahiEvents::lost, service.key());
}

void Avahi::Own::resolve() {
  while (!waiting_.empty() && resolving_.size() < kResolvingMax) {
    const FoundService service = std::move(waiting_.front());
    waiting_.pop_front();
    AvahiServiceResolver* const resolver = ::avahi_service_resolver_new(
        client_, service.interface, service.protocol, service.name.c_str(), service.type.c_str(),
        service.domain.c_str(), service.protocol, AVAHI_LOOKUP_USE_MULTICAST, on_resolved, this);
    if (resolver != nullptr) resolving_.emplace(resolver, service);
  }
}

void Avahi::Own::on_resolved(AvahiServiceResolver* resolver, AvahiIfIndex, AvahiProtocol,
                             AvahiResolverEvent event, const char*, const char*, const char*, const char*,
                             const AvahiAddress* address, std::uint16_t port, AvahiStringList* txt,
                             AvahiLookupResultFlags, void* data) {
  Own& self = *static_cast<Own*>(data);
  const auto resolving = self.resolving_.find(resolver);
  if (resolving == self.resolving_.end()) return;
  if (event == AVAHI_RESOLVER_FOUND) {
    char host[AVAHI_ADDRESS_STR_MAX] = {};
    ::avahi_address_snprint(host, sizeof host, address);
    self.post(&AvahiEvents::seen, Sighting{resolving->second.key(), {host, port}, strings_of(txt)});
  }
  self.resolving_.erase(resolving);
  ::avahi_service_resolver_free(resolver);
}

// ---- the public class ----

Avahi::Avahi(asio::any_io_executor executor, AvahiEvents events)
    : own_(std::make_unique<Own>(std::move(executor), std::move(events))) {}
Avahi::~Avahi() = default;
void Avahi::announce(LocalService service) { own_->order(std::move(service)); }
void Avahi::withdraw() { own_->order(std::nullopt); }

Status find_avahi() {
  const AvahiPoller poll(::avahi_simple_poll_new(), &::avahi_simple_poll_free);
  if (!poll) return no_daemon(AVAHI_ERR_NO_MEMORY);
  int error = AVAHI_OK;
  AvahiClient* const client =
      ::avahi_client_new(::avahi_simple_poll_get(poll.get()), AvahiClientFlags{}, nullptr, nullptr, &error);
  if (client == nullptr) return no_daemon(error);
  ::avahi_client_free(client);
  return Done{};
}

}  // namespace starling::node
