// The arguments with which peers are started, and the times of their faults.
#include <algorithm>

#include "lab/recurrence.h"
#include "lab/swarm/peer_command.h"
#include "lab/swarm/process_faults.h"
#include "tests/catch.h"
#include "training/runs/experiment/check.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/experiment/settings/settings.h"

namespace starling::lab {
namespace {

using namespace std::chrono_literals;
using training::Experiment;
using training::Fault;

// The value of a flag; nullopt without the flag.
std::optional<std::string> value_of(const std::vector<std::string>& words, const std::string& flag) {
  const auto at = std::find(words.begin(), words.end(), flag);
  if (at == words.end() || at + 1 == words.end()) return std::nullopt;
  return *(at + 1);
}

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

TEST_CASE("the first peer gets the whole experiment, so that the environment cannot change it") {
  Experiment experiment;
  experiment.peers = 8;
  experiment.optimizer.learning_rate = 0.125;
  experiment.optimizer.nesterov = true;
  experiment.end.epochs = 2.5;
  experiment.end.target_accuracy = 0.9;
  const auto words =
      beginner_arguments(experiment, {.number = 0, .out = "runs/x", .control_fd = 3, .snapshots = 20});
  CHECK(words.front() == "peer");
  CHECK(value_of(words, "--listen") == "127.0.0.1:0");
  CHECK(value_of(words, "--name") == "p0");
  CHECK(value_of(words, "--slot") == "0/8");
  CHECK(value_of(words, "--out") == "runs/x");
  CHECK(value_of(words, "--control-fd") == "3");
  CHECK(value_of(words, "--snapshots") == "20");
  CHECK(has(words, "--nesterov"));
  CHECK_FALSE(has(words, "--join"));
  CHECK_FALSE(has(words, "--target-accuracy"));
  CHECK_FALSE(has(words, "--peers"));
  for (const training::Setting& setting : training::settings()) {
    if (!is_peer_setting(setting) || setting.placeholder.empty()) continue;
    INFO(setting.key);
    CHECK(value_of(words, setting.flag) == setting.get(experiment));
  }
}

TEST_CASE("a joiner gets addresses of peers, the place of its data, and its own settings") {
  Experiment experiment;
  experiment.peers = 3;
  experiment.training.workers = 2;
  experiment.optimizer.learning_rate = 0.125;
  experiment.data.source = "/data/mnist";
  const auto words =
      joiner_arguments(experiment, {.number = 2, .out = "runs/x", .control_fd = 3, .snapshots = 0},
                       {"127.0.0.1:4000", "127.0.0.1:4001"});
  CHECK(std::count(words.begin(), words.end(), "--join") == 2);
  CHECK(has(words, "127.0.0.1:4001"));
  CHECK(value_of(words, "--data") == "/data/mnist");
  CHECK(value_of(words, "--workers") == "2");
  CHECK(value_of(words, "--slot") == "2/3");
  CHECK_FALSE(has(words, "--snapshots"));
  for (const training::Setting& setting : training::settings()) {
    if (!setting.shared || setting.key == "data.source") continue;
    INFO(setting.key);
    CHECK_FALSE(has(words, setting.flag));
  }
}

TEST_CASE("peers that begin together know how many they are") {
  Experiment experiment;
  experiment.peers = 8;
  experiment.faults = {{.peer = 3, .kind = Fault::Kind::join, .from = 5s}};
  CHECK(beginning_together(experiment) == 7);
  PeerPlace place{.number = 1, .out = "x", .control_fd = 3, .snapshots = 0};
  CHECK_FALSE(has(joiner_arguments(experiment, place, {"127.0.0.1:4000"}), "--expect"));
  place.expected = 7;
  CHECK(value_of(joiner_arguments(experiment, place, {"127.0.0.1:4000"}), "--expect") == "7");
  CHECK(value_of(beginner_arguments(experiment, place), "--expect") == "7");
}

TEST_CASE("every peer of a run by all-reduce gets the whole experiment and the rendezvous") {
  Experiment experiment;
  experiment.gossip.rule = Rule::all_reduce;
  PeerPlace place{.number = 2, .out = "runs/x", .control_fd = 3, .snapshots = 0};
  place.rendezvous = "runs/x/rendezvous";
  place.patience = 90s;
  const auto words = beginner_arguments(experiment, place);
  CHECK(value_of(words, "--rendezvous") == "runs/x/rendezvous");
  CHECK(value_of(words, "--patience") == "90s");
  CHECK(value_of(words, "--rule") == "all-reduce");
  CHECK(value_of(words, "--slot") == "2/4");

  CHECK(check_for_processes(experiment).ok());
  experiment.faults = {{.peer = Fault::kAll, .kind = Fault::Kind::link, .link = {.drop = 0.1}}};
  const Status refused = check_for_processes(experiment);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find(
            "the fault link of peer all: all-reduce between processes uses Gloo's") == 0);
}

TEST_CASE("every peer of a swarm with a key gets the key file, and no other peer does") {
  const Experiment experiment;
  PeerPlace place{.number = 1, .out = "x", .control_fd = 3, .snapshots = 0};
  CHECK_FALSE(has(beginner_arguments(experiment, place), "--key"));
  CHECK_FALSE(has(joiner_arguments(experiment, place, {"127.0.0.1:4000"}), "--key"));
  place.key = "keys/flock";
  CHECK(value_of(beginner_arguments(experiment, place), "--key") == "keys/flock");
  CHECK(value_of(joiner_arguments(experiment, place, {"127.0.0.1:4000"}), "--key") == "keys/flock");
}

TEST_CASE("a peer gets only its own slowness, in times from its own start") {
  Experiment experiment;
  experiment.faults = {{.peer = 1, .kind = Fault::Kind::slow, .factor = 3, .from = 4s, .to = 10s},
                       {.peer = 1, .kind = Fault::Kind::slow, .factor = 2, .from = 0s, .to = 2s},
                       {.peer = 2, .kind = Fault::Kind::slow, .factor = 5}};
  const auto slow = [&](PeerPlace place) {
    std::vector<std::string> found;
    const auto words = joiner_arguments(experiment, place, {"127.0.0.1:4000"});
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
      if (words[i] == "--slow") found.push_back(words[i + 1]);
    }
    return found;
  };
  PeerPlace place{.number = 1, .out = "x", .control_fd = 3, .snapshots = 0};
  CHECK(slow(place) == std::vector<std::string>{"1=3@4s..10s", "1=2@0s..2s"});
  place.late = 5s;
  CHECK(slow(place) == std::vector<std::string>{"1=3@0s..5s"});
  place.number = 2;
  CHECK(slow(place) == std::vector<std::string>{"2=5"});
  place.number = 3;
  CHECK(slow(place).empty());
  experiment.faults.push_back(
      {.peer = Fault::kAll, .factor = *training::Slowness::parse("log-normal:sigma=1")});
  CHECK(slow(place) == std::vector<std::string>{"3=log-normal:sigma=1"});
  CHECK(training::slowness(experiment, 3) == 1);
  experiment.faults.pop_back();
  CHECK(training::slowness(experiment, 1) == 3);
  CHECK(training::slowness(experiment, 3) == 1);
}

