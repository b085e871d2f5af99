// Broken connections do no harm, over TCP and in memory: at any cut, the chunks that each side has mixed are
// known, counted and within the bound; the next exchange works; and nothing leaks.
//
// The bound. When a connection breaks, the initiator has received r replies and the responder has mixed u >=
// r chunks. At most a window W is unanswered, so u - r <= W. Chunks below r are mixed on both sides and
// conserve the sum. Chunks in [r, u) are mixed only on the responder, and each shifts the sum of the two
// replicas by w (a - b), where a and b are the values that were mixed (plus a step of the payload's
// rounding). All other chunks are unchanged. The initiator cannot know u, so it counts all chunks that it had
// sent, min(W, C - r) of C, as half applied.
// untouched. The initiator cannot know u: it counts all that it had sent, min(W, C - r) of C chunks, as half
// applied.
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/models/allocations.h"
#include "tests/node/cable.h"
#include "tests/node/test_peer.h"
#include "tests/seeds.h"
#include "training/mixing/rules/push_sum.h"

namespace starling::node {
namespace {

using namespace testing;
using gossip::Outcome;
using transport::LinkErrorKind;
using End = Cable::End;

constexpr std::size_t kBrokenCell = 256, kBrokenCells = 6,
                      kBrokenFloats = kBrokenCell * (kBrokenCells - 1) + 26;  // the last one is shorter
const std::vector<float> kBrokenA = random_floats(kBrokenFloats, 1),
                         kBrokenB = random_floats(kBrokenFloats, 2);
constexpr double kRounding = 1e-6;  // for values below 2: a few units in the last place

struct Case {
  const char* name;
  Rule rule;
  Payload payload;
  double responder;  // the share by which it moves towards the initiator's values
  bool initiator;    // whether it moves by the same share towards the responder's
  double step;       // largest additional change by the payload's rounding
  bool met;          // they have exchanged before, so a rule that keeps copies has some
};

// With int8 a step is 1/127 of the block's largest value, which is below 1 for values and below 2 for their
// differences. A side moves by half the difference of two decoded values, so its error is below one step.
const std::vector<Case> kCases = {
    {"pairwise, f32", Rule::pairwise, Payload::f32, 0.5, true, kRounding, false},
    {"pairwise, int8", Rule::pairwise, Payload::int8, 0.5, true, 1.0 / 127, false},
    {"push-sum, f32", Rule::push_sum, Payload::f32, 1.0 / 3, false, kRounding, false},
    {"choco, f32, first meeting", Rule::choco, Payload::f32, 0.5, true, kRounding, false},
    {"choco, f32, with copies", Rule::choco, Payload::f32, 0.5, true, kRounding, true},
    {"choco, int8, first meeting", Rule::choco, Payload::int8, 0.5, true, 1.0 / 127, false},
    {"choco, int8, with copies", Rule::choco, Payload::int8, 0.5, true, 2.0 / 127, true},
};

// Two peers and a cable from the first to the second.
struct Pair {
  Pair(Kind kind, const Case& of) : world(kind), a(world, 1), b(world, 2), cable(world, b.address) {
    training::MixOptions mix;
    mix.rule = of.rule;
    mix.payload = of.payload;
    mix.cell_floats = kBrokenCell;
    for (TestPeer* peer : {&a, &b}) {
      peer->attach(kBrokenFloats, mix);
      peer->arena->write(0, peer == &a ? kBrokenA : kBrokenB);
      peer->mixer->adopt();
    }
    if (!of.met) return;
    REQUIRE(exchange(world, b, a) == Outcome::completed);  // from b to a, so that a keeps no connection
    REQUIRE(world.until([&] { return a.answers_ended == 1; }));
    a.arena->write(0, kBrokenA);
    b.arena->write(0, kBrokenB);
  }

  void begin() { a.exchanger->begin(++a.last_exchange, {b.id, cable.address()}, a.terms); }
  bool settles() {
    return world.until([&] {
      return a.exchanger->under_way() == 0 && a.exchanger->idle() == 0 && b.exchanger->servers() == 0;
    });
  }

