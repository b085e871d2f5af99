#include "lab/world/virtual_machine.h"

#include <algorithm>
#include <span>

#include "lab/world/spoil.h"

namespace starling::lab {
namespace {

constexpr std::uint64_t kPeerStreams = 1000;  // of the world's chance

}  // namespace

VirtualMachine::VirtualMachine(Surroundings& world, std::uint32_t index)
    : world_(world),
      random_(world.random.split(kPeerStreams + index)),
      index_(index),
      address_{world.options.machines[index].name, 7100},
      id_(world.new_id(index)) {}

void VirtualMachine::enter_life() {
  ++life_;
  id_ = world_.new_id(index_);
  silent_ = false;
}

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
