// The components of Peer and Membership, each tested separately.
#include "gossip/copying.h"
#include "gossip/ending.h"
#include "gossip/meeting/exchanges.h"
#include "gossip/meeting/rounds.h"
#include "gossip/members/prober.h"
#include "tests/catch.h"
#include "tests/gossip/story.h"

namespace starling::gossip {

namespace {

// Peer 1 in the training phase, with other members that train.
struct Running {
  explicit Running(std::uint64_t others) : run(identity()) {
    run.rules = RunRules{*topologies::Topology::parse("complete"), Rule::pairwise, {}, {}};
    run.membership.start(at(0s));
    run.membership.set_phase(wire::Phase::training);
    for (std::uint64_t k = 2; k < 2 + others; ++k) {
      const wire::Member other = member(k);
      run.membership.merge(at(0s), PeerId{k}, {&other, 1}, out);
    }
    out.clear();
  }
  static PeerOptions identity() {
    PeerOptions options;
    options.identity = &identity_of(1);
    options.name = "p1";
    options.address = address_of(1);
    return options;
  }

  RunState run;
  std::vector<Action> out;
};

struct Pinging {
  Pinging() : view{.options = {}, .identity = &identity_of(1), .self = member(1), .random = Random(1)} {
    Record record;
    record.member = member(2);
    view.members.insert(record);
  }

  LocalView view;
  std::vector<Action> out;
};

}  // namespace

TEST_CASE("a round count jumps only to later rounds, and not absurdly far") {
  RoundCount count;
  REQUIRE(count.begin() == 1);
  count.left_behind(2);
  REQUIRE(count.begin() == 2);
  count.left_behind(9);
  REQUIRE(count.next() == 9);
  count.left_behind(9 + 2 * RoundCount::kAheadMost);
  REQUIRE(count.begin() == 9);
  REQUIRE(count.begin() == 10);
}

TEST_CASE("a copy starts from a member that trains, resumes after a lost donor, and restarts afresh") {
  Running running(1);
  Copying copying(running.run);
  copying.start(running.out);
  auto fetch = all<FetchState>(running.out);
  REQUIRE(fetch.at(0).donor.id == PeerId{2});
  REQUIRE_FALSE(fetch[0].afresh);
  REQUIRE(copying.deadline() == at(3s));

  running.out.clear();
  copying.lost({"gone"}, running.out);
  REQUIRE_FALSE(copying.arrived());
  running.run.now = copying.next_deadline();
  REQUIRE(running.run.now >= at(150ms));
  REQUIRE(running.run.now <= at(250ms));
  copying.tick(running.out);
  REQUIRE_FALSE(all<FetchState>(running.out).at(0).afresh);
  REQUIRE(copying.arrived());

  running.out.clear();
  copying.restart(1s);
  REQUIRE(copying.next_deadline() == running.run.now + 1s);
  running.run.now = running.run.now + 1s;
  copying.tick(running.out);
  REQUIRE(all<FetchState>(running.out).at(0).afresh);
}

TEST_CASE("a stopped copy is aborted and chooses no other donor") {
  Running running(2);
  Copying copying(running.run);
  copying.start(running.out);
  running.out.clear();
  copying.stop(running.out);
  REQUIRE(all<AbortFetch>(running.out).size() == 1);
  REQUIRE(copying.next_deadline() == kNever);
}

TEST_CASE("settling takes 2 + log2 n completed exchanges, in at most four times as many tries") {
  for (const auto& [others, exchanges] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {0, 0}, {1, 3}, {2, 4}, {3, 4}, {4, 5}, {7, 5}, {8, 6}}) {
    Running running(others);
    CHECK(Ending(running.run).exchanges_to_settle() == exchanges);
  }
  Running running(1);
  Ending ending(running.run);
  ending.settle(2);
  ending.exchange_settled();
  for (int tries = 0; tries < 8; ++tries) REQUIRE(ending.try_settling(running.out));
  REQUIRE_FALSE(ending.settled());
  REQUIRE_FALSE(ending.try_settling(running.out));
  REQUIRE(ending.settled());
}

TEST_CASE("a leaving peer makes one last exchange, and another if that fails") {
  Running running(1);
  Ending ending(running.run);
  ending.leave();
  REQUIRE(ending.next_deadline() == at(1500ms));
  REQUIRE(ending.last_exchange_due());
  ending.begin_last_exchange();
  REQUIRE_FALSE(ending.last_exchange_due());
  ending.last_exchange_failed();
  REQUIRE(ending.last_exchange_due());
}

