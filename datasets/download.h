// One request for a file, or the rest of it, over HTTP or HTTPS. The .cc file is, beside node/http.cc, the
// only code that knows the HTTP library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"

namespace starling::datasets {

// Why a download ended early. What is `worth_trying` may go better at once: a connection that broke.
struct DownloadError : Error {
  bool worth_trying = false;
  bool no_such_part = false;  // the server's file ends before where it was to go on
};

struct Incoming {
  // Called once, before any byte: where the bytes that follow belong (0, where the server does not know how
  // to go on), and how long the whole file is, where the server says so. An Error ends the download with it.
  std::function<Status(std::uint64_t from, std::optional<std::uint64_t> size)> begin;
  std::function<Status(std::span<const std::byte> bytes)> take;
};

// Asks for what lies at `url` from byte `from` on. Follows redirections; goes through $http_proxy or
// $https_proxy where $no_proxy does not name the host.
Result<Done, DownloadError> download(const std::string& url, std::uint64_t from, const Incoming& incoming);

// Whether it is http:// or https:// with a host.
Status check_url(const std::string& url);

}  // namespace starling::datasets
