#include "training/exchange.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "base/random.h"
#include "tests/catch.h"
#include "tests/training/near.h"

namespace starling::training {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_values(Random& random, std::size_t n) {
  std::vector<float> values(n);
  for (auto& x : values) x = static_cast<float>(random.normal());
  return values;
}

std::vector<float> contents(const models::Arena& arena) {
  std::vector<float> values(arena.size());
  arena.read(0, values);
  return values;
}

// Some replicas whose exchanges overlap as chance has it: the bytes between them are these lists, and every
// completion comes when it comes.
class World {
 public:
  World(std::uint64_t seed, bool give_up) : random_(seed), give_up_(give_up) {
    const std::size_t floats = 1 + random_.below(40);
    const std::size_t chunk = 1 + random_.below(floats);
    const std::size_t n = 2 + random_.below(5);
    for (std::size_t i = 0; i < n; ++i) {
      peers_.push_back(std::make_unique<Peer>(floats, chunk));
      auto values = random_values(random_, floats);
      for (auto& x : values) x += 3;  // a mean that is not zero
      peers_.back()->arena.write(0, values);
    }
  }

  // One event of any kind, and what must hold of it.
  void step() {
    const double energy_before = energy();
    const double size = norm();
    const std::vector<double> mean_before = mean();
    shift_allowed_ = 0;
    switch (random_.below(give_up_ ? 4 : 3)) {
      case 0:
        begin();
        break;
      case 1:
        deliver_request();
        break;
      case 2:
        deliver_reply();
        break;
      default:
        give_up();
    }
    const std::vector<double> mean_after = mean();
    double shift = 0;
    for (std::size_t i = 0; i < mean_after.size(); ++i) shift += std::pow(mean_after[i] - mean_before[i], 2);
    REQUIRE(std::sqrt(shift) <= shift_allowed_ * (1 + 1e-6) + std::ldexp(size, -22));
    if (shift_allowed_ == 0) {
      const double rounding = std::ldexp(size, -22) * std::sqrt(energy_before) + std::ldexp(size * size, -44);
      REQUIRE(energy() <= energy_before + rounding);
    }
  }

  void finish() {
    while (!requests_.empty() || !replies_.empty()) {
      if (random_.chance(0.5)) {
        deliver_request();
      } else {
        deliver_reply();
      }
    }
  }

  // Sums over the parts; with nothing in flight, over the peers.
  std::vector<double> mean() const {
    std::vector<double> sums(floats(), 0.0);
    each_part([&](std::size_t offset, double mass, const std::vector<double>& value) {
      for (std::size_t i = 0; i < value.size(); ++i) sums[offset + i] += mass * value[i];
    });
    for (auto& x : sums) x /= static_cast<double>(peers_.size());
    return sums;
  }

  // E of «Overlap».
  double energy() const {
    const std::vector<double> center = mean();
    double sum = 0;
    each_part([&](std::size_t offset, double mass, const std::vector<double>& value) {
      for (std::size_t i = 0; i < value.size(); ++i) sum += mass * std::pow(value[i] - center[offset + i], 2);
    });
    return sum;
  }

  double norm() const {
    double squares = 0;
    for (const auto& peer : peers_) {
      for (const float x : training::contents(peer->arena)) squares += std::pow(static_cast<double>(x), 2);
    }
    return std::sqrt(squares);
  }

  int overlapped() const { return overlapped_; }

 private:
  struct Loan {
    std::vector<float> a;
    std::uint64_t exchange = 0;  // 0: none
    bool answered = false;
    std::vector<float> b{};  // of the answer, which may still be on its way
    float w = 0;
  };
  struct Peer {
    Peer(std::size_t floats, std::size_t chunk)
        : arena(floats), mixer(arena, chunk), loans(mixer.grid().count()) {}
    models::Arena arena;
    PairwiseMixer mixer;
    std::vector<Loan> loans;
  };
  struct Request {
    std::uint64_t exchange;
    std::size_t from, to, chunk;
    std::vector<float> a;
  };
  struct Reply {
    std::uint64_t exchange;
    std::size_t to, chunk;
    std::vector<float> b;
    float w;
  };

  std::size_t floats() const { return peers_.front()->arena.size(); }

  template <class Visit>
  void each_part(Visit visit) const {
    for (const auto& peer : peers_) {
      const auto& grid = peer->mixer.grid();
      for (std::size_t k = 0; k < grid.count(); ++k) {
        std::vector<float> x(grid.floats(k));
        peer->arena.read(grid.offset(k), x);
        const Loan& loan = peer->loans[k];
        const auto part = [&](double mass, auto value) {
          std::vector<double> v(x.size());
          for (std::size_t i = 0; i < v.size(); ++i) v[i] = value(i);
          visit(grid.offset(k), mass, v);
        };
        const auto of = [](const std::vector<float>& v) {
          return [&v](std::size_t i) { return static_cast<double>(v[i]); };
        };
        if (loan.exchange == 0) {
          part(1, of(x));
          continue;
        }
        part(0.5,
             [&](std::size_t i) { return 2 * static_cast<double>(x[i]) - static_cast<double>(loan.a[i]); });
        const double w = loan.answered ? static_cast<double>(loan.w) : 0;
        if (loan.answered) part(w, of(loan.b));
        part(0.5 - w, of(loan.a));
      }
    }
  }