TEST_CASE("exchanges are counted by their outcome, and only while they are in flight") {
  Running running(2);
  Exchanges exchanges(running.run);
  const auto first = exchanges.begin(PeerId{2}, {}, at(10s), running.out).exchange;
  const auto second = exchanges.begin(PeerId{3}, {}, at(10s), running.out).exchange;
  REQUIRE(all<BeginExchange>(running.out).size() == 2);
  REQUIRE(exchanges.ended({first, Outcome::completed}, running.out)->partner == PeerId{2});
  REQUIRE_FALSE(exchanges.ended({first, Outcome::completed}, running.out));
  exchanges.abort_all(running.out);
  REQUIRE(all<AbortExchange>(running.out).at(0).exchange == second);
  REQUIRE_FALSE(exchanges.ended({second, Outcome::aborted}, running.out));
  REQUIRE(exchanges.counts().begun == 2);
  REQUIRE(exchanges.counts().completed == 1);
  REQUIRE(exchanges.counts().aborted == 1);
}

TEST_CASE("an exchange is lost if its partner is suspect or at its deadline, which progress extends") {
  Running running(2);
  Exchanges exchanges(running.run);
  const auto first = exchanges.begin(PeerId{2}, {}, at(1s), running.out).exchange;
  const auto second = exchanges.begin(PeerId{3}, {}, at(5s), running.out).exchange;
  running.run.now = at(900ms);
  REQUIRE(exchanges.lost(running.out).empty());
  exchanges.advanced({first, 1});
  running.run.now = at(1s);
  REQUIRE(exchanges.lost(running.out).empty());
  exchanges.slept(2s);
  running.run.now = at(5s);
  REQUIRE(exchanges.lost(running.out).empty());
  running.run.now = at(7s);
  REQUIRE(exchanges.lost(running.out) == std::vector{second});
  running.run.membership.unreachable(at(7s), {{}, address_of(2)}, running.out);
  REQUIRE(exchanges.lost(running.out) == std::vector{first, second});
}

TEST_CASE("an answer ends once, and counts if it was completed") {
  Running running(1);
  Exchanges exchanges(running.run);
  exchanges.accept({PeerId{2}, 7, 0}, {}, running.out);
  REQUIRE(exchanges.answering() == 1);
  REQUIRE(exchanges.answer_ended({PeerId{2}, 7}, running.out));
  REQUIRE_FALSE(exchanges.answer_ended({PeerId{2}, 7}, running.out));
  REQUIRE(exchanges.counts().answered == 1);
  exchanges.accept({PeerId{2}, 8, 0}, {}, running.out);
  exchanges.forget_answers_before({PeerId{2}, 9, 0});
  REQUIRE(exchanges.answering() == 0);
}

TEST_CASE("a probe without an answer asks helpers and then fails; sleep extends its deadline") {
  Pinging pinging;
  Rumors rumors(pinging.view);
  Prober prober(pinging.view, rumors);
  Record& record = *pinging.view.members.find(PeerId{2});
  prober.probe(at(0s), record, Prober::Helpers::asked, pinging.out);
  prober.probe(at(0s), record, Prober::Helpers::asked, pinging.out);  // already probed
  REQUIRE(sent<wire::Ping>(pinging.out).size() == 1);
  REQUIRE(prober.next_deadline() == at(500ms));
  prober.slept(1s);
  REQUIRE(prober.next_deadline() == at(1500ms));
  REQUIRE_FALSE(prober.advance(at(1500ms), pinging.out));
  REQUIRE(prober.advance(at(2s), pinging.out) == PeerId{2});
  REQUIRE_FALSE(prober.advance(at(2s), pinging.out));
}

TEST_CASE("contacts are pinged with growing intervals until a live member has their address") {
  Pinging pinging;
  Retries retries(pinging.view);
  retries.add_contact(address_of(1));  // this peer itself
  retries.add_contact(address_of(2));  // a live member
  retries.add_contact(address_of(3));
  retries.add_contact(address_of(3));
  retries.start(at(0s));
  std::vector<Duration> intervals;
  for (int k = 0; k < 12; ++k) {
    const Instant now = retries.next_deadline();
    retries.tick(now, pinging.out);
    intervals.push_back(retries.next_deadline() - now);
  }
  REQUIRE(intervals.front() <= 1250ms);
  REQUIRE(intervals.back() >= 22s);
  REQUIRE(intervals.back() <= 37'500ms);
  const auto pings = sent<wire::Ping>(pinging.out);
  REQUIRE_FALSE(pings.empty());
  for (const auto& [to, ping] : pings) REQUIRE(to == address_of(3));
  retries.restart(at(0s));
  REQUIRE(retries.next_deadline() == at(1s));
}

}  // namespace starling::gossip
