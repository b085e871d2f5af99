// The statements about membership: what each peer knows of the others, at any time and at the end.
#include <algorithm>
#include <array>
#include <cmath>

#include "lab/hunt/checkers.h"

namespace starling::lab {
namespace {

constexpr std::uint64_t kSumEveryLooks = 5;

std::string in_seconds(Duration d) { return fmt::format("{:.3f} s", to_seconds(d)); }

const char* liveness_name(wire::Liveness liveness) {
  static constexpr std::array<const char*, 4> kNames = {"alive", "suspect", "failed", "left"};
  return kNames.at(static_cast<std::size_t>(liveness));
}

bool is_live(wire::Liveness liveness) { return liveness <= wire::Liveness::suspect; }

}  // namespace

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
  std::vector<World::MachineView> views;  // by machine
  views.reserve(current_.size());
  for (std::uint32_t i = 0; i < current_.size(); ++i) views.push_back(world_->machine(i));
  for (std::uint32_t i = 0; i < current_.size(); ++i) {
    const World::MachineView& view = views[i];
    if (view.state != MachineState::running || view.membership == nullptr) continue;
    if (const auto finding = answers_.look(i)) violate(13, "{}", *finding);
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
        Instance& instance = instances_[found->second];
        look_at(i, instance, record.member, views[instance.machine]);
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

void Checkers::look_at(std::uint32_t viewer, Instance& instance, const wire::Member& member,
                       const World::MachineView& truth) {
  const Instant now = world_->now();
  const auto index = static_cast<std::size_t>(&instance - instances_.data());
  if (!instance.ended)
    instance.incarnation = std::max(instance.incarnation, truth.membership->self().incarnation);
  if (member.incarnation > instance.incarnation)
    violate(8, "{} knows incarnation {} of {}, which never chose more than {}", name(viewer),
            member.incarnation, called(instance), instance.incarnation);
  check_claims(viewer, instance, member, truth);
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
              in_seconds(instance.ended->since_start), liveness, name(viewer));
  } else if (!instance.leaving) {
    const bool is_of_this = member.incarnation >= instance.first_exchange >> 32;
    if (member.liveness == wire::Liveness::left && is_of_this)
      violate(8, "{} is up and did not leave, but has left in the view of {}", called(instance),
              name(viewer));
    if (!is_live(member.liveness) && setting_.calm && now - instance.began > setting_.detection &&
        !reach_.are_apart())
      violate(8, "{} is up, and is {} in the view of {}", called(instance), liveness, name(viewer));
    if (!is_live(member.liveness) && faults_end && now - setting_.faults_end > setting_.recovery &&
        !reach_.are_apart())
      violate(8, "{} is up and remains {} in the view of {}", called(instance), liveness, name(viewer));
  }
}

// No view has a fact about a member that the member did not state itself.
void Checkers::check_claims(std::uint32_t viewer, const Instance& instance, const wire::Member& member,
                            const World::MachineView& truth) {
  constexpr std::uint64_t kPossible = 1'000'000'000;  // samples, of machines that make some steps a second
  if (member.samples > truth.samples + kPossible)
    violate(8, "{} counts {} samples of {}, which consumed {}", name(viewer), member.samples,
            called(instance), truth.samples);
  if (truth.membership == nullptr || instance.ended) return;
  const wire::Member& self = truth.membership->self();
  if (member.phase > self.phase && member.incarnation == self.incarnation)
    violate(8, "{} is in phase {} in the view of {}, and in phase {} in truth", called(instance),
            static_cast<int>(member.phase), name(viewer), static_cast<int>(self.phase));
  if (!reach_.is_stated(member, self))
    violate(8, "{} states the address {}, and in the view of {} {} or other homes", called(instance),
            to_string(self.address), name(viewer), to_string(member.address));
}

Duration Checkers::barrier() const {
  if (!kind_.lock_step) return {};
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
  const bool apart = reach_.are_apart();
  const auto serves = [&options = world_->options()](std::uint32_t i) {
    return gossip::role_of(options.machines[i].name, options.rules->servers).kind !=
           gossip::Role::Kind::worker;
  };
  bool servers_up = true;
  for (std::uint32_t i = 0; kind_.served && i < shadows_.size(); ++i) {
    if (serves(i) && (world_->machine(i).state != MachineState::running || !shadows_[i].live))
      servers_up = false;
  }
  std::optional<std::uint32_t> first;
  for (std::uint32_t i = 0; i < current_.size(); ++i) {
    if (world_->machine(i).state != MachineState::running) continue;
    check_final_steps(i);
    if (apart) continue;
    check_final_view(i, alive, first);
    if (!first) first = i;
    // A worker needs all servers up; with bounded staleness, a push may wait without limit.
    const bool has_partners = kind_.served ? !serves(i) && !kind_.lets_wait && servers_up : alive.size() > 1;
    check_final_exchanges(i, replicas && has_partners && !(kind_.lock_step && reach_.may_be_alone(i)));
    if (const auto finding = reach_.final_record(i)) violate(11, "{}", *finding);
  }
  if (const auto finding = reach_.final_calls(); finding && !apart) violate(11, "{}", *finding);
  check_counted();
}

// 6: the view of machine i, and the topology that a user set, equal the first machine's.
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
  if (view.membership->view().digest() != other.membership->view().digest())
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
            in_seconds(setting_.faults_end.since_start));
}

// 7.
void Checkers::check_final_steps(std::uint32_t i) {
  const Shadow& shadow = shadows_[i];
  const std::optional<Instant> since = world_->machine(i).training_since;
  if (!since || shadow.stopped || shadow.lost || kind_.lets_wait) return;
  const Duration allowed = world_->now() - *since - shadow.rested -
                           world_->paused_within(i, *since, world_->now()) -
                           std::max(shadow.longest_step, shadow.step_takes);
  if (to_seconds(shadow.stepped) < setting_.share * to_seconds(allowed))
    violate(7, "{} made steps for {} of the possible {}", name(i), in_seconds(shadow.stepped),
            in_seconds(allowed));
}

}  // namespace starling::lab
