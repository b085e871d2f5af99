#include "lab/world/incident_player.h"

#include <algorithm>
#include <variant>

namespace starling::lab {

using Cache = VirtualPeer::Cache;
using IfStillUp = VirtualPeer::IfStillUp;

void IncidentPlayer::begin() {
  for (const Incident& incident : world_.options.incidents) play(incident);
  upcoming_.resize(world_.options.recurring.size());
  for (std::size_t k = 0; k < upcoming_.size(); ++k) follow(k);
}

void IncidentPlayer::play(const Incident& incident) {
  std::visit([this](const auto& it) { play_one(it); }, incident);
}

// The next occurrence of a recurring incident is drawn when the one before begins, and played when it begins
// itself.
void IncidentPlayer::follow(std::size_t k) {
  upcoming_[k] = world_.options.recurring[k]();
  if (!upcoming_[k]) return;
  world_.queue.schedule(std::max(beginning(*upcoming_[k]), world_.now()), [this, k] {
    play(*upcoming_[k]);
    follow(k);
  });
}

void IncidentPlayer::play_one(const Crash& crash) {
  world_.queue.schedule(crash.at, [this, crash] {
    VirtualPeer& peer = *peers_[crash.machine];
    peer.crash(crash.silent);
    if (crash.back) peer.restart(*crash.back, crash.cached ? Cache::kept : Cache::lost, IfStillUp::stay);
  });
}

void IncidentPlayer::play_one(const Leave& leave) {
  world_.queue.schedule(leave.at, [this, leave] {
    VirtualPeer& peer = *peers_[leave.machine];
    peer.leave();
    if (leave.back)
      peer.restart(*leave.back, Cache::lost, leave.comes_back ? IfStillUp::wait : IfStillUp::stay);
  });
}

void IncidentPlayer::play_one(const Rewiring& rewiring) {
  world_.queue.schedule(rewiring.at,
                        [this, rewiring] { peers_[rewiring.machine]->rewire(rewiring.topology); });
}

void IncidentPlayer::play_one(const Loss& loss) {
  world_.queue.schedule(loss.at, [this, loss] { peers_[loss.machine]->lose_replica(loss.device); });
}

void IncidentPlayer::play_one(const Pause& pause) {
  mishaps(pause.machine).add_pause({pause.from, pause.to}, world_.now());
}

void IncidentPlayer::play_one(const Slow& slow) {
  mishaps(slow.machine).slow.push_back(slow);
}

void IncidentPlayer::play_one(const SlowDisk& disk) {
  mishaps(disk.machine).disks.push_back(disk);
}

void IncidentPlayer::play_one(const Drift& drift) {
  mishaps(drift.machine).clock_rate = drift.rate;
}

void IncidentPlayer::play_one(const Poison& poison) {
  mishaps(poison.machine).poisons.push_back(poison);
}

void IncidentPlayer::play_one(const Mutation& mutation) {
  world_.mutations.push_back(mutation);
}

void IncidentPlayer::play_one(const Cut& cut) {
  world_.network.cut(cut.source, cut.target, {cut.from, cut.to});
  if (cut.both_ways) world_.network.cut(cut.target, cut.source, {cut.from, cut.to});
}

void IncidentPlayer::play_one(const Partition& partition) {
  const auto& island = partition.island;
  for (const std::uint32_t in : island) {
    for (std::uint32_t out = 0; out < peers_.size(); ++out) {
      if (std::find(island.begin(), island.end(), out) != island.end()) continue;
      if (partition.outwards) world_.network.cut(in, out, {partition.from, partition.to});
      if (partition.inwards) world_.network.cut(out, in, {partition.from, partition.to});
    }
  }
}

void IncidentPlayer::play_one(const Clog& clog) {
  world_.network.clog(clog.a, clog.b, {clog.from, clog.to}, clog.factor);
}

void IncidentPlayer::play_one(const PoorLinks& links) {
  world_.network.shape(links.machines, links.others, {links.from, links.to}, links.shape);
}

void IncidentPlayer::play_one(const Reset& reset) {
  world_.queue.schedule(reset.at, [this, reset] { world_.network.reset(reset.a, reset.b); });
}

void IncidentPlayer::play_one(const HalfOpen& half_open) {
  world_.queue.schedule(half_open.at,
                        [this, half_open] { world_.network.half_open(half_open.knows, half_open.deaf); });
}

}  // namespace starling::lab
