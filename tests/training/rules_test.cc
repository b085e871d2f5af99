// The arithmetic of each rule (docs/RULES.md), compared with plain sums in double.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "tests/seeds.h"
#include "tests/training/mixers.h"
#include "tests/training/near.h"
#include "training/mixing/payload.h"
#include "training/mixing/rules/pairwise.h"
#include "training/mixing/rules/push_sum.h"

namespace starling::training {
namespace {

using Parties = std::vector<std::unique_ptr<Party>>;

Parties parties_of(Random& random, std::size_t n, std::size_t floats, const MixOptions& options,
                   double mean = 0) {
  Parties parties;
  for (std::size_t i = 0; i < n; ++i) {
    parties.push_back(std::make_unique<Party>(random_values(random, floats, mean), options));
  }
  return parties;
}

MixOptions rule_options(Rule rule, Payload payload, std::size_t cell_floats) {
  MixOptions options;
  options.rule = rule;
  options.payload = payload;
  options.cell_floats = cell_floats;
  return options;
}

std::vector<double> mean_of(const Parties& parties) {
  std::vector<double> mean(parties.front()->arena.size(), 0.0);
  for (const auto& party : parties) {
    const auto x = contents(party->arena);
    for (std::size_t i = 0; i < x.size(); ++i) mean[i] += wide(x[i]) / static_cast<double>(parties.size());
  }
  return mean;
}

// Sum of |x - mean|^2.
double disagreement(const Parties& parties) {
  const auto mean = mean_of(parties);
  double sum = 0;
  for (const auto& party : parties) {
    const auto x = contents(party->arena);
    for (std::size_t i = 0; i < x.size(); ++i) sum += square(wide(x[i]) - mean[i]);
  }
  return sum;
}

double distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += square(wide(a[i]) - wide(b[i]));
  return std::sqrt(sum);
}

// ---- push-sum ----

// Peers that send and receive at random, with losses in flight: the sums of u and of u z over peers and
// messages, float by float.
class Pushes {
 public:
  Pushes(std::uint64_t seed, Payload payload)
      : random_(seed),
        floats_(1 + random_.below(50)),
        options_(rule_options(Rule::push_sum, payload, 1 + random_.below(floats_))),
        parties_(parties_of(random_, 2 + random_.below(6), floats_, options_, 3)),
        lost_weight_(floats_, 0.0),
        lost_sum_(floats_, 0.0) {}

  void step() {
    switch (random_.below(8)) {
      case 0:
      case 1:
      case 2:
        send();
        break;
      case 3:
        lose();
        break;
      case 4:
        refuse();
        break;
      default:
        deliver();
    }
  }

  struct Sums {
    std::vector<double> weight, value;
  };
  // The sums over peers, messages in flight, and counted losses.
  Sums sums() const {
    Sums all{lost_weight_, lost_sum_};
    for (const auto& party : parties_) {
      const auto& mixer = dynamic_cast<const PushSum&>(*party->mixer);
      const auto x = contents(party->arena);
      for (std::size_t i = 0; i < floats_; ++i) {
        const double u = mixer.share(i / options_.cell_floats);
        all.weight[i] += u;
        all.value[i] += u * wide(x[i]);
      }
    }
    for (const auto& message : messages_) add(message, &all.weight, &all.value);
    return all;
  }

  double counted_losses() const {
    double sum = 0;
    for (const auto& party : parties_) sum += party->mixer->counters().lost_weight;
    return sum * static_cast<double>(floats_);
  }
  double lost() const { return std::accumulate(lost_weight_.begin(), lost_weight_.end(), 0.0); }
  std::size_t peers() const { return parties_.size(); }
  std::size_t floats() const { return floats_; }

 private:
  struct Message {
    Session session;
    std::size_t from, to;
    Packet offer;
    std::vector<float> values;
  };

  static void add(const Message& message, std::vector<double>* weight, std::vector<double>* value) {
    for (std::size_t i = 0; i < message.values.size(); ++i) {
      (*weight)[message.offer.parcel.offset + i] += wide(message.offer.parcel.weight);
      (*value)[message.offer.parcel.offset + i] +=
          wide(message.offer.parcel.weight) * wide(message.values[i]);
    }
  }

