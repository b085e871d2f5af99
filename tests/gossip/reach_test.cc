// Peers that cannot be dialed: how a peer finds out, whom it makes its homes, and how others reach it.
#include "gossip/members/reach.h"

#include <set>

#include "tests/catch.h"
#include "tests/gossip/life.h"

namespace starling::gossip {

namespace {

const Address kOutside{"203.0.113.7", 7100};
const Address kInside{"192.168.1.7", 7100};

// Member k, which cannot be dialed.
wire::Member hidden(std::uint64_t k, std::vector<PeerId> homes = {}) {
  wire::Member m = member(k);
  m.address = {};
  m.homes = std::move(homes);
  return by_itself(m);
}

wire::Member relaying(std::uint64_t k) {
  wire::Member m = member(k);
  m.relays = 10'000'000;
  return by_itself(m);
}

// It knows no address of its own.
PeerOptions without_address() {
  PeerOptions options;
  options.membership.reach.finds_address = true;
  options.membership.reach.relays = 1000;
  return options;
}

const wire::Member& self_of(const Life& life) { return life.peer.view().membership.self(); }

// Answers all questions of the peer, each in the same way unless `answer` looks at the member.
template <class Answer>
std::vector<Action> report(Life& life, const std::vector<Action>& asking, Answer answer) {
  std::vector<Action> all_actions;
  for (const Send& send : all<Send>(asking)) {
    const auto* request = std::get_if<wire::ReachRequest>(&send.message);
    if (request == nullptr) continue;
    const auto [reached, at_address] = answer(send.to.id.value);
    const auto more = life.hears(send.to.id.value, wire::ReachReport{request->sequence, reached, at_address});
    all_actions.insert(all_actions.end(), more.begin(), more.end());
  }
  return all_actions;
}

// A peer that has met these members and asks some of them.
struct Asking {
  explicit Asking(PeerOptions options, const std::vector<wire::Member>& members) : life(std::move(options)) {
    life.happens(Start{});
    for (const wire::Member& m : members) life.meets(m);
    asks = life.waits(life.now + 3s, {2, 3, 4, 5});
  }
  Life life;
  std::vector<Action> asks;
};

}  // namespace

TEST_CASE("a peer takes the address at which two members have reached it") {
  Asking it(without_address(), {member(2), member(3), member(4)});
  REQUIRE(sent<wire::ReachRequest>(it.asks).size() == 3);
  const std::uint32_t before = self_of(it.life).incarnation;
  const auto told = report(it.life, it.asks, [](std::uint64_t) { return std::pair(true, kOutside); });
  CHECK(self_of(it.life).address == kOutside);
  CHECK(self_of(it.life).relays == 1000);
  CHECK(self_of(it.life).incarnation > before);
  CHECK(is_authentic(identity_of(2), self_of(it.life)));
  CHECK(noticed(told, Notice::What::reachable).size() == 1);
  CHECK_FALSE(sent<wire::Gossip>(told).empty());  // others learn it at once

  // It asks again. Another address replaces this one.
  const auto again = it.life.waits(it.life.now + 60s, {2, 3, 4});
  const Address moved{"198.51.100.1", 7100};
  report(it.life, again, [&](std::uint64_t) { return std::pair(true, moved); });
  CHECK(self_of(it.life).address == moved);
  CHECK(self_of(it.life).also.empty());
}

TEST_CASE("two peers that state no address find theirs out from one another") {
  Asking it(without_address(), {hidden(2)});
  const auto asked = sent<wire::ReachRequest>(it.asks);
  REQUIRE(asked.size() == 1);
  CHECK_FALSE(sent<wire::Ping>(it.asks).empty());  // over the link that there is
  report(it.life, it.asks, [](std::uint64_t) { return std::pair(true, kOutside); });
  CHECK(self_of(it.life).address == kOutside);

  Asking other(without_address(), {hidden(2)});
  report(other.life, other.asks, [](std::uint64_t) { return std::pair(false, kOutside); });
  CHECK(self_of(other.life).address == Address{});
  CHECK(sent<wire::Ping>(other.life.waits(other.life.now + 10s)).empty());  // neither can be dialed
}

TEST_CASE("one of three members cannot make a peer state an address") {
  Asking it(without_address(), {member(2), member(3), member(4)});
  report(it.life, it.asks, [](std::uint64_t k) { return std::pair(k == 2, k == 2 ? kOutside : kInside); });
  CHECK(self_of(it.life).address == Address{});
}

TEST_CASE("an address that only the own site can use counts only if all members are there") {
  const auto of = [](bool anyone_outside) {
    Asking it(without_address(), {member(2), member(3), member(4)});
    report(it.life, it.asks, [&](std::uint64_t k) {
      return k == 4 && anyone_outside ? std::pair(false, kOutside) : std::pair(true, kInside);
    });
    return self_of(it.life).address;
  };
  CHECK(of(false) == kInside);
  CHECK(of(true) == Address{});
}

TEST_CASE("addresses of both families are stated, whichever the members have seen") {
  const Address v6{"2001:db8::7", 7100};
  Asking it(without_address(), {member(2), member(3), member(4)});
  report(it.life, it.asks, [](std::uint64_t) { return std::pair(true, kOutside); });
  auto again = it.life.waits(it.life.now + 60s, {2, 3, 4});
  report(it.life, again, [&](std::uint64_t) { return std::pair(true, v6); });
  CHECK(self_of(it.life).address == kOutside);
  CHECK(self_of(it.life).also == std::vector{v6});
}

TEST_CASE("a peer that members cannot dial withdraws its stated address, and states it again later") {
  Asking it({}, {member(2), member(3), member(4)});
  CHECK(self_of(it.life).address == address_of(1));
  // One report that it was reached is worth more than any that it was not.
  report(it.life, it.asks, [](std::uint64_t k) { return std::pair(k == 3, address_of(1)); });
  CHECK(self_of(it.life).address == address_of(1));

  const auto second = it.life.waits(it.life.now + 2min, {2, 3, 4});
  const auto told = report(it.life, second, [](std::uint64_t) { return std::pair(false, address_of(1)); });
  CHECK(self_of(it.life).address == Address{});
  CHECK(noticed(told, Notice::What::hidden).size() == 1);
  CHECK(self_of(it.life).homes == std::vector{PeerId{2}, PeerId{3}, PeerId{4}});

  const auto third = it.life.waits(it.life.now + 2min, {2, 3, 4});
  report(it.life, third, [](std::uint64_t) { return std::pair(true, address_of(1)); });
  CHECK(self_of(it.life).address == address_of(1));
  CHECK(self_of(it.life).homes.empty());
}

TEST_CASE("a peer keeps its address as long as it knows no other member that can be dialed") {
  Asking it({}, {hidden(2), hidden(3)});
  const auto denies = [&](const std::vector<Action>& asks) {
    return report(it.life, asks, [](std::uint64_t) { return std::pair(false, address_of(1)); });
  };
  const auto told = denies(it.asks);
  CHECK(self_of(it.life).address == address_of(1));
  CHECK(noticed(told, Notice::What::hidden).empty());
  // It asks again soon.
  const auto again = it.life.waits(it.life.now + 3s, {2, 3});
  CHECK_FALSE(sent<wire::ReachRequest>(again).empty());
  denies(again);
  CHECK(self_of(it.life).address == address_of(1));

  // Member 4 can be its home.
  it.life.meets(member(4));
  denies(it.life.waits(it.life.now + 3s, {2, 3, 4}));
  CHECK(self_of(it.life).address == Address{});
  CHECK(self_of(it.life).homes == std::vector{PeerId{4}});
}

TEST_CASE("a peer without an address and without homes asks those that it heard last over their links") {
  Asking it(without_address(), {hidden(2)});
  report(it.life, it.asks, [](std::uint64_t) { return std::pair(false, kOutside); });
  CHECK(self_of(it.life).address == Address{});
  // The link is given up when it is idle for 15 s.
  std::vector<Action> asks;
  for (int k = 0; k < 4; ++k) {
    asks = it.life.waits(it.life.now + 10s);
    const auto is_request = [](const Send& send) {
      return std::holds_alternative<wire::ReachRequest>(send.message) && send.to == Endpoint{PeerId{2}, {}};
    };
    REQUIRE(std::ranges::any_of(all<Send>(asks), is_request));
    if (k < 3) report(it.life, asks, [](std::uint64_t) { return std::pair(false, kOutside); });
  }
  CHECK(it.life.peer.view().membership.find(PeerId{2})->member.liveness == wire::Liveness::failed);

  // The failed member learns of the address at once.
  const auto told = report(it.life, asks, [](std::uint64_t) { return std::pair(true, kOutside); });
  CHECK(self_of(it.life).address == kOutside);
  const auto is_news = [&](const Send& send) {
    const auto* gossip = std::get_if<wire::Gossip>(&send.message);
    return gossip != nullptr && send.to == Endpoint{PeerId{2}, {}} && gossip->members.size() == 1 &&
           gossip->members[0].address == kOutside;
  };
  CHECK(std::ranges::any_of(all<Send>(told), is_news));
}

TEST_CASE("members that do not answer show nothing") {
  Asking it({}, {member(2), member(3), member(4)});
  it.life.waits(it.life.now + 5min, {2, 3, 4});
  CHECK(self_of(it.life).address == address_of(1));
}

TEST_CASE("a peer without an address makes members that relay its homes, and replaces those that are gone") {
  Asking it(without_address(),
            {member(2), relaying(3), member(4), hidden(5), hidden(6), member(7), member(8)});
  it.life.waits(it.life.now + 2s, {2, 3, 4, 7, 8});
  const auto homes = self_of(it.life).homes;
  REQUIRE(homes.size() == 3);
  CHECK(std::ranges::count(homes, PeerId{3}) == 1);
  CHECK(std::ranges::count(homes, PeerId{5}) + std::ranges::count(homes, PeerId{6}) == 0);
  // Their links stay in use.
  const auto passed = it.life.waits(it.life.now + 15s, {2, 3, 4, 7, 8});
  for (const PeerId home : homes) {
    const auto pings = sent<wire::Ping>(passed);
    CHECK(std::ranges::count_if(pings, [&](const auto& p) { return p.second.target == home; }) >= 3);
  }
  const std::uint32_t before = self_of(it.life).incarnation;
  it.life.waits(it.life.now + 10s, {2, 4, 7, 8});  // member 3 is gone
  CHECK(std::ranges::count(self_of(it.life).homes, PeerId{3}) == 0);
  CHECK(self_of(it.life).homes.size() == 3);
  CHECK(self_of(it.life).incarnation > before);
  CHECK(is_authentic(identity_of(2), self_of(it.life)));
}

TEST_CASE("a member that was asked dials the peer that asked, and reports") {
  Life life;
  life.happens(Start{});
  // One stranger a second.
  CHECK(all<TryDial>(life.happens(Received{PeerId{8}, kOutside, wire::ReachRequest{9}})).size() == 1);
  CHECK(all<TryDial>(life.happens(Received{PeerId{9}, kOutside, wire::ReachRequest{9}})).empty());
  life.meets(member(2));
  const auto tries = all<TryDial>(life.happens(Received{PeerId{2}, kOutside, wire::ReachRequest{9}}));
  REQUIRE(tries.size() == 1);
  CHECK(tries[0].to == Endpoint{PeerId{2}, kOutside});
  const auto reports = sent<wire::ReachReport>(life.happens(DialTried{PeerId{2}, 9, true}));
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].second == wire::ReachReport{9, true, kOutside});
  CHECK(sent<wire::ReachReport>(life.happens(DialTried{PeerId{2}, 9, true})).empty());  // once
  // One that does not listen is not dialed.
  const auto none = life.happens(Received{PeerId{2}, {}, wire::ReachRequest{10}});
  CHECK(all<TryDial>(none).empty());
  CHECK(sent<wire::ReachReport>(none).at(0).second == wire::ReachReport{10, false, {}});
  std::size_t many = 0;
  for (std::uint64_t k = 0; k < 100; ++k)
    many += all<TryDial>(life.happens(Received{PeerId{2}, kOutside, wire::ReachRequest{20 + k}})).size();
  CHECK(many < 10);
}

