// A complete transcript of a short run of one peer: every event and every action, line by line.

#include <sstream>

#include "tests/catch.h"
#include "tests/gossip/life.h"

namespace starling::gossip {

namespace {

std::string phase_name(wire::Phase phase) {
  static const char* const kNames[] = {"joining", "training", "settling", "finished"};
  return kNames[static_cast<std::size_t>(phase)];
}

struct MessageText {
  std::string operator()(const wire::Join&) const { return "Join"; }
  std::string operator()(const wire::Welcome& m) const {
    return "Welcome to " + m.manifest.model + " with " + std::to_string(m.members.size()) + " members";
  }
  std::string operator()(const wire::Leave&) const { return "Leave"; }
  std::string operator()(const wire::Gossip& m) const {
    return m.reply_wanted ? "Gossip, reply wanted" : "Gossip";
  }
  std::string operator()(const wire::Ping&) const { return "Ping"; }
  std::string operator()(const wire::Ack&) const { return "Ack"; }
  std::string operator()(const wire::Rewire& m) const { return "Rewire " + m.topology; }
  std::string operator()(const wire::Digest&) const { return "Digest"; }
  template <class Other>
  std::string operator()(const Other&) const {
    return "something else";
  }
};

struct ActionText {
  std::string operator()(const Send& a) const {
    return "send " + a.to.address.host + " " + std::visit(MessageText{}, a.message);
  }
  std::string operator()(const TryDial& a) const { return "try to dial " + a.to.address.host; }
  std::string operator()(const AnswerCall& a) const { return "answer the call of " + a.to.address.host; }
  std::string operator()(const Prepare& a) const { return "prepare " + a.manifest.model; }
  std::string operator()(const FetchState& a) const { return "fetch state from " + a.donor.address.host; }
  std::string operator()(const AbortFetch&) const { return "abort fetch"; }
  std::string operator()(const AllowSamples& a) const {
    return "allow " + std::to_string(a.samples) + " samples";
  }
  std::string operator()(const HoldTraining&) const { return "hold training"; }
  std::string operator()(const StartTraining&) const { return "start training"; }
  std::string operator()(const StopTraining&) const { return "stop training"; }
  std::string operator()(const PauseTraining& a) const {
    return a.discard ? "pause training, discard" : "pause training";
  }
  std::string operator()(const ResumeTraining& a) const {
    return a.renewed ? "resume training, renewed" : "resume training";
  }
  std::string operator()(const BeginRound& a) const { return "begin round " + std::to_string(a.round); }
  std::string operator()(const BeginExchange& a) const {
    return "begin exchange " + std::to_string(a.exchange) + " with " + a.partner.address.host;
  }
  std::string operator()(const AbortExchange& a) const {
    return "abort exchange " + std::to_string(a.exchange);
  }
  std::string operator()(const AnswerOffer& a) const { return a.accept ? "accept" : "refuse"; }
  std::string operator()(const TrainingEnded&) const { return "training ended"; }
  std::string operator()(const TrustReplica&) const { return "trust the replica"; }
  std::string operator()(const Rewired& r) const { return "rewired " + r.topology; }
  std::string operator()(const Finish& a) const {
    static const char* const kHow[] = {"finished", "left", "failed"};
    return std::string("finish: ") + kHow[static_cast<std::size_t>(a.how)];
  }
  std::string operator()(const Notice& a) const {
    static const char* const kWhat[] = {"joined",      "suspected",  "recovered", "failed",  "left",
                                        "quarantined", "incredible", "conflict",  "refuted", "waiting",
                                        "unwired",     "diverged",   "reachable", "hidden",  "passed over",
                                        "contested",   "leads"};
    return std::string("notice: ") + a.text + " " + kWhat[static_cast<std::size_t>(a.what)];
  }
};

class Transcript {
 public:
  void step(Life& life, const std::string& what, const Event& event) {
    text_ << what << "\n";
    for (const auto& action : life.happens(event)) text_ << "  " << std::visit(ActionText{}, action) << "\n";
    text_ << "  (" << phase_name(life.phase()) << ")\n";
  }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
};

// Compares the texts line by line, so that a failure names the first line that differs.
void require_lines(const std::string& told, const std::string& expected) {
  std::istringstream a(told), b(expected);
  std::string line, wanted;
  for (int number = 1; std::getline(b, wanted); ++number) {
    CAPTURE(number);
    REQUIRE(std::getline(a, line));
    REQUIRE(line == wanted);
  }
  REQUIRE_FALSE(std::getline(a, line));
}

constexpr const char* kExpectedTranscript = R"(start
  send p2 Join
  (joining)
p2 welcomes
  notice: p2 at p2:7100 joined
  send p2 Digest
  prepare lenet
  (joining)
prepared, to exchange every 2 steps and end after 4
  fetch state from p2
  (joining)
p2 offers an exchange
  refuse
  (joining)
the state is here
  start training
  (training)
p2 offers an exchange
  accept
  (training)
step 1
  (training)
step 2
  begin exchange 1 with p2
  (training)
the answer ended
  (training)
exchange 1 completed
  (training)
step 4
  stop training
  training ended
  send p2 Gossip
  (settling)
p2 ends its training
  begin exchange 2 with p2
  (settling)
exchange 2 completed
  begin exchange 3 with p2
  (settling)
exchange 3 completed
  begin exchange 4 with p2
  (settling)
exchange 4 completed
  (finished)
p3 appears in p2's news
  send p3 Ping
  (finished)
p3 answers
  notice: p3 at p3:7100 joined
  (finished)
p3 leaves
  notice: p3 at p3:7100 left
  (finished)
p2 has finished
  send p2 Leave
  finish: finished
  (finished)
)";

}  // namespace

