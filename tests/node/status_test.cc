#include "node/front/status.h"

#include <cmath>

#include "node/front/answers.h"
#include "node/launch/process.h"
#include "node/peer/namesake.h"

#include "tests/catch.h"
#include "tests/node/introduced.h"

namespace starling::node {

TEST_CASE("a peer's status reads back from its JSON, which is one line") {
  PeerStatus status;
  status.name = "p0";
  status.id = "00000000000000ff";
  status.phase = "training";
  status.samples = std::uint64_t{1} << 60;
  status.loss = 0.25;
  status.learning_rate = 0.0125;
  status.exchanges.half_applied_chunks = 7;
  status.exchanges.refused_chunks = {{"far_off", 2}, {"not_finite", 3}};
  status.exchanges.lost_weight = 0.5;
  status.split = "1 stage";
  status.pipeline.emplace().schedule = "pipedream";
  status.pipeline->stages.push_back({.name = "1", .layers = "fc1", .busy_seconds = 2, .versions = 4});
  status.pipeline->passes.push_back({.stage = 1, .pass = "update", .end_seconds = 0.25});
  const std::string text = to_json(status);
  CHECK(text.find('\n') == text.size() - 1);
  const auto read = parse_status(text);
  REQUIRE(read.ok());
  CHECK(read->name == "p0");
  CHECK(read->samples == status.samples);
  CHECK(read->loss == 0.25);
  CHECK(read->exchanges.half_applied_chunks == 7);
  CHECK(read->exchanges.refused_chunks == status.exchanges.refused_chunks);
  CHECK(read->exchanges.lost_weight == 0.5);
  CHECK(to_json(*read) == text);
  CHECK(read->split == "1 stage");
  REQUIRE(read->pipeline.has_value());
  CHECK(read->pipeline->stages.at(0).versions == 4);
  CHECK(read->pipeline->passes.at(0).pass == "update");

  CHECK(read->learning_rate == status.learning_rate);
  status.learning_rate.reset();
  CHECK_FALSE(parse_status(to_json(status))->learning_rate.has_value());
  status.loss.reset();
  CHECK(to_json(status).find("\"loss\":null") != std::string::npos);
  CHECK_FALSE(parse_status(to_json(status))->loss.has_value());
}

TEST_CASE("rejected and lost chunks are counted by reason, and listed in one line") {
  training::MixCounters mixed;
  mixed.refused[static_cast<std::size_t>(training::MixFault::not_finite)] = 3;
  mixed.refused[static_cast<std::size_t>(training::MixFault::far_off)] = 1;
  mixed.overlapped = 5;
  PeerStatus::Exchanges exchanges;
  CHECK(exchanges.losses().empty());
  exchanges.count(mixed);
  exchanges.half_applied_chunks = 2;
  CHECK(exchanges.refused_chunks == std::map<std::string, std::uint64_t>{{"far_off", 1}, {"not_finite", 3}});
  CHECK(exchanges.chunks_overlapped == 5);
  CHECK(exchanges.losses() == "far off 1, half applied 2, not finite 3");
}

TEST_CASE("an older peer's status lacks fields, a newer peer's has unknown ones, and both are read") {
  const auto older =
      parse_status(R"({"name":"p0","id":"00000000000000ff","steps":7,"exchanges":{"begun":3}})");
  REQUIRE(older.ok());
  CHECK(older->name == "p0");
  CHECK(older->steps == 7);
  CHECK(older->exchanges.begun == 3);
  CHECK(older->exchanges.completed == 0);
  CHECK(older->members_live == 1);
  CHECK(older->samples_per_second == 0);
  CHECK_FALSE(older->loss.has_value());
  const auto newer =
      parse_status(R"({"name":"p0","id":"00000000000000ff","mood":{"good":[1]},"phase":"training",)"
                   R"("exchanges":{"begun":3,"odd":1}})");
  REQUIRE(newer.ok());
  CHECK(newer->phase == "training");
  CHECK(newer->exchanges.begun == 3);
  const auto members = parse_members(R"({"members":[{"name":"p1","id":"01","steps":4,"mood":1}],"count":1})");
  REQUIRE(members.ok());
  REQUIRE(members->size() == 1);
  CHECK(members->front().steps == 4);
  CHECK_FALSE(members->front().samples_per_second.has_value());
  const auto hostile = parse_members(R"({"members":[{"name":"p1\u001b[2J\nforged","id":"01"}]})");
  REQUIRE(hostile.ok());
  CHECK(hostile->front().name ==
        "p1\xef\xbf\xbd[2J\xef\xbf\xbd"
        "forged");
  CHECK(parse_error("{\"error\":\"a\\rb\"}") ==
        "a\xef\xbf\xbd"
        "b");
  const auto other_type = parse_status(R"({"name":"p0","id":"00000000000000ff","steps":"many"})");
  REQUIRE_FALSE(other_type.ok());
  CHECK(other_type.error().message ==
        "this is not a peer's status: a status's \"steps\" is not a whole number");
}

TEST_CASE("members read back from their JSON, with null for unknown values") {
  MemberStatus known;
  known.name = "p1";
  known.state = "quarantined";
  known.last_heard_seconds = 0.5;
  known.round_trip_seconds = 0.001;
  MemberStatus self;
  self.name = "p0";
  self.this_peer = true;
  const std::string text = to_json(std::vector{known, self});
  const auto read = parse_members(text);
  REQUIRE(read.ok());
  REQUIRE(read->size() == 2);
  CHECK((*read)[0].state == "quarantined");
  CHECK((*read)[0].last_heard_seconds == 0.5);
  CHECK_FALSE((*read)[1].last_heard_seconds.has_value());
  CHECK((*read)[1].this_peer);
  CHECK(to_json(*read) == text);
}

TEST_CASE("members are listed by name with their last known state, and a quarantine shows") {
  const auto member = [](std::uint64_t id, const char* name) {
    wire::Member made;
    made.id = PeerId{id};
    made.name = name;
    made.address = {"127.0.0.1", static_cast<std::uint16_t>(7100 + id)};
    return made;
  };
  gossip::Membership membership(gossip::identity_of(1), gossip::by_itself(member(1, "b")), {}, Random(1));
  std::vector<gossip::Action> actions;
  membership.start(Instant{});
  const std::vector<wire::Member> news = {member(2, "c"), member(3, "a")};
  introduce(membership, news, actions);
  membership.heard(Instant{}, PeerId{2}, {"127.0.0.1", 7102}, actions);
  for (int i = 0; i < 10; ++i) membership.poisoned_by(Instant{}, PeerId{2}, actions);

  auto members = list_members(membership, Instant{std::chrono::seconds(3)});
  REQUIRE(members.size() == 3);
  CHECK(members[0].name == "a");
  CHECK(members[0].state == "alive");
  CHECK_FALSE(members[0].last_heard_seconds.has_value());
  CHECK_FALSE(members[0].round_trip_seconds.has_value());
  CHECK(members[1].this_peer);
  CHECK(members[2].state == "quarantined");
  CHECK(members[2].last_heard_seconds == 3.0);
  members = list_members(membership, Instant{std::chrono::hours(3)});
  CHECK(members[2].state == "alive");
}

TEST_CASE("one word says what a member does") {
  const auto word = [](const char* state, const char* phase, bool paused = false) {
    MemberStatus member;
    member.state = state;
    member.phase = phase;
    member.paused = paused;
    return condition_of(member);
  };
  for (const char* phase : {"joining", "training", "settling", "finished"})
    CHECK(word("alive", phase) == phase);
  CHECK(word("alive", "training", true) == "paused");
  CHECK(word("alive", "settling", true) == "paused");
  CHECK(word("alive", "finished", true) == "finished");
  for (const char* state : {"suspect", "failed", "quarantined"}) {
    CHECK(word(state, "training", true) == state);
    CHECK(word(state, "finished") == state);
  }
  CHECK(word("left", "training", true) == "left");
  CHECK(word("left", "finished") == "finished");
}

TEST_CASE("a member that is gone is an earlier life if another one has its name") {
  const auto member = [](std::uint64_t id, const char* name, std::uint32_t incarnation) {
    wire::Member made;
    made.id = PeerId{id};
    made.name = name;
    made.address = {"127.0.0.1", static_cast<std::uint16_t>(7100 + id)};
    made.incarnation = incarnation;
    made.phase = wire::Phase::training;
    return made;
  };
  gossip::Membership membership(gossip::identity_of(1), gossip::by_itself(member(1, "b", 50)), {}, Random(1));
  std::vector<gossip::Action> actions;
  membership.start(Instant{});
  introduce(membership, std::vector{member(2, "a", 70), member(3, "a", 60), member(4, "c", 10)}, actions);
  for (const std::uint64_t id : {2, 4}) {
    wire::Member gone = membership.find(PeerId{id})->member;
    gone.liveness = wire::Liveness::left;
    const wire::Member goodbye = gossip::by_itself(gone);
    membership.merge(Instant{}, PeerId{id}, {&goodbye, 1}, actions);
  }
  const auto members = list_members(membership, Instant{});
  REQUIRE(members.size() == 4);
  CHECK(members[0].id == to_string(PeerId{3}));  // it lives, so it comes before the one that began later
  CHECK(members[0].condition == "training");
  CHECK_FALSE(members[0].earlier_life);
  CHECK(members[1].condition == "left");
  CHECK(members[1].earlier_life);
  CHECK_FALSE(members[2].earlier_life);
  CHECK(members[3].condition == "left");  // nobody has its name
  CHECK_FALSE(members[3].earlier_life);
}

TEST_CASE("a namesake is a live member that has answered, and the later one knows that it is later") {
  const auto member = [](std::uint64_t id, std::uint32_t incarnation) {
    wire::Member made;
    made.id = PeerId{id};
    made.name = "north";
    made.address = {"127.0.0.1", static_cast<std::uint16_t>(7100 + id)};
    made.incarnation = incarnation;
    return made;
  };
  gossip::Membership membership(gossip::identity_of(1), gossip::by_itself(member(1, 50)), {}, Random(1));
  std::vector<gossip::Action> actions;
  membership.start(Instant{});
  CHECK_FALSE(find_namesake(membership, true).has_value());
  introduce(membership, std::vector{member(2, 40)}, actions);
  membership.heard(Instant{}, PeerId{2}, {"127.0.0.1", 7102}, actions);
  const auto namesake = find_namesake(membership, true);
  REQUIRE(namesake.has_value());
  CHECK(namesake->id == PeerId{2});
  CHECK(namesake->began_before);
  CHECK(namesake->sentence.find("at 127.0.0.1:7102") != std::string::npos);
  CHECK(namesake->sentence.find("--name north-2") != std::string::npos);

  // Two starts within a second: the one that trains while the other one joins was there before.
  wire::Member trains = member(2, 51);
  trains.phase = wire::Phase::training;
  gossip::Membership newcomer(gossip::identity_of(1), gossip::by_itself(member(1, 51)), {}, Random(1));
  newcomer.start(Instant{});
  introduce(newcomer, std::vector{trains}, actions);
  newcomer.heard(Instant{}, PeerId{2}, {"127.0.0.1", 7102}, actions);
  CHECK(find_namesake(newcomer, true)->began_before);
  // Later the peer is not told to give its name up.
  CHECK(find_namesake(newcomer, false)->sentence.find("--name") == std::string::npos);
}

TEST_CASE("an answer that does not come from a peer is an error and not an exception") {
  for (const char* text : {"", "{", "[]", "{}", "null", "{\"members\":7}", "{\"members\":[7]}",
                           "{\"name\":1}", "{\"members\":[{\"name\":\"x\"}]}"}) {
    INFO(text);
    CHECK_FALSE(parse_status(text).ok());
    CHECK_FALSE(parse_members(text).ok());
    CHECK_FALSE(is_leaving(text));
    CHECK(parse_error(text).empty());
    CHECK_FALSE(parse_introduction(text).ok());
  }
  CHECK(is_leaving(leaving_json()));
  CHECK(parse_error("{\"error\":\"too busy\"}") == "too busy");
}

TEST_CASE("an introduction names an address that can be dialed") {
  const auto read = parse_introduction(introduction_json({"::1", 7100}));
  REQUIRE(read.ok());
  CHECK(*read == Address{"::1", 7100});
  for (const char* text : {"{\"address\":7100}", "{\"address\":\"here\"}", "{\"address\":\"127.0.0.1:0\"}"}) {
    INFO(text);
    CHECK_FALSE(parse_introduction(text).ok());
  }
}

TEST_CASE("the memory of this process is between a megabyte and a terabyte") {
  CHECK(resident_bytes() > 1'000'000);
  CHECK(resident_bytes() < 1'000'000'000'000);
}

TEST_CASE("an unknown loss is no number in the log") {
  CHECK(loss_text(0.12345) == "loss 0.1235");
  CHECK(loss_text(std::nullopt) == "loss unknown");
  CHECK(loss_text(std::nan("")) == "loss unknown");
  CHECK(loss_text(HUGE_VAL) == "loss unknown");
}

}  // namespace starling::node