  World world;
  TestPeer a, b;
  Cable cable;
};

double weight_of(const TestPeer& peer, std::size_t cell) {
  const auto* push_sum = dynamic_cast<const training::PushSum*>(peer.mixer.get());
  return push_sum != nullptr ? push_sum->share(cell) : 1;
}

// What exchanges conserve, element by element: the sum of u x, where u is 1 except in push-sum.
std::vector<double> sums(const Pair& pair) {
  std::vector<double> sum(kBrokenFloats, 0.0);
  for (const TestPeer* peer : {&pair.a, &pair.b}) {
    const auto x = peer->values();
    for (std::size_t i = 0; i < kBrokenFloats; ++i)
      sum[i] += weight_of(*peer, i / kBrokenCell) * double{x[i]};
  }
  return sum;
}

double largest_difference(const std::vector<double>& x, const std::vector<double>& y) {
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(x[i] - y[i]));
  return largest;
}

double disagreement(const Pair& pair) {
  const auto x = pair.a.values(), y = pair.b.values();
  double largest = 0;
  for (std::size_t i = 0; i < kBrokenFloats; ++i)
    largest = std::max(largest, std::abs(double{x[i]} - double{y[i]}));
  return largest;
}

// Whether the replica equals `from`, moved by `share` of the way towards `to` in the first `chunks` cells and
// unchanged in all later ones.
bool moved(const TestPeer& peer, const std::vector<float>& from, const std::vector<float>& to,
           std::size_t chunks, double share, double step) {
  const auto x = peer.values();
  for (std::size_t i = 0; i < kBrokenFloats; ++i) {
    const bool untouched = i / kBrokenCell >= chunks || share == 0;
    if (untouched && x[i] != from[i]) return false;
    const double expected = double{from[i]} + share * (double{to[i]} - double{from[i]});
    if (!untouched && std::abs(double{x[i]} - expected) > step) return false;
  }
  return true;
}

// Whether the sum of the two replicas is unchanged, to rounding, outside the chunks [from, to), and has
// changed inside them by at most what the responder moved.
bool shifted_within(const Pair& pair, const Case& of, std::size_t from, std::size_t to) {
  const auto x = pair.a.values(), y = pair.b.values();
  for (std::size_t i = 0; i < kBrokenFloats; ++i) {
    const double shift = double{x[i]} + double{y[i]} - double{kBrokenA[i]} - double{kBrokenB[i]};
    const bool half = i / kBrokenCell >= from && i / kBrokenCell < to;
    const double most =
        half ? of.responder * std::abs(double{kBrokenA[i]} - double{kBrokenB[i]}) + of.step : 2 * kRounding;
    if (std::abs(shift) > most) return false;
  }
  return true;
}

constexpr std::size_t kUpwardsBefore = 3;  // frames before the first chunk: Hello, Proof, offer

struct Break {
  std::size_t replies = 0, offers = 0;       // chunks: r and u
  std::size_t up_bytes = 0, down_bytes = 0;  // of the next frame, offer or reply
  End first = End::dialer;                   // is notified first
};

// No chunk of either side is lent any more: the next exchanges between the two conserve the sum, and agree.
void recovers(Pair& pair, const Case& of) {
  auto& [world, a, b, cable] = pair;
  const auto half_applied = a.counters().half_applied_chunks;
  const int completed = b.answers_completed;
  const auto before = sums(pair);
  const double apart = disagreement(pair);
  REQUIRE(exchange(world, a, b) == Outcome::completed);
  REQUIRE(exchange(world, b, a) == Outcome::completed);
  for (int i = 0; i < 4; ++i) REQUIRE(exchange(world, a, b) == Outcome::completed);
  REQUIRE(world.until([&] { return a.answers_ended == a.accepted && b.answers_ended == b.accepted; }));
  REQUIRE(b.answers_completed == completed + 5);
  REQUIRE(largest_difference(before, sums(pair)) < 20 * kRounding);
  REQUIRE(a.mixer->counters().overlapped + b.mixer->counters().overlapped == 0);
  REQUIRE(a.counters().half_applied_chunks == half_applied);
  if (of.initiator) {
    REQUIRE(disagreement(pair) <= 2 * of.step);
  } else {
    REQUIRE(disagreement(pair) < 0.5 * apart);
  }
}

// Makes one exchange that is cut, and checks what must hold afterwards.
void breaks(Kind kind, const Case& of, const Break& at) {
  CAPTURE(kind == Kind::tcp ? "tcp" : "memory", of.name, at.replies, at.offers, at.up_bytes, at.down_bytes,
          at.first == End::dialer);
  Pair pair(kind, of);
  auto& [world, a, b, cable] = pair;
  const bool all = at.replies == kBrokenCells;
  const std::size_t sent = std::min(at.replies + kWindow, kBrokenCells);
  // Upwards the handshake and the offer precede the chunks; downwards only a Hello does.
  cable.limit_next({{kUpwardsBefore + at.offers, at.up_bytes}, {1 + at.replies, at.down_bytes}});
  const std::size_t ended = a.ended.size(), told = a.advanced.size();
  const int offered = b.offered, completed = b.answers_completed;
  pair.begin();
  REQUIRE(world.until([&] {
    return b.offered == offered + 1 && cable.came_up() == kUpwardsBefore + sent &&
           cable.came_down() == 1 + at.offers && a.advanced.size() == told + at.replies &&
           cable.broken_up() == (at.up_bytes > 0) && cable.broken_down() == (at.down_bytes > 0) &&
           (!all || a.ended.size() > ended);
  }));
  cable.cut(at.first);
  if (at.first == End::dialer) {
    REQUIRE(world.until([&] { return a.ended.size() == ended + 1 && a.exchanger->idle() == 0; }));
  } else {
    REQUIRE(world.until([&] { return b.exchanger->servers() == 0; }));
    REQUIRE(a.ended.size() == ended + all);
  }
  cable.cut();
  REQUIRE(pair.settles());

  REQUIRE(a.ended.size() == ended + 1);
  REQUIRE(a.ended.back().outcome == (all ? Outcome::completed : Outcome::aborted));
  REQUIRE(a.counters().half_applied_chunks == sent - at.replies);
  REQUIRE(a.counters().redials == 0);
  REQUIRE(b.offered == offered + 1);
  REQUIRE(b.answers_ended == b.accepted);
  REQUIRE(b.answers_completed == completed + (at.offers == kBrokenCells));
  REQUIRE(b.answers_poisoned == 0);
  REQUIRE(a.counters().chunks_refused + b.counters().chunks_refused == 0);
  REQUIRE(a.links->counters()[LinkErrorKind::broken] == (at.down_bytes > 0));
  REQUIRE(b.links->counters()[LinkErrorKind::broken] == (at.up_bytes > 0));

  REQUIRE(moved(a, kBrokenA, kBrokenB, at.replies, of.initiator ? of.responder : 0, of.step));
  REQUIRE(moved(b, kBrokenB, kBrokenA, at.offers, of.responder, of.step));
  if (of.initiator) {
    REQUIRE(shifted_within(pair, of, at.replies, at.offers));
  } else {
    // One-way rules: the share that was in flight at the cut is lost, and no more than was counted.
    double lost = 0;
    for (std::size_t cell = 0; cell < kBrokenCells; ++cell) {
      REQUIRE(weight_of(a, cell) == (cell < sent ? 0.5 : 1));
      REQUIRE(weight_of(b, cell) == (cell < at.offers ? 1.5 : 1));
      if (cell >= at.replies && cell < sent) lost += 0.5 * static_cast<double>(a.mixer->grid().floats(cell));
    }
    REQUIRE(std::abs(a.mixer->counters().lost_weight - lost / kBrokenFloats) < 1e-12);
  }
  recovers(pair, of);
}

}  // namespace

