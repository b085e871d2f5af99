#include "lab/world/virtual_machine.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "training/mixing/payload.h"

namespace starling::lab {
namespace {

using training::Parcel;

constexpr std::uint64_t kPeerStreams = 1000;  // of the world's random numbers

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

// Puts one to three values that no replica may accept into the parcel, whose values lie in `bytes`.
// REQUIRES: kind < PoisonKind::noise; the parcel has values.
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
      case Payload::int8: {  // a block's scale, and one of its steps
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

// Replaces all values by a lie. `first` begins with the first parameters of the chunk's floats.
// REQUIRES: kind >= PoisonKind::noise.
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

}  // namespace

VirtualMachine::VirtualMachine(Surroundings& world, std::uint32_t index)
    : world_(world),
      random_(world.random.split(kPeerStreams + index)),
      index_(index),
      address_{world.options.machines[index].name, 7100},
      id_(world.new_id(index)) {}

PacketPtr VirtualMachine::packet(Packet::Kind kind, std::uint64_t exchange, std::size_t bytes) {
  auto packet = std::make_unique<Packet>();
  packet->kind = kind;
  packet->sender = id_;
  packet->exchange = exchange;
  packet->bytes = bytes;
  bytes_sent_ += bytes;
  return packet;
}

void VirtualMachine::send_chunk(Connection& connection, PacketPtr packet, const training::Parcel& parcel,
                                const Block& block) {
  packet->parcel = parcel;
  packet->block = block;
  if (!mishaps_.poisons.empty()) {
    const Poison* const poison = mishaps_.poison(now());
    if (poison != nullptr && !parcel.values.empty() && world_.spoiling.chance(poison->chance))
      spoil(*poison, *packet);
  }
  send(connection, std::move(packet));
}

void VirtualMachine::spoil(const Poison& poison, Packet& packet) {
  const Block copy = world_.blocks.make(packet.parcel.values.size());
  std::copy(packet.parcel.values.begin(), packet.parcel.values.end(), copy.bytes().begin());
  packet.parcel.values = copy.bytes();
  packet.block = copy;
  if (poison.kind < PoisonKind::noise) {
    put_poison(poison.kind, packet.parcel, copy.bytes(), world_.spoiling);
    packet.poisoned = true;
  } else {
    const std::span<const float> first(first_values_);
    tell_lie(poison.kind, packet.parcel, copy.bytes(),
             first.empty() ? first : first.subspan(packet.parcel.offset), world_.spoiling);
    packet.lied = true;
  }
}

}  // namespace starling::lab
