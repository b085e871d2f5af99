// How commands ask a running peer at its --http address.
#pragma once

#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "cli/shell/arguments.h"

namespace starling::cli {

// The value of --at; the Error is for refuse().
Result<Address> peer_to_ask(const Arguments& arguments);
// The body of a GET; the Error is for fail().
Result<std::string> get(const Address& at, const std::string& path);

}  // namespace starling::cli
