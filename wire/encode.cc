// Messages to FlatBuffers.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "wire/codec.h"
#include "wire/frame.h"
#include "wire/protocol_generated.h"

namespace starling::wire {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

// The encoding of an optional number in Vitals: NaN stands for an unknown value.
float to_wire(const std::optional<double>& value) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return value && std::abs(*value) <= kLargest ? static_cast<float>(*value)
                                               : std::numeric_limits<float>::quiet_NaN();
}

// A struct of the schema with an array of bytes.
template <class Out, class In>
Out to_bytes(const In& in) {
  return Out(flatbuffers::span<const std::uint8_t, sizeof(in.bytes)>(
      reinterpret_cast<const std::uint8_t*>(in.bytes.data()), sizeof(in.bytes)));
}

Offset<flatbuffers::String> put_if_any(FlatBufferBuilder& b, const std::string& text) {
  return text.empty() ? 0 : b.CreateString(text);
}

Offset<flatbuffers::Vector<Offset<fb::Address>>> put_if_any(FlatBufferBuilder& b,
                                                            const std::vector<Address>& addresses) {
  if (addresses.empty()) return 0;
  std::vector<Offset<fb::Address>> offsets;
  for (const Address& address : addresses) {
    const auto host = b.CreateString(address.host);
    offsets.push_back(fb::CreateAddress(b, host, address.port));
  }
  return b.CreateVector(offsets);
}

Offset<fb::Member> put(FlatBufferBuilder& b, const Member& m) {
  const auto name = b.CreateString(m.name);
  const auto host = b.CreateString(m.address.host);
  const auto http = put_if_any(b, m.http), device = put_if_any(b, m.device);
  const auto key = to_bytes<fb::PublicKey>(m.key);
  const auto signature = to_bytes<fb::Signature>(m.signature);
  const auto also = put_if_any(b, m.also);
  std::array<std::uint64_t, kHomesMax> homes{};
  for (std::size_t k = 0; k < m.homes.size(); ++k) homes.at(k) = m.homes[k].value;
  const auto homes_of = m.homes.empty() ? 0 : b.CreateVector(homes.data(), m.homes.size());
  return fb::CreateMember(b, m.id.value, name, host, m.address.port, m.incarnation,
                          static_cast<std::uint8_t>(m.liveness), static_cast<std::uint8_t>(m.phase),
                          m.samples, m.steps, m.accuser.value, http, device, &key, &signature, also, homes_of,
                          m.relays);
}

Offset<flatbuffers::Vector<Offset<fb::Member>>> put(FlatBufferBuilder& b,
                                                    const std::vector<Member>& members) {
  std::vector<Offset<fb::Member>> offsets;
  offsets.reserve(members.size());
  for (const Member& m : members) offsets.push_back(put(b, m));
  return b.CreateVector(offsets);
}

Offset<flatbuffers::Vector<Offset<fb::Setting>>> put(FlatBufferBuilder& b,
                                                     const std::vector<ManifestEntry>& list) {
  std::vector<Offset<fb::Setting>> settings;
  settings.reserve(list.size());
  for (const ManifestEntry& s : list) {
    const auto key = b.CreateString(s.key);
    settings.push_back(fb::CreateSetting(b, key, b.CreateString(s.value)));
  }
  return b.CreateVector(settings);
}

Offset<fb::Manifest> put(FlatBufferBuilder& b, const Manifest& m) {
  const auto settings = put(b, m.settings);
  const auto facts = m.facts.empty() ? Offset<flatbuffers::Vector<Offset<fb::Setting>>>() : put(b, m.facts);
  const auto program = put_if_any(b, m.program);
  const auto model = b.CreateString(m.model);
  const auto data = b.CreateString(m.data);
  return fb::CreateManifest(b, model, data, m.fingerprint, m.arena_floats, m.seed, settings, facts, program);
}

