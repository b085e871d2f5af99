// What a link table has counted since its start.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/links/link.h"
#include "transport/links/link_error.h"

namespace starling::transport {

struct RelayCounters {                 // of the circuits through this peer
  std::uint64_t circuits = 0;          // open now
  std::uint64_t circuits_opened = 0;   // in all
  std::uint64_t circuits_refused = 0;  // requests that were refused, or whose target did not come in time
  std::uint64_t answers_refused = 0;   // connections that answer a call for which no request waits
  std::uint64_t bytes = 0;             // passed on, in both directions, with the headers of frames
};

struct LinkCounters {
  // By LinkErrorKind: failures in handshakes and on control links, failures of bulk links through note(), and
  // as over_limit the inbound connections that were closed because too many handshakes were in progress.
  std::array<std::uint64_t, kLinkErrorKinds> faults{};
  std::uint64_t operator[](LinkErrorKind kind) const { return faults[static_cast<std::size_t>(kind)]; }
  void note(LinkErrorKind kind) { ++faults[static_cast<std::size_t>(kind)]; }

  std::uint64_t handshake_timeouts = 0;  // inbound; timed_out includes them
  std::uint64_t messages_sent = 0;       // handed to the kernel
  std::uint64_t messages_received = 0;
  std::uint64_t messages_dropped = 0;  // queue full, remote unreachable, or too large
  std::uint64_t links_dialed = 0;      // control, after their handshake
  std::uint64_t links_accepted = 0;
  std::uint64_t bulk_dialed = 0;       // in any way: also those that were called or are in a circuit
  std::uint64_t calls_sent = 0;        // control and bulk
  std::uint64_t calls_unanswered = 0;  // of these
  std::uint64_t calls_answered = 0;    // of others: answer_call() led to a connection
  std::uint64_t answers_failed = 0;    // answer_call() did not
  std::uint64_t answers_refused = 0;   // inbound connections with the number of no call that waits
  Traffic traffic;                     // control and bulk, all bytes of the transport; a relay's also
  RelayCounters relay;
};

}  // namespace starling::transport
