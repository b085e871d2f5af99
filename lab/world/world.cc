#include "lab/world/world.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "lab/world/incident_player.h"
#include "lab/world/virtual_peer.h"
#include "training/exchange/payload.h"
#include "wire/codec.h"
#include "wire/frame.h"

namespace starling::lab {

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
  peers_[shared_.beginner]->begin_with(shared_.first_parameters);
  shared_.open = peers_.size();
  player_ = std::make_unique<IncidentPlayer>(shared_, peers_);
  player_->begin();
  for (const auto& peer : peers_)
    shared_.queue.schedule(peer->options().start, [p = peer.get()] { p->start(); });
}

World::~World() = default;

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
  for (const auto& peer : peers_) peer->end_run();
}

// ---- the network's host ----

NetworkHost::Reach World::reach(std::uint32_t machine) const {
  const VirtualMachine& m = *peers_[machine];
  if (m.up()) return Reach::up;
  return m.silent() ? Reach::silent : Reach::refuses;
}

Instant World::awake(std::uint32_t machine) const {
  return peers_[machine]->awake();
}

void World::arrived(Connection& connection, std::uint32_t from, std::uint32_t to, Packet& packet) {
  const bool control = packet.kind == Packet::Kind::message;
  if (control && !shared_.mutations.empty() && mutated(from, to, packet.message))
    return shared_.network.reset(connection);
  peers_[to]->arrived(*peers_[from], connection, packet);
}

void World::broken(Connection& connection, std::uint32_t end, std::uint32_t epoch, bool) {
  peers_[end]->connection_broke(connection, epoch);
}

// Whether a bit of this message's frame is flipped under way. Then it is encoded, spoiled, and read as
// transport reads it.
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
                        wire::decode(body.first(header->body_bytes));
  shared_.trace(to, 500, accepted);
  shared_.watcher.mutation_arrived(to, from, !accepted);
  return true;
}

// ---- what is read and written from outside ----

MachineView World::machine(std::uint32_t i) const {
  return peers_[i]->view();
}

std::optional<std::uint32_t> World::machine_of(PeerId id) const {
  const auto found = shared_.by_id.find(id.value);
  return found == shared_.by_id.end() ? std::nullopt : std::optional(found->second);
}

Duration World::paused_within(std::uint32_t i, Instant from, Instant to) const {
  return peers_[i]->mishaps().paused_within(from, to);
}

std::span<const Interval> World::pauses(std::uint32_t i) const {
  return peers_[i]->mishaps().pauses;
}

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
  // Parts (mass, value) of one float. The mean of all parts is the machines' mean.
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
