// For the exchanger tests: peers reduced to their data plane (a link table, an arena, an exchanger) in one
// process and on one event loop, over TCP or in memory, and remotes that send what a test writes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/random.h"
#include "models/arena.h"
#include "node/exchange/exchanger.h"
#include "tests/catch.h"
#include "tests/transport/world.h"
#include "training/mixing/make.h"
#include "transport/links/link_table.h"

namespace starling::node::testing {

using transport::LinkPtr;
using transport::testing::Kind;
enum class Loss : std::uint8_t { tolerated, exact };  // of a concurrent atomic_add
using Decision = std::pair<bool, wire::RefusalReason>;

inline constexpr std::uint64_t kFingerprint = 7;
inline constexpr std::size_t kWindow = 3;

// A fixed chunk of one cell and a fixed window.
inline ExchangerOptions steady() {
  ExchangerOptions options;
  options.chunk_cells = 1;
  options.window = kWindow;
  options.copied_floats_min = 1;
  return options;
}

// Transports outlive all work on the loop.
struct World : transport::testing::World {
  explicit World(Kind k) : transport::testing::World(k) {}
  transport::Transport& transport() {
    transports.push_back(make_transport());
    return *transports.back();
  }
  std::vector<std::unique_ptr<transport::Transport>> transports;
};

inline std::vector<float> random_floats(std::size_t n, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(random.uniform(-1, 1));
  return values;
}

// The reports of a peer's exchanger.
struct Reports {
  std::vector<gossip::ExchangeEnded> ended;
  int offered = 0, accepted = 0, answers_ended = 0, answers_completed = 0, answers_poisoned = 0;
  int diverged = 0;
  std::vector<std::uint64_t> rounds_offered, advanced;
  int states_arrived = 0, states_unusable = 0;
  std::vector<std::string> states_lost;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> advances;
};

// One peer. `decide` answers every offer.
class TestPeer : public Reports {
 public:
  TestPeer(World& world, std::uint64_t number, ExchangerOptions options = steady(),
           const Address& at = transport::testing::anywhere()) {
    id = PeerId{number};
    transport::Self self = transport::testing::self(number, at);
    transport::LinkTableEvents link_events;
    link_events.on_bulk = [this](LinkPtr link, wire::Hello remote) {
      exchanger->serve(std::move(link), std::move(remote));
    };
    links = std::make_unique<transport::LinkTable>(world.executor(), world.transport(), self,
                                                   std::move(link_events));
    auto listening = links->listen(at);
    REQUIRE(listening.ok());
    address = *listening;
    self.hello.address = address;
    links->set_hello(self.hello);

    exchanger = std::make_unique<Exchanger>(
        world.executor(), *links,
        [this](const gossip::Event& event) { std::visit([this](const auto& e) { take(e); }, event); },
        options);
  }

  // Splits `floats` values into cells of `cell` floats.
  void attach(std::size_t floats, std::size_t cell, Loss loss = Loss::tolerated,
              std::uint64_t fingerprint = kFingerprint) {
    training::MixOptions mix;
    mix.cell_floats = cell;
    mix.exact = loss == Loss::exact;
    attach(floats, mix, fingerprint);
  }
  void attach(std::size_t floats, const training::MixOptions& mix, std::uint64_t fingerprint = kFingerprint) {
    arena = std::make_unique<models::Arena>(floats);
    mixer = training::make_mixer(*arena, mix);
    exchanger->attach(*arena, fingerprint, *mixer);
  }
  void attach(const std::vector<float>& values, std::size_t cell, std::uint64_t fingerprint = kFingerprint) {
    attach(values.size(), cell, Loss::tolerated, fingerprint);
    arena->write(0, values);
  }

  std::vector<float> values() const {
    std::vector<float> x(arena->size());
    arena->read(0, x);
    return x;
  }
  void begin(const TestPeer& partner) {
    exchanger->begin(++last_exchange, {partner.id, partner.address}, terms);
  }
  const ExchangerCounters& counters() const { return exchanger->counters(); }

  // Ends the peer as if its process ended.
  void die() {
    exchanger->close();
    links->close();
  }

  PeerId id;
  Address address;
  std::unique_ptr<transport::LinkTable> links;
  std::unique_ptr<models::Arena> arena;
  std::unique_ptr<training::Mixer> mixer;
  std::unique_ptr<Exchanger> exchanger;

  std::function<Decision()> decide;
  std::function<void(PeerId from, std::uint64_t exchange)> undecided;  // instead: answer later
  gossip::Terms terms;                                                 // of all its exchanges
  std::function<void()> on_ended, on_advance, on_state_lost;
  std::uint64_t last_exchange = 0;