  void begin() {
    const std::size_t from = random_.below(peers_.size());
    std::size_t to = random_.below(peers_.size() - 1);
    if (to >= from) ++to;
    Peer& peer = *peers_[from];
    const std::size_t chunk = random_.below(peer.loans.size());
    REQUIRE(peer.mixer.lent(chunk) == (peer.loans[chunk].exchange != 0));
    if (peer.mixer.lent(chunk)) return;
    Loan& loan = peer.loans[chunk];
    loan = {.a = std::vector<float>(peer.mixer.grid().floats(chunk)), .exchange = ++exchanges_};
    peer.mixer.lend(chunk, loan.a);
    requests_.push_back({loan.exchange, from, to, chunk, loan.a});
  }

  template <class T>
  T take(std::vector<T>& list) {
    std::swap(list[random_.below(list.size())], list.back());
    T taken = std::move(list.back());
    list.pop_back();
    return taken;
  }

  void deliver_request() {
    if (requests_.empty()) return;
    const Request request = take(requests_);
    Peer& responder = *peers_[request.to];
    Reply reply{request.exchange, request.from, request.chunk, std::vector<float>(request.a.size()), 0};
    if (random_.chance(0.1)) {  // refused for lack of resources
      reply.b.clear();
    } else {
      const auto w = responder.mixer.answer(request.chunk, request.a, reply.b);
      REQUIRE(w.ok());
      REQUIRE(*w == (responder.mixer.lent(request.chunk) ? 0.25f : 0.5f));
      overlapped_ += *w == 0.25f;
      reply.w = *w;
    }
    Loan& loan = peers_[request.from]->loans[request.chunk];
    if (loan.exchange == request.exchange) {
      loan.answered = !reply.b.empty();
      loan.b = reply.b;
      loan.w = reply.w;
    } else if (reply.w != 0) {
      shift_allowed_ = shift(reply.w, request.a, reply.b);  // half applied: nobody waits for it any more
    }
    replies_.push_back(std::move(reply));
  }

  void deliver_reply() {
    if (replies_.empty()) return;
    const Reply reply = take(replies_);
    Peer& peer = *peers_[reply.to];
    Loan& loan = peer.loans[reply.chunk];
    if (loan.exchange != reply.exchange) return;  // given up: a late reply is dropped
    REQUIRE(peer.mixer.complete(reply.chunk, reply.b, reply.w).ok());
    loan = {};
  }

  void give_up() {
    Peer& peer = *peers_[random_.below(peers_.size())];
    const std::size_t chunk = random_.below(peer.loans.size());
    Loan& loan = peer.loans[chunk];
    if (loan.answered) shift_allowed_ = shift(loan.w, loan.a, loan.b);
    peer.mixer.give_up(chunk);
    REQUIRE(!peer.mixer.lent(chunk));
    loan = {};
  }

  // w |a - b| / n: what a half-applied chunk may do to the mean.
  double shift(float w, const std::vector<float>& a, const std::vector<float>& b) const {
    double squares = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      squares += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    }
    return static_cast<double>(w) * std::sqrt(squares) / static_cast<double>(peers_.size());
  }

  Random random_;
  bool give_up_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Request> requests_;
  std::vector<Reply> replies_;
  std::uint64_t exchanges_ = 0;
  int overlapped_ = 0;
  double shift_allowed_ = 0;
};

}  // namespace

TEST_CASE("a grid cuts an arena into chunks that cover it once") {
  for (const std::size_t floats : {1, 7, 8, 9, 1000}) {
    const ChunkGrid grid{floats, 8};
    std::size_t covered = 0;
    for (std::size_t k = 0; k < grid.count(); ++k) {
      REQUIRE(grid.offset(k) == covered);
      REQUIRE(grid.floats(k) > 0);
      covered += grid.floats(k);
    }
    REQUIRE(covered == floats);
    REQUIRE(grid.floats(grid.count()) == 0);
    REQUIRE(grid.floats(SIZE_MAX) == 0);
  }
}

