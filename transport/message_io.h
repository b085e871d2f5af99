// Messages and chunks on one link, as the daemon uses them on bulk connections after the handshake.
#pragma once

#include <asio/awaitable.hpp>

#include "base/bytes.h"
#include "transport/link.h"
#include "wire/messages.h"

namespace starling::transport {

// REQUIRES: `link` outlives the call (hold its LinkPtr).
asio::awaitable<LinkStatus> write_message(Link& link, wire::Message message);

// `floats` must stay valid until it returns. REQUIRES: head.floats * 4 == floats.size() <= 1 MiB.
asio::awaitable<LinkStatus> write_chunk(Link& link, wire::ChunkHead head, Bytes floats);

// The message in a control frame. If the frame is a chunk or does not decode, the error is `malformed` and
// the link is closed.
LinkResult<wire::Message> message_in(Link& link, const Frame& frame);

// The next frame, which must be a message.
asio::awaitable<LinkResult<wire::Message>> read_message(Link& link);

}  // namespace starling::transport
