// The identity of a real peer: an Ed25519 key pair (RFC 8032). The private key lives in OpenSSL's memory and,
// for a peer that keeps its identity, in a file that only its owner can read and one process at a time can
// use. The id is the first 64 bits of the SHA-256 of the public key.
#pragma once

#include <memory>
#include <string>

#include "base/identity.h"
#include "base/result.h"

namespace starling::transport {

class Ed25519Identity final : public Identity {
 public:
  // A key pair that no file keeps. Error: OpenSSL cannot make one.
  static Result<std::shared_ptr<const Ed25519Identity>> make_new(const std::string& swarm);
  // The key pair in the file; without a file, a new one and a new file. The file stays locked as long as the
  // identity lives. Error, one sentence with the path: the file cannot be read or written, others than its
  // owner can open it, it does not have the format, or another process uses it. A file is never replaced.
  static Result<std::shared_ptr<const Ed25519Identity>> read_or_create(const std::string& path,
                                                                       const std::string& swarm);
  ~Ed25519Identity() override;
  Ed25519Identity(const Ed25519Identity&) = delete;
  Ed25519Identity& operator=(const Ed25519Identity&) = delete;

  const PublicKey& key() const override;
  Signature sign(Bytes statement) const override;
  bool verify(const PublicKey& key, Bytes statement, const Signature& signature) const override;
  PeerId id_of(const PublicKey& key) const override;

 private:
  struct Own;
  explicit Ed25519Identity(std::unique_ptr<Own> own);
  std::unique_ptr<Own> own_;
};

}  // namespace starling::transport
