// How long a member may take to answer, and how long a suspect may take to refute: pure functions of what was
// measured. Suspicion is Lifeguard's (Dadgar, Phillips, Currey: "Lifeguard: Local health awareness for more
// accurate failure detection", 2018): it shrinks with the number of independent accusers.
#pragma once

#include "gossip/local_view.h"

namespace starling::gossip {

// Half the probe interval until a round trip was measured, then TCP's formula (RFC 6298, section 2), plus
// twice this peer's own lag. At most four probe intervals: links that exchanges keep full delay answers for
// longer than one.
Duration answer_limit(const Record& record, Duration lag, Duration probe_interval);

// For a suspect with one accuser, in a swarm with this number of live members including this peer.
Duration longest_suspicion(const MembershipOptions& options, std::size_t live);
// For a suspect with this number of accusers.
Duration suspicion_window(const MembershipOptions& options, std::size_t live, std::size_t accusers);

}  // namespace starling::gossip
