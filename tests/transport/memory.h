// TCP's counterpart inside one process, for tests: the same contract, no sockets, and links that a test can
// cut. Transports that share a MemoryNetwork reach each other; an Address is only a name here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include "transport/coroutines.h"
#include "transport/transport.h"

namespace starling::transport {

class MemoryLink;
class MemoryListener;

class MemoryNetwork {
 public:
  MemoryNetwork() = default;
  MemoryNetwork(const MemoryNetwork&) = delete;
  MemoryNetwork& operator=(const MemoryNetwork&) = delete;

  // Breaks every link that was dialed to `listener`, like a pulled cable, but noticed at once.
  void cut(const Address& listener);
  // The next link dialed to `listener` breaks after this many bytes in either direction.
  void cut_next_after(const Address& listener, std::size_t bytes);
  // Drops everything that is written on the links dialed to `listener` so far, including their ends, as if a
  // host had vanished.
  void swallow(const Address& listener);
  // Dials to `listener` hang until their timeout.
  void swallow_dials(const Address& listener, bool swallow);

 private:
  friend class MemoryTransport;
  friend class MemoryListener;
  struct Place {
    MemoryListener* listener = nullptr;  // null: no listener
    std::vector<std::weak_ptr<MemoryLink>> links;
    std::size_t cut_after = SIZE_MAX;
    bool swallows = false;
  };
  std::map<Address, Place> places_;
  std::uint16_t next_port_ = 40000;
};

// One direction of a link: a bounded ring of bytes.
struct MemoryPipe {
  static constexpr std::size_t kCapacity = std::size_t{256} << 10;

  explicit MemoryPipe(const asio::any_io_executor& executor) : changed(executor), ring(kCapacity) {}

  std::size_t put(Bytes bytes) {
    const std::size_t n = std::min(bytes.size(), kCapacity - size);
    for (std::size_t done = 0; done < n;) {
      const std::size_t at = (begin + size) % kCapacity;
      const std::size_t piece = std::min(n - done, kCapacity - at);
      std::memcpy(ring.data() + at, bytes.data() + done, piece);
      size += piece;
      done += piece;
    }
    received = received || n > 0;
    return n;
  }

  std::size_t take(MutableBytes into) {
    const std::size_t n = std::min(into.size(), size);
    for (std::size_t done = 0; done < n;) {
      const std::size_t piece = std::min(n - done, kCapacity - begin);
      std::memcpy(into.data() + done, ring.data() + begin, piece);
      begin = (begin + piece) % kCapacity;
      size -= piece;
      done += piece;
    }
    return n;
  }

  // Reader and writer are never blocked on the same pipe at once, so one signal serves both.
  Signal changed;
  std::vector<std::byte> ring;
  std::size_t begin = 0;
  std::size_t size = 0;
  std::size_t allowance = SIZE_MAX;  // bytes until the link breaks
  bool ended = false;                // nothing more will be written
  bool received = false;             // something was written
  bool broken = false;
  bool swallows = false;  // everything written is dropped
};

inline LinkError cut_error() { return {{"the connection broke: it was cut"}, LinkErrorKind::broken}; }

class MemoryLink final : public Link {
 public:
  MemoryLink(asio::any_io_executor executor, Address remote, std::shared_ptr<Traffic> total,
             std::shared_ptr<const LinkShape> shape, std::shared_ptr<MemoryPipe> in,
             std::shared_ptr<MemoryPipe> out)
      : Link(std::move(executor), std::move(remote), std::move(total), std::move(shape)),
        in_(std::move(in)),
        out_(std::move(out)) {}
  ~MemoryLink() override { hang_up(); }

  void cut() {
    for (MemoryPipe* pipe : {in_.get(), out_.get()}) {
      pipe->broken = true;
      pipe->changed.raise();
    }
  }

  void swallow() {
    for (MemoryPipe* pipe : {in_.get(), out_.get()}) {
      pipe->swallows = true;
      pipe->changed.raise();
    }
  }

 protected:
  asio::awaitable<LinkResult<std::size_t>> receive(MutableBytes wanted, MutableBytes spare) override {
    const std::shared_ptr<MemoryPipe> pipe = in_;
    std::size_t n = 0;
    for (;;) {
      if (pipe->broken) co_return cut_error();
      n += pipe->take(wanted.subspan(n));
      if (n == wanted.size()) n += pipe->take(spare);
      pipe->changed.raise();
      if (n >= wanted.size() || pipe->ended) co_return n;
      co_await pipe->changed.wait();
    }
  }

  asio::awaitable<LinkStatus> transmit(Bytes head, Bytes body) override {
    const std::shared_ptr<MemoryPipe> pipe = out_;
    for (Bytes rest : {head, body}) {
      while (!rest.empty()) {
        if (pipe->swallows) co_return Done{};
        if (pipe->broken || pipe->ended) co_return cut_error();
        const std::size_t n = pipe->put(rest.first(std::min(rest.size(), pipe->allowance)));
        pipe->allowance -= n;
        rest = rest.subspan(n);
        pipe->changed.raise();
        if (pipe->allowance == 0) {
          cut();
          co_return cut_error();
        }
        if (!rest.empty()) co_await pipe->changed.wait();
      }
    }
    co_return Done{};
  }

