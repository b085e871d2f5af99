// Announces a service on the local network and finds other peers' services, by mDNS and DNS-SD (RFC 6762,
// 6763). The Avahi daemon does both; this is its client. It has a thread of its own, because the calls of the
// client library wait for the daemon. If the daemon goes away, everything is announced again once it is back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <asio/any_io_executor.hpp>

#include "base/result.h"
#include "node/discovery/neighborhood.h"

namespace starling::node {

// A service of type _starling._tcp on this machine.
struct LocalService {
  enum class Family : std::uint8_t { any, v4, v6 };
  std::string name;  // a plain name; another one is chosen if it is taken
  std::uint16_t port = 0;
  Family family = Family::any;  // of the addresses
  std::vector<std::string> txt;

  friend bool operator==(const LocalService&, const LocalService&) = default;
};

// What happens, called on the executor. All functions are set.
struct AvahiEvents {
  std::function<void(Status)> opened;  // once, first: it browses; or no daemon answers, and it ends
  std::function<void(Sighting)> seen;  // a new service, or another address of one
  std::function<void(std::string service)> lost;  // it is gone
  std::function<void(bool answers)> changed;  // the daemon went away, and all services with it; or is back
  std::function<void(std::string problem)> unannounced;  // the daemon refuses to announce the service
};

class Avahi {
 public:
  // REQUIRES: what the events refer to outlives the executor's last work.
  Avahi(asio::any_io_executor executor, AvahiEvents events);
  // Ends the thread. If the daemon hangs, that takes as long as D-Bus waits for it (25 s).
  ~Avahi();
  Avahi(const Avahi&) = delete;
  Avahi& operator=(const Avahi&) = delete;

  // Announces this service from now on, in place of the one before. Both return at once.
  void announce(LocalService service);
  void withdraw();

 private:
  class Own;
  std::unique_ptr<Own> own_;
};

// Whether an Avahi daemon answers on this machine. The Error is one sentence. Blocks like ~Avahi().
Status find_avahi();

}  // namespace starling::node