  void send() {
    const std::size_t from = random_.below(parties_.size());
    const CellGrid& grid = parties_[from]->mixer->grid();
    const Cells cells{random_.below(grid.count()), 1};
    for (const auto& message : messages_) {
      if (message.from == from && message.offer.parcel.offset == grid.offset(cells.first)) return;
    }
    const Session session = session_of(++exchanges_, from, random_.below(parties_.size()));
    if (session.partner == from) return;
    auto offer = parties_[from]->lend(session, cells);
    REQUIRE(offer.ok());
    if (offer->parcel.payload == Payload::none) return;
    std::vector<float> values(offer->parcel.floats);
    decode(options_.payload, offer->parcel.values, values.size(), 0, values);
    messages_.push_back({session, from, session.partner, *std::move(offer), std::move(values)});
  }

  Message take() {
    std::swap(messages_[random_.below(messages_.size())], messages_.back());
    Message message = std::move(messages_.back());
    messages_.pop_back();
    return message;
  }

  void deliver() {
    if (messages_.empty()) return;
    const Message message = take();
    const auto reply = parties_[message.to]->answer(seen_by_responder(message.session), message.offer.parcel);
    REQUIRE(reply.ok());
    REQUIRE(reply->parcel.payload == Payload::none);
    if (random_.chance(0.2)) {  // the acknowledgment is lost: the sender counts the arrived weight as lost
      parties_[message.from]->mixer->give_up(message.session, message.offer.parcel);
      counted_twice_ += wide(message.offer.parcel.weight) * static_cast<double>(message.values.size());
      return;
    }
    REQUIRE(
        parties_[message.from]->mixer->complete(message.session, message.offer.parcel, reply->parcel).ok());
  }

  // Rejects one chunk, by its reply; or the whole exchange, before any chunk was answered.
  void refuse() {
    if (messages_.empty()) return;
    const Message message = take();
    if (random_.chance(0.5))
      return parties_[message.from]->mixer->take_back(message.session, message.offer.parcel);
    Parcel reply = message.offer.parcel;
    reply.payload = Payload::none;
    reply.values = {};
    reply.weight = 0;
    REQUIRE(parties_[message.from]->mixer->complete(message.session, message.offer.parcel, reply).ok());
  }

  void lose() {
    if (messages_.empty()) return;
    const Message message = take();
    parties_[message.from]->mixer->give_up(message.session, message.offer.parcel);
    add(message, &lost_weight_, &lost_sum_);
  }

  Random random_;
  std::size_t floats_;
  MixOptions options_;
  Parties parties_;
  std::vector<Message> messages_;
  std::vector<double> lost_weight_, lost_sum_;
  std::uint64_t exchanges_ = 0;

 public:
  double counted_twice_ = 0;
};

}  // namespace

TEST_CASE("push-sum conserves the sums of u and of u z over peers, messages and counted losses") {
  for (const Payload payload : kDense) {
    for (const std::uint64_t seed : FreshSeeds(200)) {
      INFO(replay_of(seed) << ", payload " << static_cast<int>(payload));
      Pushes world(seed, payload);
      const auto before = world.sums();
      for (int i = 0; i < 120; ++i) {
        world.step();
        const auto after = world.sums();
        for (std::size_t k = 0; k < world.floats(); ++k) {
          REQUIRE(near(after.weight[k], before.weight[k], 1e-9));
          REQUIRE(near(after.value[k], before.value[k], 3e-5 * static_cast<double>(world.peers())));
        }
      }
      REQUIRE(near(world.counted_losses(), world.lost() + world.counted_twice_, 1e-4));
    }
  }
}

TEST_CASE("push-sum without losses brings all peers to the mean of their initial values") {
  Random random(1);
  const auto options = rule_options(Rule::push_sum, Payload::f32, 16);
  const auto parties = parties_of(random, 8, 40, options, 1);
  const auto mean = mean_of(parties);
  std::uint64_t number = 0;
  for (int round = 0; round < 60; ++round) {
    for (std::size_t i = 0; i < 8; ++i) {  // the directed exponential graph
      const std::size_t to = (i + (std::size_t{1} << (round % 3))) % 8;
      Session session = session_of(++number, i, to);
      session.returns = false;
      exchange(*parties[i], *parties[to], session, 1);
    }
  }
  for (const auto& party : parties) {
    const auto x = contents(party->arena);
    for (std::size_t i = 0; i < x.size(); ++i) REQUIRE(near(wide(x[i]), mean[i], 1e-4));
  }
}

