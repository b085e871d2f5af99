// Who a peer is: a key pair. Its id is derived from the public key, so nobody can take another peer's id, and
// what a peer says about itself carries its signature, so others can pass it on but not change it. The daemon
// uses Ed25519 (transport/trust/identity.h); the simulator uses a keyed hash. The core knows only this
// interface.
#pragma once

#include <array>
#include <cstddef>

#include "base/bytes.h"
#include "base/ids.h"

namespace starling {

struct PublicKey {
  std::array<std::byte, 32> bytes{};
  friend bool operator==(const PublicKey&, const PublicKey&) = default;
};

struct Signature {
  std::array<std::byte, 64> bytes{};
  friend bool operator==(const Signature&, const Signature&) = default;
};

class Identity {
 public:
  virtual ~Identity() = default;

  virtual const PublicKey& key() const = 0;
  // Signatures hold only in the swarm that the identity was made for.
  virtual Signature sign(Bytes statement) const = 0;
  // Whether the owner of the key signed the statement.
  virtual bool verify(const PublicKey& key, Bytes statement, const Signature& signature) const = 0;
  // Never 0.
  virtual PeerId id_of(const PublicKey& key) const = 0;

  PeerId id() const { return id_of(key()); }
};

}  // namespace starling