TEST_CASE("a home passes calls on, from the members that call and to those that cannot be dialed") {
  Life life;
  life.happens(Start{});
  for (const wire::Member& m : {member(2), member(3), hidden(5)}) life.meets(m);
  const auto passed = [&](std::uint64_t from, const wire::Call& call) {
    return all<Send>(life.happens(Received{PeerId{from}, address_of(from), call}));
  };
  const wire::Call call{PeerId{5}, PeerId{2}, wire::Purpose::bulk, 77};
  const auto sends = passed(2, call);
  REQUIRE(sends.size() == 1);
  CHECK(sends[0].to == Endpoint{PeerId{5}, {}});
  CHECK(std::get<wire::Call>(sends[0].message) == call);
  CHECK(passed(3, call).empty());                                              // in another one's name
  CHECK(passed(2, {PeerId{3}, PeerId{2}, wire::Purpose::bulk, 77}).empty());   // can be dialed
  CHECK(passed(2, {PeerId{9}, PeerId{2}, wire::Purpose::bulk, 77}).empty());   // unknown
  CHECK(passed(2, {PeerId{5}, PeerId{2}, wire::Purpose::relay, 77}).empty());  // only a relay says that
  std::size_t many = 0;
  for (int k = 0; k < 100; ++k) many += passed(2, call).size();
  CHECK(many < 10);
}

