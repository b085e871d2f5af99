// TCP's twin inside one process, for tests: same contract, no sockets, and links that can be cut at will.
// Transports that share a MemoryNetwork reach each other; an Address there is only a name.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <asio/any_io_executor.hpp>

#include "transport/transport.h"

namespace starling::transport {

class MemoryLink;
class MemoryListener;

class MemoryNetwork {
 public:
  MemoryNetwork() = default;
  ~MemoryNetwork();
  MemoryNetwork(const MemoryNetwork&) = delete;
  MemoryNetwork& operator=(const MemoryNetwork&) = delete;

  // Breaks every link that was dialled to `listener`, as a pulled cable does, but noticed at once.
  void cut(const Address& listener);
  // The next link dialled to `listener` breaks by itself after so many bytes in either direction.
  void cut_next_after(const Address& listener, std::size_t bytes);
  // Whatever is written on the links dialled to `listener` so far arrives nowhere, their ends included: one
  // of the hosts has vanished without a word.
  void swallow(const Address& listener);
  // Dials to `listener` hang until their time-out.
  void swallow_dials(const Address& listener, bool swallow);

 private:
  friend class MemoryTransport;
  friend class MemoryListener;
  struct Place {
    MemoryListener* listener = nullptr;  // null: nobody listens
    std::vector<std::weak_ptr<MemoryLink>> links;
    std::size_t cut_after = SIZE_MAX;
    bool swallows = false;
  };
  std::map<Address, Place> places_;
  std::uint16_t next_port_ = 40000;
};

class MemoryTransport final : public Transport {
 public:
  // REQUIRES: the network outlives the transport and its listeners.
  MemoryTransport(asio::any_io_executor executor, MemoryNetwork& network);

  Result<std::unique_ptr<Listener>> listen(const Address& at, Accept accept) override;
  asio::awaitable<LinkResult<LinkPtr>> dial(Address to, Duration at_most) override;
  const Traffic& traffic() const override { return *traffic_; }

 private:
  asio::any_io_executor executor_;
  MemoryNetwork& network_;
  std::shared_ptr<Traffic> traffic_ = std::make_shared<Traffic>();
};

}  // namespace starling::transport
