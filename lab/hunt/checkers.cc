#include "lab/hunt/checkers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/hash.h"
#include "lab/hunt/mix_sums.h"
#include "training/exchange/payload.h"
#include "training/exchange/values.h"

namespace starling::lab {

namespace {

constexpr double kClockSlack = 1.03;  // clocks drift by a hundredth, each
constexpr std::uint64_t kSumEveryLooks = 5;
constexpr Duration kEnergyEvery = std::chrono::seconds(4);

std::uint64_t key_of(PeerId initiator, std::uint64_t exchange, std::size_t chunk) {
  const std::array<std::uint64_t, 3> words{initiator.value, exchange, chunk};
  return hash64(std::as_bytes(std::span(words)));
}

std::string seconds(Duration d) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f s", to_seconds(d));
  return text;
}

std::span<const float> arena_of(const World::MachineView& view) {
  return {view.arena.data(), view.arena.size()};
}

const char* liveness_name(wire::Liveness liveness) {
  static constexpr std::array<const char*, 4> kNames = {"alive", "suspect", "failed", "left"};
  return kNames.at(static_cast<std::size_t>(liveness));
}

bool is_live(wire::Liveness liveness) {
  return liveness <= wire::Liveness::suspect;
}

}  // namespace

void Checkers::watch(const World& world) {
  world_ = &world;
  const WorldOptions& options = world.options();
  const Rule rule = options.rules->rule;
  const bool equal = options.rules->shares == Shares::equal;
  const Keeps keeps = traits(rule).keeps;
  exact_ = keeps == Keeps::sum_of_means && options.mix.payload == Payload::f32 && equal;
  opposite_ = !exact_ && equal && (keeps == Keeps::sum_of_means || keeps == Keeps::sum);
  // A lie in a rule with copies stays: the copies of the liar's public values differ from then on.
  const bool lies = std::any_of(options.incidents.begin(), options.incidents.end(), [](const Incident& incident) {
    const auto* const poison = std::get_if<Poison>(&incident);
    return poison != nullptr && poison->kind >= PoisonKind::noise;
  });
  if (traits(rule).copies && lies) opposite_ = false;
  push_sum_ = keeps == Keeps::weighted_sum;
  lock_step_ = traits(rule).meeting == Meeting::lock_step;
  lets_wait_ = traits(rule).lets_wait();
  served_ = traits(rule).has_servers();
  shadows_.resize(world.machines());
  current_.resize(world.machines());
  seen_.resize(world.machines());
}

void Checkers::violate(int statement, std::string text) {
  if (!violation_) violation_ = Violation{statement, world_->now(), std::move(text)};
}

const std::string& Checkers::name(std::uint32_t machine) const {
  return world_->options().machines[machine].name;
}

std::string Checkers::called(const Instance& instance) const {
  return name(instance.machine) + " (" + to_string(instance.id) + ")";
}

Checkers::Open& Checkers::open(PeerId initiator, std::uint64_t exchange, std::size_t chunk) {
  Open& open = open_[key_of(initiator, exchange, chunk)];
  open.initiator = initiator;
  open.exchange = exchange;
  return open;
}

// ---- machines ----

void Checkers::started(std::uint32_t machine) {
  current_[machine] = instances_.size();
  const PeerId id = world_->machine(machine).id;
  by_id_[id.value] = instances_.size();
  Instance& instance = instances_.emplace_back();
  instance.id = id;
  instance.machine = machine;
  seen_[machine].clear();
  shadows_[machine] = {};
  energy_ = -1;
}

void Checkers::ended(std::uint32_t machine, MachineState) {
  Instance& instance = instance_of(machine);
  instance.ended = world_->now();
  instance.incarnation =
      std::max(instance.incarnation, world_->machine(machine).membership->self().incarnation);
  Shadow& shadow = shadows_[machine];
  if (shadow.live) ledger_ -= total_of(shadow.values).sum;
  shadow.live = false;
  energy_ = -1;
}

