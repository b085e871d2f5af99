#include "lab/hunt/checkers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/hash.h"
#include "lab/hunt/mix_sums.h"
#include "training/exchange/payload.h"
#include "training/exchange/values.h"

namespace starling::lab {

namespace {

constexpr double kClockSlack = 1.03;  // each clock drifts by a hundredth at most
constexpr std::uint64_t kSumEveryLooks = 5;
constexpr Duration kEnergyEvery = std::chrono::seconds(4);

std::uint64_t key_of(PeerId initiator, std::uint64_t exchange, std::size_t chunk) {
  const std::array<std::uint64_t, 3> words{initiator.value, exchange, chunk};
  return hash64(std::as_bytes(std::span(words)));
}

std::string seconds(Duration d) { return fmt::format("{:.3f} s", to_seconds(d)); }

const char* liveness_name(wire::Liveness liveness) {
  static constexpr std::array<const char*, 4> kNames = {"alive", "suspect", "failed", "left"};
  return kNames.at(static_cast<std::size_t>(liveness));
}

bool is_live(wire::Liveness liveness) { return liveness <= wire::Liveness::suspect; }

}  // namespace

void Checkers::watch(const World& world) {
  world_ = &world;
  const WorldOptions& options = world.options();
  const Rule rule = options.rules->rule;
  const bool equal = options.rules->shares == Shares::equal;
  const Keeps keeps = traits(rule).keeps;
  exact_ = keeps == Keeps::sum_of_means && options.mix.payload == Payload::f32 && equal;
  opposite_ = !exact_ && equal && (keeps == Keeps::sum_of_means || keeps == Keeps::sum);
  // With copies, a lie has a lasting effect: the copies of the liar's public values differ afterwards.
  const bool lies =
      std::any_of(options.incidents.begin(), options.incidents.end(), [](const Incident& incident) {
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
  const std::uint32_t incarnation =
      earlier == by_id_.end() ? 0 : instances_[earlier->second].incarnation;
  by_id_[id.value] = instances_.size();
  Instance& instance = instances_.emplace_back();
  instance.id = id;
  instance.incarnation = incarnation;
  instance.began = world_->now();
  instance.first_exchange = std::uint64_t{world_->machine(machine).membership->self().incarnation} << 32;
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
  for (std::size_t chunk = 0; chunk < world_->options().chunks(); ++chunk) {
    if (open_.contains(key_of(instance_of(machine).id, ended->exchange, chunk)))
      violate(2, "{} completed exchange {} and never mixed chunk {}", name(machine), ended->exchange, chunk);
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
  if (const auto* begin = std::get_if<gossip::BeginExchange>(&action))
    self.under_way.push_back(begin->exchange);
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

// ---- numbers ----

void Checkers::has_parameters(std::uint32_t machine) {
  Shadow& shadow = shadows_[machine];
  const auto values = world_->machine(machine).parameters();
  if (shadow.live) ledger_ -= total_of(shadow.values).sum;
  if (shadow.lost) shadow.rested += world_->now() - *shadow.lost;
  shadow.lost.reset();
  shadow.live = true;
  shadow.values.assign(values.begin(), values.end());
  const std::size_t cell_floats = world_->options().mix.cell_floats;
  shadow.weights.assign((values.size() - 1) / cell_floats + 1, 1);
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

void Checkers::round_began(std::uint32_t machine) {
  Shadow& shadow = shadows_[machine];
  if (!shadow.live) return;
  take_over(machine, 0, shadow.values.size());
  if (!training::all_acceptable(shadow.values))
    violate(4, "after an outer step {} has a value that is not finite or beyond 2^60", name(machine));
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
    violate(2, "{} takes back another weight than the refused one", name(machine));
}

// Some values changed, as they may: updates the shadow and returns the differences.
std::vector<double> Checkers::take_over(std::uint32_t machine, std::size_t offset, std::size_t floats) {
  const auto now = world_->machine(machine).parameters().subspan(offset, floats);
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
    violate(5, "{} adds a gradient that is older than its step", name(machine));
  const auto now = world_->machine(machine).parameters();
  if (std::memcmp(now.data(), shadow.values.data(), now.size_bytes()) == 0) return;
  const Total before = total_of(shadow.values), after = total_of(now);
  ledger_ += after.sum - before.sum;
  rounding_ += kFloatUlp * kFloatUlp * after.magnitude;
  std::copy(now.begin(), now.end(), shadow.values.begin());
  energy_ = -1;
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
  if (exact_) {
    check_pairwise(mix, responder);
  } else if (push_sum_ && responder) {
    if (!check_push(mix.machine, mix.offer, mix.a))
      violate(2, "{} mixes chunk {} of {} with a wrong weight", name(mix.machine), mix.chunk,
              name(mix.partner));
  } else {
    const auto moved = take_over(mix.machine, mix.offer.offset, mix.offer.floats);
    if (opposite_) check_opposite(mix, responder, moved);
  }
  const auto now = std::span(shadow.values).subspan(mix.offer.offset, mix.offer.floats);
  if (!training::all_acceptable(now))
    violate(4, "{} has a value that is not finite or beyond 2^60", name(mix.machine));
}

// `moved`: the change of this side, which must be opposite to the other side's.
void Checkers::check_opposite(const Mix& mix, bool responder, const std::vector<double>& moved) {
  Open& it = open(mix.initiator, mix.exchange, mix.chunk);
  double magnitude = 0;
  for (const float value : std::span(shadows_[mix.machine].values).subspan(mix.offer.offset, moved.size()))
    magnitude = std::max<double>(magnitude, std::abs(value));
  if (responder) {
    it.moved = moved;
    it.magnitude = magnitude;
  } else if (!mix.lied && it.moved.size() == moved.size()) {
    const double most = 16 * kFloatUlp * (it.magnitude + magnitude);
    for (std::size_t f = 0; f < moved.size(); ++f) {
      if (std::abs(moved[f] + it.moved[f]) <= most) continue;
      return violate(2, "{} and {} move by {:f} and {:f} in chunk {} of exchange {}, which is not opposite",
                     name(mix.machine), name(mix.partner), moved[f], it.moved[f], mix.chunk, mix.exchange);
    }
  }
}

void Checkers::answered(const Mix& mix) {
  const float wanted = mix.lent.empty() ? 0.5F : 0.25F;
  if (exact_ && mix.w != wanted)
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
  if (lets_wait_) return;
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
    violate(3, "the energy rose from {:f} to {:f} without any step", energy_, energy);
  energy_ = energy;
}

// ---- views ----

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
  if (world_->longest_queue() > most)
    violate(9, "a queue between two machines has {} messages; the limit is {}", world_->longest_queue(),
            most);
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
        violate(8, "{} knows a peer that never existed: {}", name(i), to_string(record.member.id));
      } else {
        look_at(i, instances_[found->second], record.member);
      }
    }
    if (known >= instances_.size()) violate(9, "{} knows more peers than have existed", name(i));
    const std::size_t waiting = view.membership->queued();
    if (waiting > 2 * known + 1500)
      violate(9, "{} has {} entries in the queues of its core", name(i), waiting);
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
  if (member.incarnation > instance.incarnation)
    violate(8, "{} knows incarnation {} of {}, which never chose more than {}", name(viewer),
            member.incarnation, called(instance), instance.incarnation);
  check_claims(viewer, instance, member);
  const char* const liveness = liveness_name(member.liveness);
  Seen& seen = seen_[viewer][index];
  if (seen.known && member.incarnation < seen.incarnation)
    violate(8, "in the view of {} the incarnation of {} decreases", name(viewer), called(instance));
  const bool is_reborn = member.incarnation > seen.incarnation;
  if (seen.known && seen.liveness == wire::Liveness::left && member.liveness != wire::Liveness::left &&
      !is_reborn)
    violate(8, "in the view of {}, {} has left and is {} again", name(viewer), called(instance), liveness);
  seen = {true, member.incarnation, member.liveness};

  const bool faults_end = setting_.faults_end != kNever;
  if (instance.ended) {
    const Instant since = setting_.calm ? *instance.ended : std::max(*instance.ended, setting_.faults_end);
    if (is_live(member.liveness) && faults_end && now - since > setting_.detection)
      violate(8, "{} ended at {} and is still {} in the view of {}", called(instance),
              seconds(instance.ended->since_start), liveness, name(viewer));
  } else if (!instance.leaving) {
    const bool is_of_this = member.incarnation >= instance.first_exchange >> 32;
    if (member.liveness == wire::Liveness::left && is_of_this)
      violate(8, "{} is up and did not leave, but has left in the view of {}", called(instance),
              name(viewer));
    if (!is_live(member.liveness) && setting_.calm && now - instance.began > setting_.detection)
      violate(8, "{} is up, and is {} in the view of {}", called(instance), liveness, name(viewer));
    if (!is_live(member.liveness) && faults_end && now - setting_.faults_end > setting_.recovery)
      violate(8, "{} is up and remains {} in the view of {}", called(instance), liveness, name(viewer));
  }
}

// No view has a fact about a member that the member did not state itself.
void Checkers::check_claims(std::uint32_t viewer, const Instance& instance, const wire::Member& member) {
  constexpr std::uint64_t kPossible = 1'000'000'000;  // samples, of machines that make some steps a second
  const auto truth = world_->machine(instance.machine);
  if (member.samples > truth.samples + kPossible)
    violate(8, "{} counts {} samples of {}, which consumed {}", name(viewer), member.samples,
            called(instance), truth.samples);
  if (truth.membership == nullptr || instance.ended) return;
  const wire::Member& self = truth.membership->self();
  if (member.phase > self.phase && member.incarnation == self.incarnation)
    violate(8, "{} is in phase {} in the view of {}, and in phase {} in truth", called(instance),
            static_cast<int>(member.phase), name(viewer), static_cast<int>(self.phase));
  if (member.address != self.address)
    violate(8, "{} listens at {}, and at {} in the view of {}", called(instance), to_string(self.address),
            to_string(member.address), name(viewer));
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
    round = std::max(round,
                     steps ? static_cast<std::int64_t>(pace.steps) * machine.step : pace.time + machine.step);
    if (view.topology != nullptr)
      period = std::max(period, view.topology->among(static_cast<std::uint32_t>(shadows_.size())).period());
  }
  return left + static_cast<std::int64_t>(2 * period) * round;
}

// Whether a worker has servers to which it can push. With bounded staleness, a push may wait without limit.
bool Checkers::is_served(std::uint32_t machine) const {
  const WorldOptions& options = world_->options();
  const auto serves = [&](std::uint32_t i) {
    return gossip::role_of(options.machines[i].name, options.rules->servers).kind !=
           gossip::Role::Kind::worker;
  };
  if (serves(machine) || lets_wait_) return false;
  for (std::uint32_t i = 0; i < shadows_.size(); ++i) {
    const bool up = world_->machine(i).state == MachineState::running && shadows_[i].live;
    if (serves(i) && !up) return false;
  }
  return true;
}

void Checkers::finish() {
  if (violation_) return;
  look();
  check_sum();
  std::vector<PeerId> alive;
  for (const Instance& instance : instances_) {
    if (!instance.ended) alive.push_back(instance.id);
  }
  std::sort(alive.begin(), alive.end());
  // If all replicas are lost, there is nothing to exchange: the peers end one after the other.
  const bool replicas =
      std::any_of(shadows_.begin(), shadows_.end(), [](const Shadow& it) { return it.live; });
  std::optional<std::uint32_t> first;
  for (std::uint32_t i = 0; i < current_.size(); ++i) {
    if (world_->machine(i).state != MachineState::running) continue;
    check_final_view(i, alive, first);
    if (!first) first = i;
    check_final_exchanges(i, replicas && (served_ ? is_served(i) : alive.size() > 1));
    check_final_steps(i);
  }
  check_counted();
}

// 6: the view of machine i, and the topology that a user set, equal those of the first machine.
void Checkers::check_final_view(std::uint32_t i, const std::vector<PeerId>& alive,
                                std::optional<std::uint32_t> first) {
  const auto view = world_->machine(i);
  std::vector<PeerId> seen{view.id};
  for (const gossip::Record& record : view.membership->others()) {
    if (record.is_live()) seen.push_back(record.member.id);
  }
  std::sort(seen.begin(), seen.end());
  for (const PeerId id : alive) {
    if (!std::binary_search(seen.begin(), seen.end(), id))
      violate(6, "at the end {} does not know that {} is up", name(i), called(instances_[by_id_[id.value]]));
  }
  if (!first) return;
  const auto other = world_->machine(*first);
  if (view.membership->digest() != other.membership->digest())
    violate(6, "at the end {} and {} have different views", name(i), name(*first));
  if (view.topology != nullptr && other.topology != nullptr &&
      view.topology->name() != other.topology->name())
    violate(6, "at the end {} follows the topology {} and {} follows {}", name(i), view.topology->name(),
            name(*first), other.topology->name());
}

// 6: exchanges since the faults ended.
void Checkers::check_final_exchanges(std::uint32_t i, bool could_exchange) {
  const Shadow& shadow = shadows_[i];
  const auto& counts = world_->machine(i).exchanges;
  // A peer that has been in one very slow step since then has no news: it begins no exchange, and others may
  // not choose it.
  const bool in_one_step =
      shadow.step_began < setting_.faults_end && shadow.step_began + shadow.step_takes > world_->now();
  if (could_exchange && !in_one_step && counts.completed + counts.answered <= instance_of(i).exchanges_before)
    violate(6, "{} has not exchanged since the faults ended at {}", name(i),
            seconds(setting_.faults_end.since_start));
}

// 7.
void Checkers::check_final_steps(std::uint32_t i) {
  const Shadow& shadow = shadows_[i];
  const std::optional<Instant> since = world_->machine(i).training_since;
  if (!since || shadow.stopped || shadow.lost || lets_wait_) return;
  const Duration allowed = world_->now() - *since - shadow.rested -
                           world_->paused_within(i, *since, world_->now()) -
                           std::max(shadow.longest_step, shadow.step_takes);
  if (to_seconds(shadow.stepped) < setting_.share * to_seconds(allowed))
    violate(7, "{} made steps for {} of the possible {}", name(i), seconds(shadow.stepped), seconds(allowed));
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
