// The records of TLS 1.3 after its handshake (RFC 8446, 5), one direction of one connection. OpenSSL only
// makes the handshake: its record layer copies every byte twice more, and OpenSSL 3.0 encrypts at half the
// speed of the processor's wide instructions (transport/tls/gcm.h). Here a record is encrypted from the
// sender's bytes into those that are sent, and decrypted from those that arrived into the receiver's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/bytes.h"

namespace starling::transport {

enum class TlsCipher : std::uint8_t { aes_128_gcm, chacha20_poly1305 };  // both with SHA-256

using TlsSecret = std::array<std::byte, 32>;

class TlsRecords {
 public:
  static constexpr std::size_t kHeaderBytes = 5;
  static constexpr std::size_t kTextBytesMax = std::size_t{16} << 10;  // of one record
  // What a record has besides its text: the header, the type of the text, and the tag.
  static constexpr std::size_t kExtraBytes = kHeaderBytes + 1 + 16;
  // The most bytes after a header: with padding.
  static constexpr std::size_t kSealedBytesMax = kTextBytesMax + 256;

  enum class Type : std::uint8_t { alert = 21, handshake = 22, data = 23 };

  // The first keys of a direction follow from its traffic secret. `wide` permits IPsec-MB.
  TlsRecords(TlsCipher cipher, const TlsSecret& traffic_secret, bool wide = true);
  ~TlsRecords();
  TlsRecords(const TlsRecords&) = delete;
  TlsRecords& operator=(const TlsRecords&) = delete;

  // Writes a record of text.size() + kExtraBytes bytes. REQUIRES: text.size() <= kTextBytesMax.
  void seal(Type type, Bytes text, std::byte* record);

  // Decrypts a record: its header and the bytes after it, without the tag's and the type's, go to `text`.
  // False: it was changed in transit. REQUIRES: text.size() == record.size() - kExtraBytes.
  [[nodiscard]] bool open(Bytes record, MutableBytes text, std::byte& type);

  // From the next record on the keys of the next generation are used (RFC 8446, 7.2).
  void renew();

 private:
  struct Own;
  std::unique_ptr<Own> own_;
};

}  // namespace starling::transport
