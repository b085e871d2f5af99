// TLS 1.3 as a machine without a socket: ciphertext in and out, plaintext in and out. Both ends prove in the
// handshake that they have the swarm's key (a pre-shared key; there are no certificates), and the keys of
// each connection come from a fresh Diffie-Hellman exchange besides, so that whoever learns the swarm's key
// later cannot read what was recorded before. OpenSSL's headers stand behind tls.cc. docs/PROTOCOL.md says
// what travels and what it is worth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "transport/link.h"
#include "transport/swarm_key.h"

namespace starling::transport {

// What the connections of one peer have in common.
class TlsContext {
 public:
  // The key of TLS is derived from the swarm's key and its name. `records_per_key`: so many are sealed before
  // the sender's key is renewed; fewer only in tests. Error: what OpenSSL says.
  static Result<std::shared_ptr<const TlsContext>> make(const SwarmKey& key, const std::string& swarm,
                                                        std::uint64_t records_per_key = kRecordsPerKey);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // AES-GCM bears 2^24.5 full records under one key (RFC 8446, 5.5).
  static constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 22;

 private:
  friend class TlsEngine;
  struct Own;
  explicit TlsContext(std::unique_ptr<Own> own);
  std::unique_ptr<Own> own_;
};

enum class TlsRole : std::uint8_t { dialler, accepter };

// One connection's end. After the first error every call returns it again.
class TlsEngine {
 public:
  TlsEngine(std::shared_ptr<const TlsContext> context, TlsRole role);
  ~TlsEngine();
  TlsEngine(const TlsEngine&) = delete;
  TlsEngine& operator=(const TlsEngine&) = delete;

  // Ciphertext that arrived; it stays where it is until shake() said false or open() returned 0, which then
  // have used it up. REQUIRES: what was fed before is used up.
  void feed(Bytes arrived);
  // What the remote is to be sent; to be taken out by whoever sends it.
  std::vector<std::byte>& outgoing();

  // Goes on with the handshake; true: it is over, and both have proved that they have the key. Errors:
  // wrong_key, malformed (no TLS 1.3), oversize (more than kHandshakeBytesMax); an alert that tells the
  // remote is outgoing then.
  LinkResult<bool> shake();

  // Plaintext, as much as has arrived, at most a record's; 0: feed more, or ended(). Errors: bad_checksum
  // where somebody changed bytes on their way, else malformed.
  LinkResult<std::size_t> open(MutableBytes into);
  bool ended() const;  // the remote said that nothing more follows

  // REQUIRES: 0 < plain.size() <= kRecordBytes.
  LinkStatus seal(Bytes plain);
  void finish();  // says that nothing more follows

  static constexpr std::size_t kRecordBytes = std::size_t{16} << 10;
  static constexpr std::size_t kHandshakeBytesMax = std::size_t{8} << 10;

 private:
  friend class TlsContext;
  struct Own;
  std::unique_ptr<Own> own_;
};

}  // namespace starling::transport
