// Statement 15: a peer that is started together with others trains when all of them have had parameters, when
// one has made a step, or when it has learned of nobody else for a while, and not before
// (gossip/joint_start.h).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gossip/rules.h"
#include "lab/world/world.h"

namespace starling::lab {

class JointStartChecks {
 public:
  // `together`: the peers that are expected. Not checked in worlds whose members may lie about their state.
  void watch(const World& world, std::uint32_t together) {
    world_ = &world;
    ready_.resize(world.machines());
    told_.resize(world.machines());
    lives_.resize(world.machines());
    const bool lies = std::ranges::any_of(
        world.options().incidents, [](const Incident& it) { return std::holds_alternative<Lies>(it); });
    together_ = lies || together < 2 ? 0 : together;  // one begins at once
  }
  void started(std::uint32_t machine) {
    ++lives_[machine];
    ready_[machine] = false;
    told_[machine].reset();
  }
  // Each life may be a member of its own. A worker that waits for its servers has them, too.
  void has_parameters(std::uint32_t machine) {
    if (std::exchange(ready_[machine], true) || serves(machine)) return;
    ++count_;
  }
  void step_ended() { trained_ = true; }
  // A violation as a sentence.
  std::optional<std::string> action(std::uint32_t machine, const gossip::Action& action) {
    if (const auto* const notice = std::get_if<gossip::Notice>(&action);
        notice != nullptr && notice->what == gossip::Notice::What::assembling)
      told_[machine] = world_->now();
    if (!std::holds_alternative<gossip::StartTraining>(action) || trained_ || lives_[machine] != 1)
      return std::nullopt;
    // A clock may be fast by a hundredth.
    const Duration limit = from_seconds(0.98 * to_seconds(world_->options().peer.recovery_limit));
    if (count_ >= together_ || (told_[machine] && world_->now() - *told_[machine] >= limit))
      return std::nullopt;
    return fmt::format("{} trains when {} of {} peers that begin together have parameters", name(machine),
                       count_, together_);
  }

 private:
  const std::string& name(std::uint32_t machine) const { return world_->options().machines[machine].name; }
  bool serves(std::uint32_t machine) const {
    const gossip::RunRules& rules = *world_->options().rules;
    return traits(rules.rule).has_servers() &&
           gossip::role_of(name(machine), rules.servers).kind != gossip::Role::Kind::worker;
  }

  const World* world_ = nullptr;
  std::uint32_t together_ = 0;
  std::vector<char> ready_;                   // by machine: has had parameters in this life
  std::vector<int> lives_;                    // by machine
  std::uint32_t count_ = 0;                   // of lives that had parameters
  std::vector<std::optional<Instant>> told_;  // by machine: when it last knew of one more
  bool trained_ = false;                      // somebody has made a step
};

}  // namespace starling::lab