TEST_CASE("a value that is not finite or too large is found wherever it stands") {
  REQUIRE(all_finite({}));
  std::vector<float> values(67, std::numeric_limits<float>::max());
  values[3] = -std::numeric_limits<float>::max();
  values[5] = std::numeric_limits<float>::denorm_min();
  values[6] = -0.0f;
  REQUIRE(all_finite(values));
  REQUIRE(!all_acceptable(values));
  std::fill(values.begin(), values.end(), -kLargestMagnitude);
  REQUIRE(all_acceptable(values));
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (const float bad :
         {kNan, -kNan, kInfinity, -kInfinity, std::numeric_limits<float>::signaling_NaN()}) {
      auto poisoned = values;
      poisoned[i] = bad;
      REQUIRE(!all_finite(poisoned));
      REQUIRE(!all_acceptable(poisoned));
    }
    auto large = values;
    large[i] = std::nextafter(kLargestMagnitude, kInfinity);
    REQUIRE(all_finite(large));
    REQUIRE(!all_acceptable(large));
  }
}

TEST_CASE("an exchange moves both replicas to their middle, chunk by chunk") {
  Random random(1);
  for (const auto loss : {PairwiseMixer::Loss::tolerated, PairwiseMixer::Loss::exact}) {
    models::Arena a(100), b(100);
    const auto x = random_values(random, 100), y = random_values(random, 100);
    a.write(0, x);
    b.write(0, y);
    PairwiseMixer initiator(a, 32, loss), responder(b, 32, loss);
    for (std::size_t k = 0; k < initiator.grid().count(); ++k) {
      std::vector<float> snapshot(initiator.grid().floats(k)), value(snapshot.size());
      initiator.lend(k, snapshot);
      REQUIRE(initiator.lent(k));
      REQUIRE(*responder.answer(k, snapshot, value) == 0.5f);
      REQUIRE(initiator.complete(k, value, 0.5f).ok());
      REQUIRE(!initiator.lent(k));
    }
    const auto mixed_a = contents(a), mixed_b = contents(b);
    for (std::size_t i = 0; i < 100; ++i) {
      REQUIRE(mixed_a[i] == x[i] + 0.5f * (y[i] - x[i]));
      REQUIRE(mixed_b[i] == y[i] + 0.5f * (x[i] - y[i]));
    }
  }
}

TEST_CASE("a peer that has lent half of a chunk answers with the other half and a quarter") {
  Random random(2);
  for (const auto loss : {PairwiseMixer::Loss::tolerated, PairwiseMixer::Loss::exact}) {
    models::Arena arena(16);
    const auto x = random_values(random, 16), theirs = random_values(random, 16),
               moved = random_values(random, 16);
    arena.write(0, x);
    PairwiseMixer mixer(arena, 16, loss);
    std::vector<float> lent(16), value(16);
    mixer.lend(0, lent);
    arena.add(0, moved);  // a worker's update, while half is away
    const auto now = contents(arena);
    REQUIRE(*mixer.answer(0, theirs, value) == 0.25f);
    const auto after = contents(arena);
    for (std::size_t i = 0; i < 16; ++i) {
      REQUIRE(value[i] == 2 * now[i] - x[i]);
      REQUIRE(after[i] == now[i] + 0.25f * (theirs[i] - value[i]));
    }
    REQUIRE(mixer.lent(0));
    mixer.give_up(0);
    REQUIRE(*mixer.answer(0, theirs, value) == 0.5f);
  }
}

TEST_CASE("however exchanges overlap, the sum is conserved and the energy never rises") {
  int overlapped = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    INFO("seed " << seed);
    World world(seed, false);
    const auto mean = world.mean();
    for (int i = 0; i < 80; ++i) world.step();
    world.finish();
    const auto after = world.mean();
    for (std::size_t i = 0; i < mean.size(); ++i) REQUIRE(near(after[i], mean[i], 1e-4));
    overlapped += world.overlapped();
  }
  REQUIRE(overlapped > 1000);  // the overlaps did happen
}

TEST_CASE("giving up shifts the mean by no more than w|a - b|/n and breaks nothing else") {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    INFO("seed " << seed);
    World world(seed, true);
    for (int i = 0; i < 80; ++i) world.step();
    world.finish();
  }
}

