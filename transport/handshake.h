// The handshake of every connection. The dialer sends a Hello; the accepter answers with its own Hello, or
// with a Refusal, and then closes the connection. No other message is accepted before that.
#pragma once

#include <string_view>

#include <asio/awaitable.hpp>

#include "base/time.h"
#include "transport/link.h"
#include "wire/messages.h"

namespace starling::transport {

// The text that a swarm with a key sends unencrypted to a peer that has none. That peer recognizes the reason
// by this text (LinkErrorKind::wrong_key), so it must not change.
inline constexpr std::string_view kKeyIsMissing =
    "this swarm has a key; a peer of it is started with --key and a copy of that key's file";

// The dialer's side. Returns the remote's Hello. Errors: bad_magic (not Starling), bad_version, refused,
// wrong_key, wrong_swarm, same_peer, timed_out, busy (the connection ended before the remote's first byte),
// closed_by_peer..., with a sentence that names the address; the link is then closed. REQUIRES: `link`
// outlives the call; mine.purpose is set.
asio::awaitable<LinkResult<wire::Hello>> introduce(Link& link, wire::Hello mine, Duration at_most);

// The accepter's side. Refuses another swarm, this peer itself, and another version. The answer has the
// dialer's purpose.
asio::awaitable<LinkResult<wire::Hello>> admit(Link& link, wire::Hello mine, Duration at_most);

}  // namespace starling::transport
