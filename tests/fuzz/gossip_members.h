// The members of the swarm around a fuzzed peer. The peer is number 1. Honest members (2 to 5) sign only what
// is true. All other numbers are hostile: the fuzzer signs anything with their keys, and invents as many of
// them as it likes.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "gossip/members/statements.h"
#include "tests/fuzz/input.h"
#include "wire/messages.h"

namespace starling::fuzz {

inline constexpr std::uint64_t kSelf = 1, kFirstHonest = 2, kLastHonest = 5, kFirstHostile = 6, kHostile = 16,
                               kInvented = 1000;
inline bool is_honest(std::uint64_t number) { return kFirstHonest <= number && number <= kLastHonest; }
inline Address home_of(std::uint64_t number) { return {"h" + std::to_string(number), 7100}; }

// Signatures that nobody can forge: only statements that were signed are accepted. (A fuzzer that sees
// comparisons could compute the signatures of a keyed hash.)
class Notary {
 public:
  Signature sign(const PublicKey& key, Bytes statement) {
    const std::uint64_t seal = seal_of(key, statement);
    signed_.insert(seal);
    Signature signature;
    store(signature.bytes.data(), seal);
    return signature;
  }
  bool verify(const PublicKey& key, Bytes statement, const Signature& signature) const {
    const std::uint64_t seal = seal_of(key, statement);
    return load<std::uint64_t>(signature.bytes.data()) == seal && signed_.contains(seal);
  }

 private:
  static std::uint64_t seal_of(const PublicKey& key, Bytes statement) {
    return hash64(statement, hash64(Bytes(key.bytes)));
  }
  std::unordered_set<std::uint64_t> signed_;
};

class NotaryIdentity final : public Identity {
 public:
  NotaryIdentity(Notary& notary, std::uint64_t number) : notary_(notary) { store(key_.bytes.data(), number); }
  const PublicKey& key() const override { return key_; }
  Signature sign(Bytes statement) const override { return notary_.sign(key_, statement); }
  bool verify(const PublicKey& key, Bytes statement, const Signature& signature) const override {
    return notary_.verify(key, statement, signature);
  }
  PeerId id_of(const PublicKey& key) const override {
    const PeerId id{load<std::uint64_t>(key.bytes.data())};
    return id ? id : PeerId{1};
  }

 private:
  Notary& notary_;
  PublicKey key_;
};

// A member that tells the truth about itself.
struct Honest {
  wire::Member self;                  // signed
  std::set<std::uint32_t> left_in{};  // incarnations in which it left
};

// All of them but the peer.
class Company {
 public:
  Company() {
    for (std::uint64_t k = kFirstHonest; k <= kLastHonest; ++k)
      honest_[k].self = signed_by_itself(named(k, 1, wire::Phase::joining));
  }

  const Identity& identity_of(std::uint64_t number) {
    return identities_.try_emplace(number, notary_, number).first->second;
  }
  Honest& honest(std::uint64_t number) { return honest_.at(number); }
  const Honest& honest(std::uint64_t number) const { return honest_.at(number); }

  wire::Member signed_by_itself(wire::Member m) {
    const Identity& identity = identity_of(m.id.value);
    m.key = identity.key();
    m.signature = identity.sign(gossip::statement_of(m));
    return m;
  }
  // The honest member says something new about itself.
  template <class Change>
  void change(std::uint64_t number, Change change) {
    Honest& honest = honest_.at(number);
    change(honest.self);
    honest.self = signed_by_itself(honest.self);
    if (honest.self.liveness == wire::Liveness::left) honest.left_in.insert(honest.self.incarnation);
  }

  // The number of a hostile member.
  static std::uint64_t hostile(Input& input) {
    return input.byte() < 224 ? kFirstHostile + input.below(kHostile) : kInvented + input.below(4096);
  }
  // A member of any kind as a liar would describe it. `known` are records of the fuzzed peer, itself first.
  wire::Member described(Input& input, const std::vector<wire::Member>& known) {
    const std::uint8_t kind = input.byte();
    wire::Member m;
    if (kind < 64) {
      m = known[input.below(known.size())];
    } else if (kind < 112) {
      m = honest(kFirstHonest + input.below(kLastHonest - kFirstHonest + 1)).self;
    } else {
      m = signed_by_itself(named(hostile(input), 1, wire::Phase::training));
    }
    mutate(input, m);
    const bool is_hostile = m.id.value != kSelf && !is_honest(m.id.value) && m.id;
    return is_hostile && input.byte() < 192 ? signed_by_itself(m) : m;
  }

  static wire::Member named(std::uint64_t number, std::uint32_t incarnation, wire::Phase phase) {
    wire::Member m;
    m.id = PeerId{number};
    m.name = "p" + std::to_string(number);
    m.address = home_of(number);
    m.incarnation = incarnation;
    m.phase = phase;
    return m;
  }
  static Address address(Input& input) {
    const std::uint8_t kind = input.byte();
    if (kind < 32) return home_of(kSelf);
    if (kind < 96) return home_of(kFirstHonest + input.below(4));
    if (kind < 128) return {"crowd", static_cast<std::uint16_t>(1 + input.below(65535))};
    return home_of(kFirstHostile + input.below(kHostile));
  }

 private:
  static void mutate(Input& input, wire::Member& m) {
    const std::uint8_t what = input.byte();
    if (what & 1) m.incarnation = static_cast<std::uint32_t>(input.number());
    if (what & 2) m.liveness = static_cast<wire::Liveness>(input.below(4));
    if (what & 4) m.phase = static_cast<wire::Phase>(input.below(4));
    if (what & 8) m.samples = input.number();
    if (what & 16) m.steps = input.number();
    if (what & 32) m.address = address(input);
    if (what & 64) m.accuser = PeerId{input.below(32)};
    if (what & 128) {
      static const std::array<std::string, 6> names{"p1", "s0", "s1", "s2", "", "zz"};
      m.name = input.one_of(names);
      m.signature.bytes[7] ^= static_cast<std::byte>(input.byte());
      m.device = "cuda:0";
    }
  }

  Notary notary_;
  std::map<std::uint64_t, NotaryIdentity> identities_;
  std::map<std::uint64_t, Honest> honest_;
};

}  // namespace starling::fuzz
