// Every rule and payload over real connections, terms and rounds, and a peer whose own values are not finite.
#include <cmath>
#include <limits>

#include "tests/models/allocations.h"
#include "tests/node/test_peer.h"
#include "training/mixing/rules/push_sum.h"

namespace starling::node {
namespace {

using namespace testing;
using gossip::Outcome;
using training::MixFault;

constexpr std::size_t kRuleFloats = 2'100, kRuleCell = 256;  // nine cells, the last one shorter
constexpr std::size_t kRuleCells = 9;

training::MixOptions mix_of(Rule rule, Payload payload) {
  training::MixOptions mix;
  mix.rule = rule;
  mix.payload = payload;
  mix.cell_floats = kRuleCell;
  mix.top_k = 0.1;
  return mix;
}

void fill(TestPeer& peer, const training::MixOptions& mix, std::uint64_t seed) {
  peer.attach(kRuleFloats, mix);
  peer.arena->write(0, random_floats(kRuleFloats, seed));
  peer.mixer->adopt();
}

double disagreement(const TestPeer& a, const TestPeer& b) {
  const auto x = a.values(), y = b.values();
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += std::pow(double{x[i]} - double{y[i]}, 2);
  return std::sqrt(sum);
}

std::uint64_t refused(const TestPeer& peer, MixFault fault) {
  return peer.mixer->counters().refused[static_cast<std::size_t>(fault)];
}

}  // namespace

TEST_CASE("every rule brings two peers closer in each of its payloads, over TCP and in memory") {
  struct Combination {
    Rule rule;
    Payload payload;
  };
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    for (const auto& [rule, payload] : {Combination{Rule::pairwise, Payload::f32},
                                        {Rule::pairwise, Payload::bf16},
                                        {Rule::pairwise, Payload::int8},
                                        {Rule::pairwise, Payload::top_k},
                                        {Rule::clipped, Payload::f32},
                                        {Rule::push_sum, Payload::f32},
                                        {Rule::d_psgd, Payload::f32},
                                        {Rule::noloco, Payload::f32},
                                        {Rule::choco, Payload::f32},
                                        {Rule::choco, Payload::top_k}}) {
      CAPTURE(traits(rule).name, static_cast<int>(payload));
      World world(kind);
      ExchangerOptions options = steady();
      options.chunk_cells = 2;
      TestPeer a(world, 1, options), b(world, 2, options);
      fill(a, mix_of(rule, payload), 1);
      fill(b, mix_of(rule, payload), 2);
      const double before = disagreement(a, b);
      for (std::uint64_t round = 1; round <= 12; ++round) {
        TestPeer& from = round % 2 == 1 ? a : b;
        TestPeer& to = round % 2 == 1 ? b : a;
        for (TestPeer* peer : {&a, &b}) {
          peer->mixer->begin_round(round);
          peer->terms.round = round;
        }
        REQUIRE(exchange(world, from, to) == Outcome::completed);
      }
      REQUIRE(world.until([&] { return a.answers_ended + b.answers_ended == 12; }));
      REQUIRE(a.answers_completed + b.answers_completed == 12);
      for (TestPeer* peer : {&a, &b}) peer->mixer->begin_round(13);
      REQUIRE(disagreement(a, b) < (payload == Payload::top_k ? 0.97 : 0.8) * before);
      REQUIRE(a.counters().chunks_refused + b.counters().chunks_refused == 0);
      REQUIRE(a.counters().half_applied_chunks + b.counters().half_applied_chunks == 0);
    }
  }
}

