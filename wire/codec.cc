// Messages from FlatBuffers, with all checks.
#include "wire/codec.h"

#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "wire/frame.h"
#include "wire/protocol_generated.h"

namespace starling::wire {
namespace {

std::optional<double> from_wire(float value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

// Reads fields and keeps the first error. After an error, the getters return harmless defaults.
class Reader {
 public:
  std::string text(const flatbuffers::String* s, std::size_t most, const char* field) {
    if (s == nullptr) return {};
    if (s->size() > most) {
      wrong(field, "is longer than " + std::to_string(most) + " bytes");
      return {};
    }
    for (const char c : *s) {
      if (const auto u = static_cast<unsigned char>(c); u < 0x20 || u == 0x7f) {
        wrong(field, "contains control characters");
        return {};
      }
    }
    std::string text = s->str();
    if (is_utf8(text)) return text;
    wrong(field, "is not UTF-8");
    return {};
  }

  std::string name(const flatbuffers::String* s, const char* field) {
    std::string name = text(s, kNameBytesMax, field);
    if (!is_member_name(name)) wrong(field, "contains a space or an unprintable character");
    return name;
  }

  template <class Enum>
  Enum enumerator(std::uint8_t value, Enum last, const char* field) {
    if (value > static_cast<std::uint8_t>(last)) wrong(field, "is unknown (" + std::to_string(value) + ")");
    return static_cast<Enum>(value);
  }

  PeerId id(std::uint64_t value, const char* field) {
    if (value == 0) wrong(field, "is 0");
    return PeerId{value};
  }

  Address address(const flatbuffers::String* host, std::uint16_t port) {
    Address a{text(host, kHostBytesMax, "host"), port};
    if (a.host.empty()) wrong("host", "is empty");
    if (!is_host(a.host)) wrong("host", "contains a space, a bracket or an unprintable character");
    if (a.port == 0) wrong("port", "is 0");
    return a;
  }

  // Empty with port 0: none.
  Address address_if_any(const flatbuffers::String* host, std::uint16_t port) {
    if ((host == nullptr || host->size() == 0) && port == 0) return {};
    return address(host, port);
  }

  std::vector<Address> addresses(const flatbuffers::Vector<flatbuffers::Offset<fb::Address>>* list,
                                 std::size_t most) {
    std::vector<Address> out;
    if (list == nullptr) return out;
    at_most(list->size(), most, "the number of addresses");
    for (const fb::Address* a : *list) {
      if (error_) break;
      out.push_back(address(a->host(), a->port()));
    }
    return out;
  }

  std::vector<PeerId> ids(const flatbuffers::Vector<std::uint64_t>* list, std::size_t most,
                          const char* field) {
    std::vector<PeerId> out;
    if (list == nullptr || list->size() == 0) return out;
    if (!aligned(list->Data(), alignof(std::uint64_t), field)) return out;
    at_most(list->size(), most, field);
    for (const std::uint64_t value : *list) {
      if (error_) break;
      out.push_back(id(value, field));
    }
    return out;
  }

  std::uint64_t at_most(std::uint64_t value, std::uint64_t most, const char* field) {
    if (value > most) wrong(field, "is " + std::to_string(value) + ", more than " + std::to_string(most));
    return value;
  }

  std::uint32_t chunk_floats(std::uint32_t value, const char* name) {
    if (value == 0) wrong(name, "is 0");
    at_most(value, kChunkFloatsMax, name);
    return value;
  }

  // `In` is a struct of the schema with an array of bytes, as `Out`.
  template <class Out, class In>
  Out bytes(const In* in, const char* field) {
    Out out;
    if (in == nullptr)
      wrong(field, "is missing");
    else
      std::memcpy(out.bytes.data(), in->bytes()->Data(), out.bytes.size());
    return out;
  }

  Member member(const fb::Member* m) {
    if (m == nullptr) {
      wrong("member", "is missing");
      return {};
    }
    Member out;
    out.id = id(m->id(), "member id");
    out.name = name(m->name(), "member name");
    out.address = address_if_any(m->host(), m->port());
    out.incarnation = m->incarnation();
    out.liveness = enumerator(m->liveness(), Liveness::left, "liveness");
    out.phase = enumerator(m->phase(), Phase::finished, "phase");
    out.samples = m->samples();
    out.steps = m->steps();
    out.accuser = PeerId{m->accuser()};
    if (m->http() != nullptr) out.http = text(m->http(), kHostBytesMax + 8, "http");
    if (m->device() != nullptr) out.device = text(m->device(), kNameBytesMax, "device");
    out.key = bytes<PublicKey>(m->key(), "member key");
    out.signature = bytes<Signature>(m->signature(), "member signature");
    out.also = addresses(m->also(), kAlsoMax);
    out.homes = ids(m->homes(), kHomesMax, "homes");
    out.relays = m->relays();
    if (!out.address && !out.also.empty()) wrong("member", "has further addresses but no first one");
    if (out.address && !out.homes.empty()) wrong("member", "has homes and an address");
    return out;
  }

  std::vector<Member> members(const flatbuffers::Vector<flatbuffers::Offset<fb::Member>>* list) {
    std::vector<Member> out;
    if (list == nullptr) return out;
    if (list->size() > kMembersMax) {
      wrong("members", "has more than " + std::to_string(kMembersMax) + " entries");
      return out;
    }
    out.reserve(list->size());
    for (const fb::Member* m : *list) {
      out.push_back(member(m));
      if (error_) break;
    }
    return out;
  }

  Manifest manifest(const fb::Manifest* m) {
    if (m == nullptr) {
      wrong("manifest", "is missing");
      return {};
    }
    Manifest out;
    out.model = text(m->model(), kModelBytesMax, "model");
    out.data = text(m->data(), kTextBytesMax, "data");
    out.fingerprint = m->fingerprint();
    out.arena_floats = at_most(m->arena_floats(), kArenaFloatsMax, "arena_floats");
    out.seed = m->seed();
    out.settings = settings(m->settings(), "settings");
    out.facts = settings(m->facts(), "facts");
    if (m->program() != nullptr) out.program = text(m->program(), kNameBytesMax, "program");
    return out;
  }

  std::vector<ManifestEntry> settings(const flatbuffers::Vector<flatbuffers::Offset<fb::Setting>>* list,
                                      const char* field) {
    std::vector<ManifestEntry> out;
    if (list == nullptr) return out;
    if (list->size() > kSettingsMax) {
      wrong(field, "has more than " + std::to_string(kSettingsMax) + " entries");
      return out;
    }
    for (const fb::Setting* s : *list) {
      auto key = text(s->key(), kNameBytesMax, "setting key");
      out.push_back({std::move(key), text(s->value(), kSettingValueBytesMax, "setting value")});
      if (error_) break;
    }
    return out;
  }

  Program program(const fb::Join& m) {
    Program out;
    if (m.program() != nullptr) out.version = text(m.program(), kNameBytesMax, "program");
    if (m.knows() == nullptr) return out;
    if (m.knows()->size() > kKnownMax) {
      wrong("knows", "has more than " + std::to_string(kKnownMax) + " entries");
      return out;
    }
    for (const flatbuffers::String* known : *m.knows()) {
      out.knows.push_back(text(known, kNameBytesMax, "knows"));
      if (error_) break;
    }
    return out;
  }

  Duration elapsed(std::int64_t nanoseconds) {
    constexpr std::int64_t kCentury = 3'155'760'000'000'000'000;
    if (nanoseconds < 0 || nanoseconds > kCentury) wrong("elapsed", "is not between 0 and 100 years");
    return Duration{nanoseconds};
  }

  Revision revision(std::uint64_t number, std::uint64_t author) {
    return {at_most(number, kRevisionMax, "revision"), PeerId{author}};
  }

  // The verifier checks a vector's length, but not the alignment of its elements.
  bool aligned(const std::uint8_t* data, std::size_t alignment, const char* field) {
    if (reinterpret_cast<std::uintptr_t>(data) % alignment == 0) return true;
    wrong(field, "is not aligned");
    return false;
  }

  void wrong(const char* field, const std::string& how) {
    if (!error_) error_ = std::string(field) + " " + how;
  }
  const std::optional<std::string>& error() const { return error_; }

 private:
  std::optional<std::string> error_;
};

Hello get(Reader& r, const fb::Hello& m) {
  Hello out;
  out.swarm = r.text(m.swarm(), kNameBytesMax, "swarm");
  out.id = r.id(m.id(), "id");
  out.name = r.name(m.name(), "name");
  out.address = r.address_if_any(m.host(), m.port());
  out.purpose = r.enumerator(m.purpose(), Purpose::relay, "purpose");
  out.key = r.bytes<PublicKey>(m.key(), "key");
  out.nonce = r.bytes<Nonce>(m.nonce(), "nonce");
  out.proof = r.bytes<Signature>(m.proof(), "proof");
  out.call = m.call();
  return out;
}
Refusal get(Reader& r, const fb::Refusal& m) {
  const auto reason = r.enumerator(m.reason(), RefusalReason::address_taken, "reason");
  return {reason, r.text(m.text(), kTextBytesMax, "text")};
}
Ping get(Reader& r, const fb::Ping& m) {
  return {m.sequence(), PeerId{m.target()}, r.members(m.members()), PeerId{m.requester()}, m.requested()};
}
PingRequest get(Reader& r, const fb::PingRequest& m) {
  return {m.sequence(), r.id(m.target(), "target"), r.address_if_any(m.host(), m.port()),
          r.members(m.members())};
}
Ack get(Reader& r, const fb::Ack& m) {
  Ack out{m.sequence(), r.members(m.members()), PeerId{m.on_behalf()}, {}};
  if (m.signature() != nullptr) out.signature = r.bytes<Signature>(m.signature(), "signature");
  return out;
}
Gossip get(Reader& r, const fb::Gossip& m) {
  Gossip out{r.members(m.members()), m.reply_wanted(), {}};
  if (const auto* progress = m.progress()) {
    if (progress->size() > kMembersMax) {
      r.wrong("progress", "has more than " + std::to_string(kMembersMax) + " entries");
      return out;
    }
    if (progress->size() > 0 && !r.aligned(progress->Data(), alignof(fb::Progress), "progress")) return out;
    out.progress.reserve(progress->size());
    for (const fb::Progress* p : *progress)
      out.progress.push_back({r.id(p->id(), "progress id"), p->samples()});
  }
  if (const auto* vitals = m.vitals()) {
    if (vitals->size() > kMembersMax) {
      r.wrong("vitals", "have more than " + std::to_string(kMembersMax) + " entries");
      return out;
    }
    if (vitals->size() > 0 && !r.aligned(vitals->Data(), alignof(fb::Vitals), "vitals")) return out;
    out.vitals.reserve(vitals->size());
    for (const fb::Vitals* v : *vitals) {
      Vitals& vitals_of = out.vitals.emplace_back();
      vitals_of.id = r.id(v->id(), "vitals id");
      vitals_of.sequence = v->sequence();
      vitals_of.samples_per_second = from_wire(v->samples_per_second());
      vitals_of.loss = from_wire(v->loss());
      vitals_of.distance = from_wire(v->distance());
      vitals_of.staleness = from_wire(v->staleness());
      vitals_of.partner = PeerId{v->partner()};
      vitals_of.paused = (v->flags() & kPausedFlag) != 0;
    }
  }
  return out;
}
Digest get(Reader& r, const fb::Digest& m) {
  Digest out;
  if (m.buckets() == nullptr || m.buckets()->size() != kDigestBuckets) {
    r.wrong("buckets", "do not have " + std::to_string(kDigestBuckets) + " entries");
    return out;
  }
  if (!r.aligned(m.buckets()->Data(), alignof(std::uint64_t), "buckets")) return out;
  out.buckets.assign(m.buckets()->begin(), m.buckets()->end());
  out.topology = r.revision(m.revision(), m.author());
  return out;
}
View get(Reader& r, const fb::View& m) {
  return {m.buckets(), m.reply_wanted(), r.members(m.members()), r.revision(m.revision(), m.author())};
}
Join get(Reader& r, const fb::Join& m) { return {r.member(m.self()), r.program(m)}; }
Leave get(Reader& r, const fb::Leave& m) { return {r.member(m.self())}; }
Welcome get(Reader& r, const fb::Welcome& m) {
  return {r.manifest(m.manifest()), r.elapsed(m.elapsed_nanoseconds()), r.members(m.members()),
          m.retired_samples()};
}
ExchangeOffer get(Reader& r, const fb::ExchangeOffer& m) {
  return {m.exchange(), m.fingerprint(), r.at_most(m.arena_floats(), kArenaFloatsMax, "arena_floats"),
          r.chunk_floats(m.cell_floats(), "cell_floats"), m.round()};
}
ExchangeRefusal get(Reader& r, const fb::ExchangeRefusal& m) {
  return {m.exchange(), r.enumerator(m.reason(), RefusalReason::address_taken, "reason"), m.round()};
}
StateRequest get(Reader& r, const fb::StateRequest& m) {
  return {m.fingerprint(), r.chunk_floats(m.chunk_floats(), "chunk_floats"),
          r.at_most(m.first_chunk(), kArenaFloatsMax, "first_chunk"), m.trainer_state()};
}
StateHead get(Reader& r, const fb::StateHead& m) {
  return {r.at_most(m.arena_floats(), kArenaFloatsMax, "arena_floats"),
          r.at_most(m.chunks(), kArenaFloatsMax, "chunks"),
          r.at_most(m.trainer_words(), kArenaFloatsMax, "trainer_words")};
}

Rewire get(Reader& r, const fb::Rewire& m) {
  Rewire out{r.revision(m.revision(), m.author()), r.text(m.topology(), kSettingValueBytesMax, "topology"),
             r.bytes<PublicKey>(m.key(), "key"), r.bytes<Signature>(m.signature(), "signature")};
  if (out.topology.empty()) r.wrong("topology", "is empty");
  return out;
}

Proof get(Reader& r, const fb::Proof& m) { return {r.bytes<Signature>(m.signature(), "signature")}; }

Call get(Reader& r, const fb::Call& m) {
  Call out{r.id(m.target(), "target"), r.id(m.caller(), "caller"),
           r.enumerator(m.purpose(), Purpose::relay, "purpose"), m.number()};
  if (out.number == 0) r.wrong("number", "is 0");
  return out;
}
ReachRequest get(Reader&, const fb::ReachRequest& m) { return {m.sequence()}; }
ReachReport get(Reader& r, const fb::ReachReport& m) {
  return {m.sequence(), m.reached(), r.address_if_any(m.host(), m.port())};
}
CircuitRequest get(Reader& r, const fb::CircuitRequest& m) { return {r.id(m.target(), "target")}; }
Circuit get(Reader& r, const fb::Circuit& m) { return {r.id(m.target(), "target")}; }

constexpr std::array<std::string_view, std::variant_size_v<Message>> kNames = {
    "Hello",           "Refusal",      "Ping",           "PingRequest", "Ack",   "Gossip",
    "Digest",          "View",         "Join",           "Welcome",     "Leave", "ExchangeOffer",
    "ExchangeRefusal", "StateRequest", "StateHead",      "Rewire",      "Proof", "Call",
    "ReachRequest",    "ReachReport",  "CircuitRequest", "Circuit"};

// The alternatives of Message are in the order of the schema's union.
template <std::size_t I = 0>
Result<Message> get_body(const fb::Envelope& envelope) {
  if constexpr (I == std::variant_size_v<Message>) {
    return Error{"unknown message type " + std::to_string(static_cast<int>(envelope.body_type()))};
  } else {
    if (static_cast<std::size_t>(envelope.body_type()) != I + 1) return get_body<I + 1>(envelope);
    using Wanted = std::variant_alternative_t<I, Message>;
    Reader reader;
    Message out;
    const auto read = [&](const auto* body) { out.emplace<I>(get(reader, *body)); };
    if constexpr (std::is_same_v<Wanted, Hello>) read(envelope.body_as_Hello());
    if constexpr (std::is_same_v<Wanted, Refusal>) read(envelope.body_as_Refusal());
    if constexpr (std::is_same_v<Wanted, Ping>) read(envelope.body_as_Ping());
    if constexpr (std::is_same_v<Wanted, PingRequest>) read(envelope.body_as_PingRequest());
    if constexpr (std::is_same_v<Wanted, Ack>) read(envelope.body_as_Ack());
    if constexpr (std::is_same_v<Wanted, Gossip>) read(envelope.body_as_Gossip());
    if constexpr (std::is_same_v<Wanted, Digest>) read(envelope.body_as_Digest());
    if constexpr (std::is_same_v<Wanted, View>) read(envelope.body_as_View());
    if constexpr (std::is_same_v<Wanted, Join>) read(envelope.body_as_Join());
    if constexpr (std::is_same_v<Wanted, Welcome>) read(envelope.body_as_Welcome());
    if constexpr (std::is_same_v<Wanted, Leave>) read(envelope.body_as_Leave());
    if constexpr (std::is_same_v<Wanted, ExchangeOffer>) read(envelope.body_as_ExchangeOffer());
    if constexpr (std::is_same_v<Wanted, ExchangeRefusal>) read(envelope.body_as_ExchangeRefusal());
    if constexpr (std::is_same_v<Wanted, StateRequest>) read(envelope.body_as_StateRequest());
    if constexpr (std::is_same_v<Wanted, StateHead>) read(envelope.body_as_StateHead());
    if constexpr (std::is_same_v<Wanted, Rewire>) read(envelope.body_as_Rewire());
    if constexpr (std::is_same_v<Wanted, Proof>) read(envelope.body_as_Proof());
    if constexpr (std::is_same_v<Wanted, Call>) read(envelope.body_as_Call());
    if constexpr (std::is_same_v<Wanted, ReachRequest>) read(envelope.body_as_ReachRequest());
    if constexpr (std::is_same_v<Wanted, ReachReport>) read(envelope.body_as_ReachReport());
    if constexpr (std::is_same_v<Wanted, CircuitRequest>) read(envelope.body_as_CircuitRequest());
    if constexpr (std::is_same_v<Wanted, Circuit>) read(envelope.body_as_Circuit());
    if (reader.error()) return Error{std::string(kNames[I]) + " message: " + *reader.error()};
    return out;
  }
}

// Bounds for the verifier: a valid message has an envelope, its body, a manifest and its lists of tables.
constexpr flatbuffers::uoffset_t kDepthMax = 8;
constexpr flatbuffers::uoffset_t kTablesMax = (1 + kAlsoMax) * kMembersMax + 2 * kSettingsMax + 8;

Result<Message> decode_aligned(Bytes body) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(body.data());
  flatbuffers::Verifier verifier(data, body.size(), kDepthMax, kTablesMax);
  if (!verifier.VerifyBuffer<fb::Envelope>(nullptr)) return Error{"not a valid control message"};
  const fb::Envelope& envelope = *flatbuffers::GetRoot<fb::Envelope>(data);
  if (envelope.body() == nullptr) return Error{"control message without a body"};
  return get_body(envelope);
}

bool is_later_aligned(Bytes body) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(body.data());
  flatbuffers::Verifier verifier(data, body.size(), kDepthMax, kTablesMax);
  if (!verifier.VerifyBuffer<fb::Envelope>(nullptr)) return false;
  const fb::Envelope& envelope = *flatbuffers::GetRoot<fb::Envelope>(data);
  return envelope.body() != nullptr &&
         static_cast<std::size_t>(envelope.body_type()) > std::variant_size_v<Message>;
}

// Calls work() with the body at an address that FlatBuffers can read numbers from.
template <class Work>
auto with_aligned(Bytes body, Work work) {
  if (reinterpret_cast<std::uintptr_t>(body.data()) % alignof(std::uint64_t) == 0) return work(body);
  std::vector<std::uint64_t> aligned((body.size() + 7) / 8);
  std::memcpy(aligned.data(), body.data(), body.size());
  return work(Bytes(std::as_bytes(std::span(aligned)).first(body.size())));
}

constexpr std::size_t kBodyBytesMin = sizeof(flatbuffers::uoffset_t) * 2;

}  // namespace

bool is_later_message(Bytes body) {
  return body.size() <= kControlBodyBytesMax && body.size() >= kBodyBytesMin &&
         with_aligned(body, is_later_aligned);
}

Result<Message> decode_message(Bytes body) {
  if (body.size() > kControlBodyBytesMax)
    return Error{"control message of " + std::to_string(body.size()) + " bytes exceeds the limit of " +
                 std::to_string(kControlBodyBytesMax) + " bytes"};
  if (body.size() < kBodyBytesMin)
    return Error{"control message of " + std::to_string(body.size()) + " bytes is too short"};
  return with_aligned(body, decode_aligned);
}

std::string_view name(const Message& message) { return kNames[message.index()]; }

}  // namespace starling::wire