void Checkers::event(std::uint32_t machine, const gossip::Event& event) {
  if (std::holds_alternative<gossip::LeaveRequested>(event)) instance_of(machine).leaving = true;
  const auto* ended = std::get_if<gossip::ExchangeEnded>(&event);
  if (ended == nullptr) return;
  std::erase(instance_of(machine).under_way, ended->exchange);
  if (ended->outcome == gossip::Outcome::aborted) ++counts_.exchanges_aborted;
  if (ended->outcome != gossip::Outcome::completed) return;
  ++counts_.exchanges_completed;
  const std::size_t chunks = (world_->options().arena_floats - 1) / world_->options().chunk_floats() + 1;
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    if (open_.contains(key_of(instance_of(machine).id, ended->exchange, chunk))) {
      violate(2, name(machine) + " takes exchange " + std::to_string(ended->exchange) +
                     " for completed and never mixed chunk " + std::to_string(chunk));
    }
  }
}

void Checkers::action(std::uint32_t machine, const gossip::Action& action) {
  if (std::holds_alternative<gossip::StopTraining>(action)) shadows_[machine].stopped = true;
  if (std::holds_alternative<gossip::Finish>(action)) instance_of(machine).leaving = true;
  Instance& self = instance_of(machine);
  if (const auto* abort = std::get_if<gossip::AbortExchange>(&action)) {
    ++counts_.exchanges_aborted;
    std::erase(self.under_way, abort->exchange);
  }
  if (const auto* begin = std::get_if<gossip::BeginExchange>(&action)) self.under_way.push_back(begin->exchange);
}

void Checkers::stood_still(std::uint32_t machine) {
  violate(9,
          "the core of " + name(machine) + " asks to be woken at an instant that is not later than its now");
}

void Checkers::poison_arrived(std::uint32_t machine, std::uint32_t from, bool refused) {
  energy_ = -1;
  ++counts_.poison_refused;
  if (!refused) violate(4, name(machine) + " took a spoiled chunk of " + name(from) + " for good");
}

void Checkers::mutation_arrived(std::uint32_t machine, std::uint32_t from, bool refused) {
  ++counts_.mutations_refused;
  if (!refused) violate(1, name(machine) + " took a frame of " + name(from) + " with a flipped bit for good");
}

// ---- numbers ----

void Checkers::has_parameters(std::uint32_t machine) {
  Shadow& shadow = shadows_[machine];
  const auto values = arena_of(world_->machine(machine));
  if (shadow.live) ledger_ -= total_of(shadow.values).sum;
  if (shadow.lost) shadow.rested += world_->now() - *shadow.lost;
  shadow.lost.reset();
  shadow.live = true;
  shadow.values.assign(values.begin(), values.end());
  const std::size_t cell_floats = world_->options().mix.cell_floats;
  shadow.weights.assign((values.size() - 1) / cell_floats + 1, 1);
  ledger_ += total_of(values).sum;
  energy_ = -1;
  if (!training::all_acceptable(values))
    violate(4, name(machine) + " begins with parameters that are poisoned");
}

void Checkers::lost_parameters(std::uint32_t machine) {
  Shadow& shadow = shadows_[machine];
  if (!shadow.live) {  // found out only now: a step that began meanwhile is thrown away as well
    if (shadow.lost && shadow.step_began > *shadow.lost && !shadow.stopped)
      shadow.rested += std::exchange(shadow.step_takes, Duration{0});
    return;
  }
  ledger_ -= total_of(shadow.values).sum;
  shadow.live = false;
  shadow.lost = world_->now();
  // The step under way is computed to its end and thrown away.
  if (!shadow.stopped) shadow.rested += shadow.step_takes;
  energy_ = -1;
}

void Checkers::round_began(std::uint32_t machine) {
  Shadow& shadow = shadows_[machine];
  if (!shadow.live) return;
  take_over(machine, 0, shadow.values.size());
  if (!training::all_acceptable(shadow.values))
    violate(4, name(machine) + " holds a value that is not finite or beyond 2^60 after an outer step");
}