TEST_CASE("a connection cut at any chunk, on either side, under any rule leaves known mixes") {
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    for (const Case& of : kCases) {
      for (std::size_t replies = 0; replies <= kBrokenCells; ++replies) {
        for (std::size_t offers = replies; offers <= std::min(replies + kWindow, kBrokenCells); ++offers) {
          for (const End first : {End::dialer, End::listener})
            breaks(kind, of, {replies, offers, 0, 0, first});
        }
      }
    }
  }
}

TEST_CASE("a connection cut in a chunk or a reply leaves no trace of that frame") {
  // In the frame's header, at its end, in the chunk's head, at its end, in the values, and one byte before
  // the end.
  std::vector<std::size_t> places = {1, 23, 24, 40, 64, 65, 200, 1'000'000};
  if (kSanitized) places = {23, 40, 65, 1'000'000};
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    for (const Case& of : kCases) {
      for (const std::size_t bytes : places) {
        for (const End first : {End::dialer, End::listener}) {
          breaks(kind, of, {0, 0, bytes, 0, first});
          breaks(kind, of, {1, 2, bytes, 0, first});
          breaks(kind, of, {0, 1, 0, bytes, first});
          breaks(kind, of, {2, 4, 0, bytes, first});
          breaks(kind, of, {2, 4, bytes, bytes, first});
          breaks(kind, of, {kBrokenCells - 1, kBrokenCells, 0, bytes, first});
        }
      }
    }
  }
}

