// Copies of a replica between virtual peers.
#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "lab/world/virtual_peer.h"
#include "training/mixing/payload.h"
#include "training/mixing/values.h"
#include "wire/frame.h"

namespace starling::lab {

// ---- the joiner ----

void VirtualCopies::fetch(const gossip::FetchState& fetch) {
  ++attempt_;
  active_ = true;
  if (fetch.afresh) in_place_ = 0;
  Connection* const found = reach_.bulk_to(fetch.donor);
  if (found == nullptr) {
    machine_.later(machine_.now() + world_.network.options().latency, [this, attempt = attempt_] {
      if (attempt_ == attempt) lose("the donor is nowhere, or this peer itself", false);
    });
    return;
  }
  Connection& connection = *found;
  connection_ = &connection;
  static const std::size_t kRequestBytes = frame_bytes(wire::StateRequest{1, 1, 1});
  PacketPtr request = machine_.packet(Packet::Kind::state_request, attempt_, kRequestBytes);
  request->chunk = static_cast<std::uint32_t>(in_place_);
  machine_.send(connection, std::move(request));
  epoch_ = connection.epoch;  // send() may have replaced a broken connection
}

void VirtualCopies::abort() {
  if (std::exchange(active_, false) && connection_ != nullptr && connection_->epoch == epoch_)
    world_.network.hang_up(*connection_, machine_.index());
}

void VirtualCopies::clear() {
  attempt_ = 0;
  active_ = false;
  connection_ = nullptr;
  epoch_ = 0;
  in_place_ = 0;
}

void VirtualCopies::take_chunk(VirtualCopies& donor, Connection& connection, const Packet& packet) {
  if (!active_ || attempt_ != packet.exchange) return;
  STARLING_CHECK(packet.chunk == in_place_);  // a connection preserves their order
  const std::span<const float> values = training::as_floats(packet.parcel.values);
  const bool acceptable = training::all_acceptable(values);
  if (packet.poisoned) world_.watcher.poison_arrived(machine_.index(), donor.machine_.index(), !acceptable);
  if (!acceptable) {
    lose("the donor sent a value that no replica may accept", true);
    world_.network.reset(connection);
    return;
  }
  replica_.will_change();
  replica_.arena->write(packet.parcel.offset, values);
  ++in_place_;
  const std::size_t chunks = world_.options.chunks();
  if (in_place_ == chunks) {
    abort();
    replica_.present = replica_.copied = true;
    return machine_.step(gossip::StateArrived{});
  }
  donor.machine_.later(
      machine_.now(),
      [&donor, &connection, epoch = connection.epoch, next = packet.chunk + world_.options.window,
       attempt = packet.exchange] { donor.send(connection, epoch, next, attempt); });
  const std::size_t often = std::max<std::size_t>(1, chunks / 16);
  if (in_place_ % often == 0) machine_.step(gossip::StateAdvanced{in_place_, chunks});
}

void VirtualCopies::take_refusal(const Packet& packet) {
  if (attempt_ == packet.exchange) lose("the donor has no parameters to give", false);
}

void VirtualCopies::connection_broke(const Connection& connection, std::uint32_t epoch) {
  if (connection_ == &connection && epoch_ <= epoch) lose("the connection to the donor broke", false);
}

void VirtualCopies::lose(const char* why, bool poisoned) {
  if (!active_) return;
  abort();
  machine_.step(gossip::StateLost{why, poisoned});
}

// ---- the donor ----

void VirtualCopies::give(Connection& connection, const Packet& request) {
  const models::Arena& arena = *replica_.arena;
  const bool acceptable = training::all_acceptable({arena.data(), arena.size()});
  if (replica_.present && !acceptable) machine_.report_divergence();
  if (!replica_.present || !acceptable) return refuse(connection, request.exchange);
  for (std::size_t k = 0; k < world_.options.window; ++k)
    send(connection, connection.epoch, request.chunk + k, request.exchange);
}

void VirtualCopies::refuse(Connection& connection, std::uint64_t attempt) {
  machine_.send(connection, machine_.packet(Packet::Kind::state_refusal, attempt, wire::kFrameHeaderBytes));
}

void VirtualCopies::send(Connection& connection, std::uint32_t epoch, std::size_t chunk,
                         std::uint64_t attempt) {
  training::Parcel parcel;
  parcel.offset = chunk * world_.options.chunk_floats();
  if (parcel.offset >= world_.options.arena_floats || connection.epoch != epoch) return;
  parcel.floats = std::min(world_.options.chunk_floats(), world_.options.arena_floats - parcel.offset);
  const Block block = world_.blocks.make(sizeof(float) * parcel.floats);
  const std::span<float> values = training::as_floats(block.bytes());
  replica_.arena->read(parcel.offset, values);
  parcel.values = block.bytes();
  PacketPtr packet =
      machine_.packet(Packet::Kind::state_chunk, attempt, wire::kChunkPrefixBytes + parcel.values.size());
  packet->chunk = static_cast<std::uint32_t>(chunk);
  if (!replica_.present || !training::all_acceptable(values)) {  // lost since the copy began
    if (replica_.present) machine_.report_divergence();
    return refuse(connection, attempt);
  }
  machine_.send_chunk(connection, std::move(packet), parcel, block);
}

}  // namespace starling::lab
