// When a peer's training begins: alone, or together with others.
#include "gossip/joint_start.h"

#include <string>
#include <vector>

#include "gossip/meeting/partner.h"
#include "tests/catch.h"
#include "tests/gossip/life.h"

namespace starling::gossip {

namespace {

using What = Notice::What;

PeerOptions together(std::uint32_t peers) {
  PeerOptions options;
  options.membership.expected = peers;
  options.membership.awaits_expected = true;
  options.manifest = manifest();
  return options;
}

// The texts of the notices of this kind.
std::vector<std::string> texts(const std::vector<Action>& actions, What what) {
  std::vector<std::string> found;
  for (const Notice& notice : all<Notice>(actions))
    if (notice.what == what) found.push_back(notice.text);
  return found;
}

wire::Member in_phase(std::uint64_t k, wire::Phase phase, std::uint64_t steps = 0) {
  wire::Member m = member(k, phase);
  m.steps = steps;
  return by_itself(m);
}

wire::Member ready(std::uint64_t k) { return in_phase(k, wire::Phase::training); }

}  // namespace

TEST_CASE("a peer that is not started together with others trains at once") {
  for (const std::uint32_t peers : {0U, 1U}) {
    Life life(together(peers));
    life.trains(rules_of());
    CHECK(all<StartTraining>(life.out).size() == 1);
    CHECK(all<HoldTraining>(life.out).empty());
  }
}

TEST_CASE("peers that are started together train when all have the parameters") {
  Life life(together(3));
  life.happens(Start{});
  life.meets(in_phase(2, wire::Phase::joining));
  const auto held = life.happens(Prepared{rules_of()});
  CHECK(all<HoldTraining>(held).size() == 1);
  CHECK(all<StartTraining>(held).empty());
  CHECK(texts(held, What::assembling) == std::vector<std::string>{"1 of 3"});
  CHECK(life.phase() == wire::Phase::training);  // so that others copy its parameters
  const auto told = sent<wire::Gossip>(held);
  REQUIRE_FALSE(told.empty());
  CHECK(told.front().second.members.front().phase == wire::Phase::training);

  life.waits(at(5s), {2});
  CHECK(all<BeginExchange>(life.out).empty());
  const auto second = life.meets(in_phase(2, wire::Phase::training));
  CHECK(texts(second, What::assembling) == std::vector<std::string>{"2 of 3"});
  const auto refused = life.happens(ExchangeOffered{PeerId{2}, 7, 1});
  REQUIRE(all<AnswerOffer>(refused).size() == 1);
  CHECK_FALSE(all<AnswerOffer>(refused)[0].accept);
  CHECK(all<StartTraining>(life.out).empty());

  life.waits(at(9s), {2});
  const auto third = life.meets(ready(3));
  CHECK(all<StartTraining>(third).size() == 1);
  CHECK(life.peer.view().run_start == at(9s));  // a limit in time counts from here
  CHECK(texts(life.out, What::incomplete).empty());
  life.waits(at(60s), {2, 3});
  CHECK(all<StartTraining>(life.out).size() == 1);
}

TEST_CASE("peers that a driver has assembled train at once, and know each other by their own words") {
  Life life(together(3));
  life.trains(rules_of());
  CHECK(all<StartTraining>(life.out).empty());
  std::vector<wire::Member> members{life.peer.view().membership.self(), ready(2), ready(3)};
  members[2].name = "not what it has signed";
  std::ranges::sort(members, {}, &wire::Member::id);
  CHECK(all<StartTraining>(life.happens(Assembled{members})).empty());
  CHECK(life.peer.view().membership.view().members.live() == 1);

  members = {life.peer.view().membership.self(), ready(2), ready(3)};
  std::ranges::sort(members, {}, &wire::Member::id);
  const auto begun = life.happens(Assembled{members});
  CHECK(all<StartTraining>(begun).size() == 1);
  CHECK(life.peer.view().membership.view().members.live() == 2);
}

TEST_CASE("many peers that a driver has assembled are neighbors at once") {
  constexpr std::uint32_t kPeers = kNewcomersMax + 8;
  for (const bool assembled : {true, false}) {
    CAPTURE(assembled);
    Life life(together(kPeers));
    life.trains(rules_of());
    std::vector<wire::Member> members{life.peer.view().membership.self()};
    for (std::uint64_t k = 2; k <= kPeers; ++k) members.push_back(ready(k));
    std::ranges::sort(members, {}, &wire::Member::id);
    if (assembled) {
      life.happens(Assembled{members});
    } else {
      for (std::uint64_t k = 2; k <= kPeers; ++k) life.meets(ready(k));
    }
    CHECK(life.peer.view().membership.view().members.live() == kPeers - 1);
    CHECK(vertices(life.peer.view().membership).size() == (assembled ? kPeers : 1));
  }
}

TEST_CASE("peers in lock-step that begin together wait for each other in the first round") {
  const RunRules rules = rules_of({Pace::Kind::steps, 1, {}}, {}, "complete", Rule::d_psgd);
  for (const bool first : {true, false}) {
    CAPTURE(first);
    Life life(together(2));
    life.trains(rules);
    life.meets(in_phase(2, wire::Phase::training, first ? 0 : 1));
    CHECK(all<StartTraining>(life.out).size() == 1);
    const auto stepped = life.happens(Stepped{1, 8});
    CHECK(all<PauseTraining>(stepped).size() == 1);
    // One that finds others in a later round does not know whether they come.
    const bool begins = !all<BeginExchange>(stepped).empty();
    CHECK(all<ResumeTraining>(stepped).empty() == (first || begins));
  }
}

TEST_CASE("a member that has gone again counts for those that begin together, an observer does not") {
  PeerOptions options = together(3);
  options.membership.observers = {identity_of(3).id()};
  Life life(std::move(options));
  life.trains(rules_of(), {});
  life.meets(ready(3));
  life.meets(ready(2));
  CHECK(all<StartTraining>(life.out).empty());
  life.meets(said_to_be(ready(2), wire::Liveness::left));
  CHECK(all<StartTraining>(life.meets(ready(4))).size() == 1);
}

TEST_CASE("parameter servers do not count for those that begin together") {
  RunRules rules = rules_of({Pace::Kind::steps, 1, {}}, {}, "complete", Rule::parameter_server);
  PeerOptions options = together(2);
  options.name = "s0";
  Life server(std::move(options));
  server.trains(rules);
  server.meets(ready(2));
  CHECK(all<StartTraining>(server.out).empty());
  const auto then = server.meets(ready(3));
  REQUIRE(all<StartTraining>(then).size() == 1);
  CHECK_FALSE(all<StartTraining>(then)[0].steps);
}

TEST_CASE("a peer does not wait for others if someone trains already, or itself did") {
  Life late(together(3));
  late.happens(Start{});
  late.meets(in_phase(2, wire::Phase::training, 1));
  CHECK(all<StartTraining>(late.happens(Prepared{rules_of()})).size() == 1);

  Life told(together(3));
  told.trains(rules_of());
  CHECK(all<StartTraining>(told.out).empty());
  CHECK(all<StartTraining>(told.meets(in_phase(2, wire::Phase::training, 1))).size() == 1);

  PeerOptions resumed = together(3);
  resumed.earlier.steps = 100;
  Life again(std::move(resumed));
  again.trains(rules_of());
  CHECK(all<StartTraining>(again.out).size() == 1);
}

TEST_CASE("training begins with fewer peers when nobody has come for half a minute") {
  Life life(together(4));
  life.trains(rules_of());
  life.waits(at(20s));
  life.meets(ready(2));
  life.waits(at(49'999ms), {2});
  CHECK(all<StartTraining>(life.out).empty());
  const auto then = life.waits(at(50s), {2});
  CHECK(all<StartTraining>(then).size() == 1);
  CHECK(texts(then, What::incomplete) == std::vector<std::string>{"2 of 4"});
  CHECK(texts(life.out, What::assembling) == std::vector<std::string>{"1 of 4", "2 of 4"});
}

TEST_CASE("a peer that waits for others says why a joiner cannot take part, and for how many it waits") {
  Life life(together(2));
  life.trains(rules_of());
  life.meets(in_phase(2, wire::Phase::joining));
  const auto told = life.hears(2, wire::Refusal{wire::RefusalReason::wrong_model, "it has other data"});
  CHECK(texts(told, What::unfit) ==
        std::vector<std::string>{member(2).name + " cannot take part in this run: it has other data"});
  CHECK(all<StartTraining>(life.out).empty());
  const auto awaited = life.peer.view().awaited;
  REQUIRE(awaited.has_value());
  CHECK(awaited->ready == 1);
  CHECK(awaited->expected == 2);
  CHECK(awaited->until == at(30s));
  life.waits(at(30s), {2});
  CHECK(all<StartTraining>(life.out).size() == 1);
  CHECK_FALSE(life.peer.view().awaited.has_value());
  // Neither a stranger nor a member that trains is a joiner.
  life.meets(ready(3));
  for (const std::uint64_t from : {3U, 9U})
    CHECK(
        texts(life.hears(from, wire::Refusal{wire::RefusalReason::wrong_model, "no"}), What::unfit).empty());
}

TEST_CASE("a peer that waits for others leaves, and ends on request, without a step") {
  Life leaves(together(2));
  leaves.trains(rules_of());
  const auto left = all<Finish>(leaves.happens(LeaveRequested{}));
  REQUIRE(left.size() == 1);
  CHECK(left[0].how == Finish::How::left);

  Life ends(together(2));
  ends.trains(rules_of());
  const auto ended = ends.happens(EndRequested{});
  CHECK(all<TrainingEnded>(ended).size() == 1);
  CHECK(all<Finish>(ended).size() == 1);
  CHECK(all<StartTraining>(ends.out).empty());
}

}  // namespace starling::gossip
