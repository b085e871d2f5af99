#include "lab/world/world.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "lab/world/machine.h"
#include "lab/world/message_size.h"
#include "wire/codec.h"
#include "wire/frame.h"

namespace starling::lab {

namespace {

constexpr std::size_t kJoinAddresses = 8;
constexpr Duration kPausesKept = std::chrono::minutes(5);
constexpr Duration kGoneYet = std::chrono::milliseconds(100);  // between two looks whether a machine has gone

enum Stream : std::uint64_t { kNetworkStream = 1, kIdStream, kSpoilingStream, kPeerStreams = 1000 };

}  // namespace

World::World(WorldOptions options, MakeLearner make_learner, std::vector<float> first_parameters)
    : options_(std::move(options)),
      make_learner_(std::move(make_learner)),
      first_parameters_(std::move(first_parameters)),
      random_(options_.seed),
      ids_(random_.split(kIdStream)),
      spoiling_(random_.split(kSpoilingStream)),
      network_(options_.network, random_.split(kNetworkStream), queue_, *this) {
  STARLING_CHECK(!options_.machines.empty());
  STARLING_CHECK(options_.rules.has_value());
  STARLING_CHECK(first_parameters_.size() == options_.arena_floats);
  for (std::uint32_t i = 0; i < options_.machines.size(); ++i) {
    machines_.push_back(std::make_unique<Machine>(options_.machines[i], random_.split(kPeerStreams + i),
                                                  options_.arena_floats, options_.mix));
    machines_[i]->id = new_id(i);
    by_host_[machines_[i]->address.host] = i;
  }
  beginner_ = options_.beginner;
  for (std::uint32_t i = 0; i < machines_.size(); ++i) {
    if (machines_[i]->options.start < machines_[beginner_]->options.start) beginner_ = i;
  }
  machines_[beginner_]->arena->write(0, first_parameters_);
  machines_[beginner_]->has_parameters = true;
  open_ = machines_.size();
  for (const Incident& incident : options_.incidents) play(incident);
  upcoming_.resize(options_.recurring.size());
  for (std::size_t k = 0; k < upcoming_.size(); ++k) follow(k);
  for (std::uint32_t i = 0; i < machines_.size(); ++i) {
    queue_.schedule(machines_[i]->options.start, [this, i] { start_machine(i); });
  }
}

World::~World() = default;

PeerId World::new_id(std::uint32_t i) {
  for (;;) {
    const PeerId id{ids_.bits()};
    if (id && by_id_.try_emplace(id.value, i).second) return id;
  }
}

// ---- incidents ----

void World::play(const Incident& incident) {
  std::visit([this](const auto& it) { play_one(it); }, incident);
}

// The next incident of one that recurs is drawn when the one before it begins, and played when it begins
// itself.
void World::follow(std::size_t k) {
  upcoming_[k] = options_.recurring[k]();
  if (!upcoming_[k]) return;
  queue_.schedule(std::max(beginning(*upcoming_[k]), now()), [this, k] {
    play(*upcoming_[k]);
    follow(k);
  });
}

void World::play_one(const Crash& crash) {
  queue_.schedule(crash.at, [this, crash] {
    if (machines_[crash.machine]->up()) take_down(crash.machine, MachineState::crashed, crash.silent);
    if (crash.back) restart(crash.machine, *crash.back, crash.cached);
  });
}

void World::play_one(const Leave& leave) {
  queue_.schedule(leave.at, [this, leave] {
    if (machines_[leave.machine]->up())
      later(now(), leave.machine, [this, i = leave.machine] { step(i, gossip::LeaveRequested{}); });
    if (leave.back) restart(leave.machine, *leave.back, false, leave.comes_back);
  });
}

void World::play_one(const Rewiring& rewiring) {
  queue_.schedule(rewiring.at, [this, rewiring] {
    if (!machines_[rewiring.machine]->up()) return;
    later(now(), rewiring.machine,
          [this, rewiring] { step(rewiring.machine, gossip::RewireRequested{rewiring.topology}); });
  });
}

void World::play_one(const Pause& pause) {
  auto& pauses = machines_[pause.machine]->pauses;
  // Nobody asks about pauses that are long over (paused_within), and those that recur would be without end.
  std::erase_if(pauses, [this](const Interval& it) { return it.to < now() - kPausesKept; });
  pauses.push_back({pause.from, pause.to});
  std::sort(pauses.begin(), pauses.end(),
            [](const Interval& a, const Interval& b) { return a.from < b.from; });
}

void World::play_one(const Slow& slow) {
  machines_[slow.machine]->slow.push_back(slow);
}

void World::play_one(const SlowDisk& disk) {
  machines_[disk.machine]->disks.push_back(disk);
}

void World::play_one(const Drift& drift) {
  machines_[drift.machine]->clock_rate = drift.rate;
}

void World::play_one(const Poison& poison) {
  machines_[poison.machine]->poisons.push_back(poison);
}

void World::play_one(const Loss& loss) {
  queue_.schedule(loss.at, [this, loss] {
    Machine& m = *machines_[loss.machine];
    if (!m.up() || !m.has_parameters || !m.started) return;
    later(now(), loss.machine, [this, i = loss.machine, device = loss.device] {
      Machine& it = *machines_[i];
      if (!it.has_parameters) return;
      if (device) return step(i, gossip::ReplicaGone{"its device is lost"});
      const std::array<float, 1> nan{std::numeric_limits<float>::quiet_NaN()};
      it.learner->arena_will_change();
      for (std::size_t k = 1 + spoiling_.below(3); k > 0; --k)
        it.arena->write(spoiling_.below(it.arena->size()), nan);
      if (options_.watcher != nullptr) options_.watcher->lost_parameters(i);
    });
  });
}

void World::play_one(const Cut& cut) {
  network_.cut(cut.source, cut.target, {cut.from, cut.to});
  if (cut.both_ways) network_.cut(cut.target, cut.source, {cut.from, cut.to});
}

void World::play_one(const Partition& partition) {
  for (const std::uint32_t in : partition.island) {
    for (std::uint32_t out = 0; out < machines_.size(); ++out) {
      if (std::find(partition.island.begin(), partition.island.end(), out) != partition.island.end())
        continue;
      if (partition.outwards) network_.cut(in, out, {partition.from, partition.to});
      if (partition.inwards) network_.cut(out, in, {partition.from, partition.to});
    }
  }
}

void World::play_one(const Clog& clog) {
  network_.clog(clog.a, clog.b, {clog.from, clog.to}, clog.factor);
}

void World::play_one(const PoorLinks& links) {
  network_.shape(links.machines, links.others, {links.from, links.to}, links.shape);
}

void World::play_one(const Reset& reset) {
  queue_.schedule(reset.at, [this, reset] { network_.reset(reset.a, reset.b); });
}

void World::play_one(const HalfOpen& half_open) {
  queue_.schedule(half_open.at, [this, half_open] { network_.half_open(half_open.knows, half_open.deaf); });
}

void World::play_one(const Mutation& mutation) {
  mutations_.push_back(mutation);
}

// ---- a machine's life ----

void World::start_machine(std::uint32_t i) {
  Machine& m = *machines_[i];
  m.state = MachineState::running;
  m.learner = make_learner_(i);
  gossip::PeerOptions peer = options_.peer;
  peer.id = m.id;
  peer.name = m.options.name;
  peer.address = m.address;
  peer.seed = m.random.split(m.life).bits();
  if (i == beginner_ && m.life == 0) {
    peer.manifest = options_.manifest;
  } else {
    introduce(i, peer, !m.cache.empty());
  }
  m.peer.emplace(std::move(peer));
  if (options_.cache_interval.count() > 0)
    later(now() + options_.cache_interval, i, [this, i] { write_cache(i); });
  if (options_.watcher != nullptr) options_.watcher->started(i);
  later(now(), i, [this, i] { step(i, gossip::Start{}); });
}

// Whom a starting machine asks to let it in.
void World::introduce(std::uint32_t i, gossip::PeerOptions& peer, bool cached) const {
  const Machine& m = *machines_[i];
  if (cached) {
    peer.join = m.cache;
    peer.manifest = options_.manifest;
    peer.begin_after = options_.begin_after;
    return;
  }
  // As somebody would who starts a peer by hand: an address of whoever is there; the beginner's, if nobody
  // is yet.
  for (const auto& other : machines_) {
    if (peer.join.size() == kJoinAddresses) break;
    if (other->up() && other.get() != &m) peer.join.push_back(other->address);
  }
  if (peer.join.empty())
    peer.join.push_back(machines_[i == beginner_ ? (i + 1) % machines_.size() : beginner_]->address);
}

void World::restart(std::uint32_t i, Instant at, bool cached, bool patient) {
  queue_.schedule(std::max(at, now()), [this, i, cached, patient] {
    Machine& m = *machines_[i];
    if (patient && m.up()) return restart(i, now() + kGoneYet, cached, patient);
    if (m.up() || m.state == MachineState::waiting) return;  // it never went away, or was never there
    if (m.state == MachineState::finished) return;           // its run is over
    ++m.life;
    ++open_;
    m.id = new_id(i);
    m.silent = false;
    network_.up_again(i);
    if (!cached) m.cache.clear();
    m.keep_counts();
    m.learner.reset();
    m.renew_replica(options_.arena_floats, options_.mix);
    m.has_parameters = false;
    m.fetch = {};
    m.owns.clear();
    m.answers.clear();
    m.training = m.resting = m.started = false;
    m.training_since.reset();
    m.earlier_steps += std::exchange(m.steps, 0);
    m.earlier_samples += std::exchange(m.samples, 0);
    m.before_settling.clear();
    m.tick_at = kNever;
    start_machine(i);
  });
}

void World::write_cache(std::uint32_t i) {
  Machine& m = *machines_[i];
  std::vector<Address> addresses;
  for (const gossip::Record& record : m.peer->view().membership.others()) {
    if (record.is_live() && addresses.size() < kJoinAddresses) addresses.push_back(record.member.address);
  }
  const Duration access = m.disk_access(now());
  later(now() + access, i, [this, i, written = std::move(addresses)]() mutable {
    if (!written.empty()) machines_[i]->cache = std::move(written);
  });
  later(now() + access + options_.cache_interval, i, [this, i] { write_cache(i); });
}

void World::take_down(std::uint32_t i, MachineState state, bool silent) {
  Machine& m = *machines_[i];
  m.state = state;
  m.silent = silent;
  m.training = false;
  --open_;
  exchanges_under_way_ -= m.owns.size();  // what it had lent stays lent on a machine that is no more
  trace(i, 400, static_cast<std::uint64_t>(state));
  if (options_.watcher != nullptr) options_.watcher->ended(i, state);
  network_.down(i, state != MachineState::crashed ? VirtualNetwork::Ending::orderly
                   : silent                       ? VirtualNetwork::Ending::power_loss
                                                  : VirtualNetwork::Ending::crash);
}

NetworkHost::Reach World::reach(std::uint32_t machine) const {
  const Machine& m = *machines_[machine];
  if (m.up()) return Reach::up;
  return m.silent ? Reach::silent : Reach::refuses;
}

Instant World::awake(std::uint32_t machine) const {
  return machines_[machine]->awake(now());
}

Duration World::paused_within(std::uint32_t i, Instant from, Instant to) const {
  Duration paused{0};
  Instant at = from;
  for (const Interval& pause : machines_[i]->pauses) {
    const Instant begin = std::max(at, pause.from), end = std::min(to, pause.to);
    if (begin < end) {
      paused += end - begin;
      at = end;
    }
  }
  return paused;
}

std::span<const Interval> World::pauses(std::uint32_t i) const {
  return machines_[i]->pauses;
}

// ---- running ----

bool World::run_one() {
  if (queue_.empty() || queue_.next() == kNever) return false;  // what a pause without end holds up
  queue_.run_one();
  return true;
}

void World::run() {
  while (!over() && run_one()) {
  }
}

void World::end_all() {
  for (std::uint32_t i = 0; i < machines_.size(); ++i) {
    if (machines_[i]->up()) later(now(), i, [this, i] { step(i, gossip::EndRequested{}); });
  }
}

void World::put_replica(std::uint32_t i, std::span<const float> values) {
  STARLING_CHECK(values.size() == options_.arena_floats);
  machines_[i]->arena->write(0, values);
}

void World::set_parameters(std::uint32_t i, std::span<const float> values) {
  STARLING_CHECK(quiet() && machines_[i]->has_parameters);
  STARLING_CHECK(values.size() == options_.arena_floats);
  Machine& m = *machines_[i];
  m.learner->arena_will_change();
  m.arena->write(0, values);
  m.mixer->adopt();
}

World::MachineView World::machine(std::uint32_t i) const {
  const Machine& m = *machines_[i];
  static const gossip::ExchangeCounts kNone;
  return {m.options.name,
          m.state,
          *m.arena,
          m.earlier_steps + m.steps,
          m.earlier_samples + m.samples,
          m.peer ? m.peer->view().exchanges : kNone,
          m.mixer->counters(),
          m.half_applied_chunks,
          m.bytes_sent,
          m.learner ? m.learner->loss() : 0,
          m.learner ? m.learner->learning_rate() : std::nullopt,
          m.slowness(now()),
          m.before_settling,
          m.has_parameters,
          m.peer ? m.peer->view().membership.self().phase : wire::Phase::joining,
          m.id,
          m.peer ? &m.peer->view().membership : nullptr,
          m.training_since,
          m.peer ? m.peer->view().topology : nullptr,
          m.peer ? &m.peer->view().patience : nullptr,
          m.peer ? m.peer->view().round : 0,
          m.earlier_exchanges,
          m.earlier_mixed};
}

std::optional<std::uint32_t> World::machine_of(PeerId id) const {
  const auto found = by_id_.find(id.value);
  return found == by_id_.end() ? std::nullopt : std::optional(found->second);
}

std::size_t World::longest_queue() const {
  const std::size_t held = options_.sabotage != nullptr ? options_.sabotage->held() : 0;
  return std::max(network_.longest_queue(), held);
}

// ---- the driver's loop ----

void World::step(std::uint32_t i, gossip::Event event) {
  Machine& m = *machines_[i];
  if (!m.up()) return;
  trace(i, event.index(), 0);
  if (options_.sabotage != nullptr) options_.sabotage->before(i, m.id, event);
  if (options_.watcher != nullptr) options_.watcher->event(i, event);
  const Instant local = m.local(now());
  std::vector<gossip::Action> actions = std::exchange(actions_, {});
  m.peer->step(local, event, actions);
  carry_out(i, actions);
  actions.clear();
  actions_ = std::move(actions);
  if (!m.up()) return;
  Instant deadline = m.peer->next_deadline();
  if (options_.sabotage != nullptr) deadline = options_.sabotage->deadline(local, deadline);
  if (deadline <= local) {
    if (options_.watcher != nullptr) options_.watcher->stood_still(i);
    deadline = local + std::chrono::milliseconds(1);
  }
  // Only what is earlier than the tick that is scheduled needs another; wake() looks again.
  if (const Instant at = m.true_time(deadline); at < m.tick_at) {
    m.tick_at = at;
    later(at, i, [this, i] { wake(i); });
  }
}

void World::wake(std::uint32_t i) {
  Machine& m = *machines_[i];
  if (m.tick_at > now()) return;  // another one was scheduled since, for later: this one is not it
  m.tick_at = kNever;
  const Instant deadline = m.true_time(m.peer->next_deadline());
  if (deadline <= now() || options_.sabotage != nullptr) return step(i, gossip::Tick{});
  if (deadline == kNever) return;
  m.tick_at = deadline;
  later(deadline, i, [this, i] { wake(i); });
}

void World::carry_out(std::uint32_t i, std::vector<gossip::Action>& actions) {
  for (auto& action : actions) {
    trace(i, 100 + action.index(), 0);
    if (options_.watcher != nullptr) options_.watcher->action(i, action);
    std::visit([&](auto& a) { act(i, a); }, action);
  }
}

void World::trace(std::uint32_t i, std::uint64_t kind, std::uint64_t detail) {
  const std::array<std::uint64_t, 4> words{static_cast<std::uint64_t>(now().since_start.count()), i, kind,
                                           detail};
  trace_ = hash64(std::as_bytes(std::span(words)), trace_);
}

// ---- control messages ----

void World::act(std::uint32_t i, gossip::Send& send) {
  Machine& m = *machines_[i];
  const auto to = by_host_.find(send.to.host);
  if (to == by_host_.end() || to->second == i) {
    later(now() + network_.latency(), i, [this, i, address = std::make_unique<Address>(send.to)] {
      step(i, gossip::Unreachable{*address, false, "nobody listens at " + to_string(*address)});
    });
    return;
  }
  auto p = std::make_unique<Packet>();
  p->sender = m.id;
  p->bytes = frame_bytes(send.message);
  p->message = std::move(send.message);
  m.bytes_sent += p->bytes;
  network_.send(network_.control(i, to->second), i, std::move(p));
}

// Whether a bit of this message's frame is flipped under way. Then it is encoded, spoiled and read as
// transport reads it.
bool World::mutated(std::uint32_t from, std::uint32_t to, const wire::Message& message) {
  double chance = 0;
  for (const Mutation& m : mutations_) {
    if (m.from <= now() && now() < m.to) chance = std::max(chance, m.chance);
  }
  if (chance == 0 || !spoiling_.chance(chance)) return false;
  auto frame = wire::encode_frame(message);
  if (!frame) return false;
  const std::size_t bit = spoiling_.below(frame->size() * 8);
  (*frame)[bit / 8] ^= std::byte{static_cast<unsigned char>(1U << bit % 8)};
  const auto header = wire::FrameHeader::parse(std::span(*frame).first<wire::kFrameHeaderBytes>());
  const Bytes body = Bytes(*frame).subspan(wire::kFrameHeaderBytes);
  const bool accepted = header && header->kind == wire::FrameKind::control &&
                        header->body_bytes <= body.size() &&
                        wire::control_checksum(*frame, body.first(header->body_bytes)) == header->checksum &&
                        wire::decode(body.first(header->body_bytes));
  trace(to, 500, accepted);
  if (options_.watcher != nullptr) options_.watcher->mutation_arrived(to, from, !accepted);
  return true;
}

void World::arrived(Connection& connection, std::uint32_t from, std::uint32_t to, Packet& packet) {
  switch (packet.kind) {
    case Packet::Kind::message: {
      if (!mutations_.empty() && mutated(from, to, packet.message)) {
        network_.reset(connection);
        return;
      }
      return step(to, gossip::Received{packet.sender, machines_[from]->address, std::move(packet.message)});
    }
    case Packet::Kind::offer:
      machines_[to]->answers.push_back(
          {packet.sender, &connection, connection.epoch, training::Serving(packet.exchange)});
      return step(to, gossip::ExchangeOffered{packet.sender, packet.exchange, packet.round});
    case Packet::Kind::refusal:
      return take_refusal(to, packet);
    case Packet::Kind::offer_chunk:
      return answer_chunk(to, from, connection, packet);
    case Packet::Kind::reply_chunk:
      return take_reply(to, packet);
    case Packet::Kind::close:
      return end_answer(to, packet.sender, packet.exchange);
    case Packet::Kind::state_request:
      return give_state(to, from, connection, packet);
    case Packet::Kind::state_refusal:
      if (machines_[to]->fetch.attempt == packet.exchange)
        lose_state(to, "the donor has no parameters to give", false);
      return;
    case Packet::Kind::state_chunk:
      return take_state(to, connection, packet);
  }
}

void World::broken(Connection& connection, std::uint32_t end, std::uint32_t epoch, bool) {
  if (!machines_[end]->up()) return;
  later(now(), end, [this, &connection, end, epoch] {
    Machine& m = *machines_[end];
    if (connection.purpose == wire::Purpose::control) {
      const Address& address = machines_[connection.other(end)]->address;
      return step(end, gossip::Unreachable{address, false, to_string(address) + " does not answer"});
    }
    if (end == connection.acceptor) return end_answers(end, connection, epoch);
    const auto own = std::find_if(m.owns.begin(), m.owns.end(), [&](const Own& it) {
      return it.connection == &connection && it.epoch <= epoch;
    });
    if (own != m.owns.end()) return abort_own(end, own->exchange());
    if (m.fetch.active && m.fetch.connection == &connection && m.fetch.epoch <= epoch)
      lose_state(end, "the connection to the donor broke", false);
  });
}

// ---- preparing, training, ending ----

void World::act(std::uint32_t i, const gossip::Prepare&) {
  later(now() + machines_[i]->disk_access(now()), i,
        [this, i] { step(i, gossip::Prepared{*options_.rules}); });
}

void World::act(std::uint32_t i, const gossip::StartTraining& start) {
  Machine& m = *machines_[i];
  if (!m.has_parameters) {  // it begins the run anew
    m.arena->write(0, first_parameters_);
    m.has_parameters = true;
  }
  m.mixer->adopt();
  if (!m.poisons.empty()) {
    m.first_values.resize(m.arena->size());
    m.arena->read(0, m.first_values);
  }
  if (options_.watcher != nullptr && !m.training_since) options_.watcher->has_parameters(i);
  m.started = true;
  if (!start.steps) return;
  m.training = true;
  m.training_since = now();
  if (!training_began_) training_began_ = now();
  m.stepping.assign(m.options.workers, false);
  begin_steps(i);
}

// Every worker that is idle, unless training is over or rests.
void World::begin_steps(std::uint32_t i) {
  Machine& m = *machines_[i];
  if (!m.training || m.resting) return;
  for (std::uint32_t worker = 0; worker < m.options.workers; ++worker) {
    if (!m.stepping[worker]) begin_step(i, worker);
  }
}

void World::act(std::uint32_t i, const gossip::PauseTraining& pause) {
  Machine& m = *machines_[i];
  m.resting = true;
  if (!pause.discard) return;
  ++m.era;
  m.has_parameters = false;
  if (options_.watcher != nullptr) options_.watcher->lost_parameters(i);
}

void World::act(std::uint32_t i, const gossip::ResumeTraining& resume) {
  Machine& m = *machines_[i];
  m.resting = false;
  if (resume.renewed) {
    m.learner->renew();
    m.mixer->adopt();
    if (options_.watcher != nullptr) options_.watcher->has_parameters(i);
  }
  begin_steps(i);
}

void World::act(std::uint32_t i, const gossip::BeginRound& round) {
  mixing(*machines_[i]).begin_round(round.round);
  if (options_.watcher != nullptr) options_.watcher->round_began(i);
}

// Its mixer, for what changes the replica.
training::Mixer& World::mixing(Machine& machine) {
  if (machine.learner) machine.learner->arena_will_change();
  return *machine.mixer;
}

void World::begin_step(std::uint32_t i, std::uint32_t worker) {
  Machine& m = *machines_[i];
  m.stepping[worker] = true;
  double seconds = to_seconds(m.options.step) * m.slowness_of_step(now(), m.steps_begun++);
  if (m.options.step_spread > 0)
    seconds *= 1 - m.options.step_spread + m.options.step_spread * m.random.exponential();
  const Duration time = std::max(Duration{1}, from_seconds(seconds));
  m.learner->begin_step(worker, *m.arena, now() + time);
  if (options_.watcher != nullptr) options_.watcher->step_began(i, time);
  later(now() + time, i, [this, i, worker, era = m.era] { end_step(i, worker, era); });
}

void World::end_step(std::uint32_t i, std::uint32_t worker, std::uint64_t era) {
  Machine& m = *machines_[i];
  m.stepping[worker] = false;
  if (!m.training || era != m.era) {  // stopped, or the replica was given up: the step is thrown away
    m.learner->discard_step(worker);
    if (options_.watcher != nullptr) options_.watcher->step_discarded(i);
    return begin_steps(i);
  }
  m.learner->swarm_has_consumed(m.peer->view().swarm_samples);
  const std::uint64_t consumed = m.learner->end_step(worker, *m.arena);
  ++m.steps;
  m.samples += consumed;
  samples_ += consumed;
  if (options_.watcher != nullptr) options_.watcher->step_ended(i);
  step(i, gossip::Stepped{m.steps, m.samples});
  if (m.up()) begin_steps(i);
}

void World::act(std::uint32_t i, const gossip::StopTraining&) {
  machines_[i]->training = false;
}

void World::act(std::uint32_t i, const gossip::TrainingEnded&) {
  Machine& m = *machines_[i];
  m.learner->over();  // it may give its memory for what follows
  m.before_settling.resize(m.arena->size());
  m.arena->read(0, m.before_settling);
}

void World::act(std::uint32_t i, const gossip::Finish& finish) {
  switch (finish.how) {
    case gossip::Finish::How::finished:
      return take_down(i, MachineState::finished);
    case gossip::Finish::How::left:
      return take_down(i, MachineState::left);
    case gossip::Finish::How::failed:
      return take_down(i, MachineState::failed);
  }
}

}  // namespace starling::lab
