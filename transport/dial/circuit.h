// A circuit as one of its two ends sees it: the bytes of an inner connection travel in relayed frames on an
// outer link, which leads to the relay (relay.h). The inner connection is a local socket pair, so plain links
// and those with TLS work on it as on TCP. Transport::link_over() uses it.
#pragma once

#include "base/result.h"
#include "transport/links/link.h"
#include "transport/links/tcp_socket.h"

namespace starling::transport {

// Returns the inner connection. Two coroutines move its bytes to and from `outer`, at most 64 KiB in each
// direction beside the buffers of the kernel. If one side ends its direction, so does the other side; if the
// inner connection is closed, the outer link is closed when what was written before has left (or after 5 s
// without progress); if the outer link fails, the inner connection ends. Error: no file descriptors are left.
// REQUIRES: nobody else reads, writes or limits `outer` from now on.
Result<StreamSocket> carry_inside(LinkPtr outer);

}  // namespace starling::transport
