#include "lab/hunt/wait_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gossip/meeting/waiting.h"

namespace starling::lab {

using gossip::RoundWaits;

void WaitChecks::watch(const World& world) {
  const WorldOptions& options = world.options();
  world_ = &world;
  of_.resize(world.machines());
  const auto is_silence = [](const Incident& it) {
    const auto* const lies = std::get_if<Lies>(&it);
    return lies != nullptr && lies->kind == LieKind::silence;
  };
  const bool only_silence = std::ranges::all_of(options.incidents, is_silence);
  if (options.incidents.empty() || !only_silence || !traits(options.rules->rule).lets_wait()) return;
  checks_ = true;
  const Pace& pace = options.rules->pace;
  for (const MachineOptions& machine : options.machines) {
    const double longest = to_seconds(machine.step) * (1 + 5 * machine.step_spread);
    const double steps = pace.kind == Pace::Kind::steps ? static_cast<double>(pace.steps) : 1;
    const Duration apart = pace.kind == Pace::Kind::steps ? Duration{0} : pace.time;
    round_ = std::max(round_, from_seconds(steps * longest) + apart);
  }
  for (std::uint32_t i = 0; i < world.machines(); ++i) {
    Duration silent{0};
    bool is_silent = false;
    for (const Incident& it : options.incidents) {
      const Lies& lies = std::get<Lies>(it);
      silent += lies.to - lies.from;
      is_silent = is_silent || lies.machine == i;
    }
    bounds_.push_back(is_silent ? Duration::max() : bound(round_, options.peer.round_limit, silent));
  }
}

// Before a peer has measured enough rounds, which are shorter than `round`, its limit is the longest one.
Duration WaitChecks::bound(Duration round, Duration longest_limit, Duration silent) {
  const Duration learned = std::max(RoundWaits::kLeast, 2 * RoundWaits::kRounds * round);
  const double limit = to_seconds(std::min(learned, longest_limit));
  return from_seconds(limit * (3 + std::log2(1 + to_seconds(silent) / limit)));
}

std::optional<std::string> WaitChecks::action(std::uint32_t machine, const gossip::Action& action) {
  if (const auto* notice = std::get_if<gossip::Notice>(&action);
      notice != nullptr && notice->what == gossip::Notice::What::passed_over) {
    first_ = std::min(first_, world_->now());
    const Duration since_first = world_->now() - first_;
    awaited_again_ = world_->now() + since_first + world_->options().peer.round_limit;
  }
  if (!checks_) return std::nullopt;
  Waits& waits = of_[machine];
  if (const auto* pause = std::get_if<gossip::PauseTraining>(&action); pause != nullptr && !pause->discard)
    waits.since = world_->now();
  const bool goes_on = std::holds_alternative<gossip::ResumeTraining>(action) ||
                       std::holds_alternative<gossip::StopTraining>(action);
  if (!goes_on || !waits.since) return std::nullopt;
  const Duration waited = world_->now() - *std::exchange(waits.since, std::nullopt);
  waits.sum += std::max(Duration{0}, waited - 2 * round_);
  if (waits.sum <= bounds_[machine]) return std::nullopt;
  return fmt::format("{} has waited for {:.3f} s beyond its rounds, more than {:.3f} s",
                     world_->options().machines[machine].name, to_seconds(waits.sum),
                     to_seconds(bounds_[machine]));
}

}  // namespace starling::lab
