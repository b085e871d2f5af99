// The messages of HTTP/1.1 as values: the head of a request, which is parsed strictly, and answers. No
// sockets. Each connection carries one request.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace starling::node {

inline constexpr const char* kJsonType = "application/json";

struct HttpAnswer {
  int status = 200;
  std::string body;
  std::string type = kJsonType;
  std::shared_ptr<const void> lease = {};  // released when the answer has been sent or dropped
};
// {"error": sentence}
HttpAnswer http_refusal(int status, const std::string& sentence);

// Everything before the body, with the empty line. An answer `of_unknown_length` ends with its connection.
std::string http_head_of(const HttpAnswer& answer, bool of_unknown_length = false);

struct HttpHead {
  std::string method;
  std::string path;                            // without the query
  std::map<std::string, std::string> headers;  // by name in lower case

  bool has(const std::string& name) const { return headers.contains(name); }
  std::string header(const std::string& name) const;  // empty without this header
};

// Parses the request line and the headers, without the empty line after them. The Error is for status 400. A
// header that decides how a request is treated must not be repeated.
Result<HttpHead> parse_http_head(std::string_view text);

// Whether the client speaks Starling's protocol instead of HTTP, because it wants to join here: its first
// bytes begin a frame or a TLS handshake.
bool is_from_a_peer(std::string_view input);

// Whether `text` and `word` are equal, if upper and lower case are.
bool same_word(std::string_view text, std::string_view word);

}  // namespace starling::node
