// What the parts of an Exchanger share: its options, counters and spare buffers. A Plane lives as long as the
// Exchanger. Coroutines may outlive both; each checks its own flag before it uses the plane again.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <asio/any_io_executor.hpp>

#include "base/aligned.h"
#include "base/time.h"
#include "gossip/events.h"
#include "gossip/meeting/answer_budget.h"
#include "models/arena.h"
#include "training/mixing/mixer.h"
#include "training/runs/records/staleness.h"
#include "transport/links/link_table.h"

namespace starling::node {

struct ExchangerOptions {
  // How much is in flight on one connection in one direction; if unset, it adapts to the partner's link
  // (flow.h).
  std::optional<std::size_t> chunk_cells{};  // cells in a chunk
  std::optional<std::size_t> window{};       // chunks sent and not yet answered
  // A connection is closed after this time without progress in answering, sending or fetching parameters. An
  // exchange that this peer began has no such limit: the partner may hold its offer, and the core aborts.
  Duration stall = std::chrono::seconds(15);
  // A connection that this peer dialed is closed after this time without an exchange, one that it accepted
  // after twice this time: then the dialer has vanished.
  Duration idle_limit = std::chrono::seconds(30);
  std::size_t idle_max = 8;      // dialed connections kept for the next exchange
  std::size_t servers_max = 64;  // inbound connections kept; the oldest idle one is closed first
  // The fewest floats of a chunk that a joiner may ask for, unless the arena is smaller.
  std::uint32_t copied_floats_min = 1024;
  gossip::AnswerLimits answers{};
  std::size_t partners_max = 256;                      // partners whose link speed is remembered
  std::size_t rooms_bytes_max = std::size_t{8} << 20;  // buffers kept for the next chunks
  // A trainer that does not give its state within this time is not waited for.
  Duration trainer_patience = std::chrono::seconds(60);
  // Meanwhile the donor sends signs of life: several in the time after which the joiner's core replaces it.
  Duration sign_of_life = std::chrono::seconds(1);
};

struct ExchangerCounters {
  // Sent and not answered when an exchange ended early: the partner may have mixed them.
  std::uint64_t half_applied_chunks = 0;
  // Received, and neither mixed nor put in place; the Mixer counts some of them by reason.
  std::uint64_t chunks_refused = 0;
  std::uint64_t redials = 0;        // exchanges begun again because the pooled connection was dead
  std::optional<double> distance;   // |x - partner| / |x| at the last exchange that this peer began
  training::Staleness staleness{};  // of the completed exchanges that this peer began
};

using Room = AlignedBytes;

// A small store of the buffers in which chunks are made and sent, so that an exchange allocates nothing. The
// buffer used last, which is still in the cache, is used next.
class RoomStore {
 public:
  explicit RoomStore(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  // A room of at least this size.
  Room take(std::size_t bytes) {
    for (auto room = rooms_.rbegin(); room != rooms_.rend(); ++room) {
      if (room->size() < bytes) continue;
      Room found = std::move(*room);
      rooms_.erase(std::next(room).base());
      bytes_ -= found.size();
      return found;
    }
    return Room(bytes);
  }

  // Keeps the room for the next take(), unless the store is full.
  void give(Room room) {
    if (room.size() == 0 || bytes_ + room.size() > bytes_max_) return;
    bytes_ += room.size();
    rooms_.push_back(std::move(room));
  }

  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_max_;
  std::size_t bytes_ = 0;
  std::vector<Room> rooms_;
};

// Conversions between a mixer's parcels and the chunks of frames.
inline wire::ChunkHead head_of(const training::Parcel& parcel, std::uint64_t exchange, wire::ChunkKind kind) {
  return {.exchange = exchange,
          .offset = parcel.offset,
          .floats = static_cast<std::uint32_t>(parcel.floats),
          .kind = kind,
          .payload = parcel.payload,
          .weight = parcel.weight,
          .entries = parcel.entries,
          .sequence = parcel.sequence};
}

// The parcel's values stay in the frame. REQUIRES: the frame is a chunk.
inline training::Parcel parcel_of(const transport::Frame& frame) {
  const wire::ChunkHead& head = frame.chunk;
  return {head.offset, head.floats, head.payload, head.weight, head.entries, head.sequence, frame.body};
}

// What a trainer of another program needs beside the parameters to train as others do, such as the moments of
// its optimizer (docs/TRAINERS.md, role `state`): words of 4 bytes that a newcomer receives after the
// parameters. Nothing mixes them, and their meaning is the trainers' affair.
struct TrainerState {
  std::uint64_t fingerprint = 0;       // of names, types and shapes; 0: there is none
  std::span<const std::byte> given{};  // the trainer's own, once it has answered
  std::span<std::byte> received{};     // for the trainer; as long as `given`
  std::function<bool()> ask;           // asks the trainer for its state; false if no trainer is there
  std::function<bool()> is_answered;   // since the last time it was asked
  std::function<void(bool)> arrived;   // a copy is complete; false: without the state

  std::size_t words() const { return given.size() / sizeof(float); }
};

struct Plane {
  // The steady clock, for measurements.
  static Duration now() {
    return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch());
  }

  // The replica holds values that must not be sent: nothing is sent until they are renewed.
  void diverge() {
    diverged = true;
    report(gossip::ReplicaDiverged{});
  }

  asio::any_io_executor executor;
  transport::LinkTable& links;
  std::function<void(gossip::Event)> report;
  std::function<std::uint64_t()> steps;  // applied to the replica so far
  ExchangerOptions options;
  ExchangerCounters counters{};
  RoomStore rooms{options.rooms_bytes_max};
  models::Arena* arena = nullptr;
  training::Mixer* mixer = nullptr;  // null: there are no parameters yet
  std::uint64_t fingerprint = 0;
  TrainerState trainer_state{};
  bool diverged = false;
  bool copying = false;  // a first copy is not complete: the arena holds no usable parameters
};

}  // namespace starling::node
