#include "training/runs/experiment/kinds.h"

#include <cmath>

#include "tests/catch.h"
#include "training/runs/experiment/experiment_file.h"
#include "training/runs/experiment/settings/effects.h"
#include "training/runs/experiment/settings/settings.h"
#include "training/runs/records/looks.h"

namespace starling::training {

TEST_CASE("a setting is called by the last part of its key, unless another one or a result has that name") {
  using Names = std::vector<std::string>;
  CHECK(short_names({"fault.1.slow", "gossip.rule", "seed"}) == Names{"slow", "rule", "seed"});
  CHECK(short_names({"fault.1.slow", "fault.2.slow"}) == Names{"fault.1.slow", "fault.2.slow"});
  CHECK(short_names({"training.seconds", "training.epochs"}) == Names{"training.seconds", "epochs"});
  CHECK(kind_text({"slow", "rule"}, {"10", "d-psgd"}) == "slow=10,rule=d-psgd");
  CHECK(kind_text({"clip", "rule"}, {"", "pairwise"}) == "rule=pairwise");
  CHECK(file_name_of("1Mbit/s, a:b_+") == "1Mbit-s--a-b_+");
  CHECK(csv_cell("a,\"b\"") == "\"a,\"\"b\"\"\"");
}

TEST_CASE("settings of one rule, optimizer, schedule or payload have no effect under others") {
  Experiment experiment;
  const auto effect = [&](const char* key) {
    REQUIRE(find_setting(key) != nullptr);
    return has_effect(experiment, key);
  };
  for (const char* key :
       {"gossip.clip", "gossip.outer_rate", "gossip.outer_momentum", "gossip.top_k", "gossip.consensus_rate",
        "gossip.servers", "gossip.racks", "gossip.server_rate", "gossip.staleness", "gossip.fragments",
        "training.beta1", "training.beta2", "training.epsilon", "training.step_epochs",
        "training.step_factor", "training.final_rate"})
    CHECK_FALSE(effect(key));
  for (const char* key :
       {"gossip.topology", "gossip.every", "gossip.partners", "gossip.weights", "gossip.payload",
        "training.nesterov", "training.momentum", "training.clip_norm", "seed"})
    CHECK(effect(key));
  experiment.optimizer.beta1 = 0.8;
  CHECK(effect("training.momentum"));
  experiment.optimizer.name = "adamw";
  CHECK_FALSE(effect("training.momentum"));
  CHECK(effect("training.beta1"));
  experiment.gossip.rule = Rule::clipped;
  CHECK(effect("gossip.clip"));
  experiment.gossip.rule = Rule::ssp;
  CHECK(effect("gossip.staleness"));
  CHECK_FALSE(effect("gossip.topology"));
  experiment.gossip.rule = Rule::diloco;
  for (const char* key : {"gossip.outer_momentum", "gossip.fragments", "gossip.every", "gossip.payload"})
    CHECK(effect(key));
  CHECK_FALSE(effect("gossip.topology"));
  experiment.gossip.rule = Rule::none;
  CHECK_FALSE(effect("gossip.every"));
  CHECK(has_effect(experiment, "fault.1.slow"));
}

TEST_CASE("a setting of devices has an effect if a peer has several, and a peer's own by that peer") {
  Experiment experiment;
  CHECK_FALSE(has_effect(experiment, "training.average_every"));
  CHECK_FALSE(has_effect(experiment, "pipeline.latency"));
  experiment.own = {{2, {{"training.devices", "cpu:0,cpu:1"}, {"training.average_every", "4"}}},
                    {1, {{"training.average_every", "4"}, {"training.workers", "2"}}}};
  CHECK(has_effect(experiment, "training.average_every"));
  CHECK(has_effect(experiment, "peer.1.average_every"));
  CHECK_FALSE(has_effect(experiment, "peer.2.average_every"));
  CHECK(has_effect(experiment, "peer.2.workers"));
  CHECK(has_effect(experiment, "peer.3.workers"));  // no such table
  CHECK_FALSE(has_effect(experiment, "pipeline.schedule"));
  experiment.own[0].values.emplace_back("training.split", "stages");
  CHECK(has_effect(experiment, "pipeline.schedule"));
}

TEST_CASE("equal simulations are one experiment, whatever their names, seeds and spellings") {
  Experiment one, other;
  one.name = "a", other.name = "b";
  one.seed = 2;
  one.gossip.clip = 2;
  one.gossip.every = resolved_every(other);
  one.training.pace = std::chrono::milliseconds(20);
  one.training.device = "cpu";
  one.network.port = 1e9;
  one.own = {{1, {{"training.device", "cpu"}, {"training.pace", "0.03s"}}}};
  other.own = {{1, {{"training.pace", "30ms"}}}};
  CHECK(to_toml(as_simulated(one)) == to_toml(as_simulated(other)));
  CHECK(used_values(one).at("training.learning_rate") == "0.05");
  CHECK(used_values(one).count("gossip.every") == 0);
  CHECK(used_values(other).at("gossip.every") == format_pace(*one.gossip.every));
  other.gossip.rule = Rule::choco;
  other.gossip.payload = Payload::top_k;
  other.gossip.top_k = 0.1;
  CHECK(std::stod(used_values(other).at("gossip.consensus_rate")) == Approx(0.15));
  CHECK(used_virtual_values(other).at("network.bandwidth") == "1Gbit/s");
  one.gossip.rule = other.gossip.rule = Rule::clipped;
  CHECK(to_toml(as_simulated(one)) != to_toml(as_simulated(other)));
  CHECK(has_effect(one, "training.device"));
  CHECK_FALSE(has_effect(one, "start"));
  CHECK(has_virtual_effect(one, "start"));
  CHECK_FALSE(has_virtual_effect(one, "training.device"));
  CHECK_FALSE(has_virtual_effect(one, "training.recompute"));
  one.training.devices = {"cpu:0", "cpu:1"};
  CHECK(has_virtual_effect(one, "training.recompute"));
}

TEST_CASE("a time to an accuracy lies on the line between two evaluations") {
  const auto looks = looks_in(R"({"seconds":1,"peer":"p0","accuracy":0.9})"
                              "\n"
                              R"({"seconds":2,"peer":"mean","accuracy":0.5})"
                              "\n"
                              R"({"seconds":3,"peer":"mean","accuracy":null})"
                              "\n"
                              R"({"seconds":4,"peer":"mean","accuracy":0.7})"
                              "\n{\"seconds\":5,\"peer\":\"mean\"");
  REQUIRE(looks.size() == 2);
  CHECK(time_to(looks, 0.5) == 2);
  CHECK(time_to(looks, 0.4) == 2);  // that of the first evaluation
  CHECK(std::abs(*time_to(looks, 0.6) - 3) < 1e-12);
  CHECK_FALSE(time_to(looks, 0.8).has_value());
  CHECK(std::abs(time_before(looks, 0.6, 3.5) - 2.5) < 1e-12);
  CHECK(time_before(looks, 0.8, 3.5) == 3.5);
  CHECK(time_before(looks, 0.6, 0.5) == 0.5);  // not before the run began
  const auto losses = losses_in(
      "{\"seconds\":2,\"peer\":\"mean\",\"loss\":3}\n"
      "{\"seconds\":4,\"peer\":\"mean\",\"loss\":2}");
  CHECK(std::abs(*time_to(losses, -2.5) - 3) < 1e-12);
  CHECK_FALSE(time_to(losses, -1.5).has_value());
}

}  // namespace starling::training
