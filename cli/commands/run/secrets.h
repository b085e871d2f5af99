// Files with secrets: the swarm's key (--key FILE or STARLING_KEY, which names a file too), and the token for
// commands over HTTP.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/shell/arguments.h"
#include "transport/tls/tls.h"
#include "transport/trust/swarm_key.h"

namespace starling::cli {

// --key of commands other than `starling peer`: it has no key in a file.
Flag key_flag();

// The error if a run without gossip, by this rule, is given a key.
std::string keyless_rule(const std::string& rule);

// The path of the key's file; empty without a key.
std::string key_file(const Arguments& arguments);

// The keys of the file, or nothing if there is none. An Error begins with the name of the flag or the
// variable.
Result<std::optional<transport::SwarmKeys>> read_swarm_keys(const Arguments& arguments);

// The TLS context for the peers of `swarm` with these keys; null without a key. Errors as above.
Result<std::shared_ptr<transport::TlsContext>> read_key(const Arguments& arguments, const std::string& swarm);

// The token of --token-file (node/front/token_file.h). Empty if the flag is not given.
Result<std::string> read_token(const Arguments& arguments);

}  // namespace starling::cli
