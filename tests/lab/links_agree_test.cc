// Virtual links and links shaped in the program agree. Both are compared with the formula, latency + bits /
// bandwidth, and with each other, to the nanosecond. Exchanges are also compared in real time.
#include <algorithm>
#include <map>
#include <vector>

#include "lab/world/network/virtual_network.h"
#include "tests/catch.h"
#include "tests/lab/world_story.h"
#include "tests/node/test_peer.h"
#include "tests/seeds.h"
#include "transport/links/shaped.h"

namespace starling::lab {
namespace {

// Two machines, and the times at which the first one's packets arrive at the second.
struct Net final : NetworkHost {
  explicit Net(const VirtualNetworkOptions& options)
      : conditions(options.latency, options.bandwidth),
        network(options, conditions, Random(1), queue, *this) {}
  Reach reach(std::uint32_t) const override { return Reach::up; }
  Instant awake(std::uint32_t) const override { return queue.now(); }
  void arrived(Connection&, std::uint32_t, std::uint32_t, Packet& packet) override {
    arrivals[packet.exchange] = queue.now();
  }
  void broken(Connection&, std::uint32_t, std::uint32_t, bool) override { FAIL("a connection broke"); }

  void send(Instant at, std::uint64_t number, std::size_t bytes) {
    queue.schedule(at, [this, number, bytes] {
      auto packet = std::make_unique<Packet>();
      packet->exchange = number;
      packet->bytes = bytes;
      network.send(network.bulk(0, 1), 0, std::move(packet));
    });
  }

  EventQueue queue;
  std::map<std::uint64_t, Instant> arrivals;
  NetworkConditions conditions;
  VirtualNetwork network;
};

// When each exchange of a machine began, and the duration of the shortest.
struct Stopwatch final : Watcher {
  void action(std::uint32_t machine, const gossip::Action& action) override {
    if (const auto* begin = std::get_if<gossip::BeginExchange>(&action))
      begun[{machine, begin->exchange}] = world->now();
  }
  void event(std::uint32_t machine, const gossip::Event& event) override {
    const auto* ended = std::get_if<gossip::ExchangeEnded>(&event);
    if (ended == nullptr || ended->outcome != gossip::Outcome::completed) return;
    took.push_back(world->now() - begun.at({machine, ended->exchange}));
  }
  World* world = nullptr;
  std::map<std::pair<std::uint32_t, std::uint64_t>, Instant> begun;
  std::vector<Duration> took;
};

constexpr std::size_t kCells = 10, kCellFloats = 1000, kFloats = kCells * kCellFloats;
constexpr Duration kLatency = 15ms;
constexpr double kBandwidth = 4e6;

// Ten chunks in flight are sent one after the other, and the reply to the last one arrives last.
Duration least_time() {
  const double chunk = 8.0 * (wire::kChunkPrefixBytes + sizeof(float) * kCellFloats) / kBandwidth;
  return 2 * kLatency + from_seconds((kCells + 1) * chunk);
}

}  // namespace

TEST_CASE("a frame arrives at the same nanosecond over a simulated and over a shaped link") {
  for (const std::uint64_t seed : FreshSeeds(200)) {
    INFO(replay_of(seed));
    Random random(seed);
    VirtualNetworkOptions options;
    options.latency = Duration{static_cast<std::int64_t>(random.below(20'000'000))};
    options.bandwidth = random.uniform(1e5, 1e8);
    const LinkChange poor{Duration{static_cast<std::int64_t>(random.below(50'000'000))},
                          random.uniform(1e5, 1e7)};
    const Instant from = at_instant(10s), to = at_instant(20s);
    Net net(options);
    net.conditions.shape({1}, {}, {from, to}, poor);
    transport::LinkPacer pacer;
    std::map<std::uint64_t, Instant> expected;
    // The first packet of a connection waits for its handshake. Then come bursts, each complete before the
    // next.
    net.send(Instant{}, 0, 0);
    std::uint64_t number = 0;
    for (const Duration at : {2s, 5s, 12s, 15s, 22s, 25s}) {
      const bool is_poor = at > 10s && at < 20s;
      const transport::LinkShape shape{is_poor ? *poor.latency : options.latency,
                                       is_poor ? *poor.bandwidth : options.bandwidth, 0};
      Duration left = at;
      for (std::uint64_t i = random.below(8); i > 0; --i) {
        const std::size_t bytes = random.below(2000);
        net.send(at_instant(at), ++number, bytes);
        const Duration arrives = pacer.arrival(shape, at, bytes);
        expected[number] = at_instant(arrives);
        left += from_seconds(8 * static_cast<double>(bytes) / shape.bandwidth);  // the formula
        REQUIRE(arrives == left + shape.latency);
      }
    }
    while (!net.queue.empty()) net.queue.run_one();
    net.arrivals.erase(0);
    REQUIRE(net.arrivals == expected);
  }
}

TEST_CASE("an exchange takes as long in the program as in the simulator: as latency and bandwidth predict") {
  Pace pace;
  pace.kind = Pace::Kind::time;
  pace.time = 1s;
  Scene scene = scene_of(1, 2, rules_of("complete", pace, {{}, 1000, {}}), 10ms);
  scene.options.arena_floats = kFloats;
  scene.options.mix.cell_floats = kCellFloats;
  scene.options.window = kCells;
  scene.options.incidents = {
      PoorLinks{{1}, Instant{}, kNever, {.latency = kLatency, .bandwidth = kBandwidth}}};
  Stopwatch watch;
  scene.options.watcher = &watch;
  Watched watched(scene);
  watch.world = &watched.world;
  watched.run();
  REQUIRE(watch.took.size() >= 5);
  const double simulated = to_seconds(*std::min_element(watch.took.begin(), watch.took.end()));
  const double formula = to_seconds(least_time());
  CHECK(simulated >= formula);
  CHECK(simulated < 1.02 * formula);  // the offer is sent first

  using namespace node::testing;
  for (const auto kind : {Kind::memory, Kind::tcp}) {
    node::testing::World world(kind);
    node::ExchangerOptions options = steady();
    options.window = kCells;
    TestPeer a(world, 1, options), b(world, 2, options);
    a.attach(kFloats, kCellFloats);
    b.attach(kFloats, kCellFloats);
    REQUIRE(exchange(world, a, b) == gossip::Outcome::completed);  // over a link that is not shaped
    const transport::LinkShape shape{kLatency, kBandwidth, 0};
    world.transports[0]->shapes().set_to(b.address, shape);
    world.transports[1]->shapes().set_to(a.address, shape);
    const auto timed = [&] {
      const auto begun = std::chrono::steady_clock::now();
      REQUIRE(exchange(world, a, b) == gossip::Outcome::completed);
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    };
    CHECK(eventually([&] {
      const double seconds = timed();
      REQUIRE(seconds >= formula);
      return seconds < 2 * formula;  // on an idle machine 1.1
    }));
    world.transports[0]->shapes().set_to(b.address, {});
    world.transports[1]->shapes().set_to(a.address, {});
    CHECK(eventually([&] { return timed() < formula; }));
  }
}

}  // namespace starling::lab
