// AES-128-GCM (NIST SP 800-38D) by Intel's library IPsec-MB, for the records of TLS: with the wide
// instructions of AVX-512 it is several times as fast as OpenSSL 3.0, which does not use them. Without that
// library, or on another processor, is_available() is false and OpenSSL does the work.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "base/bytes.h"

namespace starling::transport {

class Gcm {
 public:
  static constexpr std::size_t kKeyBytes = 16, kNonceBytes = 12, kTagBytes = 16;
  using Nonce = std::array<std::byte, kNonceBytes>;

  static bool is_available();

  // REQUIRES: is_available().
  explicit Gcm(std::span<const std::byte, kKeyBytes> key);
  ~Gcm();
  Gcm(const Gcm&) = delete;
  Gcm& operator=(const Gcm&) = delete;

  // Encrypts `plain` and after it the byte `last`; writes plain.size() + 1 bytes and the tag.
  void seal(const Nonce& nonce, Bytes header, Bytes plain, std::byte last, std::byte* sealed) const;

  // The reverse: `sealed` is plain.size() + 1 bytes and the tag. False: the tag is wrong; then `plain` and
  // `last` hold nothing of use.
  [[nodiscard]] bool open(const Nonce& nonce, Bytes header, Bytes sealed, MutableBytes plain,
                          std::byte& last) const;

 private:
  struct Key;
  std::unique_ptr<Key> key_;
};

}  // namespace starling::transport
