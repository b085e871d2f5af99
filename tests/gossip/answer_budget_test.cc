// Which answers and copies end to make room. Random histories are compared with a definition that keeps all
// that happened and decides by sorting.
#include "gossip/meeting/answer_budget.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "tests/catch.h"
#include "tests/seeds.h"

namespace starling::gossip::budget_tests {
namespace {

using namespace std::chrono_literals;
using Number = AnswerBudget::Number;

constexpr PeerId kA{1}, kB{2}, kC{3};
constexpr std::uint64_t kChunkBytes = 100'000;  // two in two seconds are above the floor

Instant at(Duration time) { return {time}; }

// ---- the definition ----

struct Move {
  Instant at;
  std::uint64_t bytes;
};

// An answer or a copy, with all its moves.
struct Report {
  Number number;
  PeerId peer;
  Instant began;
  std::vector<Move> moves{};

  bool begun() const { return !moves.empty(); }
  Instant last() const { return moves.empty() ? began : moves.back().at; }
  // An interval ends with the first move two seconds or more after the interval before.
  bool below_floor() const {
    bool below = false;
    Instant from = began;
    double bytes = 0;
    for (const Move& move : moves) {
      bytes += static_cast<double>(move.bytes);
      if (move.at - from < 2s) continue;
      below = bytes / to_seconds(move.at - from) < 16384;
      from = move.at;
      bytes = 0;
    }
    return below;
  }
  bool slow(Instant now) const { return below_floor() || now - last() >= 2s; }
};

struct Ending {
  PeerId peer;
  bool completed, begun;
};

struct Definition {
  AnswerLimits limits;
  std::vector<Report> answers{}, copies{};
  std::vector<Ending> endings{};

  std::uint32_t wasted(PeerId peer) const {
    std::uint32_t count = 0;
    for (auto it = endings.rbegin(); it != endings.rend(); ++it) {
      if (it->peer != peer) continue;
      if (it->completed) break;
      count += it->begun ? 0 : 1;
    }
    return count;
  }
  static std::optional<Number> first_of(const std::vector<Report>& sorted) {
    return sorted.empty() ? std::nullopt : std::optional(sorted.front().number);
  }
  std::optional<Number> end_for_offer(PeerId of) const {
    std::vector<Report> its;
    for (const Report& it : answers)
      if (it.peer == of) its.push_back(it);
    if (its.size() < limits.answers_per_peer) return std::nullopt;
    std::ranges::stable_sort(its, {}, &Report::last);
    return first_of(its);
  }
  std::optional<Number> end_for_refused(PeerId of, Instant now) const {
    if (answers.size() < limits.answers_scarce) return std::nullopt;
    std::vector<Report> stuck;
    for (const Report& it : answers)
      if (!it.begun() || it.slow(now)) stuck.push_back(it);
    std::ranges::sort(stuck, {}, [this](const Report& it) {
      return std::tuple(-std::int64_t{wasted(it.peer)}, it.begun(), it.last(), it.number);
    });
    if (stuck.empty() || wasted(stuck.front().peer) < wasted(of)) return std::nullopt;
    return first_of(stuck);
  }
  std::optional<Number> end_for_copy(PeerId of, Instant now) const {
    std::vector<Report> its, slow;
    for (const Report& it : copies) {
      if (it.peer == of) its.push_back(it);
      if (it.slow(now)) slow.push_back(it);
    }
    std::ranges::sort(slow, {}, [](const Report& it) { return std::tuple(it.last(), it.number); });
    if (!its.empty()) return first_of(its);
    return copies.size() < limits.copies ? std::nullopt : first_of(slow);
  }
};

// ---- random histories ----

// A driver of both: it ends what they say, begins answers and copies, moves and ends them.
class History {
 public:
  explicit History(std::uint64_t seed)
      : random_(seed), definition_{draw_limits()}, budget_(definition_.limits) {
    peers_ = 2 + random_.below(4);
    greatest_pause_ = random_.chance(0.5) ? 300 : 3000;
  }

  void run() {
    for (std::uint64_t k = 40 + random_.below(80); k > 0; --k) {
      now_ = now_ + std::chrono::milliseconds(random_.below(greatest_pause_));
      happen();
      compare();
    }
  }

 private:
  AnswerLimits draw_limits() { return {1 + random_.below(3), random_.below(6), 1 + random_.below(3), 256}; }
  PeerId peer() { return {1 + random_.below(peers_)}; }