TEST_CASE("push-sum gets back exactly the weight of a rejected exchange") {
  for (const Payload payload : kDense) {
    Random random(7);
    const auto options = rule_options(Rule::push_sum, payload, 16);
    Party peer(random_values(random, 40), options), other(random_values(random, 40), options);
    const auto& mixer = dynamic_cast<const PushSum&>(*peer.mixer);
    const auto before = contents(peer.arena);
    for (std::uint64_t i = 1; i <= 20; ++i) {  // a lost weight would be too small to send after six exchanges
      const Session session = session_of(i, 1, 2);
      const auto first = peer.lend(session, {0, 2}), second = peer.lend(session, {2, 1});
      REQUIRE(first.ok());
      REQUIRE(second.ok());
      REQUIRE(mixer.share(0) == 0.5);
      peer.mixer->take_back(session, first->parcel);
      peer.mixer->take_back(session, second->parcel);
      peer.mixer->take_back(session, second->parcel);  // a second call takes nothing back
      for (std::size_t cell = 0; cell < 3; ++cell) REQUIRE(mixer.share(cell) == 1.0);
      const auto now = contents(peer.arena);
      for (std::size_t k = 0; k < now.size(); ++k) REQUIRE(near(wide(now[k]), wide(before[k]), 1e-5));
      if (payload == Payload::f32) REQUIRE(now == before);
    }
    // Weight that arrived meanwhile stays: u and u z are the sums of both.
    const auto lent = peer.lend(session_of(21, 1, 2), {0, 3});
    const auto given = other.lend(session_of(1, 2, 1), {0, 3});
    std::vector<float> came(40);
    decode(payload, given->parcel.values, came.size(), 0, came);
    const auto x = contents(peer.arena);
    std::vector<float> went(40);
    decode(payload, lent->parcel.values, went.size(), 0, went);
    REQUIRE(peer.answer(session_of(1, 2, 1), given->parcel).ok());
    peer.mixer->take_back(session_of(21, 1, 2), lent->parcel);
    const auto now = contents(peer.arena);
    REQUIRE(mixer.share(0) == 1.5);
    for (std::size_t k = 0; k < now.size(); ++k) {
      const double sum = 0.5 * wide(x[k]) + 0.5 * wide(went[k]) + 0.5 * wide(came[k]);
      REQUIRE(near(1.5 * wide(now[k]), sum, 1e-5));
    }
    REQUIRE(peer.mixer->counters().lost_weight == 0);
  }
}

TEST_CASE("push-sum rejects impossible weights, and sends none that is too small") {
  Random random(2);
  Party peer(random_values(random, 16), rule_options(Rule::push_sum, Payload::f32, 16));
  const auto before = contents(peer.arena);
  const Room room = copy_of(std::as_bytes(std::span(before)));
  for (const float u : {0.0f, -0.5f, std::numeric_limits<float>::quiet_NaN()}) {
    const Parcel offer{.floats = 16, .weight = u, .values = room.bytes()};
    REQUIRE(peer.answer(session_of(1, 2, 1), offer).error().fault == MixFault::weight);
  }
  // More weight than three members can send returns.
  Session session = session_of(1, 2, 1);
  session.weight = 1.5F;
  for (const float u : {1.6f, 1024.0f, std::numeric_limits<float>::infinity()}) {
    const auto reply = peer.answer(session, {.floats = 16, .weight = u, .values = room.bytes()});
    REQUIRE(reply.ok());
    REQUIRE(reply->parcel.weight == 0);
  }
  REQUIRE(contents(peer.arena) == before);
  int sent = 0;
  for (std::uint64_t i = 0; i < 20; ++i) {
    const auto offer = peer.lend(session_of(i, 1, 2), {0, 1});
    if (offer->parcel.payload == Payload::none) {
      const auto reply = peer.answer(session_of(i, 1, 2), offer->parcel);
      REQUIRE(reply->parcel.payload == Payload::none);
      REQUIRE(peer.mixer->complete(session_of(i, 1, 2), offer->parcel, reply->parcel).ok());
      continue;
    }
    REQUIRE(offer->parcel.weight >= 1.0f / 64);
    ++sent;
    peer.mixer->give_up(session_of(i, 1, 2), offer->parcel);
  }
  REQUIRE(sent == 6);  // 1/2, 1/4 ... 1/64
  REQUIRE(near(peer.mixer->counters().lost_weight, 63.0 / 64, 1e-12));
  peer.mixer->adopt();
  REQUIRE(peer.lend(session_of(99, 1, 2), {0, 1})->parcel.weight == 0.5f);
}

