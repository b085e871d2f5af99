// Connections of the virtual world: what TCP and the table of links would do under each fault.
#include "lab/virtual_network.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "tests/catch.h"

namespace starling::lab {
namespace {

using namespace std::chrono_literals;

Instant at(Duration since_start) {
  return Instant{since_start};
}

// Machines that note what arrives and what they learn.
class Net final : public NetworkHost {
 public:
  explicit Net(NetworkOptions options = calm()) : network(options, Random(3), queue_, *this) {}

  static NetworkOptions calm() {
    NetworkOptions options;
    options.latency = 1ms;
    options.bandwidth = 1e9;
    return options;
  }

  void send(Connection& c, std::uint32_t from, std::uint64_t number, std::size_t bytes = 100) {
    network.send(c, from, packet(number, bytes));
  }
  static PacketPtr packet(std::uint64_t number, std::size_t bytes = 100) {
    auto p = std::make_unique<Packet>();
    p->exchange = number;
    p->bytes = bytes;
    return p;
  }
  void run_until(Instant until) {
    queue_.schedule(until, [] {});
    while (queue_.next() < until) queue_.run_one();
    queue_.run_one();
  }
  std::vector<std::uint64_t> numbers(std::uint32_t machine) const {
    std::vector<std::uint64_t> all;
    for (const auto& a : arrivals) {
      if (a.to == machine) all.push_back(a.number);
    }
    return all;
  }

  struct Arrival {
    std::uint32_t to;
    std::uint64_t number;
    Instant at;
  };
  struct Break {
    std::uint32_t end;
    Instant at;
    bool undelivered;
  };
  std::vector<Arrival> arrivals;
  std::vector<Break> breaks;
  std::map<std::uint32_t, Reach> reaches;
  std::map<std::uint32_t, Instant> asleep_until;

 private:
  Reach reach(std::uint32_t machine) const override {
    const auto found = reaches.find(machine);
    return found == reaches.end() ? Reach::up : found->second;
  }
  Instant awake(std::uint32_t machine) const override {
    const auto found = asleep_until.find(machine);
    return found == asleep_until.end() ? queue_.now() : std::max(queue_.now(), found->second);
  }
  void arrived(Connection&, std::uint32_t, std::uint32_t to, Packet& packet) override {
    arrivals.push_back({to, packet.exchange, queue_.now()});
  }
  void broken(Connection&, std::uint32_t end, std::uint32_t, bool undelivered) override {
    breaks.push_back({end, queue_.now(), undelivered});
  }

  EventQueue queue_;