void Checkers::lent(std::uint32_t machine, const training::Parcel& parcel) {
  if (!push_sum_) return;
  const std::size_t cell_floats = world_->options().mix.cell_floats;
  for (std::size_t f = parcel.offset; f < parcel.offset + parcel.floats; f += cell_floats)
    if (parcel.payload != Payload::none && shadows_[machine].live)
      shadows_[machine].weights[f / cell_floats] -= static_cast<double>(parcel.weight);
}

void Checkers::taken_back(std::uint32_t machine, const training::Parcel& parcel) {
  if (!push_sum_ || !shadows_[machine].live) return;
  if (!check_push(machine, parcel, training::as_floats(parcel.values)))
    violate(2, name(machine) + " takes back another weight than the one that was refused");
}

// Some of its values changed, rightly: the shadow follows. Returns by how much.
std::vector<double> Checkers::take_over(std::uint32_t machine, std::size_t offset, std::size_t floats) {
  const auto now = arena_of(world_->machine(machine)).subspan(offset, floats);
  const std::span<float> before = std::span(shadows_[machine].values).subspan(offset, floats);
  std::vector<double> moved(floats);
  double magnitude = 0;
  for (std::size_t f = 0; f < floats; ++f) {
    moved[f] = static_cast<double>(now[f]) - static_cast<double>(before[f]);
    ledger_ += moved[f];
    magnitude += std::abs(static_cast<double>(now[f]));
    before[f] = now[f];
  }
  rounding_ += kFloatUlp * kFloatUlp * magnitude;
  energy_ = -1;
  return moved;
}

void Checkers::step_began(std::uint32_t machine, Duration takes) {
  Shadow& shadow = shadows_[machine];
  shadow.step_began = world_->now();
  shadow.step_takes = takes;
}

void Checkers::step_ended(std::uint32_t machine) {
  Shadow& shadow = shadows_[machine];
  if (!shadow.live) return;
  shadow.stepped += shadow.step_takes;
  shadow.longest_step = std::max(shadow.longest_step, shadow.step_takes);
  const Duration paused = world_->paused_within(machine, shadow.step_began, world_->now());
  if (world_->now() - shadow.step_began > shadow.step_takes + paused)
    violate(5, name(machine) + " adds a gradient that is older than its step");
  const auto now = arena_of(world_->machine(machine));
  if (std::memcmp(now.data(), shadow.values.data(), now.size_bytes()) == 0) return;
  const Total before = total_of(shadow.values), after = total_of(now);
  ledger_ += after.sum - before.sum;
  rounding_ += kFloatUlp * kFloatUlp * after.magnitude;
  std::copy(now.begin(), now.end(), shadow.values.begin());
  energy_ = -1;
}

// One side of pairwise averaging in float32 mixed: its chunk must be what it was, plus w (theirs - own), and the
// energy of the parts that changed must not have risen.
void Checkers::check_pairwise(const Mix& mix, bool responder) {
  Shadow& shadow = shadows_[mix.machine];
  const auto now = arena_of(world_->machine(mix.machine)).subspan(mix.offer.offset, mix.offer.floats);
  const std::span<float> before = std::span(shadow.values).subspan(mix.offer.offset, mix.offer.floats);
  const MixSums sums = responder ? sums_of_answer(mix.b, mix.a, mix.lent, before, now, mix.w)
                                 : sums_of_completion(mix.a, mix.b, before, now, mix.w);
  rounding_ += kFloatUlp * sums.magnitude;
  ledger_ += sums.shift;
  std::copy(now.begin(), now.end(), before.begin());
  if (!(sums.off <= 0)) {
    violate(2, "chunk " + std::to_string(mix.chunk) + " of " + name(mix.machine) + " in exchange " +
                   std::to_string(mix.exchange) + " with " + name(mix.partner) +
                   " is not what the mix of its two values makes it");
  }
  const double room = 0x1p-20 * std::sqrt(sums.square * sums.energy_before) + 0x1p-42 * sums.square;
  if (mix.lied) {
    energy_ = -1;  // the two sides do not hold the parts that they told each other
  } else if (sums.energy_after > sums.energy_before + room) {
    violate(3, "the mix of chunk " + std::to_string(mix.chunk) + " at " + name(mix.machine) + " with " +
                   name(mix.partner) + " raises the energy");
  }
}

