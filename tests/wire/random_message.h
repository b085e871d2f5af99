// Random messages within the protocol's limits, determined by the generator.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/random.h"
#include "wire/codec.h"
#include "wire/frame.h"
#include "wire/messages.h"

namespace starling::wire::testing {

inline std::string random_text(Random& r, std::size_t most) {
  std::string text(r.below(most + 1), ' ');
  for (char& c : text) c = static_cast<char>(' ' + r.below(95));
  return text;
}

// Mostly short, sometimes up to the maximum length of a setting's value.
inline std::string random_value(Random& r) {
  return random_text(r, r.chance(0.02) ? kSettingValueBytesMax - 1 : 200);
}

inline PeerId random_id(Random& r) { return PeerId{r.bits() | 1}; }

// Of characters of one to four bytes, without spaces.
inline std::string random_word(Random& r, std::size_t most) {
  const std::size_t wanted = r.below(most + 1);
  std::string word;
  for (;;) {
    std::string next(1, static_cast<char>('!' + r.below(94)));
    if (r.chance(0.1))
      next = std::vector<const char*>{"\xc3\xb6", "\xe6\x97\xa5", "\xf0\x9f\x98\x80"}[r.below(3)];
    if (word.size() + next.size() > wanted) return word;
    word += next;
  }
}

inline Address random_address(Random& r) {
  std::string host = "h" + random_word(r, kHostBytesMax - 1);
  std::erase_if(host, [](char c) { return c == '[' || c == ']'; });
  return {host, static_cast<std::uint16_t>(1 + r.below(65535))};
}

inline Address random_address_if_any(Random& r) { return r.chance(0.2) ? Address{} : random_address(r); }

// PublicKey, Signature or Nonce.
template <class Out>
Out random_bytes(Random& r) {
  Out out;
  for (std::byte& b : out.bytes) b = static_cast<std::byte>(r.below(256));
  return out;
}

inline Member random_member(Random& r) {
  Member m;
  m.id = random_id(r);
  m.name = random_word(r, kNameBytesMax);
  m.address = random_address(r);
  m.incarnation = static_cast<std::uint32_t>(r.bits());
  m.liveness = static_cast<Liveness>(r.below(4));
  m.phase = static_cast<Phase>(r.below(4));
  m.samples = r.bits();
  m.steps = r.bits();
  m.accuser = PeerId{r.bits()};
  if (r.chance(0.5)) m.http = random_text(r, kHostBytesMax);
  if (r.chance(0.5)) m.device = random_text(r, kNameBytesMax);
  m.key = random_bytes<PublicKey>(r);
  m.signature = random_bytes<Signature>(r);
  if (r.chance(0.3)) {
    m.address = {};
    m.homes.resize(r.below(kHomesMax + 1));
    for (PeerId& home : m.homes) home = random_id(r);
  } else {
    m.also.resize(r.chance(0.5) ? r.below(kAlsoMax + 1) : 0);
    for (Address& address : m.also) address = random_address(r);
    m.relays = r.chance(0.5) ? r.bits() : 0;
  }
  return m;
}

inline Revision random_revision(Random& r) { return {r.below(kRevisionMax + 1), PeerId{r.bits()}}; }

inline std::vector<Member> random_members(Random& r) {
  std::vector<Member> members(r.below(6));
  for (Member& m : members) m = random_member(r);
  return members;
}

inline Manifest random_manifest(Random& r) {
  Manifest m{random_text(r, kModelBytesMax),
             random_text(r, kTextBytesMax),
             r.bits(),
             r.below(kArenaFloatsMax + 1),
             r.bits(),
             {}};
  m.settings.resize(r.below(5));
  for (ManifestEntry& s : m.settings) s = {random_text(r, kNameBytesMax), random_text(r, kTextBytesMax)};
  m.facts.resize(r.chance(0.5) ? r.below(5) : 0);
  for (ManifestEntry& s : m.facts) s = {random_text(r, kNameBytesMax), random_text(r, kTextBytesMax)};
  if (r.chance(0.5)) m.program = random_text(r, kNameBytesMax);
  return m;
}

inline Program random_program(Random& r) {
  Program program;
  if (r.chance(0.5)) program.version = random_text(r, kNameBytesMax);
  program.knows.resize(r.chance(0.5) ? r.below(5) : 0);
  for (std::string& known : program.knows) known = random_text(r, kNameBytesMax);
  return program;
}

inline std::uint32_t random_chunk_floats(Random& r) {
  return static_cast<std::uint32_t>(1 + r.below(kChunkFloatsMax));
}

// Its numbers are floats, as on the wire.
inline Vitals random_vitals(Random& r) {
  const auto number = [&] {
    return r.chance(0.2) ? std::nullopt : std::optional<double>(static_cast<float>(r.uniform(0, 1e6)));
  };
  Vitals v;
  v.id = random_id(r);
  v.sequence = static_cast<std::uint32_t>(r.bits());
  v.samples_per_second = number();
  v.loss = number();
  v.distance = number();
  v.staleness = number();
  v.partner = PeerId{r.bits()};
  v.paused = r.chance(0.5);
  return v;
}

// One of a type that travels on bulk connections, or is newer; `index` counts all types.
inline Message random_later_message(Random& r, std::size_t index) {
  switch (index) {
    case 11:
      return ExchangeOffer{r.bits(), r.bits(), r.below(kArenaFloatsMax + 1), random_chunk_floats(r),
                           r.bits()};
    case 12:
      return ExchangeRefusal{r.bits(), static_cast<RefusalReason>(r.below(12)), r.bits()};
    case 13:
      return StateRequest{r.bits(), random_chunk_floats(r), r.below(kArenaFloatsMax + 1), r.bits()};
    case 14:
      return StateHead{r.below(kArenaFloatsMax + 1), r.below(kArenaFloatsMax + 1),
                       r.below(kArenaFloatsMax + 1)};
    case 15:
      return Rewire{random_revision(r), "t" + random_value(r), random_bytes<PublicKey>(r),
                    random_bytes<Signature>(r)};
    case 16:
      return Proof{random_bytes<Signature>(r)};
    case 17:
      return Call{random_id(r), random_id(r), static_cast<Purpose>(r.below(3)), r.bits() | 1};
    case 18:
      return ReachRequest{r.bits()};
    case 19:
      return ReachReport{r.bits(), r.chance(0.5), random_address_if_any(r)};
    case 20:
      return CircuitRequest{random_id(r)};
    default:
      return Circuit{random_id(r)};
  }
}

// A random message of type `index` of the variant.
inline Message random_message(Random& r, std::size_t index) {
  switch (index) {
    case 0:
      return Hello{random_text(r, kNameBytesMax),    random_id(r),
                   random_word(r, kNameBytesMax),    random_address_if_any(r),
                   static_cast<Purpose>(r.below(3)), random_bytes<PublicKey>(r),
                   random_bytes<Nonce>(r),           random_bytes<Signature>(r),
                   r.chance(0.5) ? r.bits() : 0};
    case 1:
      return Refusal{static_cast<RefusalReason>(r.below(12)), random_text(r, kTextBytesMax)};
    case 2:
      return Ping{r.bits(), PeerId{r.bits()}, random_members(r), PeerId{r.bits()}, r.bits()};
    case 3:
      return PingRequest{r.bits(), random_id(r), random_address_if_any(r), random_members(r)};
    case 4:
      return Ack{r.bits(), random_members(r), PeerId{r.bits()},
                 r.chance(0.5) ? random_bytes<Signature>(r) : Signature{}};
    case 5: {
      Gossip gossip{random_members(r), r.chance(0.5), {}};
      gossip.progress.resize(r.below(6));
      for (Progress& p : gossip.progress) p = {random_id(r), r.bits()};
      gossip.vitals.resize(r.below(4));
      for (Vitals& v : gossip.vitals) v = random_vitals(r);
      return gossip;
    }
    case 6: {
      Digest digest;
      for (std::size_t k = 0; k < kDigestBuckets; ++k) digest.buckets.push_back(r.bits());
      digest.topology = random_revision(r);
      return digest;
    }
    case 7:
      return View{r.bits(), r.chance(0.5), random_members(r), random_revision(r)};
    case 8:
      return Join{random_member(r), random_program(r)};
    case 9:
      return Welcome{random_manifest(r), Duration{static_cast<std::int64_t>(r.bits() >> 2)} / 2,
                     random_members(r), r.bits()};
    case 10:
      return Leave{random_member(r)};
    default:
      return random_later_message(r, index);
  }
}

inline Message random_message(Random& r) { return random_message(r, r.below(std::variant_size_v<Message>)); }

}  // namespace starling::wire::testing
