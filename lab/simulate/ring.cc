#include "lab/simulate/ring.h"

#include <algorithm>

#include "lab/simulate/run_watch.h"
#include "lab/world/network/virtual_network.h"
#include "training/runs/experiment/settings/settings.h"
#include "wire/loss.h"

namespace starling::lab {
namespace {

constexpr std::uint64_t kResending = 0xa11;             // the purpose of the random numbers
constexpr Duration kTriesLast = std::chrono::hours(1);  // of a frame that is lost repeatedly

}  // namespace

Ring::Ring(const training::Experiment& experiment, const std::vector<Duration>& steps,
           std::size_t frame_bytes)
    : experiment_(experiment),
      machines_(experiment.peers),
      random_(Random(experiment.seed).split(kResending)),
      frame_bytes_(frame_bytes),
      latency_(experiment.network.latency.value_or(VirtualNetworkOptions{}.latency)),
      bandwidth_(experiment.network.bandwidth.value_or(VirtualNetworkOptions{}.bandwidth)),
      port_(experiment.network.port.value_or(bandwidth_)) {
  for (std::uint32_t i = 0; i < machines_.size(); ++i) {
    machines_[i].step = to_seconds(steps[i]);
    machines_[i].timeline = training::Timeline(training::Timeline::most_cells(machines_.size()));
  }
  add_incidents();
}

Instant Ring::computed(Instant at, std::uint64_t first, std::uint64_t count) {
  Instant all = at;
  for (std::uint32_t i = 0; i < machines_.size() && all != kNever; ++i) {
    Machine& machine = machines_[i];
    machine.ends.clear();
    Instant end = awake(i, at);
    for (std::uint64_t step = first; step < first + count && end != kNever; ++step) {
      const double seconds = machine.step * machine.mishaps.slowness_of_step(end, step);
      end = awake(i, end + std::max(Duration{1}, from_seconds(seconds)));
      machine.ends.push_back(end);
    }
    all = std::max(all, end);
  }
  return all;
}

Instant Ring::reduced(Instant at, std::size_t part_bytes) {
  for (std::size_t round = 0; round < 2 * (machines_.size() - 1) && at != kNever; ++round) {
    at = all_awake(at);
    if (at != kNever) at = all_awake(at + round_time(at.since_start, part_bytes));
  }
  return at;
}

void Ring::draw(Instant begin, Instant computed, Instant reduced) {
  for (Machine& machine : machines_) {
    std::vector<TimeRange>& pauses = machine.mishaps.pauses;
    const auto draw = [&](Instant from, Instant to, const training::Activity& doing) {
      add_around_pauses(machine.timeline, pauses, from, to, doing);
    };
    const Instant ready = machine.ends.empty() ? begin : machine.ends.back();
    draw(begin, ready, {.computing = 1});
    draw(ready, computed, {.waiting = 1});
    draw(computed, reduced, {.exchanging = 1});
    for (Instant& end : machine.ends) {
      if (&end == &machine.ends.back()) end = reduced;
      machine.timeline.add_step(to_seconds(end.since_start));
    }
    std::erase_if(pauses, [&](const TimeRange& it) { return it.to <= reduced; });
  }
}

std::string Ring::timelines() const {
  std::string text;
  for (std::uint32_t i = 0; i < machines_.size(); ++i)
    text += training::to_json_lines("p" + std::to_string(i), machines_[i].timeline);
  return text;
}

void Ring::add_incidents() {
  for (const Incident& incident : incidents_of(experiment_)) {
    if (const auto* slow = std::get_if<Slow>(&incident))
      machines_[slow->machine].mishaps.slow.push_back(*slow);
    if (const auto* pause = std::get_if<Pause>(&incident))
      machines_[pause->machine].mishaps.add_pause({pause->from, pause->to}, Instant{});
    if (const auto* crash = std::get_if<Crash>(&incident)) {
      if (!crash_ || crash->at < crash_->at) crash_ = *crash;
    }
    if (std::holds_alternative<PoorLinks>(incident)) links_change_ = true;
  }
  for (Recurring& recurring : recurring_of(experiment_)) {
    auto next = recurring();
    if (!next) continue;
    const Pause pause = std::get<Pause>(*next);  // without gossip, only pauses recur
    machines_[pause.machine].recurring.emplace_back(std::move(recurring), pause);
  }
}

Instant Ring::awake(std::uint32_t machine, Instant at) {
  for (auto& [draw_next, next] : machines_[machine].recurring) {
    while (next && next->from <= at) {
      machines_[machine].mishaps.add_pause({next->from, next->to}, Instant{});
      const auto drawn = draw_next();
      next = drawn ? std::optional(std::get<Pause>(*drawn)) : std::nullopt;
    }
  }
  const Instant end = machines_[machine].mishaps.awake(at);
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

Duration Ring::round_time(Duration at, std::size_t part_bytes) {
  if (!links_change_) return travel(part_bytes, latency_, bandwidth_);
  Duration longest{0};
  const auto n = static_cast<std::uint32_t>(machines_.size());
  for (std::uint32_t i = 0; i < n; ++i) {
    const training::LinkChange link = training::link_at(experiment_, i, (i + 1) % n, at);
    const Duration latency = link.latency.value_or(latency_);
    Duration late{0};
    for (std::size_t sent = 0; sent < part_bytes; sent += frame_bytes_)
      late = std::max(late, resent_after(link.drop, latency, kTriesLast, random_));
    longest = std::max(longest, late + travel(part_bytes, latency, link.bandwidth.value_or(bandwidth_)));
  }
  return longest;
}

Duration Ring::travel(std::size_t part_bytes, Duration latency, double bandwidth) const {
  return from_seconds(static_cast<double>(part_bytes) * 8 / std::min(bandwidth, port_)) + latency;
}

}  // namespace starling::lab
