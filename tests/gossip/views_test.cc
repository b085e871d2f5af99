// The spread of news: rumors, progress, digests and views, corrections, tombstones and their expiry.
#include <algorithm>
#include <utility>

#include "tests/catch.h"
#include "tests/gossip/table.h"

namespace starling::gossip {

using wire::Liveness;

namespace {

// Delivers messages between the tables until none are left. Returns their number. Members without a table
// that are in `alive` send themselves in answer to a Ping.
int converse(std::map<std::uint64_t, Table*> tables, Instant now, const std::set<std::uint64_t>& alive = {}) {
  int carried = 0;
  for (bool busy = true; busy;) {
    busy = false;
    for (auto& [k, table] : tables) {
      const auto actions = std::exchange(table->out, {});
      for (const auto& send : all<Send>(actions)) {
        const std::uint64_t number = std::stoull(send.to.address.host.substr(1));
        const auto to = tables.find(number);
        if (const auto* ping = std::get_if<wire::Ping>(&send.message); ping && alive.contains(number))
          table->membership.on(now, PeerId{number}, send.to.address,
                               wire::Ack{ping->sequence, {member(number)}}, table->out);
        if (to == tables.end()) continue;
        Table& there = *to->second;
        const PeerId from{k};
        const Address& address = address_of(k);
        busy = true;
        REQUIRE(++carried < 10'000);
        std::visit(
            [&](const auto& message) {
              if constexpr (requires { there.membership.on(now, from, address, message, there.out); })
                there.membership.on(now, from, address, message, there.out);
            },
            send.message);
      }
    }
  }
  return carried;
}

std::size_t bytes_told(const Table& table) {
  std::size_t members = 0;
  for (const auto& [to, view] : sent<wire::View>(table.out)) members += view.members.size();
  return members;
}

}  // namespace

TEST_CASE("rumors are sent a bounded number of times, the newest first") {
  Table table;
  table.learn(2, 9);
  table.run(at(60s), {2, 3, 4, 5, 6, 7, 8, 9});
  std::map<PeerId, int> told;
  for (const auto& [to, gossip] : sent<wire::Gossip>(table.out)) {
    REQUIRE(gossip.members.size() <= Rumors::kMembersMax);
    for (const auto& m : gossip.members) ++told[m.id];
  }
  for (const auto& [to, ping] : sent<wire::Ping>(table.out)) {
    for (const auto& m : ping.members) ++told[m.id];
  }
  told.erase(PeerId{1});  // every Ping carries its sender
  REQUIRE(told.size() == 8);
  // At most twice the bits of n. The first members were added when the swarm was smaller.
  for (const auto& [id, times] : told) REQUIRE((times >= 2 && times <= 8));
  table.out.clear();
  table.tell(at(60s), member(10));
  table.run(at(61s), {2, 3, 4, 5, 6, 7, 8, 9, 10});
  const auto gossips = sent<wire::Gossip>(table.out);
  REQUIRE_FALSE(gossips.empty());
  REQUIRE(gossips.front().second.members == std::vector{member(10)});
}

TEST_CASE("a member's vitals travel with its progress, and the newest are kept") {
  Table table;
  table.learn(2, 4);
  table.membership.set_progress(at(0s), 3, 30);
  wire::Vitals own;
  own.samples_per_second = 12;
  table.membership.set_vitals(own);
  wire::Gossip told;
  told.progress = {{PeerId{3}, 100}};
  const RecentFigures figures{false, 7, 0.5, 0.1};
  told.vitals = {{figures, PeerId{3}, 5, 1, PeerId{2}}, {figures, PeerId{999}, 5, 1, {}}};
  told.reply_wanted = true;
  table.out.clear();
  table.membership.on(at(1s), PeerId{2}, address_of(2), told, table.out);
  const auto replies = sent<wire::Gossip>(table.out);
  REQUIRE(replies.size() == 1);
  REQUIRE(replies[0].second.vitals.size() == 2);
  CHECK(replies[0].second.vitals[0].id == PeerId{1});
  CHECK(replies[0].second.vitals[0].samples_per_second == 12);
  CHECK(replies[0].second.vitals[1] == told.vitals[0]);
  CHECK(table.membership.find(PeerId{999}) == nullptr);

  told.vitals = {{figures, PeerId{3}, 4, 4, {}}};  // an older one arrives late
  table.membership.on(at(1s), PeerId{2}, address_of(2), told, table.out);
  CHECK(table.membership.find(PeerId{3})->vitals->sequence == 5);
  table.membership.set_vitals(own);
  CHECK(table.membership.view().vitals->sequence == 2);
}

TEST_CASE("progress is sent separately from members, the latest first, in messages of bounded size") {
  Table table;
  table.learn(2, 200);
  table.membership.set_progress(at(0s), 3, 30);
  wire::Gossip told;
  for (std::uint64_t k = 2; k <= 200; ++k) told.progress.push_back({PeerId{k}, 100 + k});
  told.progress.push_back({PeerId{999}, 5});  // not a member
  told.reply_wanted = true;
  table.out.clear();
  table.membership.on(at(1s), PeerId{2}, address_of(2), told, table.out);
  std::uint64_t sum = 30;
  for (std::uint64_t k = 2; k <= 200; ++k) sum += 100 + k;
  REQUIRE(table.membership.swarm_samples() == sum);
  const auto replies = sent<wire::Gossip>(table.out);
  REQUIRE(replies.size() == 1);
  const auto& progress = replies[0].second.progress;
  REQUIRE(progress.size() == Rumors::kProgressMax);
  REQUIRE(progress[0] == wire::Progress{PeerId{1}, 30});
  REQUIRE(progress[1] == wire::Progress{PeerId{200}, 300});
  // Progress never decreases.
  table.membership.on(at(1s), PeerId{2}, address_of(2), wire::Gossip{{}, false, {{PeerId{2}, 1}}}, table.out);
  REQUIRE(table.membership.swarm_samples() == sum);
}

TEST_CASE("digests of two views differ if the views differ in more than suspicion and progress") {
  Table a, b(1, 2);
  a.learn(2, 50);
  for (std::uint64_t k = 50; k >= 2; --k) b.tell(at(0s), member(k));  // in another order
  REQUIRE(a.membership.view().digest() == b.membership.view().digest());
  auto further = member(7);
  further.samples = 1000;
  a.tell(at(0s), further);
  a.tell(at(0s), said_to_be(member(8), Liveness::suspect));
  REQUIRE(a.membership.view().digest() == b.membership.view().digest());
  a.tell(at(0s), said_to_be(member(9), Liveness::alive, 1));
  REQUIRE(a.membership.view().digest() != b.membership.view().digest());
  b.tell(at(0s), said_to_be(member(9), Liveness::alive, 1));
  REQUIRE(a.membership.view().digest() == b.membership.view().digest());
  a.tell(at(0s), said_to_be(member(10), Liveness::left));
  REQUIRE(a.membership.view().digest() != b.membership.view().digest());
  b.tell(at(0s), said_to_be(member(10), Liveness::left));
  b.tell(at(0s), member(11, wire::Phase::finished));
  REQUIRE(a.membership.view().digest() != b.membership.view().digest());
}

TEST_CASE("two peers that compare views have equal views afterwards, and send only the differences") {
  Table a(1), b(2);
  const auto at_first = [](std::uint64_t k) { return member(k); };
  for (std::uint64_t k = 3; k <= 1000; ++k) {
    a.tell(at(0s), at_first(k));
    b.tell(at(0s), at_first(k));
  }
  a.tell(at(0s), b.membership.self());
  b.tell(at(0s), a.membership.self());
  a.tell(at(0s), member(2000));
  b.tell(at(0s), member(3001));
  b.tell(at(0s), said_to_be(member(500), Liveness::alive, 3));
  a.out.clear();
  b.out.clear();
  REQUIRE(a.membership.view().digest() != b.membership.view().digest());
  a.membership.sync_with({{}, address_of(2)}, a.out);
  const auto digests = sent<wire::Digest>(a.out);
  b.membership.on(at(1s), PeerId{1}, address_of(1), digests.at(0).second, b.out);
  REQUIRE(bytes_told(b) <= 3 * (1000 / wire::kDigestBuckets + 2));
  a.out.clear();
  converse({{1, &a}, {2, &b}}, at(1s));
  REQUIRE(a.record(500).incarnation == 3);
  // Each has heard of a member that only the other one knows, and asks it.
  REQUIRE_FALSE(b.knows(2000));
  REQUIRE_FALSE(a.knows(3001));
  a.membership.tick(at(1s), a.out);
  b.membership.tick(at(1s), b.out);
  converse({{1, &a}, {2, &b}}, at(1s), {2000, 3001});
  REQUIRE(b.knows(2000));
  REQUIRE(a.knows(3001));
  REQUIRE(a.membership.view().digest() == b.membership.view().digest());
}

TEST_CASE("comparing equal views costs two small messages, at growing intervals") {
  Table a(1), b(2);
  a.tell(at(0s), b.membership.self());
  b.tell(at(0s), a.membership.self());
  a.out.clear();
  a.membership.sync_with({{}, address_of(2)}, a.out);
  REQUIRE(converse({{1, &a}, {2, &b}}, at(1s)) == 2);
  int digests = 0;
  for (Instant now = at(1s); now < at(301s); now = now + 1s) {
    a.run(now, {});
    digests += static_cast<int>(sent<wire::Digest>(a.out).size());
    converse({{1, &a}, {2, &b}}, now);
  }
  REQUIRE(digests >= 300 / 13);
  REQUIRE(digests <= 300 / 7 + 8);
}

TEST_CASE("a peer that lists a dead member as alive receives a correction") {
  Table table;
  table.learn(2, 3);
  table.tell(at(0s), said_to_be(member(3), Liveness::left));
  table.out.clear();
  table.membership.on(at(5s), PeerId{2}, address_of(2), wire::Gossip{{member(3)}, false, {}}, table.out);
  REQUIRE(table.liveness(3) == Liveness::left);
  const auto told = sent<wire::Gossip>(table.out);
  REQUIRE(told.size() == 1);
  REQUIRE(told[0].first == address_of(2));
  REQUIRE(told[0].second.members.at(0).liveness == Liveness::left);
}

TEST_CASE("after a partition heals, no live member is recorded as failed by its own side") {
  // 1 and 2 on one side, 3 and 4 on the other; each side has declared the other failed.
  std::map<std::uint64_t, Table*> all_four;
  std::vector<Table> tables;
  tables.reserve(4);
  for (std::uint64_t k = 1; k <= 4; ++k) tables.emplace_back(k);
  for (std::uint64_t k = 1; k <= 4; ++k) all_four[k] = &tables[k - 1];
  for (auto& [k, table] : all_four) {
    for (std::uint64_t other = 1; other <= 4; ++other) {
      if (other == k) continue;
      table->tell(at(0s), member(other));
      if ((other <= 2) != (k <= 2)) table->suspect(at(0s), other);
    }
    table->membership.tick(at(4s), table->out);
    for (std::uint64_t other = 1; other <= 4; ++other)
      if ((other <= 2) != (k <= 2)) REQUIRE(table->liveness(other) == Liveness::failed);
    table->out.clear();
  }
  // The partition ends.
  std::set<std::uint64_t> seen_dead;
  for (Instant now = at(4s); now < at(64s); now = now + 10ms) {
    for (auto& [k, table] : all_four) table->run(now, {});
    converse(all_four, now);
    for (auto& [k, table] : all_four) {
      for (std::uint64_t other = 1; other <= 4; ++other) {
        if (other != k && (other <= 2) == (k <= 2) && table->liveness(other) > Liveness::suspect)
          seen_dead.insert(other);
      }
    }
  }
  REQUIRE(seen_dead.empty());
  for (auto& [k, table] : all_four) {
    for (std::uint64_t other = 1; other <= 4; ++other) {
      if (other != k) REQUIRE(table->liveness(other) == Liveness::alive);
    }
    REQUIRE(table->membership.view().digest() == tables[0].membership.view().digest());
  }
}

TEST_CASE("a member that left is erased after a while; a failed one is not") {
  Table table;
  table.learn(2, 4);
  auto gone = said_to_be(member(2), Liveness::left);
  gone.samples = 500;
  table.tell(at(0s), gone);
  table.tell(at(10s), said_to_be(member(3), Liveness::suspect));
  table.tell(at(13s), said_to_be(member(3), Liveness::failed));
  for (Instant now = at(14s); now < at(3h); now = now + 30s) {
    table.membership.heard(now, PeerId{4}, address_of(4), table.out);
    table.membership.tick(now, table.out);
    REQUIRE((table.membership.find(PeerId{2}) != nullptr) == (now < at(2h)));
    table.out.clear();
  }
  REQUIRE(table.liveness(3) == Liveness::failed);
  REQUIRE(table.membership.swarm_samples() == 500);  // what it consumed still counts
  REQUIRE(table.membership.view().members.retired_samples({}) == 500);
}

TEST_CASE("unknown dead members are not added") {
  Table table;
  table.tell(at(0s), said_to_be(member(2), Liveness::failed));
  table.tell(at(0s), said_to_be(member(3), Liveness::left));
  REQUIRE(table.membership.others().empty());
  REQUIRE(table.out.empty());
}

TEST_CASE("a peer gossips with a few members at a time, and eventually with most of them") {
  Table table;
  table.learn(2, 101);
  std::set<std::uint64_t> everyone;
  for (std::uint64_t k = 2; k <= 101; ++k) everyone.insert(k);
  std::set<Address> all_told;
  std::size_t most = 0;
  for (int second = 1; second <= 600; ++second) {
    table.membership.set_progress(at(0s), 1, static_cast<std::uint64_t>(second));
    table.out.clear();
    table.run(at(std::chrono::seconds(second)), everyone);
    std::set<Address> told;
    for (const auto& [to, gossip] : sent<wire::Gossip>(table.out)) told.insert(to);
    most = std::max(most, told.size());
    all_told.insert(told.begin(), told.end());
  }
  REQUIRE(most <= LocalView::kCircleSize + 1);
  REQUIRE(all_told.size() > 60);
}

TEST_CASE("a joiner counts every member's samples once, including dead ones that come back") {
  Table member_table;
  std::uint64_t sum = 0;
  std::set<std::uint64_t> alive;
  std::vector<wire::Member> members;
  for (std::uint64_t k = 2; k <= 101; ++k) {
    members.push_back(member(k));
    members.back().samples = 1000 + k;
    sum += 1000 + k;
    alive.insert(k);
    member_table.tell(at(0s), members.back());
  }
  for (std::uint64_t k = 12; k <= 101; ++k) {
    member_table.run(at(k * 100ms), alive);
    alive.erase(k);
    if (k % 2 == 0)
      member_table.tell(member_table.now, said_to_be(members[k - 2], Liveness::left));
    else
      member_table.suspect(member_table.now, k);
  }
  member_table.run(at(25s), alive);
  REQUIRE(member_table.membership.view().members.live() == 10);
  const auto told = member_table.membership.introduction(PeerId{500});
  REQUIRE(told.size() == 1 + 10 + Views::kDeadMax);
  Table joiner(500);
  joiner.membership.welcomed(at(30s), PeerId{1}, told,
                             member_table.membership.view().members.retired_samples(told), joiner.out);
  REQUIRE(joiner.membership.view().members.live() == 1);  // it asks the others first,
  REQUIRE(joiner.membership.swarm_samples() == sum);      // but counts their samples
  joiner.introduce(at(30s), members);
  REQUIRE(joiner.membership.view().members.live() == 11);
  REQUIRE(joiner.membership.swarm_samples() == sum);
  // 101 failed last. It returns and continues.
  REQUIRE(joiner.liveness(101) == Liveness::failed);
  auto back = said_to_be(member(101), Liveness::alive, 1);
  back.samples = 1101 + 7;
  joiner.tell(at(31s), back);
  REQUIRE(joiner.liveness(101) == Liveness::alive);
  REQUIRE(joiner.membership.swarm_samples() == sum + 7);
}

TEST_CASE("an introduction has a bounded size, and repeated ones name all live members") {
  Table table;
  Random ids(3);
  std::set<PeerId> living;
  for (int k = 0; k < 200; ++k) {
    auto m = member(2);
    m.id = PeerId{ids.bits()};
    table.tell(at(0s), m);
    if (k % 4 == 0) {
      m.liveness = Liveness::left;
      table.tell(at(0s), m);
    } else {
      living.insert(m.id);
    }
  }
  std::set<PeerId> told;
  for (int k = 0; k < 100; ++k) {
    const auto some = table.membership.introduction(PeerId{77});
    REQUIRE(some.size() == Views::kWelcomeMax + Views::kDeadMax);
    REQUIRE(some[0].id == PeerId{1});
    for (std::size_t i = 1; i < some.size(); ++i) {
      if (some[i].liveness == Liveness::alive) told.insert(some[i].id);
    }
  }
  REQUIRE(told == living);
}

TEST_CASE("an unknown sender is pinged, so that it introduces itself") {
  Table table;
  table.membership.on(at(1s), PeerId{2}, address_of(2), wire::Gossip{}, table.out);
  const auto pings = sent<wire::Ping>(table.out);
  REQUIRE(pings.size() == 1);
  REQUIRE(pings[0].first == address_of(2));
  REQUIRE(pings[0].second.members == std::vector{table.membership.self()});
}

}  // namespace starling::gossip