TEST_CASE("a connection cut in its handshake or in the offer mixes nothing") {
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    for (const std::size_t bytes : {1, 23, 24, 30, 1'000'000}) {
      enum class In { hello, welcome, proof, offer };
      for (const In in : {In::hello, In::welcome, In::proof, In::offer}) {
        CAPTURE(kind == Kind::tcp ? "tcp" : "memory", bytes, static_cast<int>(in));
        Pair pair(kind, kCases[0]);
        auto& [world, a, b, cable] = pair;
        Cable::Limits limits;
        (in == In::welcome ? limits.down : limits.up) = {in == In::offer   ? 2U
                                                         : in == In::proof ? 1U
                                                                           : 0U,
                                                         bytes};
        cable.limit_next(limits);
        pair.begin();
        const std::size_t sent = in >= In::proof ? kWindow : 0;
        REQUIRE(world.until([&] {
          return cable.broken_up() != cable.broken_down() &&
                 cable.came_up() == (sent > 0 ? kUpwardsBefore + sent : 1);
        }));
        cable.cut();
        REQUIRE(pair.settles());
        REQUIRE(a.ended.size() == 1);
        REQUIRE(a.ended.back().outcome == Outcome::aborted);
        REQUIRE(a.counters().half_applied_chunks == sent);
        REQUIRE(b.offered == 0);
        REQUIRE(a.values() == kBrokenA);
        REQUIRE(b.values() == kBrokenB);
        REQUIRE(exchange(world, a, b) == Outcome::completed);
        REQUIRE(disagreement(pair) <= kRounding);
      }
    }
  }
}

TEST_CASE("an exchange whose kept connection breaks restarts on a new one, unless a reply had come") {
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    for (const Case& of : kCases) {
      if (!of.initiator) continue;
      for (const std::size_t replies : {0, 1}) {
        for (std::size_t offers = replies; offers <= replies + kWindow; ++offers) {
          for (const bool late : {false, true}) {
            CAPTURE(kind == Kind::tcp ? "tcp" : "memory", of.name, replies, offers, late);
            Pair pair(kind, of);
            auto& [world, a, b, cable] = pair;
            pair.begin();
            REQUIRE(world.until([&] { return a.ended.size() == 1; }));
            REQUIRE(world.until([&] { return b.answers_completed == b.accepted; }));
            a.arena->write(0, kBrokenA);
            b.arena->write(0, kBrokenB);
            const int accepted = b.accepted;
            const std::size_t told = a.advanced.size();
            cable.limit({{kUpwardsBefore + kBrokenCells + 1 + offers, 0}, {1 + kBrokenCells + replies, 0}});
            pair.begin();
            REQUIRE(world.until([&] {
              return b.accepted == accepted + 1 &&
                     cable.came_up() == kUpwardsBefore + kBrokenCells + 1 + replies + kWindow &&
                     cable.came_down() == 1 + kBrokenCells + offers && a.advanced.size() == told + replies;
            }));
            cable.cut(End::dialer);
            if (!late) cable.cut();  // else the responder is notified after the exchange has been made again
            const auto old = cable.connections();
            REQUIRE(world.until([&] { return a.ended.size() == 2; }));
            const bool again = replies == 0;
            if (again) cable.cut_before();
            if (!again) cable.cut();
            REQUIRE(world.until([&] { return b.answers_ended == b.accepted; }));
            REQUIRE(cable.connections() == old + again);
            REQUIRE(a.ended.back().outcome == (again ? Outcome::completed : Outcome::aborted));
            REQUIRE(a.counters().redials == again);
            REQUIRE(a.counters().half_applied_chunks == kWindow);
            REQUIRE(b.accepted == accepted + 1 + again);
            REQUIRE(b.answers_completed == accepted + again);
            REQUIRE(shifted_within(pair, of, replies, offers));
            for (int i = 0; i < 4; ++i) REQUIRE(exchange(world, a, b) == Outcome::completed);
            REQUIRE(shifted_within(pair, of, replies, offers));
            REQUIRE(disagreement(pair) <= 2 * of.step);
            REQUIRE(a.mixer->counters().overlapped + b.mixer->counters().overlapped == 0);
          }
        }
      }
    }
  }
}

