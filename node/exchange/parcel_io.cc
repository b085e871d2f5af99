#include "node/exchange/parcel_io.h"

namespace starling::node {
wire::ChunkHead head_of(const training::Parcel& parcel, std::uint64_t exchange, wire::ChunkKind kind) {
  wire::ChunkHead head;
  head.exchange = exchange;
  head.offset = parcel.offset;
  head.floats = static_cast<std::uint32_t>(parcel.floats);
  head.kind = kind;
  head.payload = parcel.payload;
  head.weight = parcel.weight;
  head.entries = parcel.entries;
  head.sequence = parcel.sequence;
  return head;
}

training::Parcel parcel_of(const transport::Frame& frame) {
  const wire::ChunkHead& head = frame.chunk;
  training::Parcel parcel;
  parcel.offset = head.offset;
  parcel.floats = head.floats;
  parcel.payload = head.payload;
  parcel.weight = head.weight;
  parcel.entries = head.entries;
  parcel.sequence = head.sequence;
  parcel.values = frame.body;
  return parcel;
}

}  // namespace starling::node
