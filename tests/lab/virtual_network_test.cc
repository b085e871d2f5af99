// Connections of the virtual world behave like TCP over the links under each fault.
#include "lab/world/network/virtual_network.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "tests/catch.h"
#include "tests/lab/small_network.h"

namespace starling::lab {

TEST_CASE("packets keep their order within a connection, but not between two") {
  VirtualNetworkOptions options = SmallNetwork::calm();
  options.latency_jitter = 5ms;
  SmallNetwork net(options);
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

TEST_CASE("the first message takes two more round trips, a large one its transfer time") {
  SmallNetwork net;
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

// ---- ports, which all connections of a machine share ----

namespace {

constexpr double kPort = 1e8;                 // bits per second
constexpr std::size_t kChunkBytes = 125'000;  // 10 ms at this rate

PacketPtr chunk(std::uint64_t number, std::size_t bytes = kChunkBytes) {
  PacketPtr p = SmallNetwork::packet(number, bytes);
  p->kind = Packet::Kind::offer_chunk;
  return p;
}

VirtualNetworkOptions with_ports() {
  VirtualNetworkOptions options = SmallNetwork::calm();
  options.bandwidth = kPort;
  options.port = kPort;
  return options;
}

Instant last_arrival(const SmallNetwork& net, std::uint32_t machine) {
  Instant last;
  for (const auto& a : net.arrivals)
    if (a.to == machine) last = std::max(last, a.at);
  return last;
}

}  // namespace

TEST_CASE("the only transfer at its two ports takes as long as without ports") {
  for (const double bandwidth : {4e7, kPort, 3e7}) {
    INFO(bandwidth);
    std::vector<std::vector<SmallNetwork::Arrival>> runs;
    for (const bool ports : {false, true}) {
      VirtualNetworkOptions options = with_ports();
      options.bandwidth = bandwidth;
      options.latency_jitter = bandwidth == 3e7 ? 20ms : 0ms;
      if (!ports) options.port.reset();
      SmallNetwork net(options);
      for (std::uint64_t k = 0; k < 10; ++k) net.network.send(net.network.bulk(0, 1), 0, chunk(k));
      for (std::uint64_t k = 10; k < 15; ++k) net.network.send(net.network.bulk(0, 1), 1, chunk(k, 1000 * k));
      net.send(net.network.bulk(0, 1), 0, 15);  // a message that must arrive after the chunks
      net.run_until(at(2s));
      runs.push_back(net.arrivals);
    }
    REQUIRE(runs[0].size() == 16);
    REQUIRE(runs[1].size() == 16);
    for (std::size_t k = 0; k < 16; ++k) {
      INFO(k);
      CHECK(runs[1][k].number == runs[0][k].number);
      CHECK(runs[1][k].at == runs[0][k].at);
    }
  }
}

TEST_CASE("n senders to one receiver take n times as long as one, and so do n receivers") {
  for (const bool to_one : {true, false}) {
    for (const std::uint32_t senders : {1U, 2U, 5U}) {
      INFO(to_one << " " << senders);
      SmallNetwork net(with_ports());
      constexpr std::uint64_t kChunks = 8;
      for (std::uint32_t peer = 1; peer <= senders; ++peer) {
        for (std::uint64_t k = 0; k < kChunks; ++k) {
          const std::uint32_t from = to_one ? peer : 0;
          net.network.send(net.network.bulk(from, to_one ? 0 : peer), from, chunk(k));
        }
      }
      net.run_until(at(5s));
      Instant last;
      for (const auto& a : net.arrivals) last = std::max(last, a.at);
      REQUIRE(net.arrivals.size() == senders * kChunks);
      CHECK(last == at(senders * kChunks * 10ms + 1ms));
      // The receivers are served in turn, so all transfers end within the time of one chunk each.
      for (std::uint32_t peer = 1; !to_one && peer <= senders; ++peer)
        CHECK(last_arrival(net, peer) >= last - senders * 10ms);
    }
  }
}

TEST_CASE("pairs without a common machine do not slow each other, nor do a machine's two directions") {
  SmallNetwork net(with_ports());
  for (std::uint64_t k = 0; k < 8; ++k) {
    net.network.send(net.network.bulk(0, 1), 0, chunk(k));
    net.network.send(net.network.bulk(0, 1), 1, chunk(k));
    net.network.send(net.network.bulk(2, 3), 2, chunk(k));
  }
  net.run_until(at(1s));
  for (const std::uint32_t machine : {1U, 3U}) CHECK(last_arrival(net, machine) == at(8 * 10ms + 1ms));
  // The opposite direction is not delayed.
  CHECK(last_arrival(net, 0) <= at(8 * 10ms + 1ms));
}

TEST_CASE("control messages bypass the chunks that wait at the ports") {
  SmallNetwork net(with_ports());
  net.send(net.network.control(0, 1), 0, 100);
  net.run_until(at(10ms));
  for (std::uint64_t k = 0; k < 100; ++k) net.network.send(net.network.bulk(2, 1), 2, chunk(k));
  for (std::uint64_t k = 0; k < 100; ++k) net.network.send(net.network.bulk(0, 1), 0, chunk(k));
  net.run_until(at(100ms));
  net.send(net.network.control(0, 1), 0, 101);
  net.run_until(at(102ms));
  const auto arrived = net.numbers(1);
  CHECK(std::count(arrived.begin(), arrived.end(), 101U) == 1);
  CHECK(arrived.size() < 20);  // of 202
  net.run_until(at(5s));
  CHECK(net.numbers(1).size() == 202);
}

TEST_CASE("a port never exceeds its rate, and a direction keeps its order, for random traffic") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    INFO(seed);
    Random random(seed);
    VirtualNetworkOptions options = with_ports();
    options.latency = Duration{static_cast<std::int64_t>(random.below(20'000'000))};
    const bool jitters = seed % 2 == 0;  // then late chunks arrive in bursts
    if (jitters) options.latency_jitter = Duration{static_cast<std::int64_t>(random.below(5'000'000))};
    options.bandwidth = random.uniform(1e7, 4e8);
    SmallNetwork net(options);
    std::map<std::uint64_t, std::tuple<std::uint32_t, std::uint32_t, std::size_t>> sent;
    for (std::uint32_t a = 0; a < 5; ++a)
      for (std::uint32_t b = a + 1; b < 5; ++b) net.send(net.network.bulk(a, b), a, 1000);
    net.run_until(at(1s));  // the connections are established, so no chunk waits for a handshake
    net.arrivals.clear();
    Instant now = at(1s);
    for (std::uint64_t number = 0; number < 400; ++number) {
      const auto from = static_cast<std::uint32_t>(random.below(5));
      const auto to = static_cast<std::uint32_t>((from + 1 + random.below(4)) % 5);
      const std::size_t bytes = 1 + random.below(kChunkBytes);
      sent[number] = {from, to, bytes};
      net.network.send(net.network.bulk(std::min(from, to), std::max(from, to)), from, chunk(number, bytes));
      now = now + Duration{static_cast<std::int64_t>(random.below(4'000'000))};
      net.run_until(now);
    }
    net.run_until(now + 60s);
    REQUIRE(net.arrivals.size() == sent.size());
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> latest;
    for (const auto& a : net.arrivals) {
      const auto [from, to, bytes] = sent.at(a.number);
      const auto [before, first] = latest.try_emplace({from, to}, a.number);
      REQUIRE((first || before->second < a.number));
      before->second = a.number;
    }
    // Between two arrivals a port passes at most what its rate allows, plus the parts of chunks that were
    // passed before the first arrival. On thin links several chunks are passed at the same time.
    const double ahead = options.bandwidth < kPort ? 4.0 * 8 * kChunkBytes : 8.0 * kChunkBytes;
    for (std::uint32_t machine = 0; machine < 5 && !jitters; ++machine) {
      std::vector<std::pair<double, double>> through;  // time and bits
      for (const auto& a : net.arrivals) {
        if (a.to == machine)
          through.emplace_back(to_seconds(a.at - Instant{}),
                               8.0 * static_cast<double>(std::get<2>(sent.at(a.number))));
      }
      for (std::size_t i = 0; i < through.size(); ++i) {
        double bits = 0;
        for (std::size_t j = i + 1; j < through.size(); ++j) {
          bits += through[j].second;
          REQUIRE(bits <= kPort * (through[j].first - through[i].first) + ahead);
        }
      }
    }
  }
}

TEST_CASE("the last chunks of a machine that ends in order arrive") {
  SmallNetwork net(with_ports());
  for (std::uint64_t k = 0; k < 3; ++k) {
    net.network.send(net.network.bulk(0, 2), 0, chunk(k));
    net.network.send(net.network.bulk(1, 2), 1, chunk(k + 10));
  }
  net.run_until(at(25ms));  // one chunk of each sender is left
  net.network.send(net.network.bulk(3, 2), 3, chunk(20));
  net.run_until(at(26ms));
  net.network.down(3, VirtualNetwork::Ending::orderly);
  net.run_until(at(1s));
  const auto arrived = net.numbers(2);
  CHECK(std::count(arrived.begin(), arrived.end(), 20U) == 1);
  CHECK(arrived.size() == 7);
}

TEST_CASE("the links between two groups are poor, and those within them are not") {
  SmallNetwork net;
  net.conditions.shape({0, 1}, {2, 3}, {at(0s), kNever}, {.latency = 20ms});
  for (std::uint32_t a = 0; a < 4; ++a)
    for (std::uint32_t b = 0; b < 4; ++b)
      if (a != b) net.send(net.network.bulk(a, b), a, 10 * a + b);
  net.run_until(at(1s));
  REQUIRE(net.arrivals.size() == 12);
  for (const auto& arrival : net.arrivals) {
    INFO(arrival.number);
    const bool across = (arrival.number / 10 < 2) != (arrival.number % 10 < 2);
    CHECK((arrival.at >= at(100ms)) == across);  // five latencies, four of them for the handshake
  }
}

TEST_CASE("a machine's poor links affect both directions, for packets sent during the fault") {
  SmallNetwork net;
  net.conditions.shape({1}, {}, {at(1s), at(2s)}, {.latency = 20ms, .bandwidth = 1e6});
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

TEST_CASE("between two machines with poor links the worse value counts") {
  SmallNetwork net;
  net.conditions.shape({0}, {}, {at(0s), kNever}, {.latency = 20ms, .bandwidth = 1e5});
  net.conditions.shape({1}, {}, {at(0s), kNever}, {.latency = 30ms, .bandwidth = 1e6});
  Connection& c = net.network.control(0, 1);
  net.send(c, 0, 1, 0);
  net.run_until(at(1s));
  net.send(c, 0, 2, 1'250);  // 100 ms at 100 kbit/s
  net.run_until(at(2s));
  REQUIRE(net.arrivals.size() == 2);
  REQUIRE(net.arrivals[0].at == at(150ms));
  REQUIRE(net.arrivals[1].at == at(1130ms));
}

TEST_CASE("packets that a link drops arrive after a timeout, in order, and none is lost") {
  SmallNetwork net;
  net.conditions.shape({1}, {}, {at(0s), kNever}, {.drop = 0.1});
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
  for (const auto& [milliseconds, count] :
       times_resent) {  // 1 ms, after a delay of 200 ms, 400 ms, 800 ms ...
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

TEST_CASE("during a short cut messages wait, and then arrive in order") {
  SmallNetwork net;
  Connection& c = net.network.control(0, 1);
  net.send(c, 0, 1);
  net.conditions.cut(0, 1, {at(1s), at(5s)});
  net.run_until(at(2s));
  net.send(c, 0, 2);
  net.send(c, 0, 3);
  net.send(c, 1, 4);  // the other direction is not cut
  net.run_until(at(3s));
  REQUIRE(net.numbers(1) == std::vector<std::uint64_t>{1});
  REQUIRE(net.numbers(0) == std::vector<std::uint64_t>{4});
  net.run_until(at(7s));
  REQUIRE(net.numbers(1) == std::vector<std::uint64_t>{1, 2, 3});
  REQUIRE(net.arrivals.back().at >= at(5s));
  REQUIRE(net.breaks.empty());
}

TEST_CASE("a long cut breaks a connection after ten seconds and a dial after five") {
  SmallNetwork net;
  Connection& standing = net.network.control(0, 1);
  net.send(standing, 0, 1);
  net.conditions.cut(0, 1, {at(1s), at(60s)});
  net.conditions.cut(2, 3, {at(1s), at(60s)});
  net.run_until(at(2s));
  net.send(standing, 0, 2);
  net.send(net.network.control(2, 3), 3, 3);  // a dial needs both directions
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

TEST_CASE("a reset loses the packets in transit in both directions, and their senders are notified") {
  SmallNetwork net;
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
  REQUIRE(learned == std::multiset<std::uint32_t>{0, 1, 1});  // both ends of bulk, only the sender of control
  net.send(control, 0, 4);
  net.run_until(at(300ms));
  REQUIRE(net.numbers(1).back() == 4);
}

TEST_CASE("a program that closes a half-open connection uses a new one at once") {
  SmallNetwork net;
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
  // An established connection delivers the last message. One that broke in between does not.
  net.network.close(c, c.epoch, 0, net.packet(5));
  net.network.close(c, epoch, 0, net.packet(6));
  net.run_until(at(5s));
  REQUIRE(net.numbers(1) == std::vector<std::uint64_t>{1, 4, 5});
}

TEST_CASE("what is under way on a closed connection does not delay the next one") {
  SmallNetwork net;
  Connection& c = net.network.bulk(0, 1);
  net.send(c, 0, 1);
  net.run_until(at(1s));
  // A message of the acceptor that takes eight seconds.
  net.send(c, 1, 2, 1'000'000'000);
  net.network.close(c, c.epoch, 0, net.packet(3));
  net.send(c, 0, 4);
  net.run_until(at(2s));
  REQUIRE(net.numbers(1) == std::vector<std::uint64_t>{1, 4});
  REQUIRE(net.breaks.size() == 1);
  REQUIRE(net.breaks[0].end == 1);
  net.send(c, 1, 5);
  net.run_until(at(3s));
  REQUIRE(net.numbers(0) == std::vector<std::uint64_t>{5});
}

TEST_CASE("a connection that is refused keeps nothing of what was under way") {
  SmallNetwork net;
  Connection& c = net.network.bulk(0, 1);
  net.send(c, 0, 1);
  net.run_until(at(1s));
  net.send(c, 1, 2, 1'000'000'000);  // eight seconds
  net.reaches[1] = NetworkHost::Reach::refuses;
  net.send(c, 0, 3);
  net.run_until(at(2s));
  net.reaches[1] = NetworkHost::Reach::up;
  net.send(c, 1, 4);
  net.run_until(at(3s));
  REQUIRE(net.numbers(0) == std::vector<std::uint64_t>{4});
}

TEST_CASE("one end of a half-open connection sends in vain until its write limit or the other's dial") {
  for (const bool other_dials : {false, true}) {
    SmallNetwork net;
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

TEST_CASE("a crashed machine refuses connections at once; after a power loss they time out") {
  for (const bool silent : {false, true}) {
    SmallNetwork net;
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

TEST_CASE("the last messages of a machine that ends in order arrive") {
  SmallNetwork net;
  Connection& c = net.network.control(0, 1);
  net.send(c, 0, 1);
  net.run_until(at(1s));
  net.send(c, 0, 2);
  net.reaches[0] = NetworkHost::Reach::refuses;
  net.network.down(0, VirtualNetwork::Ending::orderly);
  net.run_until(at(2s));
  REQUIRE(net.numbers(1) == std::vector<std::uint64_t>{1, 2});
}

TEST_CASE("messages to a paused machine wait; a dial to it times out") {
  SmallNetwork net;
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

TEST_CASE("a clogged link is slow during the fault") {
  SmallNetwork net;
  Connection& c = net.network.bulk(0, 1);
  net.send(c, 0, 1, 0);
  net.run_until(at(1s));
  net.conditions.clog(0, 1, {at(2s), at(4s)}, 1e4);
  net.send(c, 0, 2, 12'500);  // 0.1 ms, before the fault
  net.run_until(at(2s));
  net.send(c, 0, 3, 12'500);  // 1 s at a ten-thousandth of the bandwidth
  net.send(c, 0, 4, 25'000);  // half of it in the last second of the fault, the rest at once
  net.run_until(at(10s));
  REQUIRE(net.arrivals.size() == 4);
  REQUIRE(net.arrivals[1].at == at(1001ms) + 100us);
  REQUIRE(net.arrivals[2].at == at(3001ms));
  REQUIRE(net.arrivals[3].at == at(4001ms) + 100us);
}

TEST_CASE("the queue of a link is bounded, and the oldest message is dropped first") {
  SmallNetwork net;
  Connection& c = net.network.control(0, 1);
  net.send(c, 0, 0);
  net.conditions.cut(0, 1, {at(1s), at(5s)});
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
