// AES-128-GCM (NIST SP 800-38D) with the wide AES and multiplication instructions of AVX-512, for the records
// of TLS: several times as fast as OpenSSL 3.0, which does not use them. The running time depends on lengths
// only. tests/transport compares it with OpenSSL.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/bytes.h"

namespace starling::transport {

class Avx512Gcm {
 public:
  static constexpr std::size_t kKeyBytes = 16, kNonceBytes = 12, kTagBytes = 16;
  using Nonce = std::array<std::byte, kNonceBytes>;

  // Whether this processor has the instructions.
  static bool is_available();

  // REQUIRES: is_available().
  explicit Avx512Gcm(std::span<const std::byte, kKeyBytes> key);
  ~Avx512Gcm();
  Avx512Gcm(const Avx512Gcm&) = delete;
  Avx512Gcm& operator=(const Avx512Gcm&) = delete;

  // Encrypts `plain` and after it the byte `last`; writes plain.size() + 1 bytes and the tag.
  // REQUIRES: `header` has at most 16 bytes; plain.size() < 2^30.
  void seal(const Nonce& nonce, Bytes header, Bytes plain, std::byte last, std::byte* sealed) const;

  // The reverse: `sealed` is plain.size() + 1 bytes and the tag. False: the tag is wrong; then `plain` and
  // `last` hold nothing of use.
  [[nodiscard]] bool open(const Nonce& nonce, Bytes header, Bytes sealed, MutableBytes plain,
                          std::byte& last) const;

 private:
  static constexpr std::size_t kRoundKeys = 11, kPowers = 16, kBlockBytes = 16;
  alignas(64) std::array<std::byte, kRoundKeys * kBlockBytes> round_keys_{};
  // The hash key's powers 16 to 1, each multiplied by x.
  alignas(64) std::array<std::byte, kPowers * kBlockBytes> powers_{};
};

}  // namespace starling::transport
