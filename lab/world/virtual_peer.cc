#include "lab/world/virtual_peer.h"

#include <algorithm>
#include <array>
#include <limits>

#include "lab/world/liar.h"

namespace starling::lab {
namespace {

constexpr std::size_t kJoinAddresses = 8;
constexpr Duration kFalseAnswers = std::chrono::seconds(1);  // after each lie of that kind
constexpr std::uint32_t kIncarnationsOfLife = 64;            // more than a peer can use up by refutations
constexpr Duration kStillUpCheck = std::chrono::milliseconds(100);

}  // namespace

VirtualPeer::VirtualPeer(Surroundings& world, std::uint32_t index)
    : VirtualMachine(world, index),
      reach_(*this, world),
      replica_(world.options.arena_floats, world.options.mix),
      training_(*this, replica_, world),
      exchanges_(*this, reach_, replica_, world),
      copies_(*this, reach_, replica_, world) {}

// ---- life ----

void VirtualPeer::start() {
  set_state(MachineState::running, false);
  replica_.learner = world_.make_learner(index());
  gossip::PeerOptions peer = world_.options.peer;
  core_.reset();
  identity_.emplace(id());
  peer.identity = &*identity_;
  peer.incarnation = life() * kIncarnationsOfLife;
  peer.name = options().name;
  peer.program = options().program;
  if (life() > 0) peer.membership.awaits_expected = false;  // it finds a run that has begun
  peer.address = reach_.finds_address() ? Address{} : reach_.stated();
  peer.membership.reach.finds_address = reach_.finds_address();
  peer.membership.reach.relays = reach_.relays();
  peer.seed = random().split(life()).bits();
  if ((index() == world_.beginner && life() == 0) || founds()) {
    peer.manifest = world_.options.manifest;
  } else {
    introduce(peer);
  }
  core_.emplace(std::move(peer));
  training_.clear(*core_);
  if (world_.options.cache_interval.count() > 0)
    later(now() + world_.options.cache_interval, [this] { write_cache(); });
  world_.watcher.started(index());
  if (!founds()) return later(now(), [this] { step(gossip::Start{}); });
  begin_with(world_.first_parameters);
  step(gossip::Start{});
  step(gossip::Prepared{*world_.options.rules});
}

// Gives a starting peer the addresses through which it joins.
void VirtualPeer::introduce(gossip::PeerOptions& peer) const {
  if (!cache_.empty()) {
    peer.join = cache_;
    peer.manifest = world_.options.manifest;
    peer.unwelcomed.begins = world_.options.begin_after;
    return;
  }
  // Like a user who starts a peer: the addresses of running peers, or the beginner's if there are none.
  for (const VirtualMachine* other : world_.machines) {
    if (peer.join.size() == kJoinAddresses) break;
    const bool is_open = other->up() && !world_.conditions.is_hidden(other->index());
    if (is_open && other != this) peer.join.push_back(other->address());
  }
  if (!peer.join.empty()) return;
  const std::uint32_t beginner = world_.beginner;
  const std::size_t other = index() == beginner ? (index() + 1) % world_.machines.size() : beginner;
  peer.join.push_back(world_.machines[other]->address());
}

void VirtualPeer::restart(Instant at, Cache cache, IfStillUp if_still_up) {
  world_.queue.schedule(std::max(at, now()), [this, cache, if_still_up] {
    if (up() && if_still_up == IfStillUp::wait) return restart(now() + kStillUpCheck, cache, if_still_up);
    if (up() || state() == MachineState::waiting || state() == MachineState::finished) return;
    ++world_.open;
    enter_life(cache == Cache::kept ? Identities::kept : Identities::lost);
    world_.network.up_again(index());
    if (cache == Cache::lost) cache_.clear();
    keep_counts();
    replica_.renew(world_.options.arena_floats, world_.options.mix);
    copies_.clear();
    exchanges_.clear();
    started_ = false;
    before_settling_.clear();
    tick_at_ = kNever;
    start();
  });
}

// Adds the counts of the instance that has ended.
void VirtualPeer::keep_counts() {
  const gossip::ExchangeCounts& counts = core_->view().exchanges;
  earlier_exchanges_.completed += counts.completed;
  earlier_exchanges_.aborted += counts.aborted;
  earlier_exchanges_.rejected += counts.rejected;
  earlier_exchanges_.answered += counts.answered;
  const auto& refused = replica_.mixer->counters().refused;
  for (std::size_t k = 0; k < refused.size(); ++k) earlier_mixed_.refused[k] += refused[k];
}

void VirtualPeer::write_cache() {
  // As node/keep/peer_cache: live members first, then failed ones.
  std::vector<Address> addresses;
  for (const auto liveness : {wire::Liveness::suspect, wire::Liveness::failed}) {
    for (const gossip::Record& record : core_->view().membership.others()) {
      const bool is_meant =
          liveness == wire::Liveness::failed ? record.member.liveness == liveness : record.is_live();
      if (is_meant && record.member.address && addresses.size() < kJoinAddresses)
        addresses.push_back(record.member.address);
    }
  }
  const Duration access = disk_access();
  later(now() + access, [this, written = std::move(addresses)]() mutable {
    if (!written.empty()) cache_ = std::move(written);
  });
  later(now() + access + world_.options.cache_interval, [this] { write_cache(); });
}

void VirtualPeer::lie(LieKind kind) {
  if (!up()) return;
  later(now(), [this, kind] {
    if (core_->view().over) return;
    Random& random = world_.spoiling;
    const auto told = kind == LieKind::any ? static_cast<LieKind>(1 + random.below(kLieKinds - 1)) : kind;
    if (told == LieKind::offers) return offer_nothing();
    if (told == LieKind::answers) answers_falsely_until_ = now() + kFalseAnswers;
    for (gossip::Send& send : lab::lie(told, core_->view().membership, *identity_, random)) act(send);
  });
}

// To a live member, drawn at random.
void VirtualPeer::offer_nothing() {
  const gossip::Membership& membership = core_->view().membership;
  std::vector<PeerId> live;
  for (const gossip::Record& record : membership.others())
    if (record.is_live()) live.push_back(record.member.id);
  if (live.empty()) return;
  const PeerId partner = live[world_.spoiling.below(live.size())];
  exchanges_.offer_nothing(membership.view().bulk_endpoint(membership.find(partner)->member));
}

void VirtualPeer::lose_replica(bool device) {
  if (!up() || !replica_.present || !started_) return;
  later(now(), [this, device] {
    if (!replica_.present) return;
    if (device) return step(gossip::ReplicaGone{"its device is lost"});
    const std::array<float, 1> nan{std::numeric_limits<float>::quiet_NaN()};
    replica_.will_change();
    Random& random = world_.spoiling;
    for (std::size_t k = 1 + random.below(3); k > 0; --k)
      replica_.arena->write(random.below(replica_.arena->size()), nan);
    world_.watcher.lost_parameters(index());
  });
}

void VirtualPeer::take_down(MachineState state, bool silent) {
  set_state(state, silent);
  training_.stop();
  --world_.open;
  exchanges_.instance_ended();
  trace(400, static_cast<std::uint64_t>(state));
  world_.watcher.ended(index(), state);
  world_.network.down(index(), state != MachineState::crashed ? VirtualNetwork::Ending::orderly
                               : silent                       ? VirtualNetwork::Ending::power_loss
                                                              : VirtualNetwork::Ending::crash);
}

// ---- the driver's loop ----

void VirtualPeer::step(gossip::Event event) {
  if (!up()) return;
  trace(event.index(), 0);
  if (world_.sabotage != nullptr) world_.sabotage->before(index(), id(), event);
  world_.watcher.event(index(), event);
  const Instant local = local_now();
  std::vector<gossip::Action> actions = std::exchange(world_.actions, {});
  core_->step(local, event, actions);
  for (gossip::Action& action : actions) {
    trace(100 + action.index(), 0);
    world_.watcher.action(index(), action);
    std::visit([this](auto& it) { act(it); }, action);
  }
  actions.clear();
  world_.actions = std::move(actions);
  if (!up()) return;
  Instant deadline = core_->next_deadline();
  if (world_.sabotage != nullptr) deadline = world_.sabotage->deadline(local, deadline);
  if (deadline <= local) {
    world_.watcher.stood_still(index());
    deadline = local + std::chrono::milliseconds(1);
  }
  // An earlier tick schedules the next one in wake().
  if (const Instant at = mishaps().true_time(deadline); at < tick_at_) {
    tick_at_ = at;
    later(at, [this] { wake(); });
  }
}

void VirtualPeer::wake() {
  if (tick_at_ > now()) return;  // this tick was replaced by a later one
  tick_at_ = kNever;
  const Instant deadline = mishaps().true_time(core_->next_deadline());
  if (deadline <= now() || world_.sabotage != nullptr) return step(gossip::Tick{});
  if (deadline == kNever) return;
  tick_at_ = deadline;
  later(deadline, [this] { wake(); });
}

void VirtualPeer::arrived(VirtualPeer& from, Connection& connection, Packet& packet) {
  const bool is_of_exchange = packet.kind >= Packet::Kind::offer && packet.kind <= Packet::Kind::reply_chunk;
  if (is_of_exchange && now() < silent_until_) return;
  switch (packet.kind) {
    case Packet::Kind::message:
      if (const auto* const request = std::get_if<wire::PingRequest>(&*packet.message);
          request != nullptr && now() < answers_falsely_until_) {
        gossip::Send lie{{packet.sender, from.address()},
                         wire::Ack{request->sequence, {}, request->target, identity_->sign({})}};
        return act(lie);
      }
      return step(gossip::Event(std::in_place_type<gossip::Received>, packet.sender, from.reach_.stated(),
                                *std::move(packet.message)));
    case Packet::Kind::offer:
      return exchanges_.take_offer(from.exchanges_, connection, packet);
    case Packet::Kind::refusal:
      return exchanges_.take_refusal(packet);
    case Packet::Kind::offer_chunk:
      return exchanges_.take_chunk(packet);
    case Packet::Kind::reply_chunk:
      return exchanges_.take_reply(packet);
    case Packet::Kind::close:
      return exchanges_.take_close(packet);
    case Packet::Kind::state_request:
      return copies_.give(connection, packet);
    case Packet::Kind::state_refusal:
      return copies_.take_refusal(packet);
    case Packet::Kind::state_chunk:
      return copies_.take_chunk(from.copies_, connection, packet);
  }
}

void VirtualPeer::connection_broke(Connection& connection, std::uint32_t epoch) {
  if (!up()) return;
  later(now(), [this, &connection, epoch] {
    if (connection.purpose == wire::Purpose::control)
      return step(reach_.unreachable(connection.other(index())));
    if (!exchanges_.connection_broke(connection, epoch)) copies_.connection_broke(connection, epoch);
  });
}

// ---- preparing, training, ending ----

void VirtualPeer::begin_with(std::span<const float> values) {
  put_replica(values);
  replica_.present = true;
}

void VirtualPeer::set_parameters(std::span<const float> values) {
  replica_.will_change();
  put_replica(values);
  replica_.mixer->adopt();
}

void VirtualPeer::act(const gossip::Prepare&) {
  if (founds()) return;  // start() continues
  later(now() + disk_access(), [this] { step(gossip::Prepared{*world_.options.rules}); });
}

void VirtualPeer::act(const gossip::HoldTraining&) {
  if (std::exchange(started_, true)) return;
  if (!replica_.present) begin_with(world_.first_parameters);  // it begins the run again
  if (replica_.copied) replica_.learner->join(core_->view().swarm_samples);
  replica_.mixer->adopt();
  if (!mishaps().poisons.empty()) {
    first_values().resize(replica_.arena->size());
    replica_.arena->read(0, first_values());
  }
  if (!training_.since()) world_.watcher.has_parameters(index());
}

void VirtualPeer::act(const gossip::StartTraining& start) {
  act(gossip::HoldTraining{});
  if (start.steps) training_.start();
}

void VirtualPeer::act(const gossip::PauseTraining& pause) {
  training_.pause(pause.discard);
  if (!pause.discard) return;
  replica_.present = false;
  world_.watcher.lost_parameters(index());
}

void VirtualPeer::act(const gossip::ResumeTraining& resume) {
  if (resume.renewed) {
    replica_.learner->renew();
    replica_.mixer->adopt();
    world_.watcher.has_parameters(index());
  }
  training_.resume();
}

void VirtualPeer::act(const gossip::BeginRound& round) { replica_.mixer->begin_round(round.round); }

void VirtualPeer::act(const gossip::TrainingEnded&) {
  replica_.learner->over();  // frees memory
  before_settling_.resize(replica_.arena->size());
  replica_.arena->read(0, before_settling_);
}

void VirtualPeer::act(const gossip::Finish& finish) {
  using How = gossip::Finish::How;
  take_down(finish.how == How::finished ? MachineState::finished
            : finish.how == How::left   ? MachineState::left
                                        : MachineState::failed);
}

// ---- the outside view ----

void VirtualPeer::values(std::vector<MutableBytes>& out) {
  replica_.mixer->values(out);
  for (auto* floats : {&first_values(), &before_settling_})
    out.push_back(std::as_writable_bytes(std::span(*floats)));
}

MachineView VirtualPeer::view() const {
  static const gossip::ExchangeCounts kNone;
  const Learner* const learner = replica_.learner.get();
  const std::optional<gossip::Peer::View> core = core_ ? std::optional(core_->view()) : std::nullopt;
  return {options().name,
          state(),
          *replica_.arena,
          training_.steps(),
          training_.samples(),
          core ? core->exchanges : kNone,
          replica_.mixer->counters(),
          exchanges_.half_applied(),
          bytes_sent(),
          learner != nullptr ? learner->loss() : 0,
          learner != nullptr ? learner->learning_rate() : std::nullopt,
          mishaps().slowness(now()),
          before_settling_,
          replica_.present,
          core ? core->membership.self().phase : wire::Phase::joining,
          id(),
          core ? &core->membership : nullptr,
          training_.since(),
          core ? core->topology : nullptr,
          core ? &core->patience : nullptr,
          core ? core->round : 0,
          earlier_exchanges_,
          earlier_mixed_};
}

}  // namespace starling::lab
