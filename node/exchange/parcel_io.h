// Conversions between a mixer's parcels and the chunks of frames.
#pragma once

#include "training/exchange/mixer.h"
#include "transport/link.h"
#include "wire/messages.h"

namespace starling::node {

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

}  // namespace starling::node
