// Requests to a running peer at its --http address.
#pragma once

#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "cli/shell/arguments.h"

namespace starling::cli {

// The value of --at; an Error is for refuse(). REQUIRES: --at is given.
Result<Address> peer_to_ask(const Arguments& arguments);
// The body of a GET; an Error is for fail().
Result<std::string> get(const Address& at, const std::string& path);

// --at, required.
Flag at_flag();

}  // namespace starling::cli
