// The size of a control message as a frame.
#include <string>
#include <variant>
#include <vector>

#include "lab/world/network/packet.h"
#include "wire/frame.h"

namespace starling::lab {
namespace {

// FlatBuffers: a table is an offset to its vtable and its scalars that are not 0, a reference takes 4 bytes,
// and every value is padded to its alignment. Equal vtables are written once.
constexpr std::size_t kReference = 4;
constexpr std::size_t kVectorLength = 4;
constexpr std::size_t kEnvelope = 20;  // the root, the envelope's table and its vtable

std::size_t padded(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }
template <class Scalar>
std::size_t scalar(Scalar value, std::size_t bytes = sizeof(Scalar)) {
  return value == Scalar{} ? 0 : bytes;
}
std::size_t text(const std::string& s) { return kReference + padded(4 + s.size() + 1, 4); }
// A table whose scalars and references take `fields` bytes, and the vtable of `slots` fields.
std::size_t table(std::size_t fields) { return padded(kReference + fields, 8); }
std::size_t vtable(std::size_t slots) { return padded(4 + 2 * slots, 4); }

// Further addresses and homes.
std::size_t places(const wire::Member& m) {
  std::size_t bytes = m.homes.empty() ? 0 : kVectorLength + 8 * m.homes.size() + 4;
  if (!m.also.empty()) bytes += kVectorLength;
  for (const Address& address : m.also) bytes += kReference + table(kReference + 2) + text(address.host);
  return bytes;
}

std::size_t member(const wire::Member& m) {
  return table(2 * kReference + scalar(m.id.value) + scalar(m.address.port) + scalar(m.incarnation) +
               scalar(m.liveness) + scalar(m.phase) + scalar(m.samples) + scalar(m.steps) +
               scalar(m.accuser.value) + sizeof(PublicKey) + sizeof(Signature) + scalar(m.relays) +
               (m.also.empty() ? 0 : kReference) + (m.homes.empty() ? 0 : kReference)) +
         places(m) + text(m.name) + text(m.address.host) - 2 * kReference +
         (m.http.empty() ? 0 : text(m.http)) + (m.device.empty() ? 0 : text(m.device));
}
std::size_t members(const std::vector<wire::Member>& list) {
  std::size_t bytes = 4 + kReference + kVectorLength;
  if (!list.empty()) bytes += (list.size() > 1 ? 3 : 1) * vtable(14);      // members have at least two shapes
  for (const wire::Member& m : list) bytes += kReference + member(m) + 4;  // padding, on average
  return bytes;
}

struct Size {
  std::size_t operator()(const wire::Hello& m) const {
    return table(17 + sizeof(PublicKey) + sizeof(wire::Nonce) + sizeof(Signature)) + vtable(9) +
           text(m.swarm) + text(m.name) + text(m.address.host) + scalar(m.call);
  }
  std::size_t operator()(const wire::Refusal& m) const { return vtable(2) + text(m.text) + 4; }
  std::size_t operator()(const wire::Ping& m) const {
    return table(scalar(m.sequence) + scalar(m.target.value) + scalar(m.requester.value) +
                 scalar(m.requested)) +
           vtable(m.requester ? 5 : 3) + members(m.members);
  }
  std::size_t operator()(const wire::PingRequest& m) const {
    return table(18) + vtable(5) + text(m.address.host) + members(m.members);
  }
  std::size_t operator()(const wire::Ack& m) const {
    const std::size_t signature = m.signature == Signature{} ? 0 : sizeof(Signature);
    return table(scalar(m.sequence) + scalar(m.on_behalf.value) + signature) + vtable(signature > 0 ? 4 : 3) +
           members(m.members);
  }
  std::size_t operator()(const wire::Gossip& m) const {
    const std::size_t vitals = m.vitals.empty() ? 0 : kReference + kVectorLength + 40 * m.vitals.size();
    return table(1 + kReference) + vtable(3) + members(m.members) + kVectorLength + 16 * m.progress.size() +
           vitals;
  }
  static std::size_t revision(const wire::Revision& r) { return scalar(r.number) + scalar(r.author.value); }
  std::size_t operator()(const wire::Digest& m) const {
    return table(kReference + revision(m.topology)) + vtable(m.topology.number == 0 ? 1 : 3) + kVectorLength +
           8 * m.buckets.size();
  }
  std::size_t operator()(const wire::View& m) const {
    return table(scalar(m.buckets) + 1 + revision(m.topology)) + vtable(m.topology.number == 0 ? 3 : 5) +
           members(m.members);
  }
  std::size_t operator()(const wire::Rewire& m) const {
    return table(revision(m.revision) + sizeof(PublicKey) + sizeof(Signature)) + vtable(5) + text(m.topology);
  }
  std::size_t operator()(const wire::Proof&) const { return table(sizeof(Signature)) + vtable(1); }
  std::size_t operator()(const wire::Call&) const { return table(25) + vtable(4); }
  std::size_t operator()(const wire::ReachRequest&) const { return table(8) + vtable(1); }
  std::size_t operator()(const wire::ReachReport& m) const {
    return table(15) + vtable(4) + text(m.address.host);
  }
  std::size_t operator()(const wire::CircuitRequest&) const { return table(8) + vtable(1); }
  std::size_t operator()(const wire::Circuit&) const { return table(8) + vtable(1); }
  std::size_t operator()(const wire::Join& m) const {
    return table(kReference) + vtable(1) + vtable(14) + member(m.self);
  }
  std::size_t operator()(const wire::Leave& m) const {
    return table(kReference) + vtable(1) + vtable(14) + member(m.self);
  }
  std::size_t operator()(const wire::Welcome& m) const {
    std::size_t bytes = table(20) + vtable(4) + members(m.members) + table(36) + vtable(6) +
                        text(m.manifest.model) + text(m.manifest.data) + kVectorLength;
    if (!m.manifest.settings.empty()) bytes += vtable(2);
    for (const auto& s : m.manifest.settings) bytes += kReference + kReference + text(s.key) + text(s.value);
    return bytes;
  }
  std::size_t operator()(const wire::ExchangeOffer&) const { return table(28) + vtable(4); }
  std::size_t operator()(const wire::ExchangeRefusal&) const { return table(9) + vtable(2) + 4; }
  std::size_t operator()(const wire::StateRequest& m) const {
    return table(20 + scalar(m.trainer_state)) + vtable(m.trainer_state ? 4 : 3);
  }
  std::size_t operator()(const wire::StateHead& m) const {
    return table(16 + scalar(m.trainer_words)) + vtable(m.trainer_words ? 3 : 2);
  }
};

}  // namespace

std::size_t frame_bytes(const wire::Message& message) {
  return wire::kFrameHeaderBytes + kEnvelope + std::visit(Size{}, message);
}

}  // namespace starling::lab