TEST_CASE("a peer meets all its neighbors at once in a lock-step round, and offers carry the round") {
  World world(Kind::tcp);
  TestPeer center(world, 1);
  fill(center, mix_of(Rule::d_psgd, Payload::f32), 1);
  std::vector<std::unique_ptr<TestPeer>> others;
  std::vector<double> expected(kRuleFloats);
  constexpr double kWeight = 0.2;
  for (std::uint64_t i = 0; i < 4; ++i) {
    others.push_back(std::make_unique<TestPeer>(world, 10 + i));
    fill(*others.back(), mix_of(Rule::d_psgd, Payload::f32), 10 + i);
    others.back()->terms.weight = static_cast<float>(kWeight);
    others.back()->mixer->begin_round(7);
  }
  const auto x = center.values();
  for (std::size_t i = 0; i < kRuleFloats; ++i) expected[i] = double{x[i]};
  for (const auto& other : others) {
    const auto y = other->values();
    for (std::size_t i = 0; i < kRuleFloats; ++i) expected[i] += kWeight * (double{y[i]} - double{x[i]});
  }
  center.mixer->begin_round(7);
  center.terms = {7, static_cast<float>(kWeight), 1};
  for (auto& other : others) {
    other->terms.round = 7;
    center.begin(*other);
  }
  REQUIRE(center.exchanger->under_way() == 4);
  REQUIRE(world.until([&] { return center.ended.size() == 4; }));
  for (const auto& ended : center.ended) REQUIRE(ended.outcome == Outcome::completed);
  for (const auto& other : others) REQUIRE(other->rounds_offered == std::vector<std::uint64_t>{7});
  const auto after = center.values();
  for (std::size_t i = 0; i < kRuleFloats; ++i) REQUIRE(std::abs(double{after[i]} - expected[i]) < 1e-6);
}

TEST_CASE("a push goes to two servers at once, and each mixes only its own part") {
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    World world(kind);
    TestPeer worker(world, 1);
    std::vector<std::unique_ptr<TestPeer>> servers;
    fill(worker, mix_of(Rule::parameter_server, Payload::f32), 1);
    const auto first = worker.values();
    for (std::uint32_t k = 0; k < 2; ++k) {
      servers.push_back(std::make_unique<TestPeer>(world, 10 + k));
      fill(*servers[k], mix_of(Rule::parameter_server, Payload::f32), 1);
      servers[k]->terms.weight = 0.5F;
      servers[k]->terms.part = {k, 2};
    }
    worker.arena->add(0, std::vector<float>(kRuleFloats, 1));
    for (std::uint32_t k = 0; k < 2; ++k) {
      worker.terms.part = {k, 2};
      worker.begin(*servers[k]);
    }
    REQUIRE(world.until([&] { return worker.ended.size() == 2; }));
    for (const auto& ended : worker.ended) REQUIRE(ended.outcome == Outcome::completed);
    REQUIRE(world.until([&] { return servers[0]->answers_completed + servers[1]->answers_completed == 2; }));
    const auto pulled = worker.values();
    for (std::uint32_t k = 0; k < 2; ++k) {
      const auto served = servers[k]->values();
      const auto cells = worker.mixer->grid().part(k, 2);
      const std::size_t begin = worker.mixer->grid().offset(cells.first),
                        end = begin + worker.mixer->grid().floats(cells);
      for (std::size_t i = 0; i < kRuleFloats; ++i) {
        const bool own = begin <= i && i < end;
        REQUIRE(std::abs(served[i] - first[i] - (own ? 0.5F : 0)) < 1e-5F);
        if (own) REQUIRE(std::abs(pulled[i] - served[i]) < 1e-5F);
      }
    }
  }
}

TEST_CASE("a refused push-sum exchange returns the shares and values that had left") {
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    for (const Payload payload : {Payload::f32, Payload::int8}) {
      World world(kind);
      TestPeer a(world, 1), b(world, 2);
      fill(a, mix_of(Rule::push_sum, payload), 1);
      fill(b, mix_of(Rule::push_sum, payload), 2);
      const auto& shares = dynamic_cast<const training::PushSum&>(*a.mixer);
      const auto before = a.values(), theirs = b.values();
      b.decide = [] { return Decision{false, wire::RefusalReason::busy}; };
      for (int k = 0; k < 5; ++k) REQUIRE(exchange(world, a, b) == Outcome::rejected);
      for (std::size_t cell = 0; cell < a.mixer->grid().count(); ++cell) REQUIRE(shares.share(cell) == 1);
      REQUIRE(a.mixer->counters().lost_weight == 0);
      const auto after = a.values();
      for (std::size_t i = 0; i < kRuleFloats; ++i)
        REQUIRE(std::abs(double{after[i]} - double{before[i]}) < 1e-5);
      REQUIRE(b.values() == theirs);
      b.decide = nullptr;
      REQUIRE(exchange(world, a, b) == Outcome::completed);
      for (std::size_t cell = 0; cell < a.mixer->grid().count(); ++cell) REQUIRE(shares.share(cell) == 0.5);
    }
  }
}

