// The daemon: the real driver of one gossip::Peer. It owns the sockets, the clock, the worker threads and the
// replica; the core decides what to do, and the daemon does it. `starling peer` calls run_peer().
#pragma once

#include "node/launch/process_options.h"
#include "node/peer/options.h"

namespace starling::node {

// Runs until the end of the run, a signal (SIGINT, SIGTERM, SIGHUP: leave) or a failure. Blocks; one call per
// process. A thread in an operation that cannot be interrupted (a disk, a name lookup, the step of a large
// model) gets a moment to return; then the process exits after `last_words`, which is called once, on any
// thread. Returns what it returns. A peer that is asked to leave has come to them within three seconds.
int run_peer(const DaemonOptions& options, const LastWords& last_words);

}  // namespace starling::node
