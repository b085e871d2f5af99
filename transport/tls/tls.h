// TLS 1.3 as a state machine without a socket: ciphertext and plaintext in and out. In the handshake both
// ends prove that they have a key of the swarm (a pre-shared key; there are no certificates). A fresh
// Diffie-Hellman exchange per connection gives forward secrecy. The handshake is OpenSSL's; tls_records.h has
// the records after it. docs/PROTOCOL.md describes the messages and the security properties.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "transport/links/link_error.h"
#include "transport/tls/tls_records.h"
#include "transport/trust/swarm_key.h"

namespace starling::transport {

// Shared by all connections of one peer; one thread uses it.
class TlsContext {
 public:
  // The TLS keys are derived from the swarm's keys and name. The sender renews its traffic key after
  // `records_per_key` records; only tests use fewer. Error: OpenSSL's message.
  static Result<std::shared_ptr<TlsContext>> make(const SwarmKeys& keys, const std::string& swarm,
                                                  std::uint64_t records_per_key = kRecordsPerKey);
  // The keys for handshakes from now on. Connections continue (TlsEngine::is_outdated()).
  Status set_keys(const SwarmKeys& keys);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // AES-GCM allows 2^24.5 full records under one key (RFC 8446, 5.5).
  static constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 22;

 private:
  friend class TlsEngine;
  struct Own;
  explicit TlsContext(std::unique_ptr<Own> own);
  std::unique_ptr<Own> own_;
};

// Bytes whose new places resize() leaves as they are.
template <class T>
struct Unwritten : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = Unwritten<U>;
  };
  template <class U>
  void construct(U* place) {
    ::new (static_cast<void*>(place)) U;
  }
};
using TlsBuffer = std::vector<std::byte, Unwritten<std::byte>>;

enum class TlsRole : std::uint8_t { dialer, accepter };

// One end of a connection. After the first error every call returns it again.
class TlsEngine {
 public:
  TlsEngine(std::shared_ptr<const TlsContext> context, TlsRole role);
  ~TlsEngine();
  TlsEngine(const TlsEngine&) = delete;
  TlsEngine& operator=(const TlsEngine&) = delete;

  // Ciphertext that arrived. The bytes must stay valid until shake() returns false or open() returns 0; then
  // they are consumed. REQUIRES: the bytes fed before are consumed.
  void feed(Bytes arrived);
  // Bytes to send to the remote; the caller removes them.
  TlsBuffer& outgoing();

  // Continues the handshake. Returns true once it is complete and both ends have proved that they have the
  // key. Errors: wrong_key, malformed (not TLS 1.3), oversize (more than kHandshakeBytesMax); outgoing() then
  // holds an alert for the remote.
  LinkResult<bool> shake();

  // Whether the key of the handshake has been removed from the context since.
  bool is_outdated() const;

  // The same bytes at both ends of this connection, and others in every other one (an exporter of RFC 8446,
  // 7.5). REQUIRES: the handshake is complete.
  std::vector<std::byte> channel_binding() const;

  // Plaintext that has arrived, at most one record, decrypted into place if there is room for all of it; 0:
  // feed more, or ended(). Errors: bad_checksum if bytes were changed in transit, else malformed.
  LinkResult<std::size_t> open(MutableBytes into);
  bool ended() const;  // the remote closed its direction

  // REQUIRES: 0 < plain.size() <= kRecordBytes.
  LinkStatus seal(Bytes plain);
  void finish();  // closes this direction

  static constexpr std::size_t kRecordBytes = TlsRecords::kTextBytesMax;
  static constexpr std::size_t kHandshakeBytesMax = std::size_t{8} << 10;

 private:
  friend class TlsContext;
  struct Own;
  std::unique_ptr<Own> own_;
};

}  // namespace starling::transport
