// Members that this peer knows only from what others say.
#include "gossip/members/introductions.h"

#include "tests/catch.h"
#include "tests/gossip/table.h"

namespace starling::gossip {

namespace {

// Peer 1 with members 2 to 30, which name others.
struct Hearsay {
  Hearsay()
      : view{.options = {}, .identity = &identity_of(1), .self = member(1), .random = Random(1)},
        introductions(view) {
    for (std::uint64_t k = 2; k <= 30; ++k) {
      Record record;
      record.member = member(k);
      view.members.insert(record);
    }
  }
  // Names members first, first + 1, ...
  void tell(Instant now, std::uint64_t teller, std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t k = first; k < first + count; ++k) introductions.offer(now, PeerId{teller}, member(k));
  }
  std::vector<std::pair<Address, wire::Ping>> pings(Instant now) { return sent<wire::Ping>(tick(now)); }
  std::vector<Action> tick(Instant now) {
    std::vector<Action> out;
    introductions.tick(now, out);
    return out;
  }
  void drop(std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t k = first; k < first + count; ++k) introductions.drop(PeerId{k});
  }

  LocalView view;
  Introductions introductions;
};

}  // namespace

TEST_CASE("a member that another one names is pinged once, and forgotten if it does not answer") {
  Hearsay hearsay;
  hearsay.tell(at(0s), 2, 100, 1);
  hearsay.tell(at(0s), 3, 100, 1);  // named twice
  REQUIRE(hearsay.introductions.size() == 1);
  REQUIRE(hearsay.introductions.is_waiting(PeerId{100}));
  const auto pings = hearsay.pings(at(0s));
  REQUIRE(pings.size() == 1);
  REQUIRE(pings[0].first == address_of(100));
  REQUIRE(pings[0].second.target == PeerId{100});
  REQUIRE(pings[0].second.members == std::vector{hearsay.view.self});
  REQUIRE(hearsay.introductions.next_deadline() == at(1s));
  REQUIRE(hearsay.pings(at(2999ms)).empty());
  REQUIRE(hearsay.introductions.is_waiting(PeerId{100}));
  hearsay.tick(at(3s));
  REQUIRE_FALSE(hearsay.introductions.is_waiting(PeerId{100}));
  REQUIRE(hearsay.introductions.next_deadline() == kNever);
}