Offset<fb::Hello> put(FlatBufferBuilder& b, const Hello& m) {
  const auto swarm = b.CreateString(m.swarm);
  const auto name = b.CreateString(m.name);
  const auto host = b.CreateString(m.address.host);
  const auto key = to_bytes<fb::PublicKey>(m.key);
  const auto nonce = to_bytes<fb::Nonce>(m.nonce);
  const auto proof = to_bytes<fb::Signature>(m.proof);
  return fb::CreateHello(b, swarm, m.id.value, name, host, m.address.port,
                         static_cast<std::uint8_t>(m.purpose), &key, &nonce, &proof, m.call);
}

Offset<fb::Refusal> put(FlatBufferBuilder& b, const Refusal& m) {
  return fb::CreateRefusal(b, static_cast<std::uint8_t>(m.reason), b.CreateString(m.text));
}
Offset<fb::Ping> put(FlatBufferBuilder& b, const Ping& m) {
  return fb::CreatePing(b, m.sequence, m.target.value, put(b, m.members), m.requester.value, m.requested);
}
Offset<fb::PingRequest> put(FlatBufferBuilder& b, const PingRequest& m) {
  const auto host = b.CreateString(m.address.host);
  return fb::CreatePingRequest(b, m.sequence, m.target.value, host, m.address.port, put(b, m.members));
}
Offset<fb::Ack> put(FlatBufferBuilder& b, const Ack& m) {
  const auto members = put(b, m.members);
  if (m.signature == Signature{}) return fb::CreateAck(b, m.sequence, members, m.on_behalf.value);
  const auto signature = to_bytes<fb::Signature>(m.signature);
  return fb::CreateAck(b, m.sequence, members, m.on_behalf.value, &signature);
}
Offset<fb::Gossip> put(FlatBufferBuilder& b, const Gossip& m) {
  const auto members = put(b, m.members);
  std::vector<fb::Progress> progress;
  progress.reserve(m.progress.size());
  for (const Progress& p : m.progress) progress.emplace_back(p.id.value, p.samples);
  const auto samples = b.CreateVectorOfStructs(progress);
  if (m.vitals.empty()) return fb::CreateGossip(b, members, m.reply_wanted, samples);
  std::vector<fb::Vitals> vitals;
  vitals.reserve(m.vitals.size());
  for (const Vitals& v : m.vitals) {
    vitals.emplace_back(v.id.value, v.partner.value, v.sequence, to_wire(v.samples_per_second),
                        to_wire(v.loss), to_wire(v.distance), to_wire(v.staleness),
                        v.paused ? kPausedFlag : 0);
  }
  return fb::CreateGossip(b, members, m.reply_wanted, samples, b.CreateVectorOfStructs(vitals));
}
Offset<fb::Digest> put(FlatBufferBuilder& b, const Digest& m) {
  return fb::CreateDigest(b, b.CreateVector(m.buckets), m.topology.number, m.topology.author.value);
}
Offset<fb::View> put(FlatBufferBuilder& b, const View& m) {
  return fb::CreateView(b, m.buckets, m.reply_wanted, put(b, m.members), m.topology.number,
                        m.topology.author.value);
}
Offset<fb::Join> put(FlatBufferBuilder& b, const Join& m) {
  const auto self = put(b, m.self);
  const auto program = put_if_any(b, m.program.version);
  if (m.program.knows.empty()) return fb::CreateJoin(b, self, program);
  return fb::CreateJoin(b, self, program, b.CreateVectorOfStrings(m.program.knows));
}
Offset<fb::Leave> put(FlatBufferBuilder& b, const Leave& m) { return fb::CreateLeave(b, put(b, m.self)); }
Offset<fb::Welcome> put(FlatBufferBuilder& b, const Welcome& m) {
  const auto manifest = put(b, m.manifest);
  return fb::CreateWelcome(b, manifest, m.elapsed.count(), put(b, m.members), m.retired_samples);
}
Offset<fb::ExchangeOffer> put(FlatBufferBuilder& b, const ExchangeOffer& m) {
  return fb::CreateExchangeOffer(b, m.exchange, m.fingerprint, m.arena_floats, m.cell_floats, m.round);
}
Offset<fb::ExchangeRefusal> put(FlatBufferBuilder& b, const ExchangeRefusal& m) {
  return fb::CreateExchangeRefusal(b, m.exchange, static_cast<std::uint8_t>(m.reason), m.round);
}
Offset<fb::StateRequest> put(FlatBufferBuilder& b, const StateRequest& m) {
  return fb::CreateStateRequest(b, m.fingerprint, m.chunk_floats, m.first_chunk, m.trainer_state);
}
Offset<fb::StateHead> put(FlatBufferBuilder& b, const StateHead& m) {
  return fb::CreateStateHead(b, m.arena_floats, m.chunks, m.trainer_words);
}

