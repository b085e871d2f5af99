#include "node/exchange/parcel_io.h"

namespace starling::node {
namespace {

using training::Payload;

constexpr bool same(Payload a, wire::Payload b) {
  return static_cast<int>(a) == static_cast<int>(b);
}
static_assert(same(Payload::f32, wire::Payload::f32) && same(Payload::bf16, wire::Payload::bf16) &&
              same(Payload::int8, wire::Payload::int8) && same(Payload::top_k, wire::Payload::top_k) &&
              same(Payload::none, wire::Payload::none));

}  // namespace

wire::ChunkHead head_of(const training::Parcel& parcel, std::uint64_t exchange, wire::ChunkKind kind) {
  wire::ChunkHead head;
  head.exchange = exchange;
  head.offset = parcel.offset;
  head.floats = static_cast<std::uint32_t>(parcel.floats);
  head.kind = kind;
  head.payload = static_cast<wire::Payload>(parcel.payload);
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
  parcel.payload = static_cast<Payload>(head.payload);
  parcel.weight = head.weight;
  parcel.entries = head.entries;
  parcel.sequence = head.sequence;
  parcel.values = frame.body;
  return parcel;
}

}  // namespace starling::node
