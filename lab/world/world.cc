#include "lab/world/world.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "lab/world/virtual_peer.h"
#include "training/mixing/payload.h"
#include "wire/codec.h"
#include "wire/frame.h"

namespace starling::lab {

// Plays the schedule of incidents: breaks links, pauses machines, ends and restarts peers.
class IncidentPlayer {
 public:
  using Peers = std::vector<std::unique_ptr<VirtualPeer>>;

  // Both outlive the player.
  IncidentPlayer(Surroundings& world, const Peers& peers) : world_(world), peers_(peers) {}

  // Schedules the incidents of the world's options. Called once, after the peers were made.
  void begin() {
    for (const Incident& incident : world_.options.incidents) play(incident);
    upcoming_.resize(world_.options.recurring.size());
    for (std::size_t k = 0; k < upcoming_.size(); ++k) follow(k);
  }

 private:
  using Cache = VirtualPeer::Cache;
  using IfStillUp = VirtualPeer::IfStillUp;
  static constexpr Duration kPausesKept = std::chrono::minutes(5);

  void play(const Incident& incident) {
    std::visit([this](const auto& it) { play_one(it); }, incident);
  }
  // Draws the next of some recurring incidents when the previous one begins, and plays it when it begins.
  void follow(std::size_t k) {
    upcoming_[k] = world_.options.recurring[k]();
    if (!upcoming_[k]) return;
    world_.queue.schedule(std::max(beginning(*upcoming_[k]), world_.now()), [this, k] {
      play(*upcoming_[k]);
      follow(k);
    });
  }

  void play_one(const Crash& crash) {
    world_.queue.schedule(crash.at, [this, crash] {
      VirtualPeer& peer = *peers_[crash.machine];
      peer.crash(crash.silent);
      if (crash.back) peer.restart(*crash.back, crash.cached ? Cache::kept : Cache::lost, IfStillUp::stay);
    });
  }
  void play_one(const Departure& leave) {
    world_.queue.schedule(leave.at, [this, leave] {
      VirtualPeer& peer = *peers_[leave.machine];
      peer.request(gossip::LeaveRequested{});
      if (leave.back)
        peer.restart(*leave.back, Cache::lost, leave.comes_back ? IfStillUp::wait : IfStillUp::stay);
    });
  }
  void play_one(const TopologyChange& it) {
    world_.queue.schedule(it.at,
                          [this, it] { peers_[it.machine]->request(gossip::RewireRequested{it.topology}); });
  }
  void play_one(const Lies& it) {
    world_.queue.schedule(it.from, [this, it] {
      if (it.kind == LieKind::silence) return peers_[it.machine]->fall_silent(it.to);
      peers_[it.machine]->lie(it.kind);
      Lies rest = it;
      rest.from = it.from + it.every;
      if (rest.from < it.to) play_one(rest);
    });
  }
  void play_one(const Damage& it) {
    world_.queue.schedule(it.at, [this, it] { peers_[it.machine]->lose_replica(it.device); });
  }
  void play_one(const Reset& it) {
    world_.queue.schedule(it.at, [this, it] { world_.network.reset(it.a, it.b); });
  }
  void play_one(const HalfOpen& it) {
    world_.queue.schedule(it.at, [this, it] { world_.network.half_open(it.knows, it.deaf); });
  }
  void play_one(const Pause& it) {
    mishaps(it.machine).add_pause({it.from, it.to}, world_.now() - kPausesKept);
  }
  void play_one(const Slow& it) { mishaps(it.machine).slow.push_back(it); }
  void play_one(const SlowDisk& it) { mishaps(it.machine).disks.push_back(it); }
  void play_one(const Drift& it) { mishaps(it.machine).clock_rate = it.rate; }
  void play_one(const Poison& it) { mishaps(it.machine).poisons.push_back(it); }
  void play_one(const Mutation& it) { world_.mutations.push_back(it); }
  void play_one(const Router& it) { peers_[it.machine]->reach().hide(it.knows); }
  void play_one(const Relaying& it) { peers_[it.machine]->reach().relay(it.bandwidth); }
  void play_one(const Move& it) {
    peers_[it.machine]->reach().find_address();
    world_.queue.schedule(it.at, [this, it] { peers_[it.machine]->reach().move(); });
  }
  void play_one(const NoNames& it) { world_.conditions.block_dials(it.machine, {it.from, it.to}); }
  void play_one(const Cut& it) {
    world_.conditions.cut(it.source, it.target, {it.from, it.to});
    if (it.both_ways) world_.conditions.cut(it.target, it.source, {it.from, it.to});
  }
  void play_one(const Partition& it) {
    for (const std::uint32_t in : it.island) {
      for (std::uint32_t out = 0; out < peers_.size(); ++out) {
        if (std::find(it.island.begin(), it.island.end(), out) != it.island.end()) continue;
        if (it.outwards) world_.conditions.cut(in, out, {it.from, it.to});
        if (it.inwards) world_.conditions.cut(out, in, {it.from, it.to});
      }
    }
  }
  void play_one(const Clog& it) { world_.conditions.clog(it.a, it.b, {it.from, it.to}, it.factor); }
  void play_one(const PoorLinks& it) {
    world_.conditions.shape(it.machines, it.others, {it.from, it.to}, it.shape);
  }