TEST_CASE("a peer that is called dials the caller, or the relay") {
  Life life(without_address());
  life.happens(Start{});
  for (const wire::Member& m : {member(2), relaying(3), hidden(5)}) life.meets(m);
  const auto called = [&](std::uint64_t from, std::uint64_t caller, wire::Purpose purpose) {
    return life.happens(
        Received{PeerId{from}, address_of(from), wire::Call{PeerId{1}, PeerId{caller}, purpose, 77}});
  };
  const auto pings = sent<wire::Ping>(called(3, 2, wire::Purpose::control));
  REQUIRE(pings.size() == 1);
  CHECK(pings[0].first == address_of(2));
  const auto bulk = all<AnswerCall>(called(3, 2, wire::Purpose::bulk));
  REQUIRE(bulk.size() == 1);
  CHECK(bulk[0].to == endpoint_of(member(2)));
  CHECK(bulk[0].number == 77);
  const auto relay = all<AnswerCall>(called(3, 5, wire::Purpose::relay));
  REQUIRE(relay.size() == 1);
  CHECK(relay[0].to == endpoint_of(relaying(3)));
  CHECK(relay[0].purpose == wire::Purpose::relay);

  CHECK(all<AnswerCall>(called(3, 9, wire::Purpose::bulk)).empty());   // an unknown caller
  CHECK(all<AnswerCall>(called(3, 5, wire::Purpose::bulk)).empty());   // cannot be dialed either
  CHECK(all<AnswerCall>(called(9, 2, wire::Purpose::bulk)).empty());   // a stranger passes it on
  CHECK(all<AnswerCall>(called(5, 2, wire::Purpose::relay)).empty());  // a relay that cannot be dialed
}

