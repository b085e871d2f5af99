// A client for the HTTP server of a peer. The .cc file uses the HTTP library.
#pragma once

#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "node/front/http_message.h"

namespace starling::node {

// Sends a request to the server at `at`, with `token` unless it is empty, and returns the answer of any
// status. The Error is one sentence: why there was no answer.
Result<HttpAnswer> http_request(const Address& at, const std::string& method, const std::string& path,
                                const std::string& body = "", const std::string& token = "");

}  // namespace starling::node
