#include "lab/world/spoil.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "training/exchange/payload.h"

namespace starling::lab {

using training::Parcel;

namespace {

float poison_of(PoisonKind kind, Random& random) {
  switch (kind) {
    case PoisonKind::nan:
      return std::numeric_limits<float>::quiet_NaN();
    case PoisonKind::infinity:
      return std::numeric_limits<float>::infinity();
    case PoisonKind::huge:
      return random.chance(0.5) ? 1e38F : -1e38F;
    default:
      return poison_of(static_cast<PoisonKind>(1 + random.below(3)), random);
  }
}

}  // namespace

void put_poison(PoisonKind kind, const Parcel& parcel, MutableBytes bytes, Random& random) {
  for (std::size_t k = 1 + random.below(3); k > 0; --k) {
    const float value = poison_of(kind, random);
    switch (parcel.payload) {
      case Payload::f32:
        store(bytes.data() + sizeof(float) * random.below(parcel.floats), value);
        break;
      case Payload::bf16: {
        const auto upper = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
        store(bytes.data() + sizeof upper * random.below(parcel.floats), upper);
        break;
      }
      case Payload::int8: {  // a block's scale, and a step of which there is one
        const std::size_t blocks = (parcel.floats - 1) / training::kInt8Block + 1;
        const std::size_t block = random.below(blocks);
        store(bytes.data() + sizeof(float) * block, value / 2);
        bytes[sizeof(float) * blocks + training::kInt8Block * block] = std::byte{2};
        break;
      }
      case Payload::top_k:
        store(bytes.data() + sizeof(float) * random.below(parcel.entries), value);
        break;
      case Payload::none:
        break;
    }
  }
}

void tell_lie(PoisonKind kind, const Parcel& parcel, MutableBytes bytes, std::span<const float> first,
              Random& random) {
  const bool sparse = parcel.payload == Payload::top_k;
  const Payload payload = sparse ? Payload::f32 : parcel.payload;
  const std::size_t floats = sparse ? parcel.entries : parcel.floats;
  const MutableBytes encoded = bytes.first(training::encoded_bytes(payload, floats));
  std::vector<float> values(floats);
  training::decode(payload, encoded, floats, 0, values);
  for (std::size_t f = 0; f < floats; ++f) {
    if (kind == PoisonKind::noise) values[f] = static_cast<float>(random.normal());
    if (kind == PoisonKind::sign_flip) values[f] = -values[f];
    if (kind == PoisonKind::frozen) values[f] = f < first.size() && !sparse ? first[f] : 0;
  }
  training::encode(payload, values, random.bits(), encoded);
}

}  // namespace starling::lab