// ---- d-psgd ----

TEST_CASE("a round of d-psgd is the product with the mixing matrix") {
  for (const Payload payload : kDense) {
    Random random(3);
    constexpr std::size_t n = 7, floats = 600;
    const auto options = rule_options(Rule::d_psgd, payload, 64);
    const auto parties = parties_of(random, n, floats, options, 1);
    // A random graph's Metropolis matrix.
    std::vector<std::vector<bool>> edge(n, std::vector<bool>(n));
    std::vector<double> degree(n, 0.0);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = i + 1; j < n; ++j) {
        edge[i][j] = j == i + 1 || random.chance(0.4);
        degree[i] += edge[i][j];
        degree[j] += edge[i][j];
      }
    }
    std::uint64_t number = 0;
    for (std::uint64_t round = 1; round <= 5; ++round) {
      std::vector<std::vector<double>> x, expected;
      for (const auto& party : parties) {
        const auto now = contents(party->arena);
        x.emplace_back(now.begin(), now.end());
        party->mixer->begin_round(round);
      }
      expected = x;
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = i + 1; j < n; ++j) {
          if (!edge[i][j]) continue;
          const double w = 1 / (1 + std::max(degree[i], degree[j]));
          for (std::size_t k = 0; k < floats; ++k) {
            expected[i][k] += w * (x[j][k] - x[i][k]);
            expected[j][k] += w * (x[i][k] - x[j][k]);
          }
          Session session = session_of(++number, i, j);
          session.round = round;
          session.weight = static_cast<float>(w);
          exchange(*parties[i], *parties[j], session, 3);
        }
      }
      for (std::size_t i = 0; i < n; ++i) {
        const auto now = contents(parties[i]->arena);
        for (std::size_t k = 0; k < floats; ++k) {
          const double rounding = payload == Payload::f32 ? 2e-6 : payload == Payload::bf16 ? 0.03 : 0.08;
          REQUIRE(near(wide(now[k]), expected[i][k], rounding));
        }
      }
    }
  }
}

TEST_CASE("d-psgd keeps the mean up to rounding, rejects other rounds, and takes no weight above 1") {
  Random random(4);
  for (const Payload payload : kDense) {
    const auto options = rule_options(Rule::d_psgd, payload, 64);
    const auto parties = parties_of(random, 2, 200, options, 1);
    const auto mean = mean_of(parties);
    for (const auto& party : parties) party->mixer->begin_round(7);
    Session session = session_of(1, 0, 1);
    session.weight = 0.3f;
    exchange(*parties[0], *parties[1], session);
    const auto after = mean_of(parties);
    for (std::size_t i = 0; i < mean.size(); ++i) REQUIRE(near(after[i], mean[i], 1e-6));

    const auto before = contents(parties[1]->arena);
    parties[0]->mixer->begin_round(8);
    const auto offer = parties[0]->lend(session, {0, 1});
    REQUIRE(offer->parcel.sequence == 8);
    REQUIRE(parties[1]->answer(seen_by_responder(session), offer->parcel).error().fault ==
            MixFault::sequence);
    REQUIRE(contents(parties[1]->arena) == before);
    parties[1]->mixer->begin_round(8);
    session.weight = 1.1f;
    const auto reply = parties[1]->answer(seen_by_responder(session), offer->parcel);
    REQUIRE(parties[0]->mixer->complete(session, offer->parcel, reply->parcel).error().fault ==
            MixFault::weight);
  }
}

