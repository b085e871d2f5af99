// Peers exchange with random partners, with overlaps, while workers on other threads add to their replicas.
// The sum of the parameters must be conserved.
#include <atomic>
#include <thread>

#include "tests/node/test_peer.h"

namespace starling::node {
namespace {

using namespace testing;

// Keeps every peer exchanging with random others, back to back, until told to stop.
class Flight {
 public:
  Flight(World& world, std::vector<std::unique_ptr<TestPeer>>& peers) : world_(world), peers_(peers) {
    for (auto& peer : peers_) {
      peer->on_ended = [this, b = peer.get()] {
        all_completed_ = all_completed_ && b->ended.back().outcome == gossip::Outcome::completed;
        ++completed_;
        completed_.notify_all();
        if (!landing_) begin(*b);
      };
      begin(*peer);
    }
  }

  // Wakes workers that wait for exchanges that will not come.
  struct Release {
    Flight& flight;
    ~Release() {
      flight.completed_ += kNeverMind;
      flight.completed_.notify_all();
    }
  };

  // REQUIREs that nothing but completed exchanges happened.
  template <class Condition>
  void until(Condition done) {
    REQUIRE(world_.until([&] { return done() || !all_completed_; }));
    REQUIRE(all_completed_);
  }
  void land() {
    landing_ = true;
    until([&] {
      int answered = 0, accepted = 0;
      std::uint64_t begun = 0;
      for (const auto& peer : peers_) {
        answered += peer->answers_ended;
        accepted += peer->accepted;
        begun += peer->last_exchange;
      }
      return completed_ == begun && answered == accepted;
    });
  }

  std::uint64_t completed() const { return completed_; }
  // On any thread: waits until this many exchanges are completed, or the flight is over.
  void await(std::uint64_t exchanges) const {
    for (auto seen = completed_.load(); seen < exchanges; seen = completed_.load()) completed_.wait(seen);
  }
  std::uint64_t overlapped() const {
    std::uint64_t sum = 0;
    for (const auto& peer : peers_) sum += peer->mixer->counters().overlapped;
    return sum;
  }

 private:
  static constexpr std::uint64_t kNeverMind = std::uint64_t{1} << 62;

  void begin(TestPeer& peer) {
    const TestPeer* partner = &peer;
    while (partner == &peer) partner = peers_[random_.below(peers_.size())].get();
    peer.begin(*partner);
  }