TEST_CASE("a first copy may be cut anywhere: another donor sends only the missing chunks") {
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    // The handshake and the head precede the chunks.
    for (std::size_t frames = 0; frames < 2 + kBrokenCells; ++frames) {
      for (const std::size_t bytes : {1, 24, 64, 500}) {
        for (const End first : {End::dialer, End::listener}) {
          CAPTURE(kind == Kind::tcp ? "tcp" : "memory", frames, bytes, first == End::dialer);
          World world(kind);
          TestPeer joiner(world, 1), donor(world, 2), other(world, 3);
          joiner.attach(kBrokenA, kBrokenCell);
          donor.attach(kBrokenB, kBrokenCell);
          other.attach(kBrokenB, kBrokenCell);
          Cable cable(world, donor.address);
          cable.limit_next({{}, {frames, bytes}});
          joiner.exchanger->fetch_state({donor.id, cable.address()});
          const std::size_t in_place = frames - std::min<std::size_t>(frames, 2);
          REQUIRE(world.until([&] { return cable.broken_down() && joiner.advances.size() == in_place; }));
          cable.cut(first);
          if (first == End::dialer) REQUIRE(world.until([&] { return joiner.states_lost.size() == 1; }));
          if (first == End::listener) REQUIRE(world.until([&] { return donor.exchanger->servers() == 0; }));
          cable.cut();
          REQUIRE(
              world.until([&] { return joiner.states_lost.size() == 1 && donor.exchanger->servers() == 0; }));
          REQUIRE(joiner.states_unusable == 0);
          REQUIRE(joiner.counters().chunks_refused == 0);
          auto expected = kBrokenA;
          std::copy_n(kBrokenB.begin(), in_place * kBrokenCell, expected.begin());
          REQUIRE(joiner.values() == expected);
          REQUIRE(donor.values() == kBrokenB);
          joiner.exchanger->fetch_state({other.id, other.address});
          REQUIRE(world.until([&] { return joiner.states_arrived == 1; }));
          REQUIRE(joiner.advances.size() == kBrokenCells);  // none arrives twice
          REQUIRE(joiner.values() == kBrokenB);
        }
      }
    }
  }
}

// ---- leaks ----

