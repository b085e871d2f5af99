// Between a mixer's parcels and the chunks that travel: the one place that knows both.
#pragma once

#include "training/exchange/mixer.h"
#include "transport/link.h"
#include "wire/messages.h"

namespace starling::node {

wire::ChunkHead head_of(const training::Parcel& parcel, std::uint64_t exchange, wire::ChunkKind kind);

// Its values lie in the frame. REQUIRES: the frame is a chunk.
training::Parcel parcel_of(const transport::Frame& frame);

}  // namespace starling::node