TEST_CASE("faults fall due in the order of their times") {
  using Act = ProcessFault::Act;
  Experiment experiment;
  experiment.faults = {{.peer = 0, .kind = Fault::Kind::pause, .from = 3s, .to = 9s},
                       {.peer = 1, .kind = Fault::Kind::crash, .from = 5s},
                       {.peer = 2, .kind = Fault::Kind::join, .from = 1s},
                       {.peer = 2, .kind = Fault::Kind::leave, .from = 7s},
                       {.peer = 3, .kind = Fault::Kind::pause, .from = 4s},
                       {.peer = 3, .kind = Fault::Kind::slow, .factor = 2},
                       {.peer = 1, .kind = Fault::Kind::link, .from = 2s, .to = 6s, .link = {.drop = 0.1}},
                       {.peer = 0, .kind = Fault::Kind::link, .from = 8s, .link = {.latency = 1s}}};
  CHECK(check_for_processes(experiment).ok());
  training::Experiment virtual_only = experiment;
  virtual_only.faults.push_back({.peer = 3, .kind = Fault::Kind::poison});
  const Status refused = check_for_processes(virtual_only);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("of peer 3") != std::string::npos);
  CHECK(refused.error().message.find("only in 'starling simulate'") != std::string::npos);
  ProcessFaults faults(experiment);
  std::vector<ProcessFault> taken;
  CHECK(faults.next() == 1s);
  CHECK_FALSE(faults.take(999ms));
  while (const auto fault = faults.take(1h)) taken.push_back(*fault);
  CHECK(taken == std::vector<ProcessFault>{{1s, 2, Act::start},
                                           {2s, 1, Act::links},
                                           {3s, 0, Act::pause},
                                           {4s, 3, Act::pause},
                                           {5s, 1, Act::crash},
                                           {6s, 1, Act::links},
                                           {7s, 2, Act::leave},
                                           {8s, 0, Act::links},
                                           {9s, 0, Act::resume}});
  CHECK_FALSE(faults.next());
  CHECK(joins_late(experiment, 2));
  CHECK_FALSE(joins_late(experiment, 1));
}