TEST_CASE("a member is dialed, called, or reached over a relay, by what both state") {
  Life life;
  life.happens(Start{});
  for (const wire::Member& m : {member(2), relaying(3), hidden(5, {PeerId{2}}), hidden(6, {PeerId{3}}),
                                hidden(7), hidden(8, {PeerId{1}}), hidden(9, {PeerId{6}, PeerId{99}})})
    life.meets(m);
  const Membership& membership = life.peer.view().membership;
  const LocalView& view = membership.view();
  const auto of = [&](std::uint64_t k) { return membership.find(PeerId{k})->member; };
  CHECK(view.control_endpoint(of(2)) == endpoint_of(member(2)));
  CHECK(view.control_endpoint(of(5)) == Endpoint{PeerId{5}, address_of(2), Way::call, PeerId{2}});
  CHECK(view.bulk_endpoint(of(6)) == Endpoint{PeerId{6}, address_of(3), Way::call, PeerId{3}});
  CHECK(view.control_endpoint(of(8)) == Endpoint{PeerId{8}, {}});  // over the link of its home, this peer
  CHECK(view.bulk_endpoint(of(8)) == Endpoint{PeerId{8}, {}, Way::call, PeerId{8}});
  for (const std::uint64_t k : {2, 3, 5, 6, 8}) CHECK(view.can_begin_with(of(k)));
  for (const std::uint64_t k : {7, 9}) CHECK_FALSE(view.can_begin_with(of(k)));  // nobody can call it
  for (const std::uint64_t k : {2, 5, 7, 9}) CHECK(view.can_meet(of(k)));

  Life other(without_address());
  other.happens(Start{});
  for (const wire::Member& m : {member(2), relaying(3), hidden(5, {PeerId{2}}), hidden(6, {PeerId{3}})})
    other.meets(m);
  const LocalView& here = other.peer.view().membership.view();
  CHECK(here.can_tell(member(2)));
  CHECK_FALSE(here.can_tell(hidden(5)));
  CHECK(here.bulk_endpoint(hidden(6, {PeerId{3}})) ==
        Endpoint{PeerId{6}, address_of(3), Way::relay, PeerId{3}});
  CHECK(here.can_begin_with(hidden(6, {PeerId{3}})));
  CHECK_FALSE(here.can_begin_with(hidden(5, {PeerId{2}})));
}

