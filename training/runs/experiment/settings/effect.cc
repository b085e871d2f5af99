#include "training/runs/experiment/settings/effect.h"

#include <algorithm>
#include <array>

namespace starling::training {
namespace {

const RuleTraits& rule_of(const Experiment& experiment) { return traits(experiment.gossip.rule); }

bool exchanges(const Experiment& experiment) { return rule_of(experiment).exchanges(); }
bool has_neighbors(const Experiment& experiment) {
  return exchanges(experiment) && !rule_of(experiment).has_servers();
}
bool chooses_partners(const Experiment& experiment) { return rule_of(experiment).has_partners(); }
bool has_outer_steps(const Experiment& experiment) { return rule_of(experiment).has_outer_steps(); }
bool is_paced(const Experiment& experiment) { return rule_of(experiment).is_paced(); }
bool uses_adamw(const Experiment& experiment) { return experiment.optimizer.name == "adamw"; }
bool decays_in_steps(const Experiment& experiment) { return experiment.schedule.name == "step"; }

struct Condition {
  std::string_view key;
  bool (*holds)(const Experiment&);  // whether the setting has an effect
};

// Settings that are not listed always have one.
constexpr std::array kConditions = {
    Condition{"training.momentum", [](const Experiment& e) { return !uses_adamw(e) || !e.optimizer.beta1; }},
    Condition{"training.beta1", uses_adamw},
    Condition{"training.beta2", uses_adamw},
    Condition{"training.epsilon", uses_adamw},
    Condition{"training.nesterov", [](const Experiment& e) { return e.optimizer.name == "sgd"; }},
    Condition{"training.step_epochs", decays_in_steps},
    Condition{"training.step_factor", decays_in_steps},
    Condition{"training.final_rate", [](const Experiment& e) { return e.schedule.name == "cosine"; }},
    Condition{"gossip.topology", has_neighbors},
    Condition{"gossip.partners", chooses_partners},
    Condition{"gossip.every", is_paced},
    Condition{"gossip.payload", is_paced},
    Condition{"gossip.top_k",
              [](const Experiment& e) { return exchanges(e) && e.gossip.payload == Payload::top_k; }},
    Condition{"gossip.weights", [](const Experiment& e) { return rule_of(e).shares; }},
    Condition{"gossip.outer_rate", has_outer_steps},
    Condition{"gossip.outer_momentum", has_outer_steps},
    Condition{"gossip.fragments", has_outer_steps},
    Condition{"gossip.consensus_rate", [](const Experiment& e) { return rule_of(e).copies; }},
    Condition{"gossip.clip", [](const Experiment& e) { return rule_of(e).clips; }},
    Condition{"gossip.servers", has_servers},
    Condition{"gossip.racks", [](const Experiment& e) { return rule_of(e).racks; }},
    Condition{"gossip.server_rate", has_servers},
    Condition{"gossip.staleness", [](const Experiment& e) { return rule_of(e).bounded; }},
    Condition{"gossip.chunk", exchanges},
    Condition{"gossip.window", exchanges},
};

}  // namespace

bool has_effect(const Experiment& experiment, std::string_view key) {
  const auto found = std::find_if(kConditions.begin(), kConditions.end(),
                                  [&](const Condition& condition) { return condition.key == key; });
  return found == kConditions.end() || found->holds(experiment);
}

}  // namespace starling::training
