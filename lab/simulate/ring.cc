#include "lab/simulate/ring.h"

#include <algorithm>

#include "base/loss.h"
#include "lab/simulate/virtual_run.h"
#include "lab/world/world.h"
#include "training/experiment/conditions.h"
#include "training/experiment/settings.h"
#include "training/replica/recipe.h"

namespace starling::lab {
namespace {

constexpr std::uint64_t kResending = 0xa11;             // the purpose of this file's random numbers
constexpr Duration kTriesLast = std::chrono::hours(1);  // of a frame that is lost again and again

std::size_t frame_bytes_of(const training::Experiment& experiment) {
  const std::size_t cell_floats = training::MixOptions{}.cell_floats;
  const std::size_t cells =
      training::chunk_cells(experiment, cell_floats).value_or(WorldOptions{}.chunk_cells);
  return sizeof(float) * cell_floats * cells;
}

}  // namespace

Ring::Ring(const training::Experiment& experiment, std::size_t floats)
    : experiment_(experiment),
      machines_(experiment.peers),
      random_(Random(experiment.seed).split(kResending)),
      bytes_(sizeof(float) * floats),
      chunk_bytes_(sizeof(float) * ((floats + experiment.peers - 1) / experiment.peers)),
      frame_bytes_(frame_bytes_of(experiment)),
      latency_(experiment.latency.value_or(NetworkOptions{}.latency)),
      bandwidth_(experiment.bandwidth.value_or(NetworkOptions{}.bandwidth)),
      port_(experiment.port.value_or(bandwidth_)) {
  for (std::uint32_t i = 0; i < machines_.size(); ++i) {
    machines_[i].step = to_seconds(virtual_step(training::of_peer(experiment, i)));
    machines_[i].timeline = training::Timeline(training::Timeline::most_cells(machines_.size()));
  }
  add_incidents();
}

void Ring::add_incidents() {
  for (const Incident& incident : incidents_of(experiment_)) {
    if (const auto* slow = std::get_if<Slow>(&incident)) machines_[slow->machine].slow.push_back(*slow);
    if (const auto* pause = std::get_if<Pause>(&incident)) add_pause(machines_[pause->machine], *pause);
    if (const auto* crash = std::get_if<Crash>(&incident)) {
      if (!crash_ || crash->at < crash_->at) crash_ = *crash;
    }
    if (std::holds_alternative<PoorLinks>(incident)) links_change_ = true;
  }
  for (Recurring& recurring : recurring_of(experiment_)) {
    auto next = recurring();
    if (!next) continue;
    const Pause pause = std::get<Pause>(*next);  // with all-reduce, only pauses recur
    machines_[pause.machine].recurring.emplace_back(std::move(recurring), pause);
  }
}

void Ring::add_pause(Machine& machine, const Pause& pause) {
  machine.pauses.push_back({pause.from, pause.to});
  std::sort(machine.pauses.begin(), machine.pauses.end(),
            [](const Interval& a, const Interval& b) { return a.from < b.from; });
}

void Ring::draw_pauses_until(Machine& machine, Instant at) {
  for (auto& [draw_next, next] : machine.recurring) {
    while (next && next->from <= at) {
      add_pause(machine, *next);
      const auto drawn = draw_next();
      next = drawn ? std::optional(std::get<Pause>(*drawn)) : std::nullopt;
    }
  }
}

Instant Ring::awake(std::uint32_t machine, Instant at) {
  draw_pauses_until(machines_[machine], at);
  const Instant end = awake_at(machines_[machine].pauses, at);
  if (end == kNever) asleep_ = machine;
  return end;
}

Instant Ring::all_awake(Instant at) {
  for (bool moved = true; moved && at != kNever;) {
    const Instant before = at;
    for (std::uint32_t i = 0; i < machines_.size() && at != kNever; ++i) at = awake(i, at);
    moved = at > before;
  }
  return at;
}

Instant Ring::computed(Instant at, std::uint64_t step) {
  Instant all = at;
  for (std::uint32_t i = 0; i < machines_.size() && all != kNever; ++i) {
    Instant end = awake(i, at);
    if (end != kNever) {
      const double seconds = machines_[i].step * slowness_of_step(machines_[i].slow, end, step);
      end = awake(i, end + std::max(Duration{1}, from_seconds(seconds)));
    }
    machines_[i].computed = end;
    all = std::max(all, end);
  }
  return all;
}

Instant Ring::reduced(Instant at) {
  for (std::size_t round = 0; round < 2 * (machines_.size() - 1) && at != kNever; ++round) {
    at = all_awake(at);
    if (at != kNever) at = all_awake(at + round_time(at.since_start));
  }
  return at;
}

Duration Ring::round_time(Duration at) {
  if (!links_change_) return travel(latency_, bandwidth_);
  Duration longest{0};
  const auto n = static_cast<std::uint32_t>(machines_.size());
  for (std::uint32_t i = 0; i < n; ++i) {
    const training::LinkShape link = training::link_at(experiment_, i, (i + 1) % n, at);
    const Duration latency = link.latency.value_or(latency_);
    Duration late{0};
    for (std::size_t sent = 0; sent < chunk_bytes_; sent += frame_bytes_)
      late = std::max(late, resent_after(link.drop, latency, kTriesLast, random_));
    longest = std::max(longest, late + travel(latency, link.bandwidth.value_or(bandwidth_)));
  }
  return longest;
}

Duration Ring::travel(Duration latency, double bandwidth) const {
  return from_seconds(static_cast<double>(chunk_bytes_) * 8 / std::min(bandwidth, port_)) + latency;
}

void Ring::draw(Machine& machine, Instant from, Instant to, const training::Activity& doing) {
  const auto add = [&](Instant until, const training::Activity& activity) {
    machine.timeline.add(to_seconds(from.since_start), to_seconds(until.since_start), activity);
    from = until;
  };
  for (const Interval& pause : machine.pauses) {
    if (pause.to <= from || pause.from >= to) continue;
    if (pause.from > from) add(pause.from, doing);
    add(std::min(pause.to, to), {.stopped = 1});
  }
  if (from < to) add(to, doing);
}

void Ring::draw_step(Instant begin, Instant computed, Instant reduced) {
  for (Machine& machine : machines_) {
    draw(machine, begin, machine.computed, {.computing = 1});
    draw(machine, machine.computed, computed, {.waiting = 1});
    draw(machine, computed, reduced, {.exchanging = 1});
    machine.timeline.add_step(to_seconds(reduced.since_start));
    std::erase_if(machine.pauses, [&](const Interval& it) { return it.to <= reduced; });
  }
}

std::string Ring::timelines() const {
  std::string text;
  for (std::uint32_t i = 0; i < machines_.size(); ++i)
    text += training::to_json_lines("p" + std::to_string(i), machines_[i].timeline);
  return text;
}

}  // namespace starling::lab