  bool remote_ended() const override { return in_->ended || in_->broken; }
  bool has_received() const override { return in_->received; }

  void shut_write() override {
    if (out_->swallows) return;
    out_->ended = true;
    out_->changed.raise();
  }
  void shut() override { hang_up(); }

 private:
  // Written data can still be read at the other end; later writes fail.
  void hang_up() {
    shut_write();
    in_->ended = true;
    in_->changed.raise();
  }

  std::shared_ptr<MemoryPipe> in_, out_;
};

class MemoryListener final : public Listener {
 public:
  MemoryListener(MemoryNetwork& network, Address address, Transport::Accept accept)
      : network_(network),
        address_(std::move(address)),
        accept_(std::make_shared<Transport::Accept>(std::move(accept))) {
    network_.places_[address_].listener = this;
  }
  ~MemoryListener() override { close(); }

  const Address& address() const override { return address_; }
  void close() override {
    if (std::exchange(closed_, true)) return;
    network_.places_[address_].listener = nullptr;
    *accept_ = nullptr;
  }

  // Returns the dialer's end. The listener's owner receives the other end from the executor.
  LinkPtr connect(const asio::any_io_executor& executor, const std::shared_ptr<Traffic>& dialler_total,
                  const std::shared_ptr<const LinkShape>& dialler_shape) {
    const auto there = std::make_shared<MemoryPipe>(executor);
    const auto back = std::make_shared<MemoryPipe>(executor);
    MemoryNetwork::Place& place = network_.places_[address_];
    there->allowance = back->allowance = std::exchange(place.cut_after, SIZE_MAX);
    const Address dialler{"127.0.0.1", network_.next_port_++};
    auto near = std::make_shared<MemoryLink>(executor, address_, dialler_total, dialler_shape, back, there);
    auto far = std::make_shared<MemoryLink>(executor, dialler, total, shape, there, back);
    std::erase_if(place.links, [](const auto& link) { return link.expired(); });
    place.links.push_back(near);
    asio::post(executor, [accept = accept_, far = std::move(far)] {
      if (*accept) (*accept)(far);
    });
    return near;
  }

  std::shared_ptr<Traffic> total;
  std::shared_ptr<const LinkShape> shape;

 private:
  MemoryNetwork& network_;
  Address address_;
  std::shared_ptr<Transport::Accept> accept_;
  bool closed_ = false;
};

class MemoryTransport final : public Transport {
 public:
  // REQUIRES: the network outlives the transport and its listeners.
  MemoryTransport(asio::any_io_executor executor, MemoryNetwork& network)
      : executor_(std::move(executor)), network_(network) {}

  Result<std::unique_ptr<Listener>> listen(const Address& at, Accept accept) override;
  asio::awaitable<LinkResult<LinkPtr>> dial(Address to, Duration at_most) override;
  LinkResult<LinkPtr> link_over(LinkPtr, TlsRole) override {
    return LinkError{{"links in memory carry no circuits"}, LinkErrorKind::broken};
  }
  const Traffic& traffic() const override { return *traffic_; }

 private:
  asio::any_io_executor executor_;
  MemoryNetwork& network_;
  std::shared_ptr<Traffic> traffic_ = std::make_shared<Traffic>();
};

inline void MemoryNetwork::cut(const Address& listener) {
  for (const auto& weak : std::exchange(places_[listener].links, {})) {
    if (const auto link = weak.lock()) link->cut();
  }
}

inline void MemoryNetwork::swallow(const Address& listener) {
  for (const auto& weak : std::exchange(places_[listener].links, {})) {
    if (const auto link = weak.lock()) link->swallow();
  }
}

inline void MemoryNetwork::cut_next_after(const Address& listener, std::size_t bytes) {
  places_[listener].cut_after = bytes;
}

inline void MemoryNetwork::swallow_dials(const Address& listener, bool swallow) {
  places_[listener].swallows = swallow;
}

inline Result<std::unique_ptr<Listener>> MemoryTransport::listen(const Address& at, Accept accept) {
  Address address = at;
  if (address.port == 0) address.port = network_.next_port_++;
  if (network_.places_[address].listener != nullptr) {
    return Error{"cannot listen at " + to_string(at) +
                 ": the port is in use by another program; choose another, or 0 for any"};
  }
  auto listener = std::make_unique<MemoryListener>(network_, address, std::move(accept));
  listener->total = traffic_;
  listener->shape = shapes().to_anyone();
  return std::unique_ptr<Listener>(std::move(listener));
}

inline asio::awaitable<LinkResult<LinkPtr>> MemoryTransport::dial(Address to, Duration at_most) {
  // The result is never delivered from inside the call, as with a socket.
  asio::steady_timer timer(executor_);
  const bool swallowed = network_.places_[to].swallows;
  timer.expires_after(swallowed ? at_most : Duration{0});
  asio::error_code ignored;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  if (swallowed) {
    co_return LinkError{{"cannot reach " + to_string(to) + ": no answer in time"},
                        LinkErrorKind::unreachable};
  }
  MemoryListener* listener = network_.places_[to].listener;
  if (listener == nullptr) {
    co_return LinkError{{"cannot reach " + to_string(to) + ": Connection refused"},
                        LinkErrorKind::unreachable};
  }
  co_return listener->connect(executor_, traffic_, shapes().to_anyone());
}

}  // namespace starling::transport
