// The end of a run that rests on the claims of one member.

#include "tests/catch.h"
#include "tests/gossip/life.h"

namespace starling::gossip {

namespace {

constexpr std::uint64_t kEnd = 1'000'000;  // samples

// Peer 1 makes 1,000 samples a second, and the members 2 and 3 so many times as much. All take part in
// exchanges.
struct Race {
  Race(double second, double third) : speeds{{2, 1000 * second}, {3, 1000 * third}} {
    End end;
    end.swarm_samples = kEnd;
    life.trains(rules_of({Pace::Kind::steps, 1'000'000, {}}, end), {2, 3});
    for (const std::uint64_t k : {2, 3}) {
      life.happens(ExchangeOffered{PeerId{k}, k});
      life.happens(AnswerEnded{PeerId{k}, k});
    }
  }
  // Until peer 1 does not train any more, or `most`.
  void runs(Duration most) {
    for (auto s = static_cast<std::uint64_t>(to_seconds(life.now.since_start)) + 1;
         life.phase() == wire::Phase::training && life.now < at(most); ++s) {
      life.waits(at(std::chrono::seconds(s)), {2, 3});
      life.happens(Stepped{s, 1000 * s});
      for (const auto& [k, speed] : speeds) {
        wire::Member m = member(k, phase);
        m.samples = static_cast<std::uint64_t>(speed * static_cast<double>(s));
        life.meets(m);
      }
    }
  }
  // Why the end is in doubt; it has come.
  std::string doubt() {
    REQUIRE(life.phase() > wire::Phase::training);
    for (const std::uint64_t k : {2, 3}) {
      wire::Member m = member(k, wire::Phase::finished);
      m.incarnation = 1;
      life.meets(m);
    }
    std::size_t ended = 0;
    for (int k = 0; k < 100 && !life.peer.view().over; ++k) {
      const auto begun = all<BeginExchange>(life.out);
      if (ended < begun.size())
        life.happens(ExchangeEnded{begun[ended++].exchange, Outcome::completed});
      else
        life.waits(life.now + 1s, {2, 3});
    }
    const auto end = all<Finish>(life.out);
    REQUIRE(end.size() == 1);
    REQUIRE(end[0].how == Finish::How::finished);
    return end[0].why;
  }

  std::vector<std::pair<std::uint64_t, double>> speeds;
  wire::Phase phase = wire::Phase::training;
  Life life;
};

}  // namespace

TEST_CASE("members of similar speeds end a run without a doubt") {
  Race race(3, 0.5);
  race.runs(10min);
  CHECK(race.doubt().empty());
  CHECK(noticed(race.life.out, Notice::What::leads).empty());
}

TEST_CASE("one that brings most of the samples, much faster than others, is named once a minute") {
  Race race(8, 1);
  race.runs(10min);
  CHECK(race.life.now >= at(95s));
  CHECK(noticed(race.life.out, Notice::What::leads) == std::vector(2, PeerId{2}));
  CHECK_FALSE(race.doubt().empty());
}

TEST_CASE("claims of one member count up to ten times the fastest other one, and the run goes on") {
  Race race(900, 1);
  race.runs(50s);
  CHECK(race.life.phase() == wire::Phase::training);
  CHECK(race.life.peer.view().swarm_samples < kEnd);
  CHECK(noticed(race.life.out, Notice::What::leads).size() >= 1);
}

TEST_CASE(
    "when all members that take part have finished by samples that wait, a peer finishes with a doubt") {
  Race race(100, 100);
  race.speeds[1].second = 1000;
  race.runs(30s);
  REQUIRE(race.life.phase() == wire::Phase::training);
  race.phase = wire::Phase::settling;
  race.runs(40s);
  CHECK(race.life.phase() > wire::Phase::training);
  CHECK(race.life.now < at(35s));
  CHECK_FALSE(race.doubt().empty());
}

}  // namespace starling::gossip
