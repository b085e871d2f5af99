// A client for the HTTP server of a peer. The .cc file uses the HTTP library.
#pragma once

#include <chrono>
#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "node/front/http_message.h"

namespace starling::node {

struct NoAnswer : Error {
  bool connected = false;  // a server accepted the connection
};

// For routes that reply later (HttpOptions::long_patience), with time for the way.
inline constexpr Duration kLongAnswer = std::chrono::seconds(35);

// Sends a request to the server at `at`, with `token` unless it is empty, and returns the answer of any
// status, if it begins within `patience` and is whole within `whole` more. The Error says why there was no
// answer: "nothing listens at 127.0.0.1:7180".
Result<HttpAnswer, NoAnswer> http_request(const Address& at, const std::string& method,
                                          const std::string& path, const std::string& body = "",
                                          const std::string& token = "",
                                          Duration patience = std::chrono::seconds(5),
                                          Duration whole = std::chrono::seconds(20));

}  // namespace starling::node
