// The end of a run that rests on the claims of one member.

#include "tests/catch.h"
#include "tests/gossip/life.h"

namespace starling::gossip {

namespace {

constexpr std::uint64_t kEnd = 1'000'000;  // samples

// Peer 1 makes 1,000 samples a second, and the members 2 and 3 so many times as much; member 2 joins at that
// time. All take part in exchanges.
struct Race {
  Race(double second, double third, Duration joins = 0s)
      : speeds{{2, 1000 * second}, {3, 1000 * third}}, second_joins(at(joins)) {
    End end;
    end.swarm_samples = kEnd;
    life.trains(rules_of({Pace::Kind::steps, 1'000'000, {}}, end), {3});
    exchanges_with(3, 1);
    if (joins == 0s) join();
  }
  void join() {
    life.meets(member(2));
    exchanges_with(2, 1);
    has_joined = true;
  }
  void exchanges_with(std::uint64_t k, int times) {
    for (; times > 0; --times) {
      life.happens(ExchangeOffered{PeerId{k}, ++exchange});
      life.happens(AnswerEnded{PeerId{k}, exchange});
    }
  }
  // Until peer 1 does not train any more, or `most`.
  void runs(Duration most) {
    for (auto s = static_cast<std::uint64_t>(to_seconds(life.now.since_start)) + 1;
         life.phase() == wire::Phase::training && life.now < at(most); ++s) {
      life.waits(at(std::chrono::seconds(s)), {2, 3});
      life.happens(Stepped{s, 1000 * s});
      if (!has_joined && life.now >= second_joins) join();
      for (const auto& [k, speed] : speeds) {
        if (k == 2 && !has_joined) continue;
        wire::Member m = member(k, phase);
        m.samples =
            static_cast<std::uint64_t>(speed * to_seconds(life.now - (k == 2 ? second_joins : at(0s))));
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
  Instant second_joins;
  bool has_joined = false;
  std::uint64_t exchange = 0;
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

TEST_CASE("a machine that is much faster than all others from the start is no reason for doubt") {
  Race race(8, 1);
  race.runs(10min);
  CHECK(race.doubt().empty());
  CHECK(noticed(race.life.out, Notice::What::leads).empty());
}

TEST_CASE("one that comes late and brings most of the samples, much faster than others, is named") {
  Race race(8, 1, 90s);
  race.runs(10min);
  CHECK(race.life.now >= at(165s));
  CHECK(noticed(race.life.out, Notice::What::leads) == std::vector(1, PeerId{2}));
  CHECK_FALSE(race.doubt().empty());
}

TEST_CASE("claims of one member count up to ten times the fastest other one, and more with its exchanges") {
  for (const int exchanges : {1, 80, 800}) {
    Race race(900, 1);
    race.exchanges_with(2, exchanges - 1);
    race.runs(50s);
    CAPTURE(exchanges);
    CHECK((race.life.phase() == wire::Phase::training) == (exchanges == 1));
    CHECK((race.life.peer.view().swarm_samples < kEnd) == (exchanges == 1));
  }
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
