// The table of members with its counts and its digest, and the local view that draws members from it.
#include <algorithm>
#include <set>

#include "gossip/members/members.h"
#include "tests/catch.h"
#include "tests/gossip/story.h"

namespace starling::gossip {

using wire::Liveness;

namespace {

Record record_of(std::uint64_t k, Liveness liveness = Liveness::alive, Instant changed = at(0s)) {
  Record record;
  record.member = member(k);
  record.member.liveness = liveness;
  record.changed = changed;
  return record;
}

void set_liveness(Members& members, std::uint64_t k, Liveness liveness) {
  members.change(*members.find(PeerId{k}), [&](Record& r) { r.member.liveness = liveness; });
}

LocalView view_of(std::uint64_t first, std::uint64_t last) {
  LocalView view{.options = {}, .identity = &identity_of(1), .self = member(1), .random = Random(1)};
  for (std::uint64_t k = first; k <= last; ++k) view.members.insert(record_of(k));
  return view;
}

}  // namespace

TEST_CASE("the number of live members and the version follow every change") {
  Members members;
  members.insert(record_of(2));
  members.insert(record_of(3, Liveness::left));
  REQUIRE(members.live() == 1);
  const auto version = members.version();
  set_liveness(members, 2, Liveness::suspect);  // still live
  REQUIRE(members.live() == 1);
  REQUIRE(members.version() == version);
  set_liveness(members, 2, Liveness::failed);
  REQUIRE(members.live() == 0);
  REQUIRE(members.version() != version);
  set_liveness(members, 2, Liveness::alive);
  REQUIRE(members.live() == 1);
  const auto before_phase = members.version();
  members.change(*members.find(PeerId{2}), [](Record& r) { r.member.phase = wire::Phase::finished; });
  REQUIRE(members.version() != before_phase);
  members.erase(PeerId{2});
  REQUIRE(members.live() == 0);
  REQUIRE(members.find(PeerId{2}) == nullptr);
}

TEST_CASE("the digest depends on the live members, not on the order of changes") {
  Members a, b;
  for (std::uint64_t k = 2; k <= 20; ++k) a.insert(record_of(k));
  for (std::uint64_t k = 20; k >= 2; --k) b.insert(record_of(k));
  REQUIRE(a.digest() == b.digest());
  set_liveness(a, 7, Liveness::failed);
  REQUIRE(a.digest() != b.digest());
  b.erase(PeerId{7});
  REQUIRE(a.digest() == b.digest());
}

TEST_CASE("samples of erased members remain counted, as retired") {
  Members members;
  for (std::uint64_t k = 2; k <= 4; ++k) members.set_samples(at(1s), members.insert(record_of(k)), 10 * k);
  REQUIRE(members.samples() == 90);
  REQUIRE(members.retired_samples({}) == 0);
  set_liveness(members, 3, Liveness::left);
  members.erase(PeerId{4});
  REQUIRE(members.samples() == 90);
  REQUIRE(members.retired_samples({}) == 70);
  const wire::Member third = members.find(PeerId{3})->member;
  REQUIRE(members.retired_samples({&third, 1}) == 40);
}

TEST_CASE("the sum of samples saturates instead of wrapping") {
  Members members;
  members.set_samples(at(1s), members.insert(record_of(2)), UINT64_MAX - 5);
  members.set_samples(at(1s), members.insert(record_of(3)), 10);
  REQUIRE(members.samples() == UINT64_MAX);
  members.set_samples(at(1s), *members.find(PeerId{3}), UINT64_MAX);
  REQUIRE(members.samples() == UINT64_MAX);
}

TEST_CASE("the interval between two growths of samples is smoothed") {
  Members members;
  Record& record = members.insert(record_of(2));
  members.set_samples(at(1s), record, 10);
  REQUIRE(record.samples_every == Duration{0});
  members.set_samples(at(3s), record, 20);
  REQUIRE(record.samples_every == 2s);
  members.set_samples(at(9s), record, 30);
  REQUIRE(record.samples_every == 3s);  // (3 x 2 s + 6 s) / 4
}

TEST_CASE("a full table evicts the member that has been dead longest, but no live member") {
  Members members;
  members.insert(record_of(2));
  REQUIRE_FALSE(members.erase_longest_dead());
  members.insert(record_of(3, Liveness::failed, at(9s)));
  members.insert(record_of(4, Liveness::left, at(5s)));
  REQUIRE(members.erase_longest_dead());
  REQUIRE(members.find(PeerId{4}) == nullptr);
  REQUIRE(members.size() == 2);
}

TEST_CASE("members that left or were superseded are erased after a while, failed ones are not") {
  Members members;
  members.insert(record_of(2, Liveness::failed));
  members.insert(record_of(3, Liveness::left, at(1s)));
  members.insert(record_of(4, Liveness::left, at(2s)));
  members.insert(record_of(5, Liveness::failed)).superseded = true;
  members.erase_gone(at(1s));
  REQUIRE(members.find(PeerId{2}) != nullptr);
  REQUIRE(members.find(PeerId{3}) == nullptr);
  REQUIRE(members.find(PeerId{4}) != nullptr);
  REQUIRE(members.find(PeerId{5}) == nullptr);
}

TEST_CASE("drawn members are live and different") {
  LocalView view = view_of(2, 40);
  for (std::uint64_t k = 2; k <= 30; ++k) set_liveness(view.members, k, Liveness::failed);
  for (int i = 0; i < 50; ++i) {
    const auto drawn = view.draw_live(5);
    REQUIRE(std::set<PeerId>(drawn.begin(), drawn.end()).size() == 5);
    for (const PeerId id : drawn) REQUIRE(id.value > 30);
  }
  REQUIRE(view.draw_live(100).size() == 10);
  for (std::uint64_t k = 31; k <= 40; ++k) set_liveness(view.members, k, Liveness::left);
  REQUIRE(view.draw_live() == nullptr);
}

TEST_CASE("a circle is small, replaces dead members at once, and covers the swarm over time") {
  LocalView view = view_of(2, 60);
  std::set<PeerId> seen;
  for (int i = 0; i < 2000; ++i) {
    seen.insert(view.draw_from_circle()->member.id);
    REQUIRE(view.circle.size() == LocalView::kCircleSize);
    view.renew_circle();
  }
  REQUIRE(seen.size() == 59);
  const PeerId dead = view.circle.back();
  set_liveness(view.members, dead.value, Liveness::failed);
  for (int i = 0; i < 50; ++i) REQUIRE(view.draw_from_circle()->member.id != dead);
}

TEST_CASE("a circle without other members draws no member") {
  LocalView view = view_of(2, 1);
  REQUIRE(view.draw_from_circle() == nullptr);
}

}  // namespace starling::gossip