 public:
  VirtualNetwork network;
};

}  // namespace

TEST_CASE("order holds within one connection, and not between two") {
  NetworkOptions options = Net::calm();
  options.latency_jitter = 5ms;
  Net net(options);
  Connection& control = net.network.control(0, 1);
  Connection& bulk = net.network.bulk(0, 1);
  for (std::uint64_t k = 0; k < 200; k += 2) {
    net.send(control, 0, k);
    net.send(bulk, 0, k + 1);
    net.run_until(at(1ms * (k + 1)));
  }
  net.run_until(at(2s));
  const auto numbers = net.numbers(1);
  REQUIRE(numbers.size() == 200);
  std::uint64_t last[2] = {0, 1};
  bool crossed = false;
  for (std::size_t k = 1; k < numbers.size(); ++k) {
    crossed = crossed || numbers[k] < numbers[k - 1];
    REQUIRE(numbers[k] >= last[numbers[k] % 2]);
    last[numbers[k] % 2] = numbers[k];
  }
  REQUIRE(crossed);
}

TEST_CASE("a first message costs two round trips more, a large one its length") {
  Net net;
  Connection& c = net.network.control(0, 1);
  net.send(c, 0, 1, 0);
  net.run_until(at(100ms));
  net.send(c, 0, 2, 0);
  net.run_until(at(200ms));
  net.send(c, 0, 3, 12'500'000);  // 0.1 s at 1 Gbit/s
  net.run_until(at(1s));
  REQUIRE(net.arrivals.size() == 3);
  REQUIRE(net.arrivals[0].at == at(5ms));
  REQUIRE(net.arrivals[1].at == at(101ms));
  REQUIRE(net.arrivals[2].at == at(301ms));
}

TEST_CASE("a machine's poor links are poor both ways, for what is sent meanwhile") {
  Net net;
  net.network.shape(1, {at(1s), at(2s)}, {.latency = 20ms, .bandwidth = 1e6});
  Connection& poor = net.network.control(0, 1);
  Connection& fine = net.network.control(0, 2);
  const auto talk = [&](std::uint64_t number) {
    net.send(poor, 0, number, 12'500);  // 0.1 ms at 1 Gbit/s, 100 ms at 1 Mbit/s
    net.send(poor, 1, number, 12'500);
    net.send(fine, 0, number, 12'500);
  };
  const auto arrival = [&](std::uint32_t to, std::uint64_t number) {
    for (const auto& a : net.arrivals) {
      if (a.to == to && a.number == number) return a.at;
    }
    return kNever;
  };
  talk(1);  // over new connections: their handshakes come first
  net.run_until(at(500ms));
  for (const auto& [number, sent, took] :
       {std::tuple{2, 500ms, 1100us}, {3, 1500ms, 120'000us}, {4, 2500ms, 1100us}}) {
    const auto n = static_cast<std::uint64_t>(number);
    net.run_until(at(sent));
    talk(n);
    net.run_until(at(sent + 400ms));
    REQUIRE(arrival(1, n) == at(sent + took));
    REQUIRE(arrival(0, n) == at(sent + took));
    REQUIRE(arrival(2, n) == at(sent + 1100us));
  }
}

TEST_CASE("of two machines with poor links the worse counts") {
  Net net;
  net.network.shape(0, {at(0s), kNever}, {.latency = 20ms, .bandwidth = 1e5});
  net.network.shape(1, {at(0s), kNever}, {.latency = 30ms, .bandwidth = 1e6});
  Connection& c = net.network.control(0, 1);
  net.send(c, 0, 1, 0);
  net.run_until(at(1s));
  net.send(c, 0, 2, 1'250);  // 100 ms at 100 kbit/s
  net.run_until(at(2s));
  REQUIRE(net.arrivals.size() == 2);
  REQUIRE(net.arrivals[0].at == at(150ms));
  REQUIRE(net.arrivals[1].at == at(1130ms));
}

TEST_CASE("what a link drops arrives after a timeout, in order, and nothing is lost") {
  Net net;
  net.network.shape(1, {at(0s), kNever}, {.drop = 0.1});
  Connection& c = net.network.control(0, 1);
  constexpr std::uint64_t kPackets = 400;
  std::map<std::int64_t, int> times_resent;
  for (std::uint64_t k = 0; k < kPackets; ++k) {
    const Instant sent = at(10s * k);
    net.run_until(sent);
    net.send(c, 0, k, 0);
    net.run_until(sent + 9s);
    REQUIRE(net.arrivals.size() == k + 1);
    if (k > 0) ++times_resent[(net.arrivals.back().at - sent) / 1ms];
  }
  REQUIRE(net.breaks.empty());
  int late = 0;
  for (const auto& [milliseconds, count] : times_resent) {  // 1 ms, and 200 ms, 400 ms, 800 ms ... of waiting before
    REQUIRE((milliseconds - 1) % 200 == 0);
    const std::int64_t waits = (milliseconds - 1) / 200 + 1;
    REQUIRE((waits & (waits - 1)) == 0);
    if (milliseconds > 1) late += count;
  }
  REQUIRE(late > 20);
  REQUIRE(late < 65);
  REQUIRE(times_resent[201] > times_resent[601]);

  net.arrivals.clear();
  for (std::uint64_t k = 0; k < 50; ++k) net.send(c, 0, k, 0);
  net.run_until(at(10s * kPackets + 60s));
  const auto numbers = net.numbers(1);
  REQUIRE(numbers.size() == 50);
  REQUIRE(std::is_sorted(numbers.begin(), numbers.end()));
}

TEST_CASE("behind a short cut messages wait and arrive late, in order") {
  Net net;
  Connection& c = net.network.control(0, 1);
  net.send(c, 0, 1);
  net.network.cut(0, 1, {at(1s), at(5s)});
  net.run_until(at(2s));
  net.send(c, 0, 2);
  net.send(c, 0, 3);
  net.send(c, 1, 4);  // the other way is not cut
  net.run_until(at(3s));
  REQUIRE(net.numbers(1) == std::vector<std::uint64_t>{1});
  REQUIRE(net.numbers(0) == std::vector<std::uint64_t>{4});
  net.run_until(at(7s));
  REQUIRE(net.numbers(1) == std::vector<std::uint64_t>{1, 2, 3});
  REQUIRE(net.arrivals.back().at >= at(5s));
  REQUIRE(net.breaks.empty());
}

TEST_CASE("behind a long cut a connection breaks after ten seconds, a dial after five") {
  Net net;
  Connection& standing = net.network.control(0, 1);
  net.send(standing, 0, 1);
  net.network.cut(0, 1, {at(1s), at(60s)});
  net.network.cut(2, 3, {at(1s), at(60s)});
  net.run_until(at(2s));
  net.send(standing, 0, 2);
  net.send(net.network.control(2, 3), 3, 3);  // a dial needs both ways
  net.run_until(at(30s));
  REQUIRE(net.breaks.size() == 2);
  REQUIRE(net.breaks[0].end == 3);
  REQUIRE(net.breaks[0].at == at(7s));
  REQUIRE(net.breaks[1].end == 0);
  REQUIRE(net.breaks[1].at == at(12s));
  net.run_until(at(61s));
  net.send(standing, 0, 4);
  net.run_until(at(62s));
  REQUIRE(net.numbers(1) == std::vector<std::uint64_t>{1, 4});
}

TEST_CASE("a reset loses what is under way, both ways, and whoever lost something learns it") {
  Net net;
  Connection& control = net.network.control(0, 1);
  Connection& bulk = net.network.bulk(0, 1);
  net.send(control, 0, 1);
  net.send(bulk, 0, 2);
  net.run_until(at(100ms));
  net.send(control, 1, 3);
  net.network.reset(0, 1);
  net.run_until(at(200ms));
  REQUIRE(net.numbers(1) == std::vector<std::uint64_t>{1, 2});
  REQUIRE(net.numbers(0).empty());
  std::multiset<std::uint32_t> learned;
  for (const auto& b : net.breaks) learned.insert(b.end);
  REQUIRE(learned == std::multiset<std::uint32_t>{0, 1, 1});  // bulk both, control only the sender
  net.send(control, 0, 4);
  net.run_until(at(300ms));
  REQUIRE(net.numbers(1).back() == 4);
}

TEST_CASE("a program that closes a connection which talks into a hole is rid of the hole at once") {
  Net net;
  Connection& c = net.network.bulk(0, 1);
  net.send(c, 0, 1);
  net.run_until(at(1s));
  const std::uint32_t epoch = c.epoch;
  net.network.half_open(1, 0);
  net.run_until(at(2s));
  net.send(c, 0, 2);
  net.run_until(at(3s));
  net.network.close(c, epoch, 0, net.packet(3));
  net.send(c, 0, 4);
  net.run_until(at(4s));
  REQUIRE(net.numbers(1) == std::vector<std::uint64_t>{1, 4});
  // One that stands carries the last words; of one that has broken since nobody hears them.
  net.network.close(c, c.epoch, 0, net.packet(5));
  net.network.close(c, epoch, 0, net.packet(6));
  net.run_until(at(5s));
  REQUIRE(net.numbers(1) == std::vector<std::uint64_t>{1, 4, 5});
}

TEST_CASE("on a half-open connection one end talks into a hole until its write limit, or the other dials") {
  for (const bool other_dials : {false, true}) {
    Net net;
    Connection& c = net.network.control(0, 1);
    net.send(c, 0, 1);
    net.run_until(at(1s));
    net.network.half_open(0, 1);
    net.run_until(at(2s));
    net.send(c, 1, 2);
    if (other_dials) {
      net.run_until(at(3s));
      net.send(c, 0, 3);
      net.run_until(at(4s));
      net.send(c, 1, 4);
      net.run_until(at(30s));
      REQUIRE(net.numbers(1) == std::vector<std::uint64_t>{1, 3});
      REQUIRE(net.numbers(0) == std::vector<std::uint64_t>{4});
      REQUIRE(net.breaks.empty());
    } else {
      net.run_until(at(11s));
      net.send(c, 1, 3);
      REQUIRE(net.breaks.empty());
      net.run_until(at(30s));
      REQUIRE(net.breaks.size() == 1);
      REQUIRE(net.breaks[0].end == 1);
      REQUIRE(net.breaks[0].at == at(12s));
      REQUIRE(net.numbers(0).empty());
      net.send(c, 1, 4);
      net.run_until(at(31s));
      REQUIRE(net.numbers(0) == std::vector<std::uint64_t>{4});
    }
  }
}

TEST_CASE("a crash is refused at once, a power loss is silent until time-outs") {
  for (const bool silent : {false, true}) {
    Net net;
    Connection& c = net.network.control(0, 1);
    net.send(c, 0, 1);
    net.run_until(at(1s));
    net.reaches[1] = silent ? NetworkHost::Reach::silent : NetworkHost::Reach::refuses;
    net.network.down(1, silent ? VirtualNetwork::Ending::power_loss : VirtualNetwork::Ending::crash);
    REQUIRE(net.breaks.empty());
    net.send(c, 0, 2);
    net.run_until(at(30s));
    REQUIRE(net.breaks.size() == 1);
    REQUIRE(net.breaks[0].end == 0);
    REQUIRE(net.breaks[0].at == (silent ? at(6s) : at(1002ms)));
  }
}

TEST_CASE("a machine's last words arrive where it ends in order") {
  Net net;
  Connection& c = net.network.control(0, 1);
  net.send(c, 0, 1);
  net.run_until(at(1s));
  net.send(c, 0, 2);
  net.reaches[0] = NetworkHost::Reach::refuses;
  net.network.down(0, VirtualNetwork::Ending::orderly);
  net.run_until(at(2s));
  REQUIRE(net.numbers(1) == std::vector<std::uint64_t>{1, 2});
}

TEST_CASE("what arrives at a paused machine waits; a dial to it gives up") {
  Net net;
  Connection& c = net.network.control(0, 1);
  net.send(c, 0, 1);
  net.run_until(at(1s));
  net.asleep_until[1] = at(30s);
  net.send(c, 0, 2);
  net.send(net.network.control(1, 2), 2, 3);
  net.run_until(at(20s));
  REQUIRE(net.numbers(1) == std::vector<std::uint64_t>{1});
  REQUIRE(net.breaks.size() == 1);
  REQUIRE(net.breaks[0].end == 2);
  REQUIRE(net.breaks[0].at == at(6s));
  net.run_until(at(31s));
  REQUIRE(net.numbers(1) == std::vector<std::uint64_t>{1, 2});
  REQUIRE(net.arrivals.back().at == at(30s));
}

TEST_CASE("a clogged link is slow while it is clogged") {
  Net net;
  Connection& c = net.network.bulk(0, 1);
  net.send(c, 0, 1, 0);
  net.run_until(at(1s));
  net.network.clog(0, 1, {at(2s), at(4s)}, 1e4);
  net.send(c, 0, 2, 12'500);  // 0.1 ms, before
  net.run_until(at(2s));
  net.send(c, 0, 3, 12'500);  // 1 s at a ten thousandth
  net.send(c, 0, 4, 25'000);  // half of it in the clogged second that is left, the rest at once
  net.run_until(at(10s));
  REQUIRE(net.arrivals.size() == 4);
  REQUIRE(net.arrivals[1].at == at(1001ms) + 100us);
  REQUIRE(net.arrivals[2].at == at(3001ms));
  REQUIRE(net.arrivals[3].at == at(4001ms) + 100us);
}

TEST_CASE("what waits for a link is bounded, and the oldest goes first") {
  Net net;
  Connection& c = net.network.control(0, 1);
  net.send(c, 0, 0);
  net.network.cut(0, 1, {at(1s), at(5s)});
  net.run_until(at(2s));
  for (std::uint64_t k = 1; k <= 1000; ++k) net.send(c, 0, k);
  REQUIRE(net.network.longest_queue() <= 256 + 64);
  net.run_until(at(20s));
  const auto numbers = net.numbers(1);
  REQUIRE(net.network.dropped() == 1000 - 256);
  REQUIRE(numbers.size() == 1 + 256);
  REQUIRE(numbers.back() == 1000);
  REQUIRE(numbers[1] == 1000 - 255);
}

}  // namespace starling::lab
