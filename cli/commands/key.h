// The swarm's key on a command line: --key FILE, or the environment's STARLING_KEY, which names a file too.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/shell/arguments.h"
#include "transport/swarm_key.h"
#include "transport/tls.h"

namespace starling::cli {

Flag key_flag();

// Said where a run by all-reduce is given a key.
inline constexpr const char* kKeylessRule =
    "--key does not go with --rule all-reduce: its peers meet over Gloo's own connections, which are not "
    "encrypted";

// The file's path; empty: there is no key.
std::string key_file(const Arguments& arguments);

// What stands in it; none where there is no key. Error: as below.
Result<std::optional<transport::SwarmKey>> read_swarm_key(const Arguments& arguments);

// What the connections of a peer with this key have in common; null where there is none. Error: one sentence
// about the file that begins with the flag's or the variable's name.
Result<std::shared_ptr<const transport::TlsContext>> read_key(const Arguments& arguments,
                                                              const std::string& swarm);

}  // namespace starling::cli