TEST_CASE("a bounded number of members waits for each teller, and in all") {
  Hearsay hearsay;
  hearsay.tell(at(0s), 2, 1000, 1000);
  REQUIRE(hearsay.introductions.size() == Introductions::kPerTeller);
  for (std::uint64_t k = 3; k <= 30; ++k) hearsay.tell(at(0s), k, 1000 * k, 100);
  REQUIRE(hearsay.introductions.size() == Introductions::kTotal);
  hearsay.drop(1000, 1);  // it has been heard
  hearsay.tell(at(0s), 30, 500'000, 100);
  REQUIRE(hearsay.introductions.size() == Introductions::kTotal);
}

TEST_CASE("a few pings are under way at a time: in all, for each teller and to each host") {
  Hearsay hearsay;
  hearsay.tell(at(0s), 2, 1000, 64);
  REQUIRE(hearsay.pings(at(0s)).size() == Introductions::kAtOncePerTeller);
  REQUIRE(hearsay.pings(at(100ms)).empty());
  hearsay.drop(1000, 5);  // of those that were pinged
  REQUIRE(hearsay.pings(at(200ms)).size() == 5);
  for (std::uint64_t k = 3; k <= 9; ++k) hearsay.tell(at(300ms), k, 1000 * k, 64);
  REQUIRE(hearsay.pings(at(300ms)).size() == Introductions::kAtOnce - Introductions::kAtOncePerTeller);

  Hearsay one_host;
  for (std::uint64_t k = 0; k < 30; ++k) {
    wire::Member m = member(100 + k);
    m.address = {"victim", static_cast<std::uint16_t>(7100 + k)};
    one_host.introductions.offer(at(0s), PeerId{2 + k % 10}, by_itself(m));
  }
  REQUIRE(one_host.pings(at(0s)).size() == Introductions::kAtOncePerHost);
}

TEST_CASE("each member that did not answer takes a place of its teller for four seconds") {
  Hearsay hearsay;
  hearsay.tell(at(0s), 2, 1000, 16);
  REQUIRE(hearsay.pings(at(0s)).size() == 16);
  hearsay.tick(at(3s));
  REQUIRE(hearsay.introductions.size() == 0);
  hearsay.tell(at(3s), 2, 2000, 64);
  REQUIRE(hearsay.introductions.size() == 64 - 16);
  hearsay.tell(at(3s), 3, 3000, 64);  // others are not affected
  REQUIRE(hearsay.introductions.size() == 64 - 16 + 64);
  hearsay.drop(3000, 64);
  for (int forgiven = 1; forgiven <= 16; ++forgiven) {  // one begins to be forgiven every four seconds
    const Instant now = at(3010ms + (forgiven - 1) * 4s);
    hearsay.tell(now, 2, 4000 + 10 * static_cast<std::uint64_t>(forgiven), 2);
    REQUIRE(hearsay.introductions.size() == 48U + static_cast<std::size_t>(forgiven));
  }
}

TEST_CASE("a teller that names only members that do not exist causes few pings") {
  Hearsay hearsay;
  std::size_t pings = 0;
  std::uint64_t invented = 1000;
  for (Instant now = at(0s); now < at(600s); now = now + 100ms) {
    hearsay.tell(now, 2, invented, 100);
    invented += 100;
    pings += hearsay.pings(now).size();
    REQUIRE(hearsay.introductions.size() <= Introductions::kPerTeller);
  }
  REQUIRE(pings <= Introductions::kPerTeller + 600 / 4 + Introductions::kAtOncePerTeller);
}

TEST_CASE("a teller that knows more is asked again when the members that it named have answered") {
  Hearsay hearsay;
  hearsay.tell(at(0s), 2, 1000, 65);
  hearsay.tell(at(0s), 3, 2000, 5);  // all of them fit
  const auto digests = [&](Instant now) { return sent<wire::Digest>(hearsay.tick(now)); };
  REQUIRE(digests(at(0s)).empty());
  hearsay.drop(2000, 5);
  hearsay.drop(1000, 63);
  REQUIRE(digests(at(1s)).empty());
  hearsay.drop(1063, 1);
  const auto asked = digests(at(1s));
  REQUIRE(asked.size() == 1);
  REQUIRE(asked[0].first == address_of(2));
  REQUIRE(asked[0].second.buckets == hearsay.view.digest());
  REQUIRE(digests(at(2s)).empty());
}

TEST_CASE("a teller whose members did not answer is asked again only when that is forgiven") {
  Hearsay hearsay;
  hearsay.tell(at(0s), 2, 1000, 65);
  hearsay.tick(at(0s));
  hearsay.drop(1016, 48);
  const auto digests = [&](Instant now) { return sent<wire::Digest>(hearsay.tick(now)).size(); };
  REQUIRE(digests(at(3s)) == 0);  // sixteen failed
  REQUIRE(digests(at(3s + 15 * 4s - 10ms)) == 0);
  REQUIRE(digests(at(3s + 15 * 4s + 10ms)) == 1);
}

TEST_CASE("a member that does not answer is asked through its teller, whose answer must be signed by it") {
  Hearsay hearsay;
  hearsay.tell(at(0s), 2, 100, 1);
  const std::uint64_t sequence = hearsay.pings(at(0s)).at(0).second.sequence;
  REQUIRE(sent<wire::PingRequest>(hearsay.tick(at(999ms))).empty());
  const auto requests = sent<wire::PingRequest>(hearsay.tick(at(1s)));
  REQUIRE(requests.size() == 1);
  REQUIRE(requests[0].first == address_of(2));
  REQUIRE(requests[0].second.target == PeerId{100});
  REQUIRE(requests[0].second.address == address_of(100));
  REQUIRE(requests[0].second.sequence == sequence);
  REQUIRE(sent<wire::PingRequest>(hearsay.tick(at(2s))).empty());  // once

  const auto answered = [&](std::uint64_t number, std::uint64_t target, const Signature& signature) {
    return hearsay.introductions.answered_for({number, {}, PeerId{target}, signature}).has_value();
  };
  CHECK_FALSE(answered(sequence, 100, {}));
  CHECK_FALSE(answered(sequence, 100, answer_of(2, 1, sequence)));
  CHECK_FALSE(answered(sequence, 100, answer_of(100, 2, sequence)));
  CHECK_FALSE(answered(sequence, 100, answer_of(100, 1, sequence + 1)));
  CHECK_FALSE(answered(sequence + 1, 100, answer_of(100, 1, sequence + 1)));
  CHECK_FALSE(answered(sequence, 101, answer_of(101, 1, sequence)));
  CHECK(answered(sequence, 100, answer_of(100, 1, sequence)));
}

TEST_CASE("an unreachable member is asked through its teller at once, and gets less time") {
  Hearsay hearsay;
  hearsay.tell(at(0s), 2, 100, 1);
  hearsay.introductions.unreachable(at(0s), {{}, address_of(100)});  // not pinged yet
  hearsay.tick(at(0s));
  hearsay.introductions.unreachable(at(100ms), {PeerId{101}, address_of(100)});  // another one there
  hearsay.introductions.unreachable(at(100ms), {{}, address_of(101)});
  REQUIRE(hearsay.introductions.next_deadline() == at(1s));
  hearsay.introductions.unreachable(at(100ms), {PeerId{100}, address_of(100)});
  REQUIRE(hearsay.introductions.next_deadline() == at(100ms));
  REQUIRE(sent<wire::PingRequest>(hearsay.tick(at(100ms))).size() == 1);
  REQUIRE(hearsay.introductions.next_deadline() == at(1100ms));
  // Repeated errors neither ask again nor extend the time.
  hearsay.introductions.unreachable(at(1s), {{}, address_of(100)});
  REQUIRE(hearsay.tick(at(1s)).empty());
  REQUIRE(hearsay.introductions.is_waiting(PeerId{100}));
  hearsay.tick(at(1100ms));
  REQUIRE_FALSE(hearsay.introductions.is_waiting(PeerId{100}));
}

TEST_CASE("time that this peer slept is added to the time in which named members may answer") {
  Hearsay hearsay;
  hearsay.tell(at(0s), 2, 100, 1);
  hearsay.tick(at(0s));
  hearsay.tell(at(0s), 2, 101, 1);  // not pinged yet: it has no deadline
  hearsay.introductions.slept(60s);
  REQUIRE(hearsay.introductions.next_deadline() == at(61s));
  hearsay.tick(at(62s));
  REQUIRE(hearsay.introductions.is_waiting(PeerId{100}));
  REQUIRE(hearsay.introductions.is_waiting(PeerId{101}));
  hearsay.tick(at(63s));
  REQUIRE_FALSE(hearsay.introductions.is_waiting(PeerId{100}));
  REQUIRE(hearsay.introductions.is_waiting(PeerId{101}));
}

// ---- in a Membership ----

TEST_CASE("a named member counts only when it has answered itself") {
  Table table;
  table.learn(2, 3);
  table.out.clear();
  const auto digest = table.membership.view().digest();
  auto named = member(50);
  named.samples = 100;
  table.says(at(1s), 2, named);
  table.membership.tick(at(1s), table.out);
  const auto is_for_50 = [](const auto& ping) { return ping.first == address_of(50); };
  REQUIRE(std::ranges::count_if(sent<wire::Ping>(table.out), is_for_50) == 1);
  REQUIRE_FALSE(table.knows(50));
  REQUIRE(table.membership.view().members.live() == 2);
  REQUIRE(table.membership.swarm_samples() == 0);
  REQUIRE(table.membership.view().digest() == digest);
  for (const wire::Member& m : table.membership.introduction(PeerId{60})) REQUIRE(m.id != PeerId{50});
  REQUIRE(noticed(table.out, Notice::What::joined).empty());

  table.introduce(at(1s), {member(50)});
  REQUIRE(table.knows(50));
  REQUIRE(table.liveness(50) == wire::Liveness::alive);
  REQUIRE(table.membership.view().digest() != digest);
  REQUIRE(table.membership.find(PeerId{50})->last_heard == at(1s));
}

TEST_CASE("a named member that only its teller reaches becomes known by a signed answer") {
  Table table;
  table.learn(2, 2);
  table.says(at(1s), 2, member(50));
  table.membership.tick(at(1s), table.out);
  table.membership.unreachable(at(1s), {PeerId{50}, address_of(50)}, table.out);
  table.membership.tick(at(1s), table.out);
  const auto requests = sent<wire::PingRequest>(table.out);
  REQUIRE(requests.size() == 1);
  const std::uint64_t sequence = requests[0].second.sequence;
  const auto relayed = [&](const Signature& signature) {
    table.membership.on(at(2s), PeerId{2}, address_of(2), wire::Ack{sequence, {}, PeerId{50}, signature},
                        table.out);
    return table.knows(50);
  };
  REQUIRE_FALSE(relayed({}));
  REQUIRE_FALSE(relayed(answer_of(2, 1, sequence)));
  REQUIRE(relayed(answer_of(50, 1, sequence)));
  REQUIRE_FALSE(table.membership.find(PeerId{50})->last_heard);
}

TEST_CASE("a live member of the Welcome that does not answer has failed, and its samples count once") {
  for (const bool is_back : {false, true}) {
    Table table;
    auto named = member(50);
    named.samples = 700;
    table.membership.welcomed(at(1s), PeerId{2}, std::vector{member(2), named}, 0, table.out);
    REQUIRE_FALSE(table.knows(50));
    REQUIRE(table.membership.swarm_samples() == 700);
    // Others cannot add to them.
    named.samples = UINT64_MAX;
    table.says(at(1s), 2, named);
    REQUIRE(table.membership.swarm_samples() == 700);
    if (is_back) table.introduce(at(2s), {member(50)});  // it does not know its samples yet
    REQUIRE(table.membership.swarm_samples() == 700);
    table.run(at(5s), {2, 50});
    REQUIRE(table.knows(50));
    REQUIRE(table.liveness(50) == (is_back ? wire::Liveness::alive : wire::Liveness::failed));
    REQUIRE(table.membership.swarm_samples() == 700);
    REQUIRE(table.record(50).samples == 700);
  }
}

TEST_CASE("unsigned, dead and strangers' hearsay about unknown members is ignored") {
  Table table;
  table.learn(2, 2);
  table.out.clear();
  wire::Member forged = member(50);
  forged.address = address_of(51);
  table.says(at(1s), 2, forged);
  table.says(at(1s), 2, said_to_be(member(52), wire::Liveness::left));
  table.says(at(1s), 2, said_to_be(member(53), wire::Liveness::failed));
  table.says(at(1s), 99, member(54));
  table.membership.tick(at(1s), table.out);
  for (const auto& [to, ping] : sent<wire::Ping>(table.out)) REQUIRE(to == address_of(2));
  REQUIRE(table.membership.others().size() == 1);
}

TEST_CASE("a sender that names itself is known at once, and its other news count, in any order") {
  Table table;
  table.membership.on(at(1s), PeerId{2}, address_of(2), wire::Gossip{{member(50), member(2)}, false, {}},
                      table.out);
  REQUIRE(table.knows(2));
  table.introduce(at(1s), {member(50)});
  REQUIRE(table.knows(50));
  // Not with somebody else's record, or an unsigned one.
  wire::Member unsigned_one = member(3);
  unsigned_one.signature = {};
  table.membership.on(at(1s), PeerId{3}, address_of(3), wire::Gossip{{unsigned_one}, false, {}}, table.out);
  table.membership.on(at(1s), PeerId{4}, address_of(4), wire::Gossip{{member(5)}, false, {}}, table.out);
  for (const std::uint64_t k : {3, 4, 5}) REQUIRE_FALSE(table.knows(k));
}

TEST_CASE("hearsay of many tellers keeps the queues within their bound") {
  Table table;
  table.learn(2, 41);
  std::uint64_t invented = 1000;
  for (std::uint64_t teller = 2; teller <= 41; ++teller)
    for (int k = 0; k < 200; ++k) table.says(at(1s), teller, member(invented++));
  REQUIRE(table.membership.queued() >= Introductions::kTotal);
  REQUIRE(table.membership.queued() <= 2 * 40 + 1500);
}

}  // namespace starling::gossip
