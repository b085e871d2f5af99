// Probes, helpers, suspicion and its accusers, refutation, and the effect of this peer's lag and of measured
// round trips.
#include <algorithm>
#include <cmath>

#include "tests/catch.h"
#include "tests/gossip/table.h"

namespace starling::gossip {

using wire::Liveness;

namespace {

// Advances time until the next Ping, and returns it.
std::pair<Address, wire::Ping> next_ping(Table& table, const std::set<std::uint64_t>& answers = {}) {
  for (int k = 0; k < 1000; ++k) {
    table.out.clear();
    table.run(table.membership.next_deadline(), answers);
    const auto pings = sent<wire::Ping>(table.out);
    if (!pings.empty()) return pings.front();
  }
  FAIL("nobody is pinged");
  return {};
}

}  // namespace

TEST_CASE("a silent member is suspect after the probe's interval and failed after the suspicion window") {
  Table table;
  table.learn(2, 2);
  const auto ping = next_ping(table);
  const Instant probed = table.now;
  REQUIRE(ping.second.target == PeerId{2});
  REQUIRE(probed <= at(1s));
  table.run(probed + 999ms);
  REQUIRE(table.liveness(2) == Liveness::alive);
  table.run(probed + 1s);
  REQUIRE(table.liveness(2) == Liveness::suspect);
  table.run(probed + 4999ms);
  REQUIRE(table.liveness(2) == Liveness::suspect);
  table.run(probed + 5s);
  REQUIRE(table.liveness(2) == Liveness::failed);
}

TEST_CASE("helpers probe a silent member, and a relayed answer cancels only the probe") {
  Table table;
  table.learn(2, 9);
  const auto ping = next_ping(table, {});
  const PeerId target = ping.second.target;
  const Instant probed = table.now;
  table.out.clear();
  table.run(probed + 500ms);
  const auto requests = sent<wire::PingRequest>(table.out);
  REQUIRE(requests.size() == 3);
  std::set<Address> helpers;
  for (const auto& [to, request] : requests) {
    helpers.insert(to);
    REQUIRE(to != ping.first);
    REQUIRE(request.target == target);
    REQUIRE(request.address == ping.first);
    REQUIRE(request.sequence == ping.second.sequence);
  }
  REQUIRE(helpers.size() == 3);
  const std::uint64_t helper = std::stoull(requests[0].first.host.substr(1));
  const Signature signature = answer_of(target.value, 1, ping.second.sequence);
  table.membership.on(probed + 600ms, PeerId{helper}, requests[0].first,
                      wire::Ack{ping.second.sequence, {}, target, signature}, table.out);
  table.run(probed + 1s);
  REQUIRE(table.liveness(target.value) == Liveness::alive);
  REQUIRE_FALSE(table.membership.find(target)->last_heard);  // a relayed answer is not a direct message
}

TEST_CASE("a relayed answer without the target's signature of this request cancels nothing") {
  for (const bool is_true : {false, true}) {
    Table table;
    table.learn(2, 3);
    const auto ping = next_ping(table);
    const std::uint64_t target = ping.second.target.value, helper = 5 - target;
    const std::uint64_t sequence = ping.second.sequence;
    const Instant probed = table.now;
    std::vector<Signature> signatures{{},
                                      answer_of(helper, 1, sequence),       // of another member
                                      answer_of(target, helper, sequence),  // for another requester
                                      answer_of(target, 1, sequence - 1),   // of an earlier request
                                      identity_of(target).sign(statement_of(member(target)))};
    if (is_true) signatures.push_back(answer_of(target, 1, sequence));
    for (const Signature& signature : signatures)
      table.membership.on(probed + 600ms, PeerId{helper}, address_of(helper),
                          wire::Ack{sequence, {}, PeerId{target}, signature}, table.out);
    table.run(probed + 1s, {helper});
    REQUIRE(table.liveness(target) == (is_true ? Liveness::alive : Liveness::suspect));
  }
}

TEST_CASE("an Ack on behalf of another member, or with another sequence, cancels nothing") {
  Table table;
  table.learn(2, 3);
  const auto ping = next_ping(table);
  const PeerId target = ping.second.target;
  const std::uint64_t other = 5 - target.value;
  const Instant probed = table.now;
  table.membership.on(probed, PeerId{other}, address_of(other),
                      wire::Ack{ping.second.sequence + 1, {}, target}, table.out);
  table.membership.on(probed, PeerId{other}, address_of(other),
                      wire::Ack{ping.second.sequence, {}, PeerId{77}}, table.out);
  table.membership.on(probed, PeerId{other}, address_of(other), wire::Ack{ping.second.sequence, {}, {}},
                      table.out);
  table.run(probed + 1s, {other});
  REQUIRE(table.liveness(target.value) == Liveness::suspect);
}

TEST_CASE("a helper asks the target and relays its answer once") {
  Table table;
  table.learn(2, 3);
  table.membership.on(at(1s), PeerId{2}, address_of(2),
                      wire::PingRequest{42, PeerId{3}, address_of(3), {member(2)}}, table.out);
  const auto pings = sent<wire::Ping>(table.out);
  REQUIRE(pings.size() == 1);
  REQUIRE(pings[0].first == address_of(3));
  REQUIRE(pings[0].second.target == PeerId{3});
  REQUIRE(pings[0].second.requester == PeerId{2});
  REQUIRE(pings[0].second.requested == 42);
  table.out.clear();
  const wire::Ack answer{pings[0].second.sequence, {}, {}, answer_of(3, 2, 42)};
  table.membership.on(at(1s), PeerId{2}, address_of(2), answer, table.out);  // from another member
  REQUIRE(sent<wire::Ack>(table.out).empty());
  table.membership.on(at(1s), PeerId{3}, address_of(3), answer, table.out);
  const auto relayed = sent<wire::Ack>(table.out);
  REQUIRE(relayed.size() == 1);
  REQUIRE(relayed[0].first == address_of(2));
  REQUIRE(relayed[0].second.sequence == 42);
  REQUIRE(relayed[0].second.on_behalf == PeerId{3});
  REQUIRE(relayed[0].second.signature == answer.signature);
  table.out.clear();
  table.membership.on(at(1s), PeerId{3}, address_of(3), answer, table.out);
  REQUIRE(sent<wire::Ack>(table.out).empty());
}

TEST_CASE("a peer signs its answer if the Ping carries out a request, and only then") {
  Table table(3);
  table.learn(2, 2);
  const auto answered = [&](const wire::Ping& ping) {
    table.out.clear();
    table.membership.on(at(1s), PeerId{2}, address_of(2), ping, table.out);
    return sent<wire::Ack>(table.out).at(0).second.signature;
  };
  CHECK(answered({7, PeerId{3}, {}, PeerId{5}, 42}) == answer_of(3, 5, 42));
  CHECK(answered({7, PeerId{3}, {}, {}, 0}) == Signature{});
}

TEST_CASE("a helper pings only members, at their own addresses, and only for members") {
  Table table;
  table.learn(2, 3);
  const auto pinged = [&](std::uint64_t from, PeerId target, const Address& address) {
    table.out.clear();
    table.membership.on(at(1s), PeerId{from}, address_of(from), wire::PingRequest{1, target, address, {}},
                        table.out);
    const auto pings = sent<wire::Ping>(table.out);
    return std::ranges::count(pings, target, [](const auto& sent) { return sent.second.target; });
  };
  CHECK(pinged(2, PeerId{3}, address_of(3)) == 1);
  CHECK(pinged(2, PeerId{4}, address_of(4)) == 0);   // an unknown target
  CHECK(pinged(2, PeerId{3}, address_of(40)) == 0);  // another address
  CHECK(pinged(90, PeerId{3}, address_of(3)) == 0);  // an unknown requester
}

TEST_CASE("a helper answers at most eight requests a second of each member") {
  Table table;
  table.learn(2, 4);
  const auto relayed = [&](Instant when, std::uint64_t from) {
    table.out.clear();
    for (std::uint64_t k = 0; k < 10'000; ++k) {
      table.membership.on(when, PeerId{from}, address_of(from),
                          wire::PingRequest{k, PeerId{4}, address_of(4), {}}, table.out);
    }
    return sent<wire::Ping>(table.out).size();
  };
  CHECK(relayed(at(1s), 2) == 8);
  CHECK(relayed(at(1s), 3) == 8);
  CHECK(relayed(at(1100ms), 2) == 0);
  CHECK(relayed(at(1500ms), 2) == 4);
  CHECK(relayed(at(9s), 2) == 8);
  CHECK(table.membership.queued() < 1000);
}

TEST_CASE("the suspicion window grows with the logarithm of the swarm, and shrinks with every accuser") {
  const auto failed_after = [](std::uint64_t accusers) {
    Table table;
    table.learn(2, 1000);
    table.suspect(at(0s), 2);  // the first accuser is this peer
    for (std::uint64_t k = 1; k < accusers; ++k) {
      auto suspect = said_to_be(member(2), Liveness::suspect);
      suspect.accuser = PeerId{100 + k};
      table.tell(at(0s), suspect);
      table.tell(at(0s), suspect);  // a repeated accusation does not count
    }
    Duration after{0};
    while (table.liveness(2) == Liveness::suspect) {
      after += 10ms;
      table.membership.tick(at(after), table.out);
    }
    return to_seconds(after);
  };
  // 4 x log10(1000) x 1 s with one accuser, and half of that with three further ones. Between them the window
  // falls with the logarithm of the accusers.
  CHECK(failed_after(1) == Approx(12).margin(0.02));
  CHECK(failed_after(2) == Approx(9).margin(0.02));
  CHECK(failed_after(3) == Approx(12 - 6 * std::log(3.0) / std::log(4.0)).margin(0.02));
  CHECK(failed_after(4) == Approx(6).margin(0.02));
  CHECK(failed_after(9) == Approx(6).margin(0.02));
}

TEST_CASE("a claimed failure makes a member suspect, and failed only after half the window") {
  for (const bool is_answering : {false, true}) {
    Table table;
    table.learn(2, 3);
    table.tell(at(10s), said_to_be(member(2), Liveness::failed));
    REQUIRE(table.liveness(2) == Liveness::suspect);
    if (!is_answering) table.suspect(at(10s), 2);
    table.tell(at(11'900ms), said_to_be(member(2), Liveness::failed));
    REQUIRE(table.liveness(2) == Liveness::suspect);
    table.tell(at(12s), said_to_be(member(2), Liveness::failed));
    REQUIRE(table.liveness(2) == (is_answering ? Liveness::suspect : Liveness::failed));
  }
}

TEST_CASE("a claim about a member that has just sent a message causes only a warning") {
  Table table;
  table.learn(2, 3);
  table.membership.heard(at(10s), PeerId{2}, address_of(2), table.out);
  table.out.clear();
  for (const Duration later : {100ms, 200ms, 300ms}) {
    table.tell(at(10s + later), said_to_be(member(2), Liveness::suspect));
    REQUIRE(table.liveness(2) == Liveness::alive);
  }
  const auto warnings = sent<wire::Gossip>(table.out);
  REQUIRE(warnings.size() == 1);
  REQUIRE(warnings[0].first == address_of(2));
  table.tell(at(11'500ms), said_to_be(member(2), Liveness::suspect));
  REQUIRE(table.liveness(2) == Liveness::suspect);
}

TEST_CASE("a suspect that sends a message is alive again, and receives a warning") {
  Table table;
  table.learn(2, 2);
  const auto is_warned = [](const std::vector<wire::Member>& told) {
    return std::ranges::any_of(
        told, [](const wire::Member& m) { return m.id == PeerId{2} && m.liveness == Liveness::suspect; });
  };
  table.membership.unreachable(at(10s), {{}, address_of(2)}, table.out);
  // The broken connection may be an old one: the member is asked at once, over any that reaches it.
  const auto pings = sent<wire::Ping>(table.out);
  REQUIRE(pings.size() == 1);
  REQUIRE(pings[0].second.target == PeerId{2});
  REQUIRE(is_warned(pings[0].second.members));
  table.out.clear();
  table.membership.heard(at(11'100ms), PeerId{2}, address_of(2), table.out);
  REQUIRE(table.liveness(2) == Liveness::alive);
  const auto warnings = sent<wire::Gossip>(table.out);
  REQUIRE(warnings.size() == 1);
  REQUIRE(is_warned(warnings[0].second.members));
}

TEST_CASE("the next suspicion after a cleared one has a full window") {
  Table table;
  table.learn(2, 2);
  table.membership.unreachable(at(0s), {{}, address_of(2)}, table.out);
  table.membership.heard(at(3s), PeerId{2}, address_of(2), table.out);
  table.membership.unreachable(at(3s), {{}, address_of(2)}, table.out);
  table.membership.tick(at(6900ms), table.out);
  REQUIRE(table.liveness(2) == Liveness::suspect);
  table.membership.tick(at(7s), table.out);
  REQUIRE(table.liveness(2) == Liveness::failed);
}

TEST_CASE("time during which this peer slept does not count against others") {
  Table table;
  table.learn(2, 3);
  const auto ping = next_ping(table);
  const std::uint64_t probed = ping.second.target.value, suspected = 5 - probed;
  table.membership.unreachable(table.now, {{}, address_of(suspected)}, table.out);
  // The peer is stopped for a minute. It wakes with all deadlines past and the answers unread.
  const Instant woken = table.now + 60s;
  table.membership.slept(woken - table.membership.next_deadline());
  table.membership.tick(woken, table.out);
  REQUIRE(table.liveness(probed) == Liveness::alive);
  REQUIRE(table.liveness(suspected) == Liveness::suspect);
  table.membership.tick(woken + 6s, table.out);
  REQUIRE(table.liveness(suspected) == Liveness::failed);
}

TEST_CASE("helpers are asked earlier if round trips are short, and later if they are long") {
  const auto asked_after = [](Duration round_trip, Duration lag) {
    Table table;
    table.learn(2, 3);
    for (int k = 0; k < 40; ++k) {
      const auto [to, ping] = next_ping(table);
      table.membership.on(table.now + round_trip, ping.target, to, wire::Ack{ping.sequence, {}, {}},
                          table.out);
    }
    for (int k = 0; k < 40; ++k) table.membership.slept(lag);
    next_ping(table);
    const Instant probed = table.now;
    while (sent<wire::PingRequest>(table.out).empty()) table.run(table.membership.next_deadline());
    return table.now - probed;
  };
  REQUIRE(asked_after(1ms, 0ms) == 100ms);  // the minimum, a tenth of the interval
  REQUIRE(asked_after(200ms, 0ms) > 200ms);
  REQUIRE(asked_after(200ms, 0ms) < 300ms);
  REQUIRE(asked_after(1ms, 100ms) > 250ms);
  REQUIRE(asked_after(1500ms, 0ms) > 1500ms);  // a full link may delay answers by more than an interval
  REQUIRE(asked_after(1ms, 5s) == 4s);         // the maximum, four intervals
}

TEST_CASE("a suspected peer refutes at once") {
  Table table;
  table.learn(2, 4);
  table.run(at(1s), {2, 3, 4});
  table.out.clear();
  table.tell(at(1s), said_to_be(member(1), Liveness::suspect));
  REQUIRE(table.membership.self().incarnation == 1);
  REQUIRE(noticed(table.out, Notice::What::refuted).size() == 1);
  const auto told = sent<wire::Gossip>(table.out);
  REQUIRE(told.size() == 3);
  for (const auto& [to, gossip] : told) REQUIRE(gossip.members == std::vector{table.membership.self()});
}

TEST_CASE("another instance at a member's address replaces that member") {
  Table table;
  table.learn(2, 2);
  auto successor = member(9);
  successor.address = address_of(2);
  table.tell(at(1s), successor);
  REQUIRE(table.liveness(2) == Liveness::alive);  // a claim of a third member is not sufficient
  table.membership.heard(at(2s), PeerId{9}, address_of(2), table.out);
  REQUIRE(table.liveness(2) == Liveness::failed);
  REQUIRE(table.liveness(9) == Liveness::alive);
  // Number 2 no longer listens there, so it is not retried.
  table.pinged.clear();
  table.run(at(300s), {9});
  REQUIRE(table.pinged[2].empty());
}

TEST_CASE("a former instance at this peer's address, with another id, is dead if the Welcome names it") {
  auto former = member(9);
  former.address = address_of(1);
  former.samples = 70;
  former = by_itself(former);
  Table table;
  table.membership.welcomed(at(1s), PeerId{2}, std::vector{member(2), former}, 0, table.out);
  REQUIRE(table.liveness(9) == Liveness::failed);
  REQUIRE(table.membership.view().members.live() == 1);
  REQUIRE(table.membership.swarm_samples() == 70);
  // The member that named it is told.
  table.out.clear();
  table.membership.on(at(1s), PeerId{2}, address_of(2), wire::Gossip{{former}, false, {}}, table.out);
  const auto told = sent<wire::Gossip>(table.out);
  REQUIRE(told.size() == 1);
  REQUIRE(told[0].second.members.at(0).liveness == Liveness::failed);
  table.run(at(300s), {2});
  REQUIRE(table.pinged[9].empty());
  for (const auto& [to, ping] : sent<wire::Ping>(table.out)) REQUIRE(to != address_of(1));
}

TEST_CASE("hearsay about a member at this peer's own address has no effect") {
  Table table;
  table.learn(2, 2);
  auto other = member(9);
  other.address = address_of(1);
  other.samples = 70;
  table.out.clear();
  table.says(at(1s), 2, by_itself(other));
  table.run(at(300s), {2});
  REQUIRE_FALSE(table.knows(9));
  REQUIRE(table.membership.swarm_samples() == 0);
  for (const auto& [to, ping] : sent<wire::Ping>(table.out)) REQUIRE(to != address_of(1));
}

}  // namespace starling::gossip