 private:
  void take(const gossip::ExchangeEnded& event) {
    ended.push_back(event);
    if (on_ended) on_ended();
  }
  void take(const gossip::ExchangeAdvanced& event) { advanced.push_back(event.cells); }
  void take(const gossip::ReplicaDiverged&) { ++diverged; }
  void take(const gossip::ExchangeOffered& offer) {
    ++offered;
    rounds_offered.push_back(offer.round);
    if (undecided) return undecided(offer.from, offer.exchange);
    const auto [accept, reason] = decide ? decide() : Decision{true, {}};
    accepted += accept;
    exchanger->answer({offer.from, offer.exchange, accept, reason, terms});
  }
  void take(const gossip::AnswerEnded& event) {
    ++answers_ended;
    answers_completed += event.outcome == gossip::Outcome::completed;
    answers_poisoned += event.outcome == gossip::Outcome::poisoned;
  }
  void take(const gossip::StateAdvanced& event) {
    advances.push_back({event.chunks, event.total});
    if (on_advance) on_advance();
  }
  void take(const gossip::StateArrived&) { ++states_arrived; }
  void take(const gossip::StateLost& event) {
    states_lost.push_back(event.why);
    states_unusable += event.unusable;
    if (on_state_lost) on_state_lost();
  }
  template <class Other>
  void take(const Other&) {
    FAIL("an exchanger does not report this event");
  }
};

// Makes one exchange and waits for its event.
inline gossip::Outcome exchange(World& world, TestPeer& a, const TestPeer& b) {
  const std::size_t before = a.ended.size();
  a.begin(b);
  REQUIRE(world.until([&] { return a.ended.size() > before; }));
  REQUIRE(a.ended.size() == before + 1);
  REQUIRE(a.ended.back().exchange == a.last_exchange);
  return a.ended.back().outcome;
}

// A remote controlled by the test: it makes a valid handshake, and then sends what the test wants.
class Stranger {
 public:
  Stranger(World& w, std::uint64_t number) : world(w) {
    id = PeerId{number};
    transport::Self self = transport::testing::self(number, transport::testing::anywhere());
    transport::LinkTableEvents events;
    events.on_bulk = [this](LinkPtr arrived, const wire::Hello&) { link = std::move(arrived); };
    links = std::make_unique<transport::LinkTable>(w.executor(), w.transport(), self, std::move(events));
    auto listening = links->listen(transport::testing::anywhere());
    REQUIRE(listening.ok());
    address = *listening;
    self.hello.address = address;
    links->set_hello(self.hello);
  }

  void dial(const TestPeer& peer) {
    auto dialed = world.run(links->dial_bulk({peer.id, peer.address}));
    REQUIRE(dialed.ok());
    link = dialed->link;
  }
  void await_dial() {
    REQUIRE(world.until([&] { return link != nullptr; }));
  }

  bool say(wire::Message message) {
    return world.run(transport::write_message(*link, std::move(message))).ok();
  }
  bool say(wire::ChunkHead head, const std::vector<float>& values) {
    head.floats = static_cast<std::uint32_t>(values.size());
    return world.run(transport::write_chunk(*link, head, std::as_bytes(std::span(values)))).ok();
  }
  bool say_bytes(const std::vector<std::byte>& bytes) { return world.run(link->write(bytes)).ok(); }

  // nullopt if the link has ended.
  std::optional<transport::Frame> hear() {
    auto frame = world.run(link->read());
    if (!frame.ok()) return std::nullopt;
    return *frame;
  }
  template <class T>
  T hear_message() {
    auto message = world.run(transport::read_message(*link));
    REQUIRE(message.ok());
    REQUIRE(std::holds_alternative<T>(*message));
    return std::get<T>(*message);
  }
  // Reads all remaining frames until the remote closes.
  void hear_the_end() {
    while (hear()) {
    }
  }

  wire::ExchangeOffer offer(const TestPeer& peer, std::size_t chunk, std::uint64_t exchange = 1) const {
    return {exchange, kFingerprint, peer.arena->size(), static_cast<std::uint32_t>(chunk), 0};
  }

  World& world;
  PeerId id;
  Address address;
  std::unique_ptr<transport::LinkTable> links;
  LinkPtr link;
};

inline std::vector<float> floats_of(const transport::Frame& frame) {
  std::vector<float> values(frame.body.size() / sizeof(float));
  std::memcpy(values.data(), frame.body.data(), frame.body.size());
  return values;
}

// A transfer without its counterpart shifts the sum of two replicas, element by element, by at most w |a -
// b|. Returns how many chunks were shifted; REQUIREs the bound.
inline std::size_t shifted_chunks(const std::vector<float>& a, const std::vector<float>& b,
                                  const std::vector<float>& a_after, const std::vector<float>& b_after,
                                  std::size_t chunk) {
  constexpr double kRounding = 1e-6;  // for values below 2: a few units in the last place
  std::vector<bool> shifted((a.size() + chunk - 1) / chunk);
  bool bounded = true;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double shift = std::abs(double{a_after[i]} + double{b_after[i]} - double{a[i]} - double{b[i]});
    if (shift > kRounding) shifted[i / chunk] = true;
    if (shift > 0.5 * std::abs(double{a[i]} - double{b[i]}) + kRounding) bounded = false;
  }
  REQUIRE(bounded);
  return static_cast<std::size_t>(std::count(shifted.begin(), shifted.end(), true));
}

}  // namespace starling::node::testing
