// A peer notices that its replica, with finite values, has become useless.

#include "gossip/health.h"

#include "tests/catch.h"
#include "tests/gossip/life.h"

namespace starling::gossip {

namespace {

// A peer that trains with the members 2, 3 and 4, and measures its loss every two seconds.
struct Patient {
  explicit Patient(const std::vector<std::uint64_t>& members = {2, 3, 4}) : others(members) {
    life.trains(rules_of({Pace::Kind::steps, 1, {}}), others);
  }
  // For this time its loss is this high. Returns what it does.
  std::vector<Action> measures(double loss, Duration length) {
    std::vector<Action> did;
    for (const Instant end = life.now + length; life.now < end;) {
      for (const auto& actions : {life.waits(life.now + 2s, others), life.happens(VitalsMeasured{{}, loss})})
        did.insert(did.end(), actions.begin(), actions.end());
    }
    return did;
  }
  static bool copies(const std::vector<Action>& actions) { return !all<FetchState>(actions).empty(); }

  std::vector<std::uint64_t> others;
  Life life;
};

}  // namespace

TEST_CASE("a peer whose loss has been far above its best for a minute warns, and copies another replica") {
  Patient patient;
  CHECK_FALSE(Patient::copies(patient.measures(0.8, 10s)));
  const auto spike = patient.measures(1e6, 50s);
  CHECK_FALSE(Patient::copies(spike));
  CHECK(all<TrustReplica>(spike).empty());
  CHECK(all<TrustReplica>(patient.measures(0.9, 2s)).size() == 1);
  const auto lost = patient.measures(1e6, 62s);
  REQUIRE(noticed(lost, Notice::What::diverged).size() == 1);
  REQUIRE(all<FetchState>(lost).size() == 1);
  CHECK(all<FetchState>(lost)[0].afresh);
  CHECK(all<PauseTraining>(lost).at(0).discard);
  CHECK_FALSE(all<AnswerOffer>(patient.life.happens(ExchangeOffered{PeerId{2}, 1})).at(0).accept);
  CHECK(all<ResumeTraining>(patient.life.happens(StateArrived{})).at(0).renewed);
  CHECK(all<AnswerOffer>(patient.life.happens(ExchangeOffered{PeerId{2}, 2})).at(0).accept);
}

TEST_CASE("copies that do not help come at intervals that double, from other members, and end nothing") {
  Patient patient;
  patient.measures(0.8, 10s);
  std::vector<Instant> copied;
  std::vector<PeerId> donors;
  while (copied.size() < 4) {
    const auto did = patient.measures(50, 2s);
    if (!Patient::copies(did)) continue;
    copied.push_back(patient.life.now);
    donors.push_back(all<FetchState>(did)[0].donor.id);
    REQUIRE(patient.life.now < at(1h));
    patient.life.happens(StateArrived{});
  }
  CHECK(copied[1] - copied[0] >= 2min);
  CHECK(copied[2] - copied[1] >= 4min);
  CHECK(copied[3] - copied[2] >= 8min);
  for (std::size_t k = 1; k < donors.size(); ++k) CHECK(donors[k] != donors[k - 1]);
  patient.measures(0.8, 20min);  // it has helped
  CHECK(Patient::copies(patient.measures(50, 64s)));
}

TEST_CASE("losses of ordinary training are no reason to copy") {
  SECTION("small ones that vary by a large factor") {
    Patient patient;
    patient.measures(1e-6, 10s);
    CHECK_FALSE(Patient::copies(patient.measures(1.9, 5min)));
  }
  SECTION("a text that is hard at first") {
    Patient patient;
    for (const double loss : {10.8, 7.0, 3.2}) patient.measures(loss, 10s);
    CHECK_FALSE(Patient::copies(patient.measures(10.8, 5min)));
  }
  SECTION("no other member has parameters") {
    Patient patient(std::vector<std::uint64_t>{});
    patient.measures(0.8, 10s);
    CHECK_FALSE(Patient::copies(patient.measures(1e6, 5min)));
  }
}

TEST_CASE("a peer that most partners refuse as quarantined copies another replica") {
  Patient patient;
  Life& life = patient.life;
  std::uint64_t steps = 0;
  const auto exchange = [&](std::uint64_t quarantining) {
    std::vector<Action> begun;
    for (int k = 0; k < 100 && all<BeginExchange>(begun).empty(); ++k) {
      life.waits(life.now + 1s, patient.others);
      ++steps;
      begun = life.happens(Stepped{steps, steps});
    }
    const BeginExchange it = all<BeginExchange>(begun).at(0);
    const bool refuses = it.partner.id.value <= quarantining;
    return life.happens(
        ExchangeEnded{it.exchange, refuses ? Outcome::rejected : Outcome::completed, 0, refuses});
  };
  for (int k = 0; k < 100; ++k) REQUIRE_FALSE(Patient::copies(exchange(2)));  // one of three
  std::size_t copies = 0;
  for (int k = 0; k < 20 && copies == 0; ++k) copies += Patient::copies(exchange(3));
  CHECK(copies == 1);
  CHECK(noticed(life.out, Notice::What::diverged).size() == 1);
  life.happens(StateArrived{});
  for (const Instant end = life.now + 110s; life.now < end;) CHECK_FALSE(Patient::copies(exchange(3)));
}

}  // namespace starling::gossip
