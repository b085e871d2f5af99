#include <set>

#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/gossip/life.h"

namespace starling::gossip {

using wire::Phase;

TEST_CASE("a peer without an address to join begins the run with its own manifest") {
  PeerOptions options;
  options.manifest = manifest();
  Life life(options);
  const auto first = life.happens(Start{});
  REQUIRE(all<Prepare>(first).size() == 1);
  REQUIRE(all<Prepare>(first)[0].manifest == manifest());
  REQUIRE(sent<wire::Join>(first).empty());
  life.now = at(3s);
  const auto ready = life.happens(Prepared{rules_of()});
  REQUIRE(all<StartTraining>(ready).size() == 1);
  REQUIRE(life.phase() == Phase::training);
}

TEST_CASE("a joiner sends Joins to all its addresses repeatedly, with growing intervals") {
  Life life(joining({2, 3}));
  const auto first = life.happens(Start{});
  REQUIRE(sent<wire::Join>(first).size() == 2);
  REQUIRE(sent<wire::Join>(first)[0].second.self.id == PeerId{1});
  std::vector<Instant> rounds{life.now};
  while (life.now < at(300s)) {
    const auto passed = life.waits(life.peer.next_deadline());
    if (!sent<wire::Join>(passed).empty()) rounds.push_back(life.now);
  }
  REQUIRE(rounds[1] - rounds[0] >= 187ms);
  REQUIRE(rounds[1] - rounds[0] <= 313ms);
  REQUIRE(rounds.size() > 12);
  for (std::size_t k = 1; k < rounds.size(); ++k) REQUIRE(rounds[k] - rounds[k - 1] <= 37'500ms);
  REQUIRE(rounds.back() - rounds[rounds.size() - 2] >= 22s);
}

TEST_CASE("an address that does not answer is reported and retried") {
  Life life(joining({2}));
  life.happens(Start{});
  const auto told = life.happens(Unreachable{address_of(2), false, "p2:7100 refused the connection"});
  REQUIRE(all<Notice>(told).size() == 1);
  REQUIRE(all<Notice>(told)[0].what == Notice::What::waiting);
  REQUIRE(all<Notice>(told)[0].text == "p2:7100 refused the connection");
  REQUIRE_FALSE(sent<wire::Join>(life.waits(at(2s))).empty());
}

TEST_CASE("a joiner fails half a minute after the last member that had parameters has failed") {
  Life life(joining({2}));
  life.happens(Start{});
  life.hears(2, wire::Welcome{manifest(), 0s, {member(2), member(3, Phase::joining)}});
  REQUIRE(all<FetchState>(life.happens(Prepared{rules_of()})).size() == 1);
  while (life.peer.view().membership.find(PeerId{2})->is_live()) life.waits(life.now + 100ms, {3});
  const Instant failed_at = life.now;
  REQUIRE(failed_at < at(20s));
  life.waits(failed_at + 20s, {3});
  REQUIRE_FALSE(life.peer.view().over);
  life.waits(failed_at + 32s, {3});
  REQUIRE(life.peer.view().over);
  const auto end = all<Finish>(life.out);
  REQUIRE(end.size() == 1);
  REQUIRE(end[0].how == Finish::How::failed);
  REQUIRE(end[0].why.find("has failed or left") != std::string::npos);
}

TEST_CASE(
    "a joiner fails half a minute after every member with parameters has sent some that it cannot use") {
  Life life(joining({2}));
  life.happens(Start{});
  life.hears(2, wire::Welcome{manifest(), 0s, {member(2), member(3, Phase::joining)}});
  life.happens(Prepared{rules_of()});
  const auto fails_again = [&life](Instant until) {
    while (!life.peer.view().over && life.now < until) {
      life.happens(StateLost{"it offers parameters of another length", true});
      life.waits(life.now + 500ms, {2, 3, 4});
    }
  };
  SECTION("none can give any") {
    fails_again(at(60s));
    REQUIRE(life.peer.view().over);
    REQUIRE(life.now >= at(30s));
    const auto end = all<Finish>(life.out);
    REQUIRE(end.at(0).how == Finish::How::failed);
    REQUIRE(end[0].why.ends_with("the latest failure: it offers parameters of another length"));
  }
  SECTION("another member has parameters, but no time yet") {
    life.meets(member(4));
    PeerId donor{2};
    while (life.now < at(120s)) {
      life.happens(StateLost{"it gives none", donor == PeerId{2}});
      for (const auto& fetch : all<FetchState>(life.waits(life.now + 500ms, {2, 3, 4})))
        donor = fetch.donor.id;
    }
    REQUIRE_FALSE(life.peer.view().over);
  }
}

TEST_CASE("a joiner waits without a limit for a member that prepares its training") {
  Life life(joining({2}));
  life.happens(Start{});
  life.hears(2, wire::Welcome{manifest(), 0s, {member(2, Phase::joining)}});
  life.happens(Prepared{rules_of()});
  life.waits(at(1800s), {2});
  REQUIRE_FALSE(life.peer.view().over);
  wire::Member trains = member(2);
  trains.incarnation = 1;
  life.meets(by_itself(trains));
  life.waits(life.now + 1s, {2});
  REQUIRE(all<FetchState>(life.out).size() == 1);
}

TEST_CASE("a joiner fails with the reason if its only address cannot belong to the swarm") {
  Life life(joining({2}));
  life.happens(Start{});
  const auto end = life.happens(Unreachable{address_of(2), true, "p2:7100 belongs to the swarm 'other'"});
  REQUIRE(all<Finish>(end).size() == 1);
  REQUIRE(all<Finish>(end)[0].how == Finish::How::failed);
  REQUIRE(all<Finish>(end)[0].why == "p2:7100 belongs to the swarm 'other'");
  REQUIRE(life.peer.view().over);
}

TEST_CASE("a joiner continues with its second address if the first cannot belong to the swarm") {
  Life life(joining({2, 3}));
  life.happens(Start{});
  REQUIRE(all<Finish>(life.happens(Unreachable{address_of(2), true, "no peer"})).empty());
  const auto later = sent<wire::Join>(life.waits(at(10s)));
  REQUIRE_FALSE(later.empty());
  for (const auto& [to, join] : later) REQUIRE(to == address_of(3));
  // An address that was not given has no effect.
  REQUIRE(all<Finish>(life.happens(Unreachable{address_of(9), true, "no peer"})).empty());
  REQUIRE(all<Finish>(life.happens(Unreachable{address_of(3), true, "no peer either"})).size() == 1);
}

TEST_CASE("an address outside the swarm does not matter after a Welcome from another one") {
  Life life(joining({2, 3}));
  life.happens(Start{});
  life.hears(2, wire::Welcome{manifest(), 0s, {member(2)}});
  REQUIRE(all<Finish>(life.happens(Unreachable{address_of(3), true, "no peer"})).empty());
  REQUIRE(all<Finish>(life.happens(Unreachable{address_of(2), true, "no peer"})).empty());
}

TEST_CASE("the first Welcome counts; a second one only adds members") {
  Life life(joining({2, 3}));
  life.happens(Start{});
  const auto first = life.hears(2, wire::Welcome{manifest(), 5s, {member(2)}});
  REQUIRE(all<Prepare>(first).size() == 1);
  auto other = manifest();
  other.model = "mlp";
  const auto second = life.hears(3, wire::Welcome{other, 9s, {member(3)}});
  REQUIRE(all<Prepare>(second).empty());
  REQUIRE(life.peer.view().membership.find(PeerId{3}) != nullptr);
  REQUIRE(sent<wire::Join>(life.waits(at(60s), {2, 3})).empty());
}

TEST_CASE("a joiner copies the parameters of a member that has them, then trains") {
  Life life(joining({2}));
  life.happens(Start{});
  life.hears(2, wire::Welcome{manifest(), 0s, {member(2), member(3), member(6)}});
  life.meets(member(3, Phase::joining));
  life.meets(member(4));
  life.happens(Unreachable{address_of(4), false, "gone"});
  life.meets(member(5));
  life.hears(5, wire::Leave{said_to_be(member(5), wire::Liveness::left)});
  const auto asks = life.happens(Prepared{rules_of()});
  REQUIRE(all<FetchState>(asks).size() == 1);
  // The only live member that has parameters and has been heard: 6 is known only from 2.
  REQUIRE(all<FetchState>(asks)[0].donor.id == PeerId{2});
  REQUIRE(all<FetchState>(asks)[0].donor.address == address_of(2));
  REQUIRE(all<StartTraining>(asks).empty());
  REQUIRE(life.phase() == Phase::joining);
  const auto arrived = life.happens(StateArrived{});
  REQUIRE(all<StartTraining>(arrived).size() == 1);
  REQUIRE(life.phase() == Phase::training);
}

TEST_CASE("a joiner waits until a member has parameters, and then copies them") {
  Life life(joining({2}));
  life.happens(Start{});
  life.hears(2, wire::Welcome{manifest(), 0s, {member(2, Phase::joining)}});
  const auto waits = life.happens(Prepared{rules_of()});
  REQUIRE(all<FetchState>(waits).empty());
  REQUIRE(noticed(waits, Notice::What::waiting).size() == 1);
  REQUIRE(all<FetchState>(life.waits(at(2s), {2})).empty());
  REQUIRE(noticed(life.out, Notice::What::waiting).size() == 1);
  const auto asks = all<FetchState>(life.meets(member(2)));  // at once
  REQUIRE(asks.size() == 1);
  REQUIRE(asks[0].donor.id == PeerId{2});
  REQUIRE(all<FetchState>(life.waits(at(3s), {2})).empty());
}

TEST_CASE("a lost donor is replaced after a pause") {
  Life life(joining({2}));
  life.happens(Start{});
  life.hears(2, wire::Welcome{manifest(), 0s, {member(2), member(3)}});
  life.meets(member(3));
  const auto first = all<FetchState>(life.happens(Prepared{rules_of()}));
  REQUIRE(first.size() == 1);
  life.now = at(1s);
  life.happens(Unreachable{first[0].donor.address, false, "broken"});
  REQUIRE(all<FetchState>(life.happens(StateLost{"the donor is gone"})).empty());
  const auto second = all<FetchState>(life.waits(at(1200ms)));
  REQUIRE(second.size() == 1);
  REQUIRE(second[0].donor.id != first[0].donor.id);
  REQUIRE(life.phase() == Phase::joining);
}

TEST_CASE("donors are drawn from all members with parameters, to spread the load of joiners") {
  std::set<PeerId> donors;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    auto options = joining({2});
    options.seed = seed;
    Life life(options);
    life.happens(Start{});
    life.hears(2, wire::Welcome{manifest(), 0s, {member(2), member(3), member(4, Phase::finished)}});
    life.meets(member(3));
    life.meets(member(4, Phase::finished));
    for (const auto& fetch : all<FetchState>(life.happens(Prepared{rules_of()})))
      donors.insert(fetch.donor.id);
  }
  REQUIRE(donors == std::set{PeerId{2}, PeerId{3}, PeerId{4}});
}

TEST_CASE("a peer that cannot prepare sends a goodbye and fails with the reason") {
  Life life(joining({2}));
  life.happens(Start{});
  life.hears(2, wire::Welcome{manifest(), 0s, {member(2)}});
  const auto end = life.happens(PrepareFailed{"the data set 'mnist' is not here"});
  REQUIRE(sent<wire::Leave>(end).size() == 1);
  const auto refusals = sent<wire::Refusal>(end);
  REQUIRE(refusals.size() == 1);
  CHECK(refusals.front().second.text == "the data set 'mnist' is not here");
  REQUIRE(std::get<Finish>(end.back()).how == Finish::How::failed);
  REQUIRE(std::get<Finish>(end.back()).why == "the data set 'mnist' is not here");
}

TEST_CASE("a member welcomes a joiner with the run's manifest, age and members") {
  PeerOptions options;
  options.manifest = manifest();
  Life life(options);
  life.trains(rules_of(), {3});
  life.now = at(7s);
  const auto answer = life.hears(2, wire::Join{member(2, Phase::joining)});
  const auto welcomes = sent<wire::Welcome>(answer);
  REQUIRE(welcomes.size() == 1);
  REQUIRE(welcomes[0].first == address_of(2));
  REQUIRE(welcomes[0].second.manifest == manifest());
  REQUIRE(welcomes[0].second.elapsed == 7s);
  std::vector<PeerId> named;
  for (const wire::Member& m : welcomes[0].second.members) named.push_back(m.id);
  REQUIRE(named == std::vector{PeerId{1}, PeerId{3}, PeerId{2}});  // also the joiner's own record
  REQUIRE(life.peer.view().membership.find(PeerId{2}) != nullptr);
}

TEST_CASE("a joiner whose program does not know a setting of the run is refused, and is no member") {
  PeerOptions options;
  options.manifest = manifest();
  options.manifest.settings = {{"gossip.rule", "telepathy"}, {"gossip.range", "9"}};
  options.manifest.facts = {{"data.smell", "good"}};
  options.program = {"0.5.0", {}};
  Life life(options);
  life.trains(rules_of(), {3});
  const auto asks = [&](std::vector<std::string> knows) {
    return life.hears(2, wire::Join{member(2, Phase::joining), {"0.4.0", std::move(knows)}});
  };
  const auto refusal = [](const std::vector<Action>& answer) {
    const auto refusals = sent<wire::Refusal>(answer);
    REQUIRE(refusals.size() == 1);
    CHECK(sent<wire::Welcome>(answer).empty());
    CHECK(refusals[0].first == address_of(2));
    CHECK(refusals[0].second.reason == wire::RefusalReason::wrong_version);
    return refusals[0].second.text;
  };
  const auto first = asks({"gossip.rule", "gossip.rule=pairwise", "gossip.range"});
  const std::string told =
      "the run has the setting gossip.rule = telepathy, which Starling 0.4.0 does not know: install the "
      "version of this peer, Starling 0.5.0";
  CHECK(refusal(first) == told);
  REQUIRE(noticed(first, Notice::What::unfit).size() == 1);
  CHECK(all<Notice>(first)[0].text == "p2 cannot take part in this run: " + told);
  const auto second = asks({"gossip.rule", "gossip.rule=telepathy"});
  CHECK(contains(refusal(second), "the setting gossip.range, which"));
  CHECK(noticed(second, Notice::What::unfit).empty());  // once for a peer
  CHECK(life.peer.view().membership.find(PeerId{2}) == nullptr);
  // A program that knows more than the run needs is welcome, and one that does not say what it knows.
  CHECK(sent<wire::Welcome>(asks({"gossip.rule", "gossip.range", "gossip.mood"})).size() == 1);
  CHECK(sent<wire::Welcome>(life.hears(4, wire::Join{member(4, Phase::joining)})).size() == 1);
}

TEST_CASE("a joiner that is refused for its version fails when no other address is left") {
  PeerOptions options = joining({2, 3});
  options.program = {"0.4.0", {"gossip.rule"}};
  Life life(options);
  const auto joins = sent<wire::Join>(life.happens(Start{}));
  REQUIRE(joins.size() == 2);
  CHECK(joins[0].second.program == options.program);
  const wire::Refusal refusal{wire::RefusalReason::wrong_version, "the run has a setting"};
  CHECK(all<Finish>(life.hears(2, refusal)).empty());
  const auto end = all<Finish>(life.hears(3, refusal));
  REQUIRE(end.size() == 1);
  CHECK(end[0].how == Finish::How::failed);
  CHECK(end[0].other_version);
  CHECK(end[0].why == to_string(address_of(3)) + " says: the run has a setting");

  // The member may be asked at another address than the one that it states.
  Life alone(joining({9}));
  alone.happens(Start{});
  CHECK(all<Finish>(alone.hears(2, refusal)).size() == 1);
}

TEST_CASE("a peer whose former swarm has another version fails instead of beginning the run again") {
  PeerOptions options = joining({2, 3});
  options.unwelcomed.begins = 10s;
  options.manifest = manifest();
  for (const bool by_protocol : {true, false}) {
    Life life(options);
    life.happens(Start{});
    if (by_protocol)
      life.happens(
          Unreachable{.address = address_of(2), .why = "it has protocol version 3", .other_version = true});
    else
      life.hears(2, wire::Refusal{wire::RefusalReason::wrong_version, "it has protocol version 3"});
    life.happens(Unreachable{address_of(3), false, "nobody listens at p3:7100"});
    const auto then = life.waits(at(10s));
    CHECK(all<Prepare>(then).empty());
    REQUIRE(all<Finish>(then).size() == 1);
    CHECK(all<Finish>(then)[0].other_version);
    CHECK(contains(all<Finish>(then)[0].why, "it has protocol version 3"));
  }
}

TEST_CASE("a joiner without a Welcome begins the run after a while, and keeps searching") {
  PeerOptions options = joining({2});
  options.unwelcomed.begins = 10s;
  options.manifest = manifest();
  Life life(options);
  life.happens(Start{});
  REQUIRE(all<Prepare>(life.waits(at(9999ms))).empty());
  const auto begins = life.waits(at(10s));
  REQUIRE(all<Prepare>(begins).size() == 1);
  const auto ready = life.happens(Prepared{rules_of()});
  REQUIRE(all<FetchState>(ready).empty());
  REQUIRE(all<StartTraining>(ready).size() == 1);
  REQUIRE(sent<wire::Join>(life.waits(at(300s))).empty());
  const auto pings = sent<wire::Ping>(life.waits(at(400s)));
  REQUIRE(pings.size() >= 2);
  for (const auto& [to, ping] : pings) REQUIRE(to == address_of(2));
  // The address is not retried after a live member has it.
  life.hears(2, wire::Ack{pings.back().second.sequence, {member(2)}, {}});
  for (const auto& [to, ping] : sent<wire::Ping>(life.waits(at(500s), {2})))
    REQUIRE(ping.target == PeerId{2});
}

TEST_CASE("a joiner that has a time limit fails when it is over, with the latest reason") {
  PeerOptions options = joining({2});
  options.unwelcomed.fails = 10s;
  Life life(options);
  life.happens(Start{});
  REQUIRE(all<Finish>(life.waits(at(9999ms))).empty());
  life.happens(Unreachable{address_of(2), false, "nobody listens at p2:7100"});
  const auto end = all<Finish>(life.waits(at(10s)));
  REQUIRE(end.size() == 1);
  CHECK(end[0].how == Finish::How::failed);
  CHECK(end[0].why == "no member has let this peer in within its time to join: nobody listens at p2:7100");

  Life welcomed(options);
  welcomed.happens(Start{});
  welcomed.hears(2, wire::Welcome{manifest(), 0s, {member(2)}});
  REQUIRE(all<Finish>(welcomed.waits(at(20s), {2})).empty());
}

TEST_CASE("a joiner whose peer was there and is lost fails after half a minute, unless it comes back") {
  const Unreachable lost{address_of(2), false, "nobody listens at p2:7100", false, {}, true};
  Life life(joining({2}));
  life.happens(Start{});
  life.waits(at(100s));
  life.happens(lost);
  life.waits(at(110s));
  life.happens(lost);
  REQUIRE(all<Finish>(life.waits(at(129'999ms))).empty());
  const auto end = all<Finish>(life.waits(at(130s)));
  REQUIRE(end.size() == 1);
  CHECK(end[0].why ==
        "the peer to join was there and has not come back in half a minute: nobody listens at p2:7100");

  PeerOptions in_ten_minutes = joining({2});
  in_ten_minutes.unwelcomed.fails = 600s;
  Life limited(in_ten_minutes);
  limited.happens(Start{});
  limited.happens(lost);
  limited.waits(at(10s));
  limited.hears(2, wire::Refusal{wire::RefusalReason::not_ready, "this peer is still joining itself"});
  limited.waits(at(100s));
  limited.happens(lost);
  const auto earlier = all<Finish>(limited.waits(at(130s)));
  REQUIRE(earlier.size() == 1);
  CHECK(earlier[0].why == end[0].why);

  Life patient(joining({2}));
  patient.happens(Start{});
  patient.happens(lost);
  patient.waits(at(20s));
  patient.hears(2, wire::Refusal{wire::RefusalReason::not_ready, "this peer is still joining itself"});
  REQUIRE(all<Finish>(patient.waits(at(100s))).empty());
}

TEST_CASE("a peer that its former swarm rejects fails instead of beginning the run again") {
  PeerOptions options = joining({2, 3});
  options.unwelcomed.begins = 10s;
  options.manifest = manifest();
  for (const bool locked_out : {true, false}) {
    Life life(options);
    life.happens(Start{});
    life.happens(Unreachable{address_of(2), false, "p2:7100 has another key", locked_out});
    life.happens(Unreachable{address_of(3), false, "nobody listens at p3:7100"});
    REQUIRE(all<Finish>(life.waits(at(9999ms))).empty());
    const auto then = life.waits(at(10s));
    CHECK(all<Prepare>(then).size() == (locked_out ? 0 : 1));
    const auto end = all<Finish>(then);
    REQUIRE(end.size() == (locked_out ? 1 : 0));
    if (!locked_out) continue;
    CHECK(end[0].how == Finish::How::failed);
    CHECK(end[0].why ==
          "the swarm that this peer remembers lives and does not let it in, so it does not begin the run "
          "anew: p2:7100 has "
          "another key");
  }
  // A Welcome from another member is sufficient.
  Life life(options);
  life.happens(Start{});
  life.happens(Unreachable{address_of(2), false, "p2:7100 has another key", true});
  CHECK(all<Prepare>(life.hears(3, wire::Welcome{manifest(), 0s, {member(3)}, 0})).size() == 1);
  CHECK(all<Finish>(life.waits(at(20s))).empty());
}

TEST_CASE("a donor that stalls or is suspect is replaced") {
  for (const bool stalls : {true, false}) {
    Life life(joining({2}));
    life.happens(Start{});
    life.hears(2, wire::Welcome{manifest(), 0s, {member(2), member(3)}, 0});
    life.meets(member(3));
    const auto first = all<FetchState>(life.happens(Prepared{rules_of()}));
    REQUIRE(first.size() == 1);
    life.happens(StateAdvanced{10, 100});
    const auto passed = stalls ? life.waits(at(4s), {2, 3})
                               : life.happens(Unreachable{first[0].donor.address, false, "it is gone"});
    REQUIRE(all<AbortFetch>(passed).size() == 1);
    const auto later = life.waits(life.now + 300ms, {2, 3});
    const auto second = all<FetchState>(stalls ? passed : later);
    REQUIRE(second.size() == 1);
    REQUIRE(second[0].donor.id != first[0].donor.id);
    REQUIRE(all<StartTraining>(life.happens(StateArrived{})).size() == 1);
  }
}

TEST_CASE("a donor that becomes much slower is replaced once") {
  Life life(joining({2}));
  life.happens(Start{});
  life.hears(2, wire::Welcome{manifest(), 0s, {member(2), member(3)}, 0});
  life.meets(member(3));
  life.happens(Prepared{rules_of()});
  std::uint64_t chunks = 0;
  const auto advances = [&](Duration length, std::uint64_t each) {
    std::vector<Action> wanted;
    for (const Instant until = life.now + length; life.now < until;) {
      const auto passed = life.waits(life.now + 500ms, {2, 3});
      const auto fresh = life.happens(StateAdvanced{chunks += each, 10'000});
      wanted.insert(wanted.end(), passed.begin(), passed.end());
      wanted.insert(wanted.end(), fresh.begin(), fresh.end());
    }
    return wanted;
  };
  REQUIRE(all<AbortFetch>(advances(10s, 100)).empty());
  const auto slow = advances(10s, 10);
  REQUIRE(all<AbortFetch>(slow).size() == 1);
  REQUIRE(all<FetchState>(slow).size() == 1);
  REQUIRE(all<AbortFetch>(advances(20s, 10)).empty());  // the other donor is slow, too
}

TEST_CASE(
    "a donor that has sent all parameters, and waits for its trainer, is kept while it gives signs of life") {
  Life life(joining({2}));
  life.happens(Start{});
  life.hears(2, wire::Welcome{manifest(), 0s, {member(2), member(3)}, 0});
  life.meets(member(3));
  life.happens(Prepared{rules_of()});
  for (std::uint64_t chunks = 20; chunks <= 100; chunks += 20) {
    life.waits(life.now + 1s, {2, 3});
    REQUIRE(all<AbortFetch>(life.happens(StateAdvanced{chunks, 100})).empty());
  }
  for (int second = 0; second < 30; ++second) {
    REQUIRE(all<AbortFetch>(life.waits(life.now + 1s, {2, 3})).empty());
    REQUIRE(all<AbortFetch>(life.happens(StateAdvanced{100, 100})).empty());
  }
  REQUIRE(all<AbortFetch>(life.waits(life.now + 4s, {2, 3})).size() == 1);
}

TEST_CASE("a joining peer cannot welcome others, but adds them to its members") {
  Life life(joining({2}));
  life.happens(Start{});
  const auto answer = life.hears(3, wire::Join{member(3, Phase::joining)});
  REQUIRE(sent<wire::Refusal>(answer).size() == 1);
  REQUIRE(sent<wire::Refusal>(answer)[0].second.reason == wire::RefusalReason::not_ready);
  REQUIRE(life.peer.view().membership.find(PeerId{3}) != nullptr);
}

TEST_CASE("a refused Join is reported and retried") {
  Life life(joining({2}));
  life.happens(Start{});
  const auto told = life.hears(2, wire::Refusal{wire::RefusalReason::not_ready, "not yet"});
  REQUIRE(noticed(told, Notice::What::waiting).size() == 1);
  REQUIRE_FALSE(sent<wire::Join>(life.waits(at(2s))).empty());
}

TEST_CASE("a Join or a Leave with another member's id changes nothing") {
  PeerOptions options;
  options.manifest = manifest();
  Life life(options);
  life.trains(rules_of(), {2});
  REQUIRE(life.hears(3, wire::Join{member(4)}).empty());
  REQUIRE(life.peer.view().membership.find(PeerId{4}) == nullptr);
  life.hears(3, wire::Leave{said_to_be(member(2), wire::Liveness::left)});
  REQUIRE(life.peer.view().membership.find(PeerId{2})->member.liveness == wire::Liveness::alive);
  life.hears(2, wire::Leave{said_to_be(member(2), wire::Liveness::left)});
  REQUIRE(life.peer.view().membership.find(PeerId{2})->member.liveness == wire::Liveness::left);
}

TEST_CASE("a peer without parameters rejects offers") {
  Life life(joining({2}));
  life.happens(Start{});
  for (int k = 0; k < 2; ++k) {
    const auto answers = all<AnswerOffer>(life.happens(ExchangeOffered{PeerId{2}, 5}));
    REQUIRE(answers.size() == 1);
    REQUIRE_FALSE(answers[0].accept);
    REQUIRE(answers[0].reason == wire::RefusalReason::not_ready);
    life.hears(2, wire::Welcome{manifest(), 0s, {member(2)}});
    life.happens(Prepared{rules_of()});
  }
  life.happens(StateArrived{});
  REQUIRE(all<AnswerOffer>(life.happens(ExchangeOffered{PeerId{2}, 6}))[0].accept);
}

}  // namespace starling::gossip