  Mishaps& mishaps(std::uint32_t machine) { return peers_[machine]->mishaps(); }

  Surroundings& world_;
  const Peers& peers_;
  std::vector<std::optional<Incident>> upcoming_;  // the next of each recurring incident
};

World::World(WorldOptions options, MakeLearner make_learner, std::vector<float> first_parameters)
    : shared_(std::move(options), std::move(make_learner), std::move(first_parameters), *this) {
  const std::vector<MachineOptions>& machines = shared_.options.machines;
  STARLING_CHECK(!machines.empty());
  STARLING_CHECK(shared_.options.rules.has_value());
  STARLING_CHECK(shared_.first_parameters.size() == shared_.options.arena_floats);
  shared_.beginner = shared_.options.beginner;
  for (std::uint32_t i = 0; i < machines.size(); ++i) {
    peers_.push_back(std::make_unique<VirtualPeer>(shared_, i));
    shared_.machines.push_back(peers_[i].get());
    shared_.by_host[peers_[i]->address().host] = i;
    if (machines[i].start < machines[shared_.beginner].start) shared_.beginner = i;
  }
  shared_.open = peers_.size();
  // Before the incidents: at the same instant a peer starts, and then crashes.
  std::vector<VirtualPeer*> founders;
  for (const auto& peer : peers_) {
    if (peer->founds())
      founders.push_back(peer.get());
    else
      shared_.queue.schedule(peer->options().start, [p = peer.get()] { p->start(); });
  }
  if (founders.empty())
    peers_[shared_.beginner]->begin_with(shared_.first_parameters);
  else
    shared_.queue.schedule(founders.front()->options().start, [this, founders] { found(founders); });
  player_ = std::make_unique<IncidentPlayer>(shared_, peers_);
  player_->begin();
}

World::~World() = default;

void World::found(const std::vector<VirtualPeer*>& founders) {
  for (VirtualPeer* const peer : founders) {
    peer->start();
    founders_.push_back(peer->view().membership->self());
  }
  std::ranges::sort(founders_, {}, &wire::Member::id);
  // At once, so that the run begins also where a machine is paused from now on.
  for (VirtualPeer* const peer : founders) peer->step(gossip::Assembled{founders_});
}

// ---- running ----

bool World::run_one() {
  if (shared_.queue.empty() || shared_.queue.next() == kNever) return false;
  shared_.queue.run_one();
  return true;
}

void World::run() {
  while (!over() && run_one()) {
  }
}

void World::end_all() {
  for (const auto& peer : peers_) peer->request(gossip::EndRequested{});
}

// ---- the network's host ----

NetworkHost::Reach World::reach(std::uint32_t machine) const {
  const VirtualMachine& m = *peers_[machine];
  if (m.up()) return Reach::up;
  return m.silent() ? Reach::silent : Reach::refuses;
}

Instant World::awake(std::uint32_t machine) const { return peers_[machine]->awake(); }

void World::arrived(Connection& connection, std::uint32_t from, std::uint32_t to, Packet& packet) {
  const bool control = packet.kind == Packet::Kind::message;
  if (control && !shared_.mutations.empty() && mutated(from, to, *packet.message))
    return shared_.network.reset(connection);
  peers_[to]->arrived(*peers_[from], connection, packet);
}

void World::broken(Connection& connection, std::uint32_t end, std::uint32_t epoch, bool) {
  peers_[end]->connection_broke(connection, epoch);
}

// Whether a bit of this message's frame is flipped in transit. If so, the message is encoded, mutated, and
// parsed as transport does it.
bool World::mutated(std::uint32_t from, std::uint32_t to, const wire::Message& message) {
  double chance = 0;
  for (const Mutation& m : shared_.mutations) {
    if (m.from <= now() && now() < m.to) chance = std::max(chance, m.chance);
  }
  if (chance == 0 || !shared_.spoiling.chance(chance)) return false;
  auto frame = wire::encode_frame(message);
  if (!frame) return false;
  const std::size_t bit = shared_.spoiling.below(frame->size() * 8);
  (*frame)[bit / 8] ^= std::byte{static_cast<unsigned char>(1U << bit % 8)};
  const auto header = wire::FrameHeader::parse(std::span(*frame).first<wire::kFrameHeaderBytes>());
  const Bytes body = Bytes(*frame).subspan(wire::kFrameHeaderBytes);
  const bool accepted = header && header->kind == wire::FrameKind::control &&
                        header->body_bytes <= body.size() &&
                        wire::control_checksum(*frame, body.first(header->body_bytes)) == header->checksum &&
                        wire::decode_message(body.first(header->body_bytes));
  shared_.trace(to, 500, accepted);
  shared_.watcher.mutation_arrived(to, from, !accepted);
  return true;
}

// ---- the outside view ----

MachineView World::machine(std::uint32_t i) const { return peers_[i]->view(); }

std::optional<std::uint32_t> World::machine_of(PeerId id) const {
  const auto found = shared_.by_id.find(id.value);
  return found == shared_.by_id.end() ? std::nullopt : std::optional(found->second);
}

bool World::can_be_dialed(std::uint32_t i, const Address& address) const {
  return can_be_dialed(i) && peers_[i]->address() == address;
}

bool World::linked(std::uint32_t a, std::uint32_t b) const { return shared_.network.are_linked(a, b); }

Duration World::paused_within(std::uint32_t i, Instant from, Instant to) const {
  return peers_[i]->mishaps().paused_within(from, to);
}

std::span<const TimeRange> World::pauses(std::uint32_t i) const { return peers_[i]->mishaps().pauses; }

std::size_t World::longest_queue() const {
  const std::size_t held = shared_.sabotage != nullptr ? shared_.sabotage->held() : 0;
  return std::max(shared_.network.longest_queue(), held);
}

void World::set_parameters(std::uint32_t i, std::span<const float> values) {
  STARLING_CHECK(quiet() && peers_[i]->has_parameters());
  STARLING_CHECK(values.size() == options().arena_floats);
  peers_[i]->set_parameters(values);
}

std::vector<MutableBytes> World::values() {
  std::vector<MutableBytes> all;
  for (const auto& peer : peers_) peer->values(all);
  shared_.blocks.append_to(all);
  return all;
}

void World::put_replica(std::uint32_t i, std::span<const float> values) {
  STARLING_CHECK(values.size() == options().arena_floats);
  peers_[i]->put_replica(values);
}

double World::energy() const {
  // The parts of one float. Their mean is the machines' mean.
  struct Part {
    double mass;
    double value;
  };
  double energy = 0;
  std::vector<Part> parts;
  for (std::size_t f = 0; f < options().arena_floats; ++f) {
    parts.clear();
    for (const auto& peer : peers_) {
      if (!peer->has_parameters()) continue;
      const double x = peer->arena().data()[f];
      const VirtualExchanges::Flight* const flight = peer->exchanges().covering(f);
      if (flight == nullptr) {
        parts.push_back({1, x});
        continue;
      }
      const std::size_t at = f - flight->sent.offset;
      const double a = training::as_floats(flight->sent.values)[at];
      parts.push_back({0.5, 2 * x - a});
      if (flight->reply_room) {
        parts.push_back({flight->reply.weight, training::as_floats(flight->reply.values)[at]});
        parts.push_back({0.5 - flight->reply.weight, a});
      } else {
        parts.push_back({0.5, a});
      }
    }
    double mass = 0, sum = 0;
    for (const Part& part : parts) {
      mass += part.mass;
      sum += part.mass * part.value;
    }
    const double mean = sum / mass;
    for (const Part& part : parts) energy += part.mass * (part.value - mean) * (part.value - mean);
  }
  return energy;
}

}  // namespace starling::lab