namespace {

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

// Peers, and several ways in which their exchanges break.
class Breakage {
 public:
  explicit Breakage(Kind kind)
      : world(kind),
        a(world, 1),
        b(world, 2),
        short_tempered(world, 3, tempered()),
        cable(world, b.address),
        stranger(world, 66) {
    a.attach(kBrokenA, kBrokenCell);
    b.attach(kBrokenB, kBrokenCell);
    short_tempered.attach(kBrokenB, kBrokenCell);
    for (TestPeer* peer : {&a, &b, &short_tempered}) {  // the records that the tests keep do not count
      peer->ended.reserve(10'000);
      peer->advanced.reserve(100'000);
      peer->rounds_offered.reserve(10'000);
    }
  }

  void one() {
    const std::size_t kind = random.below(5);
    ++tally[kind];
    switch (kind) {
      case 0:
        return initiator_aborts();
      case 1:
        return responder_closes();
      case 2:
        return initiator_closes();
      case 3:
        return initiator_stalls();
      default:
        return link_is_cut();
    }
  }

  // Waits until no exchange is under way.
  void settle() {
    cable.cut();
    REQUIRE(world.until([&] {
      return a.exchanger->under_way() == 0 && a.exchanger->idle() == 0 && b.exchanger->servers() == 0 &&
             short_tempered.exchanger->servers() == 0;
    }));
    while (world.io.poll_one() > 0) {
    }
    REQUIRE(b.answers_ended == b.accepted);
    REQUIRE(short_tempered.answers_ended == short_tempered.accepted);
  }

  World world;
  TestPeer a, b, short_tempered;
  Cable cable;
  Stranger stranger;
  Random random{11};
  std::size_t tally[5] = {};

 private:
  static ExchangerOptions tempered() {
    ExchangerOptions options = steady();
    options.stall = std::chrono::milliseconds(1);
    return options;
  }
  void begin(PeerId partner, const Address& address) {
    a.exchanger->begin(++a.last_exchange, {partner, address});
  }

  void initiator_aborts() {
    begin(b.id, cable.address());
    for (std::uint64_t turns = random.below(40); turns > 0; --turns) world.io.poll_one();
    a.exchanger->abort(a.last_exchange);
  }

  void responder_closes() {
    const std::size_t ended = a.ended.size();
    stranger.link = nullptr;
    begin(stranger.id, stranger.address);
    stranger.await_dial();
    for (std::uint64_t frames = random.below(2 + kWindow); frames > 0; --frames) REQUIRE(stranger.hear());
    stranger.link->close();
    REQUIRE(world.until([&] { return a.ended.size() > ended; }));
  }

  // Sends some chunks and does not read all replies.
  void speak(const TestPeer& to) {
    stranger.dial(to);
    REQUIRE(stranger.say(stranger.offer(to, kBrokenCell, ++spoken_)));
    const std::size_t chunks = random.below(kBrokenCells);
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      wire::ChunkHead head;
      head.exchange = spoken_;
      head.offset = chunk * kBrokenCell;
      const auto at = kBrokenA.begin() + static_cast<std::ptrdiff_t>(head.offset);
      if (!stranger.say(head, std::vector<float>(at, at + kBrokenCell))) return;  // disconnected meanwhile
      if (random.below(2) == 0) stranger.hear();
    }
  }
  void initiator_closes() {
    speak(b);
    stranger.link->close();
  }
  void initiator_stalls() {
    stranger.dial(short_tempered);
    if (!stranger.say(stranger.offer(short_tempered, kBrokenCell, ++spoken_))) return;
    stranger.hear_the_end();
  }

  void link_is_cut() {
    const std::size_t ended = a.ended.size();
    const auto limit = [&] {
      return Cable::Limit{random.below(kBrokenCells + 3), 1 + random.below(kBrokenCell * sizeof(float)),
                          random.below(2) == 0};
    };
    settle();
    a.arena->write(0, kBrokenA);
    b.arena->write(0, kBrokenB);
    const auto counted = a.counters().half_applied_chunks;
    cable.limit_next({limit(), limit()});
    const auto connections = cable.connections();
    begin(b.id, cable.address());
    REQUIRE(world.until([&] {
      return a.ended.size() > ended ||
             (cable.connections() > connections && (cable.broken_up() || cable.broken_down()));
    }));
    cable.cut();
    REQUIRE(world.until([&] { return a.ended.size() > ended && b.exchanger->servers() == 0; }));
    const auto half = a.counters().half_applied_chunks - counted;
    REQUIRE(half <= kWindow);
    REQUIRE(shifted_chunks(kBrokenA, kBrokenB, a.values(), b.values(), kBrokenCell) <= half);
  }

  std::uint64_t spoken_ = 0;
};

}  // namespace

TEST_CASE("a thousand exchanges begun and broken leak no descriptor, no memory and no loan") {
  constexpr int kWarm = 500, kBreaks = 1000;
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    Breakage breakage(kind);
    auto& world = breakage.world;
    const auto kept = [&] {  // buffers for the next chunks: bounded in number, and unused
      return static_cast<long>(breakage.a.exchanger->spare_bytes() + breakage.b.exchanger->spare_bytes() +
                               breakage.short_tempered.exchanger->spare_bytes());
    };
    for (int i = 0; i < kWarm; ++i) breakage.one();
    breakage.settle();
    const std::size_t descriptors = open_descriptors();
    const Live before = live_allocations();
    const long kept_before = kept();
    for (int i = 0; i < kBreaks; ++i) breakage.one();
    breakage.settle();
    const Live after = live_allocations();
    const long blocks = after.blocks - before.blocks;
    const long bytes = after.bytes - before.bytes - (kept() - kept_before);
    WARN((kind == Kind::tcp ? "tcp: " : "memory: ")
         << blocks << " blocks and " << bytes << " bytes more after " << kBreaks << " breaks");
    for (const std::size_t of_a_kind : breakage.tally) REQUIRE(of_a_kind > 200);
    REQUIRE(open_descriptors() == descriptors);
    REQUIRE(blocks < kBreaks / 50);
    REQUIRE(bytes < 16 * 1024);
    REQUIRE(kept() <= static_cast<long>(3 * steady().rooms_bytes_max));

    // All of them still exchange, at weight one half.
    REQUIRE(exchange(world, breakage.a, breakage.b) == Outcome::completed);
    REQUIRE(exchange(world, breakage.b, breakage.a) == Outcome::completed);
    const auto x = breakage.a.values(), y = breakage.b.values();
    for (std::size_t i = 0; i < kBrokenFloats; ++i) REQUIRE(std::abs(x[i] - y[i]) <= 1e-6F);
    REQUIRE(breakage.a.mixer->counters().overlapped + breakage.b.mixer->counters().overlapped == 0);
  }
}

}  // namespace starling::node