// A receipt of push-sum in float32: z += u_f / (u_f + u) (z_f - z), cell by cell, with the weights as counted here.
// False where it is another.
bool Checkers::check_push(std::uint32_t machine, const training::Parcel& parcel, std::span<const float> values) {
  Shadow& shadow = shadows_[machine];
  const std::size_t cell_floats = world_->options().mix.cell_floats;
  const std::size_t offset = parcel.offset, floats = parcel.floats;
  const std::vector<float> before(shadow.values.begin() + static_cast<std::ptrdiff_t>(offset),
                                  shadow.values.begin() + static_cast<std::ptrdiff_t>(offset + floats));
  take_over(machine, offset, floats);
  if (parcel.payload == Payload::none) return true;
  const double weight = static_cast<double>(parcel.weight);
  bool right = true;
  for (std::size_t f = 0; f < floats && !values.empty(); ++f) {
    const double u = shadow.weights[(offset + f) / cell_floats];
    const double x = before[f], a = values[f];
    const double wanted = x + weight / (weight + u) * (a - x);
    const double off = std::abs(wanted - static_cast<double>(shadow.values[offset + f]));
    right = right && off <= 8 * kFloatUlp * (std::abs(x) + std::abs(a));
  }
  for (std::size_t f = 0; f < floats; f += cell_floats) shadow.weights[(offset + f) / cell_floats] += weight;
  return right;
}

// One side mixed. False where it had nothing to mix into: its own replica is lost.
bool Checkers::check_mix(const Mix& mix, bool responder) {
  Shadow& shadow = shadows_[mix.machine];
  if (!shadow.live) return false;
  if (exact_) {
    check_pairwise(mix, responder);
  } else if (push_sum_ && responder) {
    if (!check_push(mix.machine, mix.offer, mix.a))
      violate(2, name(mix.machine) + " takes chunk " + std::to_string(mix.chunk) + " of " + name(mix.partner) +
                     " with another weight than the two have");
  } else {
    const auto moved = take_over(mix.machine, mix.offer.offset, mix.offer.floats);
    if (opposite_) {
      Open& it = open(mix.initiator, mix.exchange, mix.chunk);
      double magnitude = 0;
      for (std::size_t f = 0; f < mix.offer.floats; ++f)
        magnitude = std::max<double>(magnitude, std::abs(shadow.values[mix.offer.offset + f]));
      if (responder) {
        it.moved = moved;
        it.magnitude = magnitude;
      } else if (!mix.lied && it.moved.size() == moved.size()) {
        const double most = 16 * kFloatUlp * (it.magnitude + magnitude);
        for (std::size_t f = 0; f < moved.size(); ++f) {
          if (std::abs(moved[f] + it.moved[f]) <= most) continue;
          violate(2, name(mix.machine) + " and " + name(mix.partner) + " move by " + std::to_string(moved[f]) +
                         " and " + std::to_string(it.moved[f]) + " in chunk " + std::to_string(mix.chunk) +
                         " of exchange " + std::to_string(mix.exchange) + ": the sum is not conserved");
          break;
        }
      }
    }
  }
  const auto now = std::span(shadow.values).subspan(mix.offer.offset, mix.offer.floats);
  if (!training::all_acceptable(now))
    violate(4, name(mix.machine) + " holds a value that is not finite or beyond 2^60");
  return true;
}

void Checkers::answered(const Mix& mix) {
  const float wanted = mix.lent.empty() ? 0.5F : 0.25F;
  if (exact_ && mix.w != wanted)
    violate(
        2, name(mix.machine) + " answers " + name(mix.partner) + " with the weight " + std::to_string(mix.w));
  check_mix(mix, true);
  Open& it = open(mix.initiator, mix.exchange, mix.chunk);
  if (it.answered) {
    violate(2, name(mix.machine) + " answers chunk " + std::to_string(mix.chunk) + " of " +
                   name(mix.partner) + " twice");
  }
  it.a = hash64(mix.offer.values);
  it.b = hash64(mix.reply.values);
  it.w = mix.w;
  it.answered = true;
  if (it.counted) energy_ = -1;  // half applied
}