TEST_CASE("updates by workers during a round of d-psgd are kept, and sent in the next one") {
  Random random(5);
  const auto options = rule_options(Rule::d_psgd, Payload::f32, 16);
  const auto x = random_values(random, 32), y = random_values(random, 32), step = random_values(random, 32);
  Party a(x, options), b(y, options);
  a.mixer->begin_round(1);
  b.mixer->begin_round(1);
  a.arena.add(0, step);
  Session session = session_of(1, 1, 2);
  session.weight = 0.25f;
  exchange(a, b, session);
  const auto after_a = contents(a.arena), after_b = contents(b.arena);
  for (std::size_t i = 0; i < 32; ++i) {
    REQUIRE(near(wide(after_a[i]), wide(x[i]) + wide(step[i]) + 0.25 * (wide(y[i]) - wide(x[i])), 1e-6));
    REQUIRE(near(wide(after_b[i]), wide(y[i]) + 0.25 * (wide(x[i]) - wide(y[i])), 1e-6));
  }
}

// ---- clipped ----

TEST_CASE("a malicious peer moves a clipping peer by at most w sqrt(sum of tau^2) an exchange") {
  Random random(6);
  for (const Payload payload : kDense) {
    Party peer(random_values(random, 1000, 1), rule_options(Rule::clipped, payload, 256));
    const auto& mixer = dynamic_cast<const Clipped&>(*peer.mixer);
    std::uint64_t number = 0;
    std::uint64_t clipped = 0;
    for (int i = 0; i < 60; ++i) {
      const bool lies = i % 3 == 2;
      auto values = contents(peer.arena);
      for (auto& v : values) {
        v += static_cast<float>(lies ? std::pow(10, random.uniform(-2, 17)) * (random.chance(0.5) ? 1 : -1)
                                     : 0.01 * random.normal());
      }
      Party partner(values, rule_options(Rule::clipped, payload, 256));
      const Session session = session_of(++number, 2, 1);
      const auto offer = partner.lend(session, {0, 4});
      double bound = 0;
      for (std::size_t cell = 0; cell < 4; ++cell) bound += square(mixer.tau(cell));
      const auto before = contents(peer.arena);
      const auto reply = peer.answer(seen_by_responder(session), offer->parcel);
      REQUIRE(reply.ok());
      REQUIRE(distance(before, contents(peer.arena)) <= 0.5 * std::sqrt(bound) * (1 + 1e-3) + 1e-5);
      clipped += lies;
      if (i < 3) REQUIRE(bound == 0);
      if (i > 10 && i % 3 == 1) REQUIRE(bound > 0);
    }
    REQUIRE(peer.mixer->counters().clipped >= clipped);
  }
}

TEST_CASE("a partner that comes often does not set the scale of a clipping peer, nor move it much") {
  Random random(8);
  Party peer(random_values(random, 64, 1), rule_options(Rule::clipped, Payload::f32, 32));
  const auto& mixer = dynamic_cast<const Clipped&>(*peer.mixer);
  std::uint64_t number = 0;
  const auto come = [&](std::uint64_t id, float difference) {
    auto values = contents(peer.arena);
    for (auto& v : values) v += difference;
    Party partner(values, rule_options(Rule::clipped, Payload::f32, 32));
    const Session session = session_of(++number, id, 1);
    const auto offer = partner.lend(session, {0, 2});
    const auto before = contents(peer.arena);
    REQUIRE(peer.answer(seen_by_responder(session), offer->parcel).ok());
    return distance(before, contents(peer.arena));
  };
  const auto tau_is = [&](double expected) {
    for (const std::size_t cell : {0, 1})
      REQUIRE(near(mixer.tau(cell), 0.5 * expected * std::sqrt(32), 1e-5));
  };
  for (std::uint64_t id = 2; id <= 5; ++id) come(id, 0.01F * static_cast<float>(id));
  come(9, 1.6F);
  // The median of 0.02, 0.03, 0.04, 0.05 and 1.6. The last is ten times four medians: a hundredth of tau is
  // taken, half of it by the weight.
  for (int k = 0; k < 100; ++k) REQUIRE(near(come(9, 1.6F), 0.5 * 0.01 * 0.5 * 0.04 * std::sqrt(64), 1e-5));
  tau_is(0.04);
  for (std::uint64_t id = 20; id < 40; ++id) come(id, 0.01F);  // the last 15 partners count
  tau_is(0.01);
}

