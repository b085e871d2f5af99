#include "gossip/members/rumors.h"

#include "tests/catch.h"
#include "tests/gossip/story.h"

namespace starling::gossip {

using wire::Liveness;

namespace {

// Peer 1 with members 2 to `last`.
struct Told {
  explicit Told(std::uint64_t last)
      : view{.options = {}, .identity = &identity_of(1), .self = member(1), .random = Random(1)},
        rumors(view) {
    for (std::uint64_t k = 2; k <= last; ++k) {
      Record record;
      record.member = member(k);
      view.members.insert(record);
    }
  }
  Record& record(std::uint64_t k) { return *view.members.find(PeerId{k}); }

  LocalView view;
  Rumors rumors;
};

}  // namespace

TEST_CASE("a change is sent twice per bit of the swarm's size, never to its member") {
  Told told(8);
  told.rumors.start(told.record(3));
  REQUIRE(told.rumors.take(at(0s), PeerId{3}).empty());
  for (int k = 0; k < 8; ++k) REQUIRE(told.rumors.take(at(0s), PeerId{2}).size() == 1);
  REQUIRE(told.rumors.take(at(0s), PeerId{2}).empty());
  REQUIRE(told.rumors.members_queued() == 0);
}

TEST_CASE("a message carries a bounded number of changes, the newest first") {
  Told told(21);
  for (std::uint64_t k = 2; k <= 21; ++k) told.rumors.start(told.record(k));
  const auto first = told.rumors.take(at(0s), PeerId{99});
  REQUIRE(first.size() == Rumors::kMembersMax);
  REQUIRE(first.front().id == PeerId{21});
  const auto second = told.rumors.take(at(0s), PeerId{99});
  REQUIRE(second.front().id == PeerId{21 - Rumors::kMembersMax});
}

TEST_CASE("a message to a suspect begins with the suspicion, so that it can refute") {
  Told told(3);
  told.view.members.change(told.record(2), [](Record& r) { r.member.liveness = Liveness::suspect; });
  told.rumors.start(told.record(3));
  const auto news = told.rumors.take_with_self(at(7s), PeerId{2});
  REQUIRE(news.size() == 3);
  REQUIRE(news[0].id == PeerId{2});
  REQUIRE(news[0].liveness == Liveness::suspect);
  REQUIRE(news[1].id == PeerId{3});
  REQUIRE(news[2].id == PeerId{1});
  REQUIRE(told.record(2).warned_at == at(7s));
}

TEST_CASE("a change of this peer itself is sent a bounded number of times") {
  Told told(2);
  REQUIRE(told.rumors.take(at(0s), PeerId{2}).empty());
  told.rumors.start_self();
  for (int k = 0; k < 4; ++k) REQUIRE(told.rumors.take(at(0s), PeerId{2}).at(0).id == PeerId{1});
  REQUIRE(told.rumors.take(at(0s), PeerId{2}).empty());
}

TEST_CASE("each growth of samples is sent twice, the latest first, with the member's vitals") {
  Told told(4);
  for (const std::uint64_t k : {2, 3}) {
    told.view.members.set_samples(at(0s), told.record(k), 10 * k);
    told.rumors.progressed(told.record(k));
  }
  told.record(3).vitals = wire::Vitals{};
  for (int k = 0; k < 2; ++k) {
    const auto gossip = told.rumors.take_gossip(at(0s), PeerId{4}, Rumors::Reply::wanted);
    REQUIRE(gossip.reply_wanted);
    REQUIRE(gossip.progress == std::vector<wire::Progress>{{PeerId{3}, 30}, {PeerId{2}, 20}});
    REQUIRE(gossip.vitals.size() == 1);
  }
  REQUIRE(told.rumors.take_gossip(at(0s), PeerId{4}, Rumors::Reply::none).progress.empty());
}

TEST_CASE("shrinking the queue drops the newest changes, which can be started again") {
  Told told(10);
  for (std::uint64_t k = 2; k <= 4; ++k) told.rumors.start(told.record(k));
  for (std::uint64_t k = 5; k <= 10; ++k) told.rumors.start(told.record(k));
  told.rumors.shrink_to(3);
  REQUIRE(told.rumors.members_queued() == 3);
  REQUIRE(told.rumors.take(at(0s), PeerId{99}).front().id == PeerId{4});
  told.rumors.start(told.record(9));
  REQUIRE(told.rumors.take(at(0s), PeerId{99}).front().id == PeerId{9});
}

}  // namespace starling::gossip