void Checkers::completed(const Mix& mix) {
  const std::uint64_t key = key_of(mix.initiator, mix.exchange, mix.chunk);
  const auto found = open_.find(key);
  if (found == open_.end() || !found->second.answered || found->second.counted) {
    violate(2, name(mix.machine) + " mixes a reply to chunk " + std::to_string(mix.chunk) +
                   " that nobody gave, or that it had given up");
    return;
  }
  const Open& it = found->second;
  const bool same = it.a == hash64(mix.offer.values) && it.b == hash64(mix.reply.values);
  if (!mix.lied && (!same || it.w != mix.w))
    violate(2, name(mix.machine) + " and " + name(mix.partner) + " mix different values");
  check_mix(mix, false);
  open_.erase(key);
  if (lets_wait_) return;
  // Every reply puts the deadline off, so the last of a window may have waited as often as that.
  const PeerId partner = world_->machine(mix.partner).id;
  const Duration patience = world_->machine(mix.machine).patience->limit(partner);
  const Duration limit = from_seconds(to_seconds(patience) * kClockSlack *
                                      static_cast<double>(world_->options().window + 1));
  if (mix.age > limit && !mix.slept) {
    violate(5, name(mix.machine) + " mixes a reply with a snapshot that is " + seconds(mix.age) +
                   " old; exchanges are given up after " + seconds(limit));
  }
}

void Checkers::half_applied(std::uint32_t machine, std::uint64_t exchange, std::size_t chunk) {
  open(world_->machine(machine).id, exchange, chunk).counted = true;
  ++counts_.half_applied;
  energy_ = -1;
}

void Checkers::check_sum() {
  double sum = 0, magnitude = 0;
  for (std::uint32_t i = 0; i < shadows_.size(); ++i) {
    if (!shadows_[i].live) continue;
    const auto now = arena_of(world_->machine(i));
    if (std::memcmp(now.data(), shadows_[i].values.data(), now.size_bytes()) != 0) {
      violate(2, "parameters of " + name(i) + " changed and neither a step nor a mix did it");
      return;
    }
    const Total total = total_of(now);
    sum += total.sum;
    magnitude += total.magnitude;
  }
  if (!(std::abs(sum - ledger_) <= rounding_ + 1e-9 * magnitude)) {
    violate(
        2, "the sum of all parameters is " + std::to_string(sum) + " and must be " + std::to_string(ledger_));
  }
}

// The energy of the whole world, outside any one mix, while nothing but mixing goes on.
void Checkers::check_energy() {
  if (!exact_ || world_->now() - energy_looked_ < kEnergyEvery) return;
  energy_looked_ = world_->now();
  const double energy = world_->energy();
  double square = 0;
  for (const Shadow& shadow : shadows_) {
    for (const float v : shadow.values) square += static_cast<double>(v) * v;
  }
  // Each of the many mixes since may have rounded upwards.
  const double room = 256 * (std::ldexp(std::sqrt(square), -22) * std::sqrt(std::max(energy_, 0.0)) +
                             std::ldexp(square, -44));
  if (energy_ >= 0 && energy > energy_ + room)
    violate(3, "the energy rose from " + std::to_string(energy_) + " to " + std::to_string(energy) +
                   " while nothing was learned");
  energy_ = energy;
}

// ---- beliefs ----