TEST_CASE("pauses and churn recur without end, and a peer returns after it departed") {
  using Act = ProcessFault::Act;
  Experiment experiment;
  experiment.peers = 4;
  experiment.faults = {{.peer = 3, .kind = Fault::Kind::pause, .from = 5s, .every = 10s, .length = 2s},
                       {.peer = Fault::kAll,
                        .kind = Fault::Kind::churn,
                        .churn = {.crashes_per_minute = 3, .leaves_per_minute = 1, .back_after = 5s}},
                       {.peer = 2, .kind = Fault::Kind::crash, .from = 40s, .back_after = 30s}};
  ProcessFaults faults(experiment);
  CHECK(faults.resumes());
  std::vector<ProcessFault> taken;
  Duration last{0};
  while (const auto fault = faults.take(2h)) {
    CHECK(fault->at >= last);
    last = fault->at;
    taken.push_back(*fault);
    REQUIRE(taken.size() < 10'000);
  }
  CHECK(faults.next() > 2h);
  const auto count = [&](std::uint32_t peer, Act act) {
    return std::count_if(taken.begin(), taken.end(),
                         [&](const ProcessFault& fault) { return fault.peer == peer && fault.act == act; });
  };
  CHECK(count(3, Act::pause) == 720);
  CHECK(count(3, Act::resume) == 720);
  for (std::uint32_t peer = 1; peer < 4; ++peer) {
    // A live peer departs after 15 s in the mean and is absent for 5 s: about 360 times in two hours, +-19.
    const auto gone = count(peer, Act::crash) + count(peer, Act::leave);
    CHECK(gone > 280);
    CHECK(gone < 440);
    CHECK(count(peer, Act::crash) > 2 * count(peer, Act::leave));
    CHECK(gone - count(peer, Act::back) <= 1);
  }
  CHECK(count(0, Act::crash) + count(0, Act::leave) == 0);  // the spared peer
  CHECK(std::count(taken.begin(), taken.end(), ProcessFault{40s, 2, Act::crash}) == 1);
  CHECK(std::count(taken.begin(), taken.end(), ProcessFault{70s, 2, Act::back}) == 1);
}

TEST_CASE("a peer's own settings are in its flags, and those of the run in all flags") {
  Experiment experiment;
  experiment.peers = 4;
  experiment.training.pace = 20ms;
  experiment.own = {
      {training::PeerSet::all(), {{"training.workers", "2"}}},
      {3, {{"training.workers", "4"}, {"training.device", "cuda:1"}, {"training.pace", "40ms"}}}};
  REQUIRE(training::check(experiment).ok());
  const auto words = [&](std::uint32_t peer) {
    const PeerPlace place{.number = peer, .out = "x", .control_fd = 3, .snapshots = 0};
    return joiner_arguments(training::of_peer(experiment, peer), place, {"127.0.0.1:4000"});
  };
  CHECK(value_of(words(1), "--workers") == "2");
  CHECK(value_of(words(1), "--device") == "auto");
  CHECK(value_of(words(1), "--pace") == "20ms");
  CHECK(value_of(words(3), "--workers") == "4");
  CHECK(value_of(words(3), "--device") == "cuda:1");
  CHECK(value_of(words(3), "--pace") == "40ms");
  // One learning rate for all, independent of their workers.
  CHECK(training::resolved_learning_rate(training::of_peer(experiment, 3)) == 0.05);
}

TEST_CASE("a fault can concern only the links between two groups") {
  Experiment experiment;
  experiment.peers = 8;
  experiment.faults = {{.peer = *training::PeerSet::parse("0-3"),
                        .kind = Fault::Kind::link,
                        .link = {.bandwidth = 1e6},
                        .other = *training::PeerSet::parse("4-7")}};
  for (std::uint32_t a = 0; a < 8; ++a) {
    for (std::uint32_t b = 0; b < 8; ++b) {
      if (a == b) continue;
      const bool thin = (a < 4) != (b < 4);
      CHECK(training::link_at(experiment, a, b, 0s).bandwidth == (thin ? std::optional(1e6) : std::nullopt));
    }
  }
  // With all peers, each link counts once, not once per end.
  experiment.faults = {{.peer = Fault::kAll, .kind = Fault::Kind::link, .link = {.drop = 0.5}}};
  CHECK(training::link_at(experiment, 2, 5, 0s).drop == 0.5);
}

TEST_CASE("a link has the poorer properties of its two peers, while their faults last") {
  using Kind = Fault::Kind;
  Experiment experiment;
  experiment.network.latency = 1ms;
  experiment.faults = {{.peer = 1,
                        .kind = Kind::link,
                        .from = 2s,
                        .to = 6s,
                        .link = {.latency = 20ms, .bandwidth = 1e7, .drop = 0.5}},
                       {.peer = 2, .kind = Kind::link, .from = 4s, .link = {.latency = 30ms, .drop = 0.5}},
                       {.peer = 1, .kind = Kind::slow, .factor = 9}};
  for (const auto& [a, b] : {std::pair{0U, 1U}, {1U, 0U}}) {  // in both directions
    CHECK(training::link_at(experiment, a, b, 1999ms) == training::LinkChange{1ms, std::nullopt, 0});
    CHECK(training::link_at(experiment, a, b, 2s) == training::LinkChange{20ms, 1e7, 0.5});
    CHECK(training::link_at(experiment, a, b, 5999ms) == training::LinkChange{20ms, 1e7, 0.5});
    CHECK(training::link_at(experiment, a, b, 6s) == training::LinkChange{1ms, std::nullopt, 0});
  }
  CHECK(training::link_at(experiment, 1, 2, 5s) == training::LinkChange{30ms, 1e7, 0.75});
  CHECK(training::link_at(experiment, 2, 1, 5s) == training::LinkChange{30ms, 1e7, 0.75});
  CHECK(training::link_at(experiment, 2, 1, 7s) == training::LinkChange{30ms, std::nullopt, 0.5});
  CHECK(training::link_at(experiment, 0, 3, 5s) == training::LinkChange{1ms, std::nullopt, 0});
}

}  // namespace
}  // namespace starling::lab