  void happen() {
    switch (random_.below(8)) {
      case 0:
      case 1:
        return offer(peer(), random_.chance(0.3));
      case 2:
        return request(peer());
      case 3:
        return end_answer(any(definition_.answers), random_.chance(0.4));
      case 4:
        return random_.chance(0.3) ? end_copy(any(definition_.copies)) : static_cast<void>(0);
      default:
        return move();
    }
  }

  void offer(PeerId of, bool busy) {
    end_answer(budget_.end_for_offer(of), false);
    if (busy) end_answer(budget_.end_for_refused(of, now_), false);
    budget_.answer_began(++last_, of, now_);
    definition_.answers.push_back({last_, of, now_});
  }
  void request(PeerId of) {
    end_copy(budget_.end_for_copy(of, now_));
    if (!budget_.may_copy()) return;
    budget_.copy_began(++last_, of, now_);
    definition_.copies.push_back({last_, of, now_});
  }
  void move() {
    const bool copy = random_.chance(0.3);
    std::vector<Report>& all = copy ? definition_.copies : definition_.answers;
    const auto number = any(all);
    if (!number) return;
    const std::uint64_t bytes = random_.below(random_.chance(0.5) ? 1000 : kChunkBytes);
    std::ranges::find(all, *number, &Report::number)->moves.push_back({now_, bytes});
    copy ? budget_.copy_moved(*number, now_, bytes) : budget_.answer_moved(*number, now_, bytes);
  }
  void end_answer(std::optional<Number> number, bool completed) {
    if (!number) return;
    const auto found = std::ranges::find(definition_.answers, *number, &Report::number);
    REQUIRE(found != definition_.answers.end());
    definition_.endings.push_back({found->peer, completed, found->begun()});
    definition_.answers.erase(found);
    budget_.answer_ended(*number, completed);
    if (random_.chance(0.1)) budget_.answer_ended(*number, false);  // without effect
  }
  void end_copy(std::optional<Number> number) {
    if (!number) return;
    REQUIRE(std::erase_if(definition_.copies, [&](const Report& it) { return it.number == *number; }) == 1);
    budget_.copy_ended(*number);
    if (random_.chance(0.1)) budget_.copy_moved(*number, now_, 1);  // without effect
  }
  std::optional<Number> any(const std::vector<Report>& all) {
    return all.empty() ? std::nullopt : std::optional(all[random_.below(all.size())].number);
  }

  void compare() const {
    REQUIRE(budget_.answers() == definition_.answers.size());
    REQUIRE(budget_.may_copy() == (definition_.copies.size() < definition_.limits.copies));
    for (std::uint64_t id = 1; id <= peers_; ++id) {
      const PeerId of{id};
      REQUIRE(budget_.wasted_by(of) == definition_.wasted(of));
      REQUIRE(budget_.end_for_offer(of) == definition_.end_for_offer(of));
      REQUIRE(budget_.end_for_refused(of, now_) == definition_.end_for_refused(of, now_));
      REQUIRE(budget_.end_for_copy(of, now_) == definition_.end_for_copy(of, now_));
      REQUIRE(std::ranges::count(definition_.answers, of, &Report::peer) <=
              static_cast<std::ptrdiff_t>(definition_.limits.answers_per_peer));
      REQUIRE(std::ranges::count(definition_.copies, of, &Report::peer) <= 1);
    }
    REQUIRE(definition_.copies.size() <= definition_.limits.copies);
  }