void Checkers::look() {
  if (!faults_over_ && world_->now() >= setting_.faults_end) {
    faults_over_ = true;
    for (Instance& instance : instances_) {
      if (instance.ended) continue;
      const auto& counts = world_->machine(instance.machine).exchanges;
      instance.exchanges_before = counts.completed + counts.answered;
    }
  }
  const auto& network = world_->options().network;
  const std::size_t most = network.waiting_max + network.travelling_max;
  if (world_->longest_queue() > most) {
    violate(9, "a queue of messages between two machines grew to " + std::to_string(world_->longest_queue()) +
                   "; at most " + std::to_string(most) + " may wait");
  }
  for (std::uint32_t i = 0; i < current_.size(); ++i) {
    const auto view = world_->machine(i);
    if (view.state != MachineState::running || view.membership == nullptr) continue;
    Instance& self = instance_of(i);
    self.incarnation = std::max(self.incarnation, view.membership->self().incarnation);
    seen_[i].resize(instances_.size());
    std::size_t known = 0;
    for (const gossip::Record& record : view.membership->others()) {
      ++known;
      const auto found = by_id_.find(record.member.id.value);
      if (found == by_id_.end()) {
        violate(8, name(i) + " knows a peer that never was: " + to_string(record.member.id));
      } else {
        look_at(i, instances_[found->second], record.member);
      }
    }
    if (known >= instances_.size()) violate(9, name(i) + " remembers more peers than there ever were");
    const std::size_t waiting = view.membership->queued();
    if (waiting > 2 * known + 1000)
      violate(9, name(i) + " has " + std::to_string(waiting) + " things waiting in its core");
  }
  if (++looks_ % kSumEveryLooks == 0) check_sum();
  check_energy();
}

void Checkers::look_at(std::uint32_t viewer, Instance& instance, const wire::Member& member) {
  const Instant now = world_->now();
  const auto index = static_cast<std::size_t>(&instance - instances_.data());
  if (!instance.ended) {
    instance.incarnation =
        std::max(instance.incarnation, world_->machine(instance.machine).membership->self().incarnation);
  }
  if (member.incarnation > instance.incarnation) {
    violate(8, name(viewer) + " knows incarnation " + std::to_string(member.incarnation) + " of " +
                   called(instance) + ", which never chose more than " +
                   std::to_string(instance.incarnation));
  }
  Seen& seen = seen_[viewer][index];
  if (seen.known && member.incarnation < seen.incarnation)
    violate(8, name(viewer) + " sees the incarnation of " + called(instance) + " run backwards");
  if (seen.known && seen.liveness == wire::Liveness::left && member.liveness != wire::Liveness::left)
    violate(8, called(instance) + " has left and is " + liveness_name(member.liveness) + " again to " +
                   name(viewer));
  seen = {true, member.incarnation, member.liveness};

  if (instance.ended) {
    const Instant since = std::max(*instance.ended, setting_.faults_end);
    if (is_live(member.liveness) && setting_.faults_end != kNever && now - since > setting_.detection) {
      violate(8, called(instance) + " ended at " + seconds(instance.ended->since_start) + " and is still " +
                     liveness_name(member.liveness) + " to " + name(viewer));
    }
    return;
  }
  if (member.liveness == wire::Liveness::left && !instance.leaving)
    violate(8, called(instance) + " lives, never left, and has left to " + name(viewer));
  if (!is_live(member.liveness) && !instance.leaving && setting_.faults_end != kNever &&
      now - setting_.faults_end > setting_.recovery) {
    violate(8,
            called(instance) + " lives and stays " + liveness_name(member.liveness) + " to " + name(viewer));
  }
}

Duration Checkers::barrier() const {
  if (!lock_step_) return {};
  const WorldOptions& options = world_->options();
  const Pace& pace = options.rules->pace;
  Duration left{0}, round{0};
  std::uint64_t period = 1;
  for (std::uint32_t i = 0; i < shadows_.size(); ++i) {
    const auto view = world_->machine(i);
    const Shadow& shadow = shadows_[i];
    if (view.state != MachineState::running) continue;
    left = std::max(left, shadow.step_began + shadow.step_takes - world_->now());
    const MachineOptions& machine = options.machines[i];
    const bool steps = pace.kind == Pace::Kind::steps;
    round = std::max(round, steps ? static_cast<std::int64_t>(pace.steps) * machine.step : pace.time + machine.step);
    if (view.topology != nullptr)
      period = std::max(period, view.topology->among(static_cast<std::uint32_t>(shadows_.size())).period());
  }
  return left + static_cast<std::int64_t>(2 * period) * round;
}