TEST_CASE("honest peers that clip converge to one another") {
  Random random(7);
  const auto parties = parties_of(random, 6, 64, rule_options(Rule::clipped, Payload::f32, 32), 1);
  const double before = disagreement(parties);
  std::uint64_t number = 0;
  for (int i = 0; i < 600; ++i) {
    const std::size_t a = random.below(6), b = (a + 1 + random.below(5)) % 6;
    exchange(*parties[a], *parties[b], session_of(++number, a, b));
  }
  REQUIRE(disagreement(parties) < 1e-3 * before);
}

// ---- noloco ----

namespace {

// The growth of the disagreement over rounds of random pairs, with learning rate 0.
double outer_rounds(double momentum, int rounds) {
  double sum = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    auto options = rule_options(Rule::noloco, Payload::f32, 32);
    options.outer_momentum = momentum;
    options.outer_rate = 0.7;
    const auto parties = parties_of(random, 8, 64, options, 100);
    const double before = disagreement(parties);
    std::vector<std::size_t> order(8);
    std::iota(order.begin(), order.end(), 0U);
    std::uint64_t number = 0;
    for (int round = 1; round <= rounds; ++round) {
      random.shuffle(std::span(order));
      for (std::size_t i = 0; i < 8; i += 2) {
        exchange(*parties[order[i]], *parties[order[i + 1]], session_of(++number, order[i], order[i + 1]));
      }
    }
    sum += std::log(disagreement(parties) / before);
  }
  return sum / 20;
}

}  // namespace

TEST_CASE("noloco's disagreement shrinks at momentum 0.5 and grows at 0.9, with the outer rate 0.7") {
  REQUIRE(outer_rounds(0.5, 30) < -3);
  REQUIRE(outer_rounds(0.9, 30) > 0);
}

TEST_CASE("noloco's outer step follows its formula, and updates by workers meanwhile are kept") {
  Random random(8);
  constexpr std::size_t n = 50;
  const auto options = rule_options(Rule::noloco, Payload::f32, 64);
  Party a(random_values(random, n), options), b(random_values(random, n), options);
  // The definition, computed in double: phi and m of both.
  struct Outer {
    explicit Outer(const Party& of) {
      for (const float x : contents(of.arena)) phi.push_back(wide(x));
      m.resize(n);
    }
    void step(std::size_t i, double mean) {
      m[i] = 0.5 * m[i] + 0.7 * (mean - phi[i]);
      phi[i] += m[i];
    }
    std::vector<double> phi, m;
  } outer_a(a), outer_b(b);
  for (std::uint64_t k = 1; k <= 4; ++k) {
    a.arena.add(0, random_values(random, n));
    b.arena.add(0, random_values(random, n));
    const auto x = contents(a.arena), y = contents(b.arena);
    const Session session = session_of(k, 1, 2);
    const auto offer = a.lend(session, {0, 1});
    REQUIRE(offer.ok());
    REQUIRE(contents(a.arena) == x);
    const auto reply = b.answer(seen_by_responder(session), offer->parcel);
    REQUIRE(reply.ok());
    const auto learned = random_values(random, n);  // while the chunk travels
    a.arena.add(0, learned);
    REQUIRE(a.mixer->complete(session, offer->parcel, reply->parcel).ok());
    const auto now_a = contents(a.arena), now_b = contents(b.arena);
    for (std::size_t i = 0; i < n; ++i) {
      outer_a.step(i, (wide(x[i]) + wide(y[i])) / 2 + wide(learned[i]));
      outer_b.step(i, (wide(x[i]) + wide(y[i])) / 2);
      REQUIRE(near(wide(now_a[i]), outer_a.phi[i], 1e-5));
      REQUIRE(near(wide(now_b[i]), outer_b.phi[i], 1e-5));
    }
  }
}

}  // namespace starling::training
