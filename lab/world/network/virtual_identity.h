// The identity of a virtual peer. Its signature is a keyed hash, which costs little; the hash's key is not
// secret, but nothing in a virtual world forges signatures. A liar signs only with its own identity.
#pragma once

#include <array>
#include <cstdint>

#include "base/hash.h"
#include "base/identity.h"

namespace starling::lab {

class VirtualIdentity final : public Identity {
 public:
  // REQUIRES: id is not 0.
  explicit VirtualIdentity(PeerId id) { store(key_.bytes.data(), id.value); }

  const PublicKey& key() const override { return key_; }
  Signature sign(Bytes statement) const override { return signed_by(key_, statement); }
  bool verify(const PublicKey& key, Bytes statement, const Signature& signature) const override {
    return signature == signed_by(key, statement);
  }
  PeerId id_of(const PublicKey& key) const override {
    const PeerId id{load<std::uint64_t>(key.bytes.data())};
    return id ? id : PeerId{1};
  }

 private:
  static Signature signed_by(const PublicKey& key, Bytes statement) {
    constexpr std::uint64_t kSeed = 0x5ea1ed;
    Signature signature;
    store(signature.bytes.data(), hash64(statement, hash64(Bytes(key.bytes), kSeed)));
    return signature;
  }

  PublicKey key_;
};

}  // namespace starling::lab
