#include "node/front/situation.h"

#include "tests/catch.h"

namespace starling::node {
namespace {

MemberStatus mate(const char* name, const char* condition, std::optional<double> slowdown = {}) {
  MemberStatus member;
  member.name = name;
  member.condition = condition;
  const std::string word = condition;
  member.state = word == "training" || word == "paused" ? "alive" : word;
  member.slowdown = slowdown;
  return member;
}

std::vector<HistoryPoint> losses(const std::vector<double>& values, double apart) {
  std::vector<HistoryPoint> points;
  for (const double value : values) {
    HistoryPoint point;
    point.seconds = apart * static_cast<double>(points.size());
    point.loss = value;
    points.push_back(point);
  }
  return points;
}

PeerStatus doing(const char* condition) {
  PeerStatus status;
  status.condition = condition;
  return status;
}

TEST_CASE("the situation tells progress, whether the loss falls, and who is behind and why") {
  auto slow = mate("p7", "training", 5.52);
  slow.device = "cpu";
  const std::vector<MemberStatus> members = {
      mate("p0", "training", 1), mate("p1", "paused"), mate("p2", "failed"), mate("p3", "failed"), slow,
      mate("p4", "suspect")};
  CHECK(
      situation_of(doing("training"), members, "3.0 of 9 epochs, about 4 min left",
                   losses({0.9, 0.5, 0.4}, 10)) ==
      "This peer trains: 3.0 of 9 epochs, about 4 min left, the loss still falls. p2 and p3 have failed; p4 "
      "does not answer; p1 is paused; p7 is 5.5x slower than the median member (its device: "
      "cpu).");
  auto own = mate("p7", "training", 50);
  own.this_peer = true;
  CHECK(situation_of(doing("training"), {mate("p0", "training", 1), own}, "3.0 epochs", {},
                     std::chrono::milliseconds(20)) ==
        "This peer trains: 3.0 epochs. This peer is 50x slower than the median member (it makes at most a "
        "step in 20ms).");
  CHECK(situation_of(doing("training"), {mate("p0", "training", 1), mate("p1", "training", 1.2)},
                     "3.0 epochs", losses({0.9, 0.5, 0.5, 0.51, 0.499, 0.5}, 60)) ==
        "This peer trains: 3.0 epochs, the loss has not fallen below 0.5 for 4 min. All 2 members keep up.");
}

TEST_CASE("the situation of a peer that waits for others says for how long, and who cannot take part") {
  const Instant now{std::chrono::seconds(5)};
  CHECK(waiting_situation({1, 2, now + std::chrono::seconds(25)}, now, {}) ==
        "This peer waits: 1 of 2 peers that begin together are there; it begins without the others in 25 s.");
  std::vector<Happening> happenings(3);
  happenings[0].what = happenings[1].what = "unfit";
  happenings[0].text = "member p1 cannot take part in this run: it has other data";
  happenings[1].text = "member p2 cannot take part in this run: it has no data";
  CHECK(waiting_situation({1, 2, kNever}, now, happenings) ==
        "This peer waits: 1 of 2 peers that begin together are there. The member p2 cannot take part in this "
        "run: it has no data.");
}

TEST_CASE("the situation of a peer that does not train says why") {
  const std::vector<MemberStatus> alone = {mate("p0", "training")};
  CHECK(situation_of(doing("joining"), alone, "", {}) == "This peer joins the swarm and copies the model.");
  CHECK(situation_of(doing("finished"), alone, "9 of 9 epochs", {}) == "The run is finished.");
  CHECK(situation_of(doing("paused"), alone, "3.0 epochs", losses({1, 0.5}, 1)) ==
        "This peer is paused until its owner resumes it: 3.0 epochs. No other member is there yet.");
}

TEST_CASE("a loss that is no longer finite is not reported as falling") {
  auto history = losses({0.9, 0.5, 0.4}, 1);
  history.back().loss.reset();
  CHECK(situation_of(doing("training"), {mate("p0", "training")}, "3.0 epochs", history) ==
        "This peer trains: 3.0 epochs, the loss is not finite. No other member is there yet.");
}

TEST_CASE("a loss near zero is not reported as falling") {
  const std::vector<MemberStatus> alone = {mate("p0", "training")};
  CHECK(situation_of(doing("training"), alone, "3.0 epochs", losses({1, 2e-5, 1e-5}, 1)) ==
        "This peer trains: 3.0 epochs, the loss is below 0.001. No other member is there yet.");
}

TEST_CASE("an earlier life of a member is not reported as failed, and many names are cut short") {
  auto earlier = mate("p1", "failed");
  earlier.earlier_life = true;
  const std::vector<MemberStatus> members = {mate("p0", "training"), mate("p1", "training"), earlier};
  CHECK(situation_of(doing("training"), members, "", {}) == "This peer trains. All 2 members keep up.");
  std::vector<MemberStatus> many = {mate("p0", "training")};
  for (const char* name : {"a", "b", "c", "d", "e"}) many.push_back(mate(name, "quarantined"));
  CHECK(situation_of(doing("training"), many, "", {}) ==
        "This peer trains. a, b, c and 2 more are quarantined: their parameters were rejected.");
}

}  // namespace
}  // namespace starling::node