TEST_CASE("a refusal carries the refuser's round") {
  World world(Kind::tcp);
  TestPeer a(world, 1), b(world, 2);
  fill(a, mix_of(Rule::pairwise, Payload::f32), 1);
  fill(b, mix_of(Rule::pairwise, Payload::f32), 2);
  b.decide = [] { return Decision{false, wire::RefusalReason::busy}; };
  b.terms.round = 42;
  REQUIRE(exchange(world, a, b) == Outcome::rejected);
  REQUIRE(a.ended.back().round == 42);
}

TEST_CASE("an exchange reports its progress at least sixteen times") {
  World world(Kind::tcp);
  TestPeer a(world, 1), b(world, 2);
  a.attach(random_floats(100 * 64, 1), 64);
  b.attach(random_floats(100 * 64, 2), 64);
  REQUIRE(exchange(world, a, b) == Outcome::completed);
  REQUIRE(a.advanced.back() == 100);
  std::uint64_t before = 0;
  for (const std::uint64_t cells : a.advanced) {
    REQUIRE(cells > before);
    REQUIRE(cells - before <= 7);  // 100 / 16, rounded up
    before = cells;
  }
  REQUIRE(b.advanced.empty());
}

TEST_CASE("an offer may wait for the core, and is answered or withdrawn later") {
  World world(Kind::tcp);
  TestPeer a(world, 1), b(world, 2);
  fill(a, mix_of(Rule::pairwise, Payload::f32), 1);
  fill(b, mix_of(Rule::pairwise, Payload::f32), 2);
  const auto y = b.values();
  std::vector<std::uint64_t> waiting;
  b.undecided = [&](PeerId, std::uint64_t exchange) { waiting.push_back(exchange); };
  a.begin(b);
  REQUIRE(world.until([&] { return waiting.size() == 1; }));
  REQUIRE(b.values() == y);
  SECTION("answered") {
    b.exchanger->answer({a.id, 1, true, {}, {}});
    REQUIRE(world.until([&] { return a.ended.size() == 1; }));
    REQUIRE(a.ended.back().outcome == Outcome::completed);
  }
  SECTION("withdrawn, and noticed without an answer") {
    a.exchanger->abort(1);
    REQUIRE(world.until([&] { return b.answers_ended == 1; }));
    REQUIRE(b.answers_completed == 0);
    REQUIRE(b.values() == y);
    b.exchanger->answer({a.id, 1, true, {}, {}});  // too late, and harmless
  }
}

TEST_CASE("a peer whose own values are not finite sends none of them, and reports it") {
  const float poison = GENERATE(std::numeric_limits<float>::quiet_NaN(), 1e38F);
  World world(Kind::tcp);
  TestPeer sick(world, 1), healthy(world, 2);
  fill(sick, mix_of(Rule::pairwise, Payload::f32), 1);
  fill(healthy, mix_of(Rule::pairwise, Payload::f32), 2);
  const auto before = healthy.values();
  sick.arena->write(300, std::vector<float>{poison});
  SECTION("in an exchange of its own") { REQUIRE(exchange(world, sick, healthy) == Outcome::aborted); }
  SECTION("in an exchange of its partner") {
    REQUIRE(exchange(world, healthy, sick) == Outcome::aborted);
    REQUIRE(healthy.counters().half_applied_chunks <= kWindow);
  }
  SECTION("to a joiner, now and later, until it is renewed") {
    healthy.exchanger->fetch_state({sick.id, sick.address});
    REQUIRE(world.until([&] { return healthy.states_lost.size() == 1; }));
    REQUIRE(sick.diverged == 1);
    sick.arena->write(300, std::vector<float>{0.5F});
    healthy.exchanger->fetch_state({sick.id, sick.address}, true);
    REQUIRE(world.until([&] { return healthy.states_lost.size() == 2; }));
    sick.exchanger->renewed();
    healthy.exchanger->fetch_state({sick.id, sick.address}, true);
    REQUIRE(world.until([&] { return healthy.states_arrived == 1; }));
    REQUIRE(healthy.values() == sick.values());
    return;
  }
  REQUIRE(sick.diverged == 1);
  REQUIRE(refused(sick, MixFault::own_replica) == 1);
  REQUIRE(refused(healthy, MixFault::not_finite) + refused(healthy, MixFault::too_large) == 0);
  REQUIRE(healthy.diverged == 0);
  for (const float value : healthy.values()) REQUIRE(std::abs(value) <= 1);
}