TEST_CASE("an exchange that overlapped nothing lowers the energy by exactly 2w(1-w)|a - b|^2") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const std::size_t n = 2 + random.below(5), floats = 1 + random.below(50);
    std::vector<std::unique_ptr<models::Arena>> arenas;
    for (std::size_t i = 0; i < n; ++i) {
      arenas.push_back(std::make_unique<models::Arena>(floats));
      arenas.back()->write(0, random_values(random, floats));
    }
    const auto energy = [&] {
      std::vector<double> mean(floats, 0.0);
      for (const auto& arena : arenas) {
        for (std::size_t i = 0; i < floats; ++i)
          mean[i] += static_cast<double>(arena->data()[i]) / static_cast<double>(n);
      }
      double sum = 0;
      for (const auto& arena : arenas) {
        for (std::size_t i = 0; i < floats; ++i)
          sum += std::pow(static_cast<double>(arena->data()[i]) - mean[i], 2);
      }
      return sum;
    };
    const double before = energy();
    PairwiseMixer initiator(*arenas[0], floats), responder(*arenas[1], floats);
    std::vector<float> a(floats), b(floats);
    initiator.lend(0, a);
    const double w = static_cast<double>(*responder.answer(0, a, b));
    REQUIRE(initiator.complete(0, b, static_cast<float>(w)).ok());
    double distance = 0;
    for (std::size_t i = 0; i < floats; ++i)
      distance += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    REQUIRE(near(before - energy(), 2 * w * (1 - w) * distance, 1e-6 * before, 1e-5));
  }
}

TEST_CASE("what a peer may not send is refused with a sentence and leaves the arena untouched") {
  Random random(4);
  models::Arena arena(40);
  arena.write(0, random_values(random, 40));
  const auto before = contents(arena);
  PairwiseMixer mixer(arena, 16);
  const auto good = random_values(random, 16);
  std::vector<std::vector<float>> bad;
  for (const float x : {kNan, kInfinity, -kInfinity, 1e38f, -1e38f}) {
    bad.push_back(good);
    bad.back()[random.below(16)] = x;
  }
  bad.emplace_back();
  bad.emplace_back(good.begin(), good.end() - 1);
  bad.emplace_back(17, 1.0f);
  std::vector<float> value(16, 7.0f), snapshot(16);
  for (const auto& theirs : bad) {
    const bool poisoned = theirs.size() == 16;  // a wrong length breaks a rule, whatever the values
    for (const bool lent : {false, true}) {
      if (lent) mixer.lend(0, snapshot);
      const auto answered = mixer.answer(0, theirs, value);
      REQUIRE(!answered.ok());
      REQUIRE(answered.error().poisoned == poisoned);
      REQUIRE(mixer.lent(0) == lent);
      mixer.give_up(0);
    }
    mixer.lend(0, snapshot);
    const auto completed = mixer.complete(0, theirs, 0.5f);
    REQUIRE(!completed.ok());
    REQUIRE(completed.error().poisoned == poisoned);
    REQUIRE(!mixer.lent(0));
  }
  for (const float w : {-0.5f, 0.125f, 0.3f, 0.75f, 1.0f, 1e30f, kNan, kInfinity}) {
    mixer.lend(0, snapshot);
    const auto status = mixer.complete(0, good, w);
    REQUIRE(!status.ok());
    REQUIRE(status.error().message.find("accepted are 0, 0.25 and 0.5") != std::string::npos);
    REQUIRE_FALSE(status.error().poisoned);
    REQUIRE(!mixer.lent(0));
  }
  for (const std::size_t chunk : {std::size_t{3}, SIZE_MAX}) {
    REQUIRE(!mixer.answer(chunk, good, value).ok());
    REQUIRE(!mixer.complete(chunk, good, 0.5f).ok());
    REQUIRE(!mixer.lent(chunk));
    mixer.give_up(chunk);
  }
  REQUIRE(mixer.complete(1, good, 0.5f).error().message.find("not lent") != std::string::npos);
  REQUIRE(contents(arena) == before);
  REQUIRE(value == std::vector<float>(16, 7.0f));
}

TEST_CASE("a refusal for lack of resources ends the loan and mixes nothing") {
  Random random(5);
  models::Arena arena(8);
  arena.write(0, random_values(random, 8));
  const auto before = contents(arena);
  PairwiseMixer mixer(arena, 8);
  std::vector<float> snapshot(8);
  mixer.lend(0, snapshot);
  REQUIRE(mixer.complete(0, {}, 0).ok());
  REQUIRE(!mixer.lent(0));
  REQUIRE(contents(arena) == before);
}

TEST_CASE("a liar's largest accepted values, both signs in turn, never make the parameters overflow") {
  models::Arena arena(4);
  PairwiseMixer mixer(arena, 4);
  std::vector<float> value(4), snapshot(4);
  Random random(6);
  for (int i = 0; i < 5000; ++i) {
    const std::vector<float> theirs(4, random.chance(0.5) ? kLargestMagnitude : -kLargestMagnitude);
    switch (random.below(3)) {
      case 0:
        if (!mixer.lent(0)) mixer.lend(0, snapshot);
        break;
      case 1:
        REQUIRE(mixer.answer(0, theirs, value).ok());
        break;
      default:
        if (mixer.lent(0)) REQUIRE(mixer.complete(0, theirs, random.chance(0.5) ? 0.5f : 0.25f).ok());
    }
    REQUIRE(all_finite(contents(arena)));
    REQUIRE(all_finite(value));
  }
}

}  // namespace starling::training