// Whether a worker has somebody to push to. Where staleness is bounded, a push may rightly be held back for as long as it takes.
bool Checkers::is_served(std::uint32_t machine) const {
  const WorldOptions& options = world_->options();
  const auto serves = [&](std::uint32_t i) {
    return gossip::role_of(options.machines[i].name, options.rules->servers).kind != gossip::Role::Kind::worker;
  };
  if (serves(machine) || lets_wait_) return false;
  for (std::uint32_t i = 0; i < shadows_.size(); ++i) {
    const bool up = world_->machine(i).state == MachineState::running && shadows_[i].live;
    if (serves(i) && !up) return false;
  }
  return true;
}

void Checkers::finish() {
  look();
  check_sum();
  std::vector<PeerId> alive;
  for (const Instance& instance : instances_) {
    if (!instance.ended) alive.push_back(instance.id);
  }
  std::sort(alive.begin(), alive.end());
  // Where all are lost there is nothing to exchange: one after the other their peers end.
  const bool replicas = std::any_of(shadows_.begin(), shadows_.end(), [](const Shadow& it) { return it.live; });
  std::optional<std::uint32_t> first;
  for (std::uint32_t i = 0; i < current_.size(); ++i) {
    const auto view = world_->machine(i);
    if (view.state != MachineState::running) continue;
    // 6: views.
    std::vector<PeerId> seen{view.id};
    for (const gossip::Record& record : view.membership->others()) {
      if (record.is_live()) seen.push_back(record.member.id);
    }
    std::sort(seen.begin(), seen.end());
    for (const PeerId id : alive) {
      if (!std::binary_search(seen.begin(), seen.end(), id))
        violate(6, "at the end " + name(i) + " does not know that " + called(instances_[by_id_[id.value]]) +
                       " lives");
    }
    if (first && view.membership->digest() != world_->machine(*first).membership->digest())
      violate(6, "at the end " + name(i) + " and " + name(*first) + " have different views");
    // 6: the topology that a user set.
    const auto* const topology = world_->machine(first.value_or(i)).topology;
    if (view.topology != nullptr && topology != nullptr && view.topology->name() != topology->name())
      violate(6, "at the end " + name(i) + " follows the topology " + view.topology->name() + " and " +
                     name(*first) + " follows " + topology->name());
    if (!first) first = i;
    // 6: exchanges.
    const Shadow& shadow = shadows_[i];
    const Instance& instance = instance_of(i);
    const std::uint64_t exchanges = view.exchanges.completed + view.exchanges.answered;
    // Whoever is in one step since then, slowed a hundredfold, has no news: it begins nothing, and may be passed over.
    const bool in_one_step =
        shadow.step_began < setting_.faults_end && shadow.step_began + shadow.step_takes > world_->now();
    const bool could = served_ ? is_served(i) : alive.size() > 1;
    if (could && replicas && !in_one_step && exchanges <= instance.exchanges_before) {
      violate(6, name(i) + " has not exchanged since the faults ended at " +
                     seconds(setting_.faults_end.since_start));
    }
    // 7: steps.
    if (!view.training_since || shadow.stopped || shadow.lost || lets_wait_) continue;
    const Duration allowed = world_->now() - *view.training_since - shadow.rested -
                             world_->paused_within(i, *view.training_since, world_->now()) -
                             std::max(shadow.longest_step, shadow.step_takes);
    if (to_seconds(shadow.stepped) < setting_.share * to_seconds(allowed)) {
      violate(7, name(i) + " stepped for " + seconds(shadow.stepped) + " of the " + seconds(allowed) +
                     " it could have");
    }
  }
  // 2: what was answered and never mixed must have been counted, where there is somebody left to count.
  for (const auto& [key, open] : open_) {
    const Instance& initiator = instances_[by_id_[open.initiator.value]];
    const auto& under_way = initiator.under_way;
    const bool goes_on = std::find(under_way.begin(), under_way.end(), open.exchange) != under_way.end();
    if (open.answered && !open.counted && !initiator.ended && !goes_on) {
      violate(2, called(initiator) + " left exchange " + std::to_string(open.exchange) +
                     " half applied and did not count it");
    }
  }
}

}  // namespace starling::lab