TEST_CASE("two peers that cannot be dialed are neighbors only where a member relays") {
  const auto partners = [](bool anyone_relays) {
    Life life(without_address());
    life.happens(Start{});
    for (const wire::Member& m : {member(2), anyone_relays ? relaying(3) : member(3), hidden(5, {PeerId{3}})})
      life.meets(m);
    life.happens(Prepared{rules_of({Pace::Kind::always, 0, {}})});
    std::set<std::uint64_t> met;
    auto begun = all<BeginExchange>(life.out);
    for (int k = 0; k < 200 && !begun.empty(); ++k) {
      met.insert(begun[0].partner.id.value);
      if (begun[0].partner.id == PeerId{5}) CHECK(begun[0].partner.way == Way::relay);
      begun = all<BeginExchange>(life.happens(ExchangeEnded{begun[0].exchange, Outcome::completed}));
    }
    return met;
  };
  CHECK(partners(true) == std::set<std::uint64_t>{2, 3, 5});
  CHECK(partners(false) == std::set<std::uint64_t>{2, 3});
}

TEST_CASE("a peer that can meet none of its neighbors exchanges with its homes") {
  Life life(without_address());
  life.happens(Start{});
  // On the ring of 1, 2, 3, 4, 5 the neighbors of peer 1 are 2 and 5.
  for (const wire::Member& m : {hidden(2, {PeerId{3}}), member(3), member(4), hidden(5, {PeerId{3}})})
    life.meets(m);
  life.waits(life.now + 2s, {3, 4});
  life.happens(Prepared{rules_of({Pace::Kind::always, 0, {}}, {}, "ring")});
  const auto begun = all<BeginExchange>(life.out);
  REQUIRE(begun.size() == 1);
  CHECK((begun[0].partner.id == PeerId{3} || begun[0].partner.id == PeerId{4}));
}

TEST_CASE("of two peers that cannot be dialed, each asks the other one's homes whether it lives") {
  Life life(without_address());
  life.happens(Start{});
  for (const wire::Member& m : {member(2), member(3), hidden(5, {PeerId{3}})}) life.meets(m);
  std::size_t asked = 0, direct = 0;
  for (int second = 0; second < 30; ++second) {
    const auto passed = life.waits(life.now + 1s, {2, 3});
    for (const auto& [to, ping] : sent<wire::Ping>(passed)) direct += ping.target == PeerId{5} ? 1 : 0;
    for (const auto& [to, request] : sent<wire::PingRequest>(passed)) {
      if (request.target != PeerId{5}) continue;
      asked += to == address_of(3) ? 1 : 0;
      life.hears(3, wire::Ack{request.sequence, {}, PeerId{5}, answer_of(5, 1, request.sequence)});
    }
  }
  CHECK(direct == 0);
  CHECK(asked > 3);
  CHECK(life.peer.view().membership.find(PeerId{5})->member.liveness == wire::Liveness::alive);
  life.waits(life.now + 20s, {2, 3});  // nobody answers for it any more
  CHECK(life.peer.view().membership.find(PeerId{5})->member.liveness == wire::Liveness::failed);
}

}  // namespace starling::gossip
