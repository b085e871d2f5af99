// The first words on every connection. The dialler says Hello; the accepter answers with its own Hello, or
// with a Refusal and a closed connection. Nothing else is believed before that.
#pragma once

#include <cstddef>
#include <string_view>

#include <asio/awaitable.hpp>

#include "base/time.h"
#include "transport/link.h"
#include "wire/messages.h"

namespace starling::transport {

// What a swarm with a key says in plain words to a peer that has none; by this text that peer knows why it
// was refused (LinkErrorKind::wrong_key), so it stays as it is.
inline constexpr std::string_view kKeyIsMissing =
    "this swarm has a key; a peer of it is started with --key and a copy of that key's file";

// The dialler's side: the remote's Hello. Errors: not Starling (bad_magic), bad_version, refused,
// wrong_key, wrong_swarm, same_peer, timed_out, closed_by_peer... with a sentence that names the address; the
// link is closed then. REQUIRES: `link` and `mine` outlive the call; mine.purpose says what the connection is
// for.
asio::awaitable<LinkResult<wire::Hello>> introduce(Link& link, wire::Hello mine, Duration at_most);

// The accepter's side. Refuses another swarm, itself, another version. The answer carries the dialler's
// purpose.
asio::awaitable<LinkResult<wire::Hello>> admit(Link& link, wire::Hello mine, Duration at_most);

}  // namespace starling::transport