Offset<fb::Rewire> put(FlatBufferBuilder& b, const Rewire& m) {
  const auto key = to_bytes<fb::PublicKey>(m.key);
  const auto signature = to_bytes<fb::Signature>(m.signature);
  return fb::CreateRewire(b, m.revision.number, m.revision.author.value, b.CreateString(m.topology), &key,
                          &signature);
}

Offset<fb::Proof> put(FlatBufferBuilder& b, const Proof& m) {
  const auto signature = to_bytes<fb::Signature>(m.signature);
  return fb::CreateProof(b, &signature);
}

Offset<fb::Call> put(FlatBufferBuilder& b, const Call& m) {
  return fb::CreateCall(b, m.target.value, m.caller.value, static_cast<std::uint8_t>(m.purpose), m.number);
}
Offset<fb::ReachRequest> put(FlatBufferBuilder& b, const ReachRequest& m) {
  return fb::CreateReachRequest(b, m.sequence);
}
Offset<fb::ReachReport> put(FlatBufferBuilder& b, const ReachReport& m) {
  return fb::CreateReachReport(b, m.sequence, m.reached, b.CreateString(m.address.host), m.address.port);
}
Offset<fb::CircuitRequest> put(FlatBufferBuilder& b, const CircuitRequest& m) {
  return fb::CreateCircuitRequest(b, m.target.value);
}
Offset<fb::Circuit> put(FlatBufferBuilder& b, const Circuit& m) {
  return fb::CreateCircuit(b, m.target.value);
}

// The schema's union lists its types in the variant's order; tag 0 means "none".
static_assert(static_cast<std::size_t>(fb::Body::MAX) == std::variant_size_v<Message>);
static_assert(static_cast<int>(fb::Body::Hello) == 1);

void build(FlatBufferBuilder& b, const Message& message) {
  const auto body = std::visit([&](const auto& m) { return put(b, m).Union(); }, message);
  b.Finish(fb::CreateEnvelope(b, static_cast<fb::Body>(message.index() + 1), body));
}

}  // namespace

std::vector<std::byte> encode_message(const Message& message) {
  FlatBufferBuilder b(512);
  build(b, message);
  const auto* data = reinterpret_cast<const std::byte*>(b.GetBufferPointer());
  return {data, data + b.GetSize()};
}

Result<std::vector<std::byte>> encode_frame(const Message& message) {
  FlatBufferBuilder b(512);
  build(b, message);
  if (b.GetSize() > kControlBodyBytesMax) {
    return Error{std::string(name(message)) + " message of " + std::to_string(b.GetSize()) +
                 " bytes exceeds the limit of " + std::to_string(kControlBodyBytesMax) + " bytes"};
  }
  std::vector<std::byte> frame(kFrameHeaderBytes + b.GetSize());
  std::memcpy(frame.data() + kFrameHeaderBytes, b.GetBufferPointer(), b.GetSize());
  write_control_header(Bytes(frame).subspan(kFrameHeaderBytes), std::span(frame).first<kFrameHeaderBytes>());
  return frame;
}

}  // namespace starling::wire