TEST_CASE("chunks from a partner are rejected by reason, and the reasons are counted") {
  World world(Kind::tcp);
  TestPeer b(world, 2);
  fill(b, mix_of(Rule::pairwise, Payload::f32), 2);
  const auto before = b.values();
  const auto send = [&](std::uint64_t number, wire::ChunkHead head, const std::vector<float>& values) {
    Stranger evil(world, number);
    evil.dial(b);
    REQUIRE(evil.say(evil.offer(b, kRuleCell)));
    head.exchange = 1;
    REQUIRE(evil.say(head, values));
    evil.hear_the_end();
  };
  std::vector<float> values(kRuleCell, 0.5F);
  values[7] = std::numeric_limits<float>::quiet_NaN();
  send(10, {}, values);
  values[7] = -1e38F;
  send(11, {}, values);
  send(12, {}, std::vector<float>(kRuleCell - 1, 0.5F));
  REQUIRE(world.until([&] { return b.answers_ended == 3; }));
  REQUIRE(refused(b, MixFault::not_finite) == 1);
  REQUIRE(refused(b, MixFault::too_large) == 1);
  REQUIRE(refused(b, MixFault::shape) == 1);
  REQUIRE(b.answers_poisoned == 2);
  REQUIRE(b.counters().chunks_refused == 3);
  REQUIRE(b.values() == before);

  // A reply with a weight that the rule does not allow.
  Stranger liar(world, 13);
  b.exchanger->begin(9, {liar.id, liar.address});
  liar.await_dial();
  REQUIRE(liar.hear_message<wire::ExchangeOffer>().exchange == 9);
  REQUIRE(liar.hear());
  wire::ChunkHead head;
  head.exchange = 9;
  head.kind = wire::ChunkKind::reply;
  head.weight = 0.375F;
  REQUIRE(liar.say(head, std::vector<float>(kRuleCell, 0.5F)));
  REQUIRE(world.until([&] { return b.ended.size() == 1; }));
  REQUIRE(b.ended.back().outcome == Outcome::aborted);
  REQUIRE(refused(b, MixFault::weight) == 1);
  REQUIRE(b.values() == before);
}

TEST_CASE("an additional chunk in an exchange costs no allocation except for coroutines that had to wait") {
  constexpr int kExchanges = 100;
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    const auto allocations = [&](std::size_t chunks) {
      World world(kind);
      TestPeer a(world, 1), b(world, 2);
      a.attach(random_floats(chunks * 1024, 1), 1024);
      b.attach(random_floats(chunks * 1024, 2), 1024);
      for (int i = 0; i < 10; ++i) REQUIRE(exchange(world, a, b) == Outcome::completed);
      const long before = allocation_count();
      for (int i = 0; i < kExchanges; ++i) REQUIRE(exchange(world, a, b) == Outcome::completed);
      return static_cast<double>(allocation_count() - before) / kExchanges;
    };
    const double few = allocations(8), many = allocations(72);
    WARN((kind == Kind::tcp ? "tcp: " : "memory: ") << few << " allocations in an exchange of 8 chunks, "
                                                    << many << " of 72: " << (many - few) / 64 << " a chunk");
    REQUIRE((many - few) / 64 < 12);
  }
}

}  // namespace starling::node
