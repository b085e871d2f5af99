#include "lab/hunt/checkers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/hash.h"
#include "lab/hunt/mix_sums.h"
#include "training/mixing/payload.h"
#include "training/mixing/rules/push_sum.h"
#include "training/mixing/values.h"

namespace starling::lab {

namespace {

constexpr double kClockSlack = 1.03;  // each clock drifts by a hundredth at most
constexpr Duration kEnergyEvery = std::chrono::seconds(4);
// After the faults the links between members and their homes are made again within this time.
constexpr Duration kHomesLimit = std::chrono::seconds(10);

std::uint64_t key_of(PeerId initiator, std::uint64_t exchange, std::size_t chunk) {
  const std::array<std::uint64_t, 3> words{initiator.value, exchange, chunk};
  return hash64(std::as_bytes(std::span(words)));
}

std::string seconds(Duration d) { return fmt::format("{:.3f} s", to_seconds(d)); }

}  // namespace

void Checkers::watch(const World& world) {
  world_ = &world;
  reach_.watch(world);
  answers_.watch(world);
  waits_.watch(world);
  joint_start_.watch(world, setting_.together);
  const WorldOptions& options = world.options();
  const Rule rule = options.rules->rule;
  const bool equal = options.rules->shares == Shares::equal;
  const Keeps keeps = traits(rule).keeps;
  kind_.exact = keeps == Keeps::sum_of_means && options.mix.payload == Payload::f32 && equal;
  kind_.opposite = !kind_.exact && equal && (keeps == Keeps::sum_of_means || keeps == Keeps::sum);
  // With copies, a lie has a lasting effect: the copies of the liar's public values differ afterwards.
  const bool lies =
      std::any_of(options.incidents.begin(), options.incidents.end(), [](const Incident& incident) {
        const auto* const poison = std::get_if<Poison>(&incident);
        return poison != nullptr && poison->kind >= PoisonKind::noise;
      });
  if (traits(rule).copies && lies) kind_.opposite = false;
  kind_.push_sum = keeps == Keeps::weighted_sum;
  kind_.lock_step = traits(rule).meeting == Meeting::lock_step;
  kind_.lets_wait = traits(rule).lets_wait();
  kind_.served = traits(rule).has_servers();
  shadows_.resize(world.machines());
  current_.resize(world.machines());
  seen_.resize(world.machines());
}

const std::string& Checkers::name(std::uint32_t machine) const {
  return world_->options().machines[machine].name;
}

std::string Checkers::called(const Instance& instance) const {
  return fmt::format("{} ({})", name(instance.machine), to_string(instance.id));
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
  const auto earlier = by_id_.find(id.value);
  const std::uint32_t incarnation = earlier == by_id_.end() ? 0 : instances_[earlier->second].incarnation;
  by_id_[id.value] = instances_.size();
  Instance& instance = instances_.emplace_back();
  instance.id = id;
  instance.incarnation = incarnation;
  instance.began = world_->now();
  instance.first_exchange = std::uint64_t{world_->machine(machine).membership->self().incarnation} << 32;
  instance.machine = machine;
  reach_.started(machine);
  answers_.started(machine);
  waits_.started(machine);
  joint_start_.started(machine);
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
  answers_.event(machine, event);
  if (std::holds_alternative<gossip::StateArrived>(event)) joint_start_.has_parameters(machine);
  if (std::holds_alternative<gossip::LeaveRequested>(event)) instance_of(machine).leaving = true;
  const auto* ended = std::get_if<gossip::ExchangeEnded>(&event);
  if (ended == nullptr) return;
  std::erase(instance_of(machine).under_way, ended->exchange);
  reach_.exchange_ended(machine, ended->exchange, ended->outcome != gossip::Outcome::aborted);
  if (ended->outcome == gossip::Outcome::aborted) ++counts_.exchanges_aborted;
  if (ended->outcome != gossip::Outcome::completed) return;
  ++counts_.exchanges_completed;
  for (std::size_t chunk = 0; chunk < world_->options().chunks(); ++chunk) {
    if (open_.contains(key_of(instance_of(machine).id, ended->exchange, chunk)))
      violate(2, "{} completed exchange {} and never mixed chunk {}", name(machine), ended->exchange, chunk);
  }
}

void Checkers::action(std::uint32_t machine, const gossip::Action& action) {
  const bool calls_count = faults_over_ && world_->now() - setting_.faults_end > kHomesLimit;
  if (const auto finding = reach_.action(machine, action, calls_count)) violate(11, "{}", *finding);
  if (const auto finding = waits_.action(machine, action)) violate(14, "{}", *finding);
  if (const auto finding = joint_start_.action(machine, action)) violate(15, "{}", *finding);
  if (std::holds_alternative<gossip::StopTraining>(action)) shadows_[machine].stopped = true;
  if (std::holds_alternative<gossip::Finish>(action)) instance_of(machine).leaving = true;
  Instance& self = instance_of(machine);
  if (const auto* abort = std::get_if<gossip::AbortExchange>(&action)) {
    ++counts_.exchanges_aborted;
    std::erase(self.under_way, abort->exchange);
    reach_.exchange_ended(machine, abort->exchange, false);
  }
  if (const auto* begin = std::get_if<gossip::BeginExchange>(&action)) {
    self.under_way.push_back(begin->exchange);
    check_turn(self, begin->terms.part);
  }
}

void Checkers::check_turn(Instance& self, const gossip::Part& part) {
  const std::uint32_t fragments = world_->options().rules->fragments;
  if (fragments == 1) return;
  const std::uint32_t last = std::exchange(self.fragment, part.index).value_or(part.index + fragments - 1);
  if (part.of != fragments || part.index != (last + 1) % fragments)
    violate(12, "{} exchanges fragment {} of {} after {}, out of turn", called(self), part.index, part.of,
            last);
}

void Checkers::stood_still(std::uint32_t machine) {
  violate(9, "the next deadline of the core of {} is not in its future", name(machine));
}

void Checkers::poison_arrived(std::uint32_t machine, std::uint32_t from, bool refused) {
  energy_ = -1;
  ++counts_.poison_refused;
  if (!refused) violate(4, "{} accepted a poisoned chunk of {}", name(machine), name(from));
}

void Checkers::mutation_arrived(std::uint32_t machine, std::uint32_t from, bool refused) {
  ++counts_.mutations_refused;
  if (!refused) violate(1, "{} accepted a frame of {} with a flipped bit", name(machine), name(from));
}

void Checkers::circuit_opened(std::uint32_t relay, std::uint32_t requester, std::uint32_t target) {
  ++counts_.circuits;
  if (const auto finding = reach_.circuit_opened(relay, requester, target)) violate(11, "{}", *finding);
}

// ---- numbers ----

void Checkers::has_parameters(std::uint32_t machine) {
  joint_start_.has_parameters(machine);
  Shadow& shadow = shadows_[machine];
  const auto values = world_->machine(machine).parameters();
  if (shadow.live) ledger_ -= total_of(shadow.values).sum;
  if (shadow.lost) shadow.rested += world_->now() - *shadow.lost;
  shadow.lost.reset();
  shadow.live = true;
  shadow.values.assign(values.begin(), values.end());
  const std::size_t cell_floats = world_->options().mix.cell_floats;
  shadow.weights.assign((values.size() - 1) / cell_floats + 1, 1);
  shadow.empty.assign(shadow.weights.size(), 0);
  ledger_ += total_of(values).sum;
  energy_ = -1;
  if (!training::all_acceptable(values)) violate(4, "{} begins with poisoned parameters", name(machine));
}

void Checkers::lost_parameters(std::uint32_t machine) {
  Shadow& shadow = shadows_[machine];
  if (!shadow.live) {  // noticed only now: a step that began since the loss is discarded as well
    if (shadow.lost && shadow.step_began > *shadow.lost && !shadow.stopped)
      shadow.rested += std::exchange(shadow.step_takes, Duration{0});
    return;
  }
  ledger_ -= total_of(shadow.values).sum;
  shadow.live = false;
  shadow.lost = world_->now();
  // The step under way ends without an update.
  if (!shadow.stopped) shadow.rested += shadow.step_takes;
  energy_ = -1;
}

void Checkers::lent(std::uint32_t machine, const training::Parcel& parcel) {
  if (!kind_.push_sum) return;
  const std::size_t cell_floats = world_->options().mix.cell_floats;
  Shadow& shadow = shadows_[machine];
  if (!shadow.live) return;
  const std::size_t first = parcel.offset / cell_floats;
  const std::size_t count = (parcel.floats + cell_floats - 1) / cell_floats;
  const std::span<double> weights = std::span(shadow.weights).subspan(first, count);
  const std::span<int> empty = std::span(shadow.empty).subspan(first, count);
  if (parcel.payload == Payload::none) {
    for (int& times : empty) ++times;
    return;
  }
  if (std::ranges::min(weights) < 2 * training::PushSum::kSmallestShare) {  // it begins again
    if (std::ranges::min(empty) < training::PushSum::kStarved)
      violate(2, "{} sends a chunk with less weight than allowed", name(machine));
    for (double& weight : weights) weight = std::max(weight, 1.0);
  }
  std::ranges::fill(empty, 0);
  for (double& weight : weights) weight -= static_cast<double>(parcel.weight);
}

void Checkers::taken_back(std::uint32_t machine, const training::Parcel& parcel) {
  if (!kind_.push_sum || !shadows_[machine].live) return;
  if (!check_push(machine, parcel, training::as_floats(parcel.values)))
    violate(2, "{} takes back another weight than the refused one", name(machine));
}

// Some values changed, as they may: updates the shadow and the ledger.
void Checkers::take_over(std::uint32_t machine, std::size_t offset, std::size_t floats) {
  const auto now = world_->machine(machine).parameters().subspan(offset, floats);
  const std::span<float> before = std::span(shadows_[machine].values).subspan(offset, floats);
  const Total change = change_of(before, now);
  ledger_ += change.sum;
  rounding_ += kFloatUlp * kFloatUlp * change.magnitude;
  std::copy(now.begin(), now.end(), before.begin());
  energy_ = -1;
}

void Checkers::step_began(std::uint32_t machine, Duration takes) {
  Shadow& shadow = shadows_[machine];
  shadow.step_began = world_->now();
  shadow.step_takes = takes;
}

void Checkers::step_ended(std::uint32_t machine) {
  joint_start_.step_ended();
  Shadow& shadow = shadows_[machine];
  if (!shadow.live) return;
  shadow.stepped += shadow.step_takes;
  shadow.longest_step = std::max(shadow.longest_step, shadow.step_takes);
  const Duration paused = world_->paused_within(machine, shadow.step_began, world_->now());
  if (world_->now() - shadow.step_began > shadow.step_takes + paused)
    violate(5, "{} adds a gradient that is older than its step", name(machine));
  const auto now = world_->machine(machine).parameters();
  if (std::memcmp(now.data(), shadow.values.data(), now.size_bytes()) == 0) return;
  take_over(machine, 0, now.size());
}

// One side of pairwise averaging in float32 mixed: its chunk must have changed by w (theirs - own), and the
// energy of the changed parts must not have risen.
void Checkers::check_pairwise(const Mix& mix, bool responder) {
  Shadow& shadow = shadows_[mix.machine];
  const auto now = world_->machine(mix.machine).parameters().subspan(mix.offer.offset, mix.offer.floats);
  const std::span<float> before = std::span(shadow.values).subspan(mix.offer.offset, mix.offer.floats);
  const MixSums sums = responder ? sums_of_answer(mix.b, mix.a, mix.lent, before, now, mix.w)
                                 : sums_of_completion(mix.a, mix.b, before, now, mix.w);
  rounding_ += kFloatUlp * sums.magnitude;
  ledger_ += sums.shift;
  std::copy(now.begin(), now.end(), before.begin());
  if (!(sums.off <= 0))
    violate(2, "chunk {} of {} in exchange {} with {} is not the mix of its two values", mix.chunk,
            name(mix.machine), mix.exchange, name(mix.partner));
  const double room = 0x1p-20 * std::sqrt(sums.square * sums.energy_before) + 0x1p-42 * sums.square;
  if (mix.lied) {
    energy_ = -1;  // the two sides do not hold the values that they sent
  } else if (sums.energy_after > sums.energy_before + room) {
    violate(3, "the mix of chunk {} at {} with {} raises the energy", mix.chunk, name(mix.machine),
            name(mix.partner));
  }
}

// Whether a receipt of push-sum in float32 is z += u_f / (u_f + u) (z_f - z), cell by cell, with the weights
// that the shadow counts.
bool Checkers::check_push(std::uint32_t machine, const training::Parcel& parcel,
                          std::span<const float> values) {
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

// One side mixed.
void Checkers::check_mix(const Mix& mix, bool responder) {
  Shadow& shadow = shadows_[mix.machine];
  if (!shadow.live) return;  // its replica is lost
  if (kind_.exact) {
    check_pairwise(mix, responder);
  } else if (kind_.push_sum && mix.offer.payload != Payload::none && responder == (mix.reply.weight > 0)) {
    // The receiver took the chunk, or the sender takes it back.
    if (!check_push(mix.machine, mix.offer, mix.a))
      violate(2, "{} mixes chunk {} of {} with a wrong weight", name(mix.machine), mix.chunk,
              name(mix.partner));
  } else {
    if (kind_.opposite) check_opposite(mix, responder);
    take_over(mix.machine, mix.offer.offset, mix.offer.floats);
  }
  const auto now = std::span(shadow.values).subspan(mix.offer.offset, mix.offer.floats);
  if (!training::all_acceptable(now))
    violate(4, "{} has a value that is not finite or beyond 2^60", name(mix.machine));
}

// The change of this side must be opposite to the other side's. REQUIRES: the shadow has the values before.
void Checkers::check_opposite(const Mix& mix, bool responder) {
  const std::size_t floats = mix.offer.floats;
  const auto now = world_->machine(mix.machine).parameters().subspan(mix.offer.offset, floats);
  const auto before = std::span(shadows_[mix.machine].values).subspan(mix.offer.offset, floats);
  const auto moved = [&](std::size_t f) {
    return static_cast<double>(now[f]) - static_cast<double>(before[f]);
  };
  Open& it = open(mix.initiator, mix.exchange, mix.chunk);
  double magnitude = 0;
  for (const float value : now) magnitude = std::max<double>(magnitude, std::abs(value));
  if (responder) {
    it.moved.resize(floats);
    for (std::size_t f = 0; f < floats; ++f) it.moved[f] = moved(f);
    it.magnitude = magnitude;
  } else if (!mix.lied && it.moved.size() == floats) {
    const double most = 16 * kFloatUlp * (it.magnitude + magnitude);
    for (std::size_t f = 0; f < floats; ++f) {
      if (std::abs(moved(f) + it.moved[f]) <= most) continue;
      return violate(2, "{} and {} move by {:f} and {:f} in chunk {} of exchange {}, which is not opposite",
                     name(mix.machine), name(mix.partner), moved(f), it.moved[f], mix.chunk, mix.exchange);
    }
  }
}

void Checkers::answer_changed(std::uint32_t machine, const AnswerChange& change) {
  if (const auto finding = answers_.changed(machine, change)) violate(13, "{}", *finding);
}

void Checkers::answered(const Mix& mix) {
  const float wanted = mix.lent.empty() ? 0.5F : 0.25F;
  if (kind_.exact && mix.w != wanted)
    violate(2, "{} answers {} with the weight {:f} instead of {:f}", name(mix.machine), name(mix.partner),
            mix.w, wanted);
  check_mix(mix, true);
  Open& it = open(mix.initiator, mix.exchange, mix.chunk);
  if (it.answered)
    violate(2, "{} answers chunk {} of {} twice", name(mix.machine), mix.chunk, name(mix.partner));
  it.a = hash64(mix.offer.values);
  it.b = hash64(mix.reply.values);
  it.w = mix.w;
  it.answered = true;
  if (it.counted) energy_ = -1;  // half applied
}

void Checkers::completed(const Mix& mix) {
  const std::uint64_t key = key_of(mix.initiator, mix.exchange, mix.chunk);
  const auto found = open_.find(key);
  if (found == open_.end() || !found->second.answered || found->second.counted)
    return violate(2, "{} mixes a reply to chunk {} that was never sent or that it had given up",
                   name(mix.machine), mix.chunk);
  const Open& it = found->second;
  const bool same = it.a == hash64(mix.offer.values) && it.b == hash64(mix.reply.values);
  if (!mix.lied && (!same || it.w != mix.w))
    violate(2, "{} and {} mix different values", name(mix.machine), name(mix.partner));
  check_mix(mix, false);
  open_.erase(key);
  if (kind_.lets_wait) return;
  // Each reply extends the deadline, so the last chunk of a window may have waited for several of them.
  const PeerId partner = world_->machine(mix.partner).id;
  const Duration patience = world_->machine(mix.machine).patience->limit(partner);
  const Duration limit =
      from_seconds(to_seconds(patience) * kClockSlack * static_cast<double>(world_->options().window + 1));
  if (mix.age > limit && !mix.slept)
    violate(5, "{} mixes a reply with a snapshot that is {} old; exchanges are aborted after {}",
            name(mix.machine), seconds(mix.age), seconds(limit));
}

void Checkers::half_applied(std::uint32_t machine, std::uint64_t exchange, std::size_t chunk) {
  open(world_->machine(machine).id, exchange, chunk).counted = true;
  ++counts_.half_applied_chunks;
  energy_ = -1;
}

void Checkers::check_sum() {
  double sum = 0, magnitude = 0;
  for (std::uint32_t i = 0; i < shadows_.size(); ++i) {
    if (!shadows_[i].live) continue;
    const auto now = world_->machine(i).parameters();
    if (std::memcmp(now.data(), shadows_[i].values.data(), now.size_bytes()) != 0) {
      violate(2, "parameters of {} changed outside steps and mixes", name(i));
      return;
    }
    const Total total = total_of(now);
    sum += total.sum;
    magnitude += total.magnitude;
  }
  if (!(std::abs(sum - ledger_) <= rounding_ + 1e-9 * magnitude))
    violate(2, "the sum of all parameters is {:f} and must be {:f}", sum, ledger_);
}

// The energy of the whole world must not rise while the peers only mix.
void Checkers::check_energy() {
  if (!kind_.exact || world_->now() - energy_looked_ < kEnergyEvery) return;
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
    violate(3, "the energy rose from {:f} to {:f} without any step", energy_, energy);
  energy_ = energy;
}

// 2: a chunk that was answered and never mixed must be counted, unless its initiator has ended.
void Checkers::check_counted() {
  for (const auto& [key, open] : open_) {
    const Instance& initiator = instances_[by_id_[open.initiator.value]];
    const auto& under_way = initiator.under_way;
    const bool continues = std::find(under_way.begin(), under_way.end(), open.exchange) != under_way.end();
    const bool has_ended = initiator.ended || open.exchange < initiator.first_exchange;
    if (open.answered && !open.counted && !has_ended && !continues)
      violate(2, "{} left exchange {} half applied and did not count it", called(initiator), open.exchange);
  }
}

}  // namespace starling::lab