  World& world_;
  std::vector<std::unique_ptr<TestPeer>>& peers_;
  Random random_{5};
  std::atomic<std::uint64_t> completed_{0};
  bool landing_ = false, all_completed_ = true;
};

std::vector<double> sum_of(const std::vector<std::unique_ptr<TestPeer>>& peers) {
  std::vector<double> sum(peers[0]->arena->size(), 0.0);
  for (const auto& peer : peers) {
    const auto x = peer->values();
    for (std::size_t i = 0; i < x.size(); ++i) sum[i] += double{x[i]};
  }
  return sum;
}

// Some milliseconds of arithmetic, like a step's between its updates.
float compute(std::vector<float>& scratch) {
  float sum = 0;
  for (int pass = 0; pass < 100; ++pass) {
    for (std::size_t i = 1; i < scratch.size(); ++i) {
      scratch[i] = 0.5f * scratch[i - 1] + 0.25f * scratch[i] + 0.001f;  // each depends on the one before
    }
    sum += scratch.back();
  }
  return sum;
}

// Its replica loses no concurrent update.
std::unique_ptr<TestPeer> exact_peer(World& world, std::uint64_t number, std::size_t floats,
                                     std::size_t chunk) {
  auto peer = std::make_unique<TestPeer>(world, number);
  training::MixOptions mix;
  mix.cell_floats = chunk;
  mix.exact = true;
  mix.wary = false;  // a worker that the system delays catches up at once, and its replica moves far
  peer->attach(floats, mix);
  return peer;
}

void conserves(Kind kind) {
  constexpr std::size_t kPeers = 4, kFloats = 9'700, kChunk = 1'000;  // ten chunks, the last one shorter
  constexpr std::uint64_t kAdds = 200, kExchanges = 300;
  constexpr double kLeastIncrement = 0.1;
  World world(kind);
  std::vector<std::unique_ptr<TestPeer>> peers;
  std::vector<std::vector<float>> increments;
  std::vector<double> expected(kFloats, 0.0);
  Random random(3);
  for (std::size_t b = 0; b < kPeers; ++b) {
    peers.push_back(exact_peer(world, b + 1, kFloats, kChunk));
    const auto first = random_floats(kFloats, b + 10);
    peers[b]->arena->write(0, first);
    increments.emplace_back(kFloats);
    for (std::size_t i = 0; i < kFloats; ++i) {
      increments[b][i] = static_cast<float>(random.uniform(kLeastIncrement, 2 * kLeastIncrement));
      expected[i] += double{first[i]} + static_cast<double>(kAdds) * double{increments[b][i]};
    }
  }

  std::atomic<std::size_t> working{kPeers};
  Flight flight(world, peers);
  std::vector<std::jthread> workers;
  const Flight::Release release{flight};
  for (std::size_t b = 0; b < kPeers; ++b) {
    workers.emplace_back([&, b] {
      for (std::uint64_t i = 0; i < kAdds; ++i) {
        flight.await(i * kExchanges / kAdds);  // spread over the flight
        peers[b]->arena->atomic_add(0, increments[b]);
      }
      --working;
    });
  }
  flight.until(
      [&] { return working == 0 && flight.completed() >= kExchanges && flight.overlapped() >= 100; });
  flight.land();
  for (auto& worker : workers) worker.join();

  // Only rounding may change the sum. A worker's add rounds once. Both ends of an exchange add the same
  // product with opposite signs, and each rounds its own addition once. A rounding is at most 2^-24 |x|, and
  // no replica gets beyond its first values plus all increments (twice that with a free half on its way).
  const double largest = 2 * (1 + kPeers * kAdds * 2 * kLeastIncrement);
  const double roundings = static_cast<double>(kPeers * kAdds) + 2 * static_cast<double>(flight.completed());
  const double bound = roundings * std::ldexp(largest, -24);
  const auto sum = sum_of(peers);
  double worst = 0;
  for (std::size_t i = 0; i < kFloats; ++i) worst = std::max(worst, std::abs(sum[i] - expected[i]));
  WARN((kind == Kind::tcp ? "tcp" : "memory")
       << ": off by at most " << worst << " (bound " << bound << ") after " << flight.completed()
       << " exchanges, " << flight.overlapped() << " chunks answered at weight 1/4");
  REQUIRE(bound < kLeastIncrement / 2);  // so a lost update would show
  REQUIRE(worst <= bound);
  REQUIRE(flight.overlapped() >= 100);
  for (const auto& peer : peers) {
    REQUIRE(peer->counters().half_applied_chunks == 0);
    REQUIRE(peer->counters().chunks_refused == 0);
  }
}

}  // namespace

TEST_CASE("over TCP the sum of the parameters is kept to rounding while peers exchange and workers add") {
  conserves(Kind::tcp);
}

TEST_CASE("in memory the sum of the parameters is kept to rounding while peers exchange and workers add") {
  conserves(Kind::memory);
}

TEST_CASE("exchanges without workers bring all replicas together and keep their mean") {
  constexpr std::size_t kPeers = 3, kFloats = 5'000, kChunk = 700;
  World world(Kind::tcp);
  std::vector<std::unique_ptr<TestPeer>> peers;
  for (std::size_t b = 0; b < kPeers; ++b) {
    peers.push_back(std::make_unique<TestPeer>(world, b + 1));
    peers[b]->attach(random_floats(kFloats, b + 1), kChunk);
  }
  const auto before = sum_of(peers);
  Flight flight(world, peers);
  flight.until([&] { return flight.completed() >= 200; });
  flight.land();
  const auto after = sum_of(peers);
  double worst = 0, spread = 0;
  for (std::size_t i = 0; i < kFloats; ++i) worst = std::max(worst, std::abs(after[i] - before[i]));
  const auto x = peers[0]->values(), y = peers[1]->values();
  for (std::size_t i = 0; i < kFloats; ++i) spread = std::max(spread, std::abs(double{x[i]} - double{y[i]}));
  REQUIRE(worst < 400 * std::ldexp(2.0, -24));
  REQUIRE(spread < 1e-4);
  REQUIRE(peers[0]->counters().distance.has_value());
  REQUIRE(*peers[0]->counters().distance < 1e-3);
}

TEST_CASE("plain adds with a step's arithmetic between them lose almost no update") {
  constexpr std::size_t kPeers = 3, kFloats = 16 * training::kDefaultCellFloats;  // about LeNet's
  constexpr int kAdds = 50;
  World world(Kind::tcp);
  std::vector<std::unique_ptr<TestPeer>> peers;
  const std::vector<float> ones(kFloats, 1.0f);
  for (std::size_t b = 0; b < kPeers; ++b) {
    peers.push_back(std::make_unique<TestPeer>(world, b + 1, ExchangerOptions{}));
    peers[b]->attach(ones, training::kDefaultCellFloats);
  }
  std::atomic<std::size_t> working{kPeers};
  std::atomic<float> result{0};
  std::vector<std::jthread> workers;
  for (std::size_t b = 0; b < kPeers; ++b) {
    workers.emplace_back([&, b] {
      std::vector<float> scratch(8192, 0.5f);
      for (int i = 0; i < kAdds; ++i) {
        peers[b]->arena->add(0, ones);
        result += compute(scratch);
      }
      --working;
    });
  }
  Flight flight(world, peers);
  flight.until([&] { return working == 0; });
  flight.land();
  for (auto& worker : workers) worker.join();
  REQUIRE(std::isfinite(result.load()));

  const auto sum = sum_of(peers);
  constexpr double kRight = static_cast<double>(kPeers) * (1 + kAdds);
  std::size_t wrong = 0;
  for (const double element : sum) wrong += std::abs(element - kRight) > 0.05;
  const double fraction = static_cast<double>(wrong) / (static_cast<double>(kFloats) * kRight);
  WARN("element updates lost: " << fraction << " (" << kPeers * kAdds << " adds, " << flight.completed()
                                << " exchanges)");
  REQUIRE(flight.completed() > 0);
  // How many are lost depends on when the system interrupts threads: 0 to 2e-6 on idle processors, 1.2e-4 was
  // seen on busy ones. Passes that run in step would lose up to 1e-2.
  REQUIRE(fraction < 1e-3);
}

}  // namespace starling::node