TEST_CASE("the transcript of a peer that joins, trains, exchanges, settles and finishes is as expected") {
  Life life(joining({2}));
  Transcript story;
  const auto from2 = [](wire::Message message) {
    return Received{PeerId{2}, address_of(2), std::move(message)};
  };
  story.step(life, "start", Start{});
  story.step(life, "p2 welcomes", from2(wire::Welcome{manifest(), 0s, {member(2)}}));
  story.step(life, "prepared, to exchange every 2 steps and end after 4",
             Prepared{rules_of({Pace::Kind::steps, 2, {}}, {{}, 4, {}})});
  story.step(life, "p2 offers an exchange", ExchangeOffered{PeerId{2}, 1});
  story.step(life, "the state is here", StateArrived{});
  story.step(life, "p2 offers an exchange", ExchangeOffered{PeerId{2}, 2});
  story.step(life, "step 1", Stepped{1, 8});
  story.step(life, "step 2", Stepped{2, 16});
  story.step(life, "the answer ended", AnswerEnded{PeerId{2}, 2});
  story.step(life, "exchange 1 completed", ExchangeEnded{1, Outcome::completed});
  story.step(life, "step 4", Stepped{4, 32});
  story.step(life, "p2 ends its training", from2(wire::Gossip{{member(2, wire::Phase::settling)}, false}));
  story.step(life, "exchange 2 completed", ExchangeEnded{2, Outcome::completed});
  story.step(life, "exchange 3 completed", ExchangeEnded{3, Outcome::completed});
  story.step(life, "exchange 4 completed", ExchangeEnded{4, Outcome::completed});
  story.step(life, "p3 appears in p2's news", from2(wire::Gossip{{member(2), member(3)}, false}));
  story.step(life, "p3 answers", Received{PeerId{3}, address_of(3), wire::Ack{1, {member(3)}}});
  story.step(life, "p3 leaves",
             Received{PeerId{3}, address_of(3), wire::Leave{said_to_be(member(3), wire::Liveness::left)}});
  story.step(life, "p2 has finished", from2(wire::Gossip{{member(2, wire::Phase::finished)}, false}));
  require_lines(story.text(), kExpectedTranscript);
}

}  // namespace starling::gossip
