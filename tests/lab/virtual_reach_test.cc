// Machines that others cannot dial, that move, or that cannot look up names: what the virtual network does,
// and what peers make of it.
#include "lab/world/network/virtual_reach.h"

#include <map>
#include <utility>

#include "tests/catch.h"
#include "tests/lab/small_network.h"
#include "tests/lab/world_story.h"

namespace starling::lab {

TEST_CASE("a dial to a machine behind a router is swallowed; one that it makes stands in both directions") {
  SmallNetwork net;
  net.conditions.hide(1);
  Connection& c = net.network.control(0, 1);
  net.send(c, 0, 1);
  net.run_until(at(6s));
  REQUIRE(net.arrivals.empty());
  REQUIRE(net.breaks.size() == 1);
  CHECK(net.breaks[0].end == 0);
  CHECK(net.breaks[0].at == at(5s));
  CHECK_FALSE(net.network.dial_time(0, 1).has_value());
  CHECK(net.network.dial_time(1, 0) == 4ms);

  net.send(c, 1, 2);
  net.run_until(at(7s));
  net.send(c, 0, 3);
  net.run_until(at(8s));
  CHECK(net.numbers(0) == std::vector<std::uint64_t>{2});
  CHECK(net.numbers(1) == std::vector<std::uint64_t>{3});
}

TEST_CASE("what waits for a swallowed dial is sent when the other end opens the connection") {
  SmallNetwork net;
  net.conditions.hide(1);
  Connection& c = net.network.control(0, 1);
  net.send(c, 0, 1);
  net.send(c, 0, 2);
  net.run_until(at(2s));
  net.send(c, 1, 3);
  net.run_until(at(30s));
  CHECK(net.numbers(1) == std::vector<std::uint64_t>{1, 2});
  CHECK(net.numbers(0) == std::vector<std::uint64_t>{3});
  CHECK(net.breaks.empty());
}

TEST_CASE("packets wait for the called end, which opens the connection with the number of the call") {
  SmallNetwork net;
  Connection& c = net.network.bulk(0, 1);
  REQUIRE(net.network.await(c, 0, 7));
  net.send(c, 0, 1);
  CHECK_FALSE(net.network.await(c, 0, 8));  // one call is enough
  net.run_until(at(3s));
  CHECK(net.arrivals.empty());
  CHECK_FALSE(net.network.open(c, 8));
  CHECK(net.network.open(c, 7));
  CHECK_FALSE(net.network.open(c, 7));
  net.run_until(at(4s));
  CHECK(net.numbers(1) == std::vector<std::uint64_t>{1});

  Connection& unanswered = net.network.bulk(0, 2);
  REQUIRE(net.network.await(unanswered, 0, 9));
  net.send(unanswered, 0, 2);
  net.run_until(at(20s));
  REQUIRE(net.breaks.size() >= 1);
  CHECK(net.breaks[0].end == 0);
  CHECK(net.breaks[0].at == at(4s + 6s));  // a second more than for a dial
  CHECK_FALSE(net.network.open(unanswered, 9));

  Connection& refused = net.network.bulk(0, 3);
  REQUIRE(net.network.await(refused, 0, 10));
  net.send(refused, 0, 3);
  net.breaks.clear();
  net.network.refuse(refused, 10);
  net.run_until(at(21s));
  CHECK(net.breaks.size() == 1);
}

namespace {

// Machines 0 and 1, and 2 and 3, over the relay 4, which has 1 Mbit/s.
struct Relayed {
  Relayed() {
    for (std::uint32_t i = 0; i < 4; ++i) net.conditions.hide(i);
    net.network.circuits().set_bandwidth(4, 1e6);
  }
  Connection& circuit(std::uint32_t from, std::uint32_t to) {
    Connection& c = net.network.bulk(from, to);
    REQUIRE(net.network.await(c, from, ++calls));
    REQUIRE(net.network.open(c, calls, 4));
    return c;
  }
  SmallNetwork net;
  std::uint64_t calls = 0;
};

}  // namespace

TEST_CASE("a circuit has the latency of two hops, and all circuits share the relay's bandwidth") {
  Relayed it;
  Connection& first = it.circuit(0, 1);
  it.net.send(first, 0, 1, 12'500);  // 0.1 s
  it.net.run_until(at(1s));
  REQUIRE(it.net.arrivals.size() == 1);
  CHECK(it.net.arrivals[0].at == at(102ms));
  CHECK(it.net.network.circuits().over(4).size() == 1);

  Connection& second = it.circuit(2, 3);
  it.net.send(first, 0, 2, 12'500);
  it.net.send(second, 2, 3, 12'500);
  it.net.send(first, 1, 4, 12'500);
  it.net.run_until(at(2s));
  REQUIRE(it.net.arrivals.size() == 4);
  CHECK(it.net.arrivals[3].at == at(1s + 302ms));
  CHECK(it.net.network.circuits().opened() == 2);

  it.net.network.hang_up(first, 0);
  CHECK(it.net.network.circuits().over(4) == std::vector{&second});
  it.net.run_until(at(3s));
  REQUIRE(it.net.breaks.size() == 1);  // only the other end is notified
  CHECK(it.net.breaks[0].end == 1);
}

TEST_CASE("a circuit breaks when the relay goes down, when a hop breaks, and when a hop is cut for long") {
  Relayed it;
  it.circuit(0, 1);
  it.net.network.down(4, VirtualNetwork::Ending::crash);
  it.net.run_until(at(1s));
  CHECK(it.net.breaks.size() == 2);
  CHECK(it.net.network.circuits().over(4).size() == 0);

  it.circuit(0, 1);
  it.net.network.reset(1, 4);
  it.net.run_until(at(2s));
  CHECK(it.net.breaks.size() == 4);
  it.circuit(0, 1);
  it.net.network.reset(2, 4);  // of other machines
  it.net.run_until(at(3s));
  CHECK(it.net.breaks.size() == 4);

  it.net.conditions.cut(4, 1, {at(3s), at(60s)});
  it.net.send(it.net.network.bulk(0, 1), 0, 1);
  it.net.run_until(at(12s));
  CHECK(it.net.breaks.size() == 4);
  it.net.run_until(at(30s));
  CHECK(it.net.breaks.size() == 6);
  CHECK(it.net.arrivals.empty());
}

TEST_CASE("a machine that moves loses its connections, and each end notices it after a write") {
  SmallNetwork net;
  Connection& c = net.network.control(0, 1);
  net.send(c, 0, 1);
  net.send(c, 1, 2);
  net.run_until(at(1s));
  REQUIRE(net.arrivals.size() == 2);
  net.network.move(1);
  net.run_until(at(3s));
  CHECK(net.network.are_linked(0, 1));  // as far as they know
  net.send(c, 0, 3);
  net.run_until(at(4s));
  net.send(c, 1, 4);
  net.run_until(at(13500ms));
  REQUIRE(net.breaks.size() == 1);
  CHECK(net.breaks[0].end == 0);
  CHECK(net.breaks[0].at == at(13s));
  net.run_until(at(14500ms));
  REQUIRE(net.breaks.size() == 2);
  CHECK(net.breaks[1].at == at(14s));
  CHECK(net.arrivals.size() == 2);
  CHECK_FALSE(net.network.are_linked(0, 1));

  net.network.set_opening(c, 0, Opening::lost_dial);  // of the old address
  net.send(c, 0, 5);
  net.run_until(at(16s));
  CHECK(net.arrivals.size() == 2);
  net.send(c, 1, 6);
  net.run_until(at(17s));
  CHECK(net.arrivals.size() == 4);
}

TEST_CASE("the end that misses the connection first dials again, and the other one learns of it") {
  SmallNetwork net;
  Connection& c = net.network.control(0, 1);
  net.send(c, 0, 1);
  net.run_until(at(1s));
  net.network.move(1);
  net.send(c, 1, 2);
  net.run_until(at(12s));
  REQUIRE(net.breaks.size() == 1);
  net.send(c, 1, 3);
  net.run_until(at(13s));
  net.send(c, 0, 4);
  net.run_until(at(30s));
  CHECK(net.numbers(0) == std::vector<std::uint64_t>{3});
  CHECK(net.numbers(1) == std::vector<std::uint64_t>{1, 4});
  CHECK(net.breaks.size() == 1);
}

TEST_CASE("while names cannot be looked up, dials hang and standing connections work") {
  SmallNetwork net;
  net.send(net.network.control(0, 1), 0, 1);
  net.run_until(at(1s));
  net.conditions.block_dials(0, {at(1s), at(4s)});
  net.send(net.network.control(0, 1), 0, 2);
  net.send(net.network.control(0, 2), 0, 3);
  CHECK_FALSE(net.network.dial_time(0, 2).has_value());
  CHECK(net.network.dial_time(2, 0).has_value());
  net.run_until(at(5s));
  CHECK(net.numbers(1) == std::vector<std::uint64_t>{1, 2});
  CHECK(net.numbers(2).empty());
  net.run_until(at(7s));
  REQUIRE(net.breaks.size() == 1);
  CHECK(net.breaks[0].at == at(6s));
  net.send(net.network.control(0, 2), 0, 4);
  net.run_until(at(8s));
  CHECK(net.numbers(2) == std::vector<std::uint64_t>{4});
}

// ---- worlds ----

namespace {

// Counts the exchanged chunks of each pair.
struct Pairs : Watcher {
  void completed(const Mix& mix) override {
    ++chunks[std::minmax(mix.machine, mix.partner)];
    ++begun[{mix.machine, mix.partner}];
  }
  void circuit_opened(std::uint32_t, std::uint32_t, std::uint32_t) override { ++circuits; }
  std::map<std::pair<std::uint32_t, std::uint32_t>, int> chunks, begun;
  int circuits = 0;
};

Scene reach_scene(std::uint32_t machines, std::vector<Incident> incidents) {
  const Pace pace{Pace::Kind::time, 1, 200ms};
  Scene scene = scene_of(1, machines, rules_of("complete", pace, {{}, 100'000, {}}), 50ms);
  scene.options.incidents = std::move(incidents);
  return scene;
}

const wire::Member& own_record(const Watched& it, std::uint32_t machine) {
  return it.world.machine(machine).membership->self();
}

}  // namespace

TEST_CASE("two peers behind routers exchange over a member that relays, and otherwise never") {
  for (const bool relays : {true, false}) {
    INFO(relays);
    std::vector<Incident> incidents{Router{1, true}, Router{2, false}};
    if (relays) incidents.emplace_back(Relaying{0, 10'000'000});
    Scene scene = reach_scene(3, incidents);
    Pairs pairs;
    scene.options.watcher = &pairs;
    Watched it(scene);
    it.run(at_instant(30s));
    CHECK((pairs.chunks[{1, 2}] > 50) == relays);
    CHECK((pairs.chunks[{1, 2}] == 0) != relays);
    CHECK((pairs.circuits > 0) == relays);
    CHECK(pairs.chunks[{0, 1}] > 50);
    CHECK(pairs.chunks[{0, 2}] > 50);
    for (const std::uint32_t i : {1U, 2U}) {
      CHECK_FALSE(own_record(it, i).address);
      CHECK(own_record(it, i).homes == std::vector{it.world.machine(0).id});
    }
    CHECK(own_record(it, 0).address == Address{"p0", 7100});
  }
}

TEST_CASE("a peer that can be dialed calls one that cannot, to begin an exchange") {
  Scene scene = reach_scene(4, {Router{2, true}, Router{3, false}});
  Pairs pairs;
  scene.options.watcher = &pairs;
  Watched it(scene);
  it.run(at_instant(30s));
  for (const std::uint32_t from : {0U, 1U})
    for (const std::uint32_t to : {2U, 3U}) CHECK(pairs.begun[{from, to}] > 10);
  CHECK(pairs.chunks[{2, 3}] == 0);
}

TEST_CASE("a peer that moves finds its new address, and the others learn of it") {
  Watched it(reach_scene(5, {Move{4, at_instant(10s)}}));
  it.run(at_instant(9s));
  CHECK(own_record(it, 4).address == Address{"p4", 7100});
  it.run(at_instant(60s));
  CHECK(own_record(it, 4).address == Address{"p4-1", 7100});
  for (std::uint32_t i = 0; i < 4; ++i) {
    const gossip::Record* const record = it.world.machine(i).membership->find(it.world.machine(4).id);
    REQUIRE(record != nullptr);
    CHECK(record->member.liveness == wire::Liveness::alive);
    CHECK(record->member.address == Address{"p4-1", 7100});
  }
}

TEST_CASE("the only peer that can be dialed finds its address, also if nobody can dial for a while") {
  const TimeRange outage{at_instant(1s), at_instant(20s)};
  Watched it(
      reach_scene(2, {Router{1, true}, Move{0, at_instant(100s)}, NoNames{1, outage.from, outage.to}}));
  it.run(at_instant(15s));
  CHECK(own_record(it, 0).address == Address{});
  it.run(at_instant(40s));
  CHECK(own_record(it, 0).address == Address{"p0", 7100});
  for (const std::uint32_t i : {0U, 1U})
    for (const gossip::Record& other : it.world.machine(i).membership->others())
      CHECK(other.member.liveness == wire::Liveness::alive);
}

TEST_CASE("the only peer that can be dialed does not hide from members that cannot dial for a while") {
  std::vector<Incident> incidents{Router{1, true}, Router{2, true}};
  // Peer 0 asks again after 30 s to 90 s.
  for (const std::uint32_t i : {1U, 2U})
    incidents.emplace_back(NoNames{i, at_instant(20s), at_instant(120s)});
  Watched it(reach_scene(3, incidents));
  it.run(at_instant(200s));
  CHECK(own_record(it, 0).address == Address{"p0", 7100});
  CHECK(own_record(it, 0).incarnation == 0);
  for (const std::uint32_t i : {0U, 1U, 2U})
    for (const gossip::Record& other : it.world.machine(i).membership->others())
      CHECK(other.member.liveness == wire::Liveness::alive);
}

}  // namespace starling::lab
