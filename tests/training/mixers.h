// Shared by the tests of the exchange rules: replicas, the bytes between them, and one complete exchange.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned.h"
#include "base/random.h"
#include "models/arena.h"
#include "tests/catch.h"
#include "training/mixing/make.h"
#include "training/mixing/payload.h"

namespace starling::training {

using Room = AlignedBytes;  // as a driver would allocate it

inline Room copy_of(Bytes bytes) {
  Room room(bytes.size());
  std::copy(bytes.begin(), bytes.end(), room.bytes().begin());
  return room;
}

// A parcel and the memory that holds it.
struct Packet {
  Parcel parcel;
  Room room;
};

inline std::vector<float> random_values(Random& random, std::size_t n, double mean = 0) {
  std::vector<float> values(n);
  for (auto& x : values) x = static_cast<float>(mean + random.normal());
  return values;
}

inline std::vector<float> contents(const models::Arena& arena) {
  std::vector<float> values(arena.size());
  arena.read(0, values);
  return values;
}

inline constexpr Payload kDense[] = {Payload::f32, Payload::bf16, Payload::int8};

inline std::vector<float> decoded(const Parcel& parcel) {
  std::vector<float> values(parcel.floats);
  decode(parcel.payload, parcel.values, parcel.floats, 0, values);
  return values;
}

inline double square(double x) { return x * x; }

inline double wide(float x) { return static_cast<double>(x); }

// A replica under a rule.
struct Party {
  Party(std::size_t floats, const MixOptions& options) : arena(floats), mixer(make_mixer(arena, options)) {}
  Party(std::span<const float> values, const MixOptions& options) : Party(values.size(), options) {
    begin(values);
  }
  Party(std::span<const float> values, const MixOptions& options, const kernels::Backend& backend)
      : arena(values.size(), backend), mixer(make_mixer(arena, options)) {
    begin(values);
  }

  void begin(std::span<const float> values) {
    arena.write(0, values);
    mixer->adopt();
  }

  MixResult<Packet> lend(const Session& session, Cells cells) {
    Packet packet{{}, Room(mixer->room(cells))};
    auto parcel = mixer->lend(session, cells, packet.room.bytes());
    if (!parcel) return parcel.error();
    packet.parcel = *parcel;
    return packet;
  }
  MixResult<Packet> answer(const Session& session, const Parcel& offer) {
    Packet packet{{}, Room(sizeof(float) * offer.floats + Mixer::kRoomBesides)};
    auto parcel = mixer->answer(session, offer, packet.room.bytes());
    if (!parcel) return parcel.error();
    packet.parcel = *parcel;
    return packet;
  }

  models::Arena arena;
  std::unique_ptr<Mixer> mixer;
};

// The session of an exchange at the initiator, and at the responder.
inline Session session_of(std::uint64_t exchange, std::uint64_t initiator, std::uint64_t responder) {
  return {.exchange = exchange, .initiator = initiator, .partner = responder};
}
inline Session seen_by_responder(Session session) {
  session.partner = session.initiator;
  return session;
}

// Splits the cells into chunks of `count`.
inline std::vector<Cells> chunks(const CellGrid& grid, std::size_t count) {
  std::vector<Cells> list;
  for (std::size_t k = 0; k < grid.count(); k += count)
    list.push_back({k, std::min(count, grid.count() - k)});
  return list;
}

// One complete exchange without overlaps.
inline void exchange(Party& initiator, Party& responder, const Session& session,
                     std::size_t cells_a_chunk = 2) {
  for (const Cells cells : chunks(initiator.mixer->grid(), cells_a_chunk)) {
    auto offer = initiator.lend(session, cells);
    REQUIRE(offer.ok());
    if (offer->parcel.payload == Payload::none) {
      initiator.mixer->give_up(session, offer->parcel);
      continue;
    }
    auto reply = responder.answer(seen_by_responder(session), offer->parcel);
    REQUIRE(reply.ok());
    REQUIRE(initiator.mixer->complete(session, offer->parcel, reply->parcel).ok());
  }
}

}  // namespace starling::training
