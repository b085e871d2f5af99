// How simulations begin: all peers together at time 0 under every rule, or with copies that every rule pays
// for.
#include <cstdint>
#include <string>
#include <vector>

#include "gossip/meeting/partner.h"
#include "tests/lab/simulated_run.h"
#include "training/runs/experiment/settings/settings.h"

namespace starling::lab {

using training::Begin;
using training::Experiment;

namespace {

Experiment equal_peers(Rule rule, std::uint64_t steps) {
  Experiment experiment;
  experiment.model.name = "softmax";
  experiment.peers = 4;
  experiment.training.batch_size = 4;
  experiment.end.steps = steps;
  experiment.looks = 0;
  experiment.gossip.rule = rule;
  return experiment;
}

training::Summary result_of(const Experiment& experiment) { return simulated(experiment).summary; }

bool is_near(double found, double expected, double share) {
  return std::abs(found - expected) <= share * expected;
}

std::vector<Rule> all_rules() {
  std::vector<Rule> rules;
  for (std::size_t i = 0; i < kRules.size(); ++i) rules.push_back(static_cast<Rule>(i));
  return rules;
}

}  // namespace

TEST_CASE("equal peers on free links need equal time for equal steps, under every rule") {
  for (const Rule rule : all_rules()) {
    for (const std::uint32_t peers : {4U, static_cast<std::uint32_t>(gossip::kNewcomersMax) + 8}) {
      CAPTURE(traits(rule).name, peers);
      Experiment experiment = equal_peers(rule, 40);
      experiment.peers = peers;
      experiment.network.latency = Duration{0};
      experiment.network.bandwidth = 1e15;
      if (rule == Rule::pairwise || rule == Rule::choco || rule == Rule::clipped)
        experiment.gossip.every = *parse_pace("5 steps");
      const training::Summary summary = result_of(experiment);
      // Of 20 ms each, to the nanosecond. Only bounded staleness holds a worker until the servers have the
      // push of the slowest one, which takes no time here.
      CHECK(std::llround(summary.seconds * 1e9) == 800'000'000);
      CHECK(summary.start_seconds == 0.0);
      for (const training::PeerRecord& peer : summary.per_peer)
        if (!peer.serves) CHECK(peer.steps == 40);
    }
  }
}

TEST_CASE("rounds in lock-step last equally long from the first one on") {
  Experiment experiment = equal_peers(Rule::d_psgd, 1);
  experiment.peers = 2;
  experiment.network.latency = Duration{0};
  experiment.network.bandwidth = 1e6;
  std::vector<double> ends;
  for (const std::uint64_t steps : {1, 2, 3, 10, 11}) {
    experiment.end.steps = steps;
    const training::Summary summary = result_of(experiment);
    CHECK(summary.exchanges.rejected == 0);
    ends.push_back(summary.seconds);
  }
  // A step, and the model to the partner and back.
  const double bits = 8.0 * 4 * static_cast<double>(plan_of(experiment).layout.arena_size());
  const double round = ends[1] - ends[0];
  CHECK(is_near(ends[0], 0.02, 1e-9));
  CHECK(is_near(round, 0.02 + 2 * bits / 1e6, 0.01));  // frames have headers
  CHECK(is_near(ends[2] - ends[1], round, 1e-6));
  CHECK(is_near(ends[4] - ends[3], round, 1e-6));
}

TEST_CASE("where the first parameters are copied, every rule pays for the copies") {
  std::vector<double> starts;
  for (const Rule rule : {Rule::pairwise, Rule::d_psgd, Rule::none, Rule::all_reduce, Rule::diloco}) {
    CAPTURE(traits(rule).name);
    Experiment experiment = equal_peers(rule, 20);
    experiment.network.bandwidth = 1e6;
    const training::Summary together = result_of(experiment);
    experiment.start = Begin::copy;
    const training::Summary copied = result_of(experiment);
    CHECK(together.start_seconds == 0.0);
    REQUIRE(copied.start_seconds);
    starts.push_back(*copied.start_seconds);
    // Three copies through one network card. Training takes what it takes without them.
    const double copies = 3 * 32.0 * static_cast<double>(plan_of(experiment).layout.arena_size()) / 1e6;
    CHECK(is_near(*copied.start_seconds, copies, 0.05));
    CHECK(is_near(copied.seconds, together.seconds, 0.05));
    CHECK(copied.bytes_sent > together.bytes_sent + static_cast<std::uint64_t>(0.98 * copies * 1e6 / 8));
    CHECK(copied.samples == together.samples);
  }
  for (const double start : starts) CHECK(is_near(start, starts[0], 1e-3));
}

TEST_CASE("a peer that joins later copies, and those before it do not wait") {
  Experiment experiment = equal_peers(Rule::pairwise, 40);
  experiment.network.bandwidth = 1e6;
  experiment.faults = {
      {.peer = 3, .kind = training::Fault::Kind::join, .from = std::chrono::milliseconds(100)}};
  const training::Summary summary = result_of(experiment);
  CHECK(summary.start_seconds == 0.0);
  for (const training::PeerRecord& peer : summary.per_peer) CHECK(peer.steps == 40);
  const double copy = 32.0 * static_cast<double>(plan_of(experiment).layout.arena_size()) / 1e6;
  CHECK(summary.seconds > 0.1 + copy + 0.8);
}

}  // namespace starling::lab