  Random random_;
  Definition definition_;
  AnswerBudget budget_;
  std::uint64_t peers_, greatest_pause_;  // milliseconds
  Number last_ = 0;
  Instant now_{};
};

}  // namespace

TEST_CASE("in random histories the same answers and copies end as by the definition") {
  for (std::uint64_t seed = 0; seed < seeds(3000); ++seed) {
    CAPTURE(seed);
    History(seed).run();
  }
}

TEST_CASE("a third offer of a peer ends its answer that moved least recently") {
  AnswerBudget budget;
  budget.answer_began(1, kA, at(0s));
  budget.answer_began(2, kA, at(1s));
  budget.answer_began(3, kB, at(0s));
  CHECK(budget.end_for_offer(kA) == 1);
  budget.answer_moved(1, at(2s), kChunkBytes);
  CHECK(budget.end_for_offer(kA) == 2);
  CHECK_FALSE(budget.end_for_offer(kB));
  CHECK_FALSE(budget.end_for_offer(kC));
}

TEST_CASE("an answer that moves never ends for a refused offer, and one without a chunk does") {
  AnswerBudget budget({.answers_scarce = 2});
  budget.answer_began(1, kA, at(0s));
  CHECK_FALSE(budget.end_for_refused(kC, at(1s)));  // another place is free
  budget.answer_began(2, kB, at(0s));
  budget.answer_moved(1, at(1s), kChunkBytes);
  CHECK(budget.end_for_refused(kC, at(1s)) == 2);
  budget.answer_moved(2, at(1s), kChunkBytes);
  CHECK_FALSE(budget.end_for_refused(kC, at(2s)));
  budget.answer_moved(2, at(2900ms), kChunkBytes);
  CHECK(budget.end_for_refused(kC, at(3s)) == 1);  // it moved nothing for two seconds
}

TEST_CASE("an answer that moves less than 16 KB/s is slow until it has moved more in the next two seconds") {
  AnswerBudget budget({.answers_scarce = 1});
  budget.answer_began(1, kA, at(0s));
  budget.answer_moved(1, at(1s), 16384);
  CHECK_FALSE(budget.end_for_refused(kC, at(2s)));
  budget.answer_moved(1, at(2s), 16383);
  CHECK(budget.end_for_refused(kC, at(2s)) == 1);
  budget.answer_moved(1, at(3s), 32768);
  CHECK(budget.end_for_refused(kC, at(3s)) == 1);
  budget.answer_moved(1, at(4s), 0);
  CHECK_FALSE(budget.end_for_refused(kC, at(5s)));
}

TEST_CASE("the answers of a peer that wasted most end first, and its offers end nobody else's") {
  AnswerBudget budget({.answers_scarce = 2});
  for (Number number = 1; number <= 3; ++number) {
    budget.answer_began(number, kB, at(0s));
    budget.answer_ended(number, false);
  }
  CHECK(budget.wasted_by(kB) == 3);
  budget.answer_began(4, kA, at(0s));
  budget.answer_began(5, kB, at(1s));
  CHECK(budget.end_for_refused(kC, at(1s)) == 5);  // though 4 is older
  budget.answer_ended(5, false);
  budget.answer_began(6, kC, at(1s));
  CHECK_FALSE(budget.end_for_refused(kB, at(1s)));
  CHECK(budget.end_for_refused(PeerId{4}, at(1s)) == 4);
}

TEST_CASE("a completed exchange clears the count, and one that broke after a chunk leaves it") {
  AnswerBudget budget;
  budget.answer_began(1, kA, at(0s));
  budget.answer_ended(1, false);
  budget.answer_began(2, kA, at(0s));
  budget.answer_moved(2, at(0s), 1);
  budget.answer_ended(2, false);
  CHECK(budget.wasted_by(kA) == 1);
  budget.answer_began(3, kA, at(0s));
  budget.answer_moved(3, at(0s), 1);
  budget.answer_ended(3, true);
  CHECK(budget.wasted_by(kA) == 0);
}

TEST_CASE(
    "wasted answers are counted for a bounded number of peers, and the one with the fewest is forgotten") {
  AnswerBudget budget({.wasters = 2});
  Number number = 0;
  const auto waste = [&](PeerId of) {
    budget.answer_began(++number, of, at(0s));
    budget.answer_ended(number, false);
  };
  for (const PeerId of : {kA, kA, kB, kC}) waste(of);
  CHECK(budget.wasted_by(kA) == 2);
  CHECK(budget.wasted_by(kB) == 0);
  CHECK(budget.wasted_by(kC) == 1);
}

TEST_CASE("a further copy of a peer ends its first one, and a slow one ends when all places are taken") {
  AnswerBudget budget({.copies = 2});
  budget.copy_began(1, kA, at(0s));
  CHECK(budget.end_for_copy(kA, at(0s)) == 1);
  CHECK_FALSE(budget.end_for_copy(kB, at(10s)));
  budget.copy_began(2, kB, at(0s));
  CHECK_FALSE(budget.may_copy());
  CHECK_FALSE(budget.end_for_copy(kC, at(1s)));
  budget.copy_moved(1, at(1s), kChunkBytes);
  CHECK(budget.end_for_copy(kC, at(2s)) == 2);
  budget.copy_ended(2);
  CHECK(budget.may_copy());
}

}  // namespace starling::gossip::budget_tests
