// The handshake of every connection. The dialer sends a Hello; the accepter answers with its own Hello, which
// proves its identity, or with a Refusal, and then closes the connection; the dialer sends its Proof, or a
// Refusal. No other message is accepted before that. docs/PROTOCOL.md describes what is signed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <asio/awaitable.hpp>

#include "base/identity.h"
#include "base/time.h"
#include "transport/links/link.h"
#include "wire/messages.h"

namespace starling::transport {

// The text that a swarm with a key sends unencrypted to a peer that has none. That peer recognizes the reason
// by this text (LinkErrorKind::wrong_key), so it must not change.
inline constexpr std::string_view kKeyIsMissing =
    "this swarm has a key; a peer of it is started with --key and a copy of that key's file";

// Who this peer is in a handshake, and whom it accepts.
struct Self {
  wire::Hello hello;                         // id, key, nonce and proof are filled in by the handshake
  const Identity* identity = nullptr;        // REQUIRES: not null, outlives the handshake
  std::function<bool(PeerId)> allowed = {};  // empty: every peer of the swarm
};

// The dialer's side. Returns the remote's Hello, whose id is proved. Its Proof is sent then; what is written
// next follows it. Errors: bad_magic (not Starling), bad_version, refused, wrong_key, wrong_swarm, same_peer,
// false_identity, not_allowed, timed_out, busy (the connection ended before the remote's first byte),
// closed_by_peer..., with a sentence that names the address; the link is then closed. REQUIRES: `link`
// outlives the call; self.hello.purpose is set.
asio::awaitable<LinkResult<wire::Hello>> introduce(Link& link, Self self, Duration at_most);

// The accepter's side. Refuses another swarm, this peer itself, another version, an id without its key, and
// peers that are not allowed. The answer has the dialer's purpose. The limit is for all messages together.
asio::awaitable<LinkResult<wire::Hello>> admit(Link& link, Self self, Duration at_most);

// Sends the reason, ends this direction, so that the remote can read it and close, and closes the link after
// that. No time limit but the link's own. REQUIRES: `link` outlives the call.
asio::awaitable<void> refuse_remote(Link& link, wire::RefusalReason reason, std::string sentence);

// What the two ends sign: everything that both said, and the encrypted connection on which they said it.
enum class Signer : std::uint8_t { accepter = 3, dialer = 4 };
std::vector<std::byte> handshake_statement(Signer signer, const wire::Hello& dialer,
                                           const wire::Hello& accepter, Bytes channel_binding);

}  // namespace starling::transport
