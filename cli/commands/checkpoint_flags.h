// The flags of `starling peer` that are about checkpoints.
#pragma once

#include <vector>

#include "base/result.h"
#include "cli/shell/arguments.h"
#include "node/daemon.h"

namespace starling::cli {

std::vector<Flag> checkpoint_flags();
Status read_checkpoint_flags(node::PeerOptions& options, const Arguments& arguments);

}  // namespace starling::cli
