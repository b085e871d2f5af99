// One request for a file, or for the rest of it, over HTTP or HTTPS. Only download.cc and
// node/front/http_client.cc use the HTTP library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"

namespace starling::datasets {

// Why a download ended early.
struct DownloadError : Error {
  bool worth_trying = false;  // a retry may succeed, for example after a broken connection
  bool no_such_part = false;  // the server's file ends before the requested position
};

struct Incoming {
  // Called once, before any byte, with the position of the bytes that follow (0 if the server cannot resume)
  // and the length of the whole file, if the server reports it. An Error ends the download and is returned.
  std::function<Status(std::uint64_t from, std::optional<std::uint64_t> size)> begin;
  std::function<Status(std::span<const std::byte> bytes)> take;
};

// Requests the file at `url`, beginning with byte `from`. Follows redirections; uses $http_proxy or
// $https_proxy unless $no_proxy names the host.
Result<Done, DownloadError> download(const std::string& url, std::uint64_t from, const Incoming& incoming);

// An Error unless the URL is http:// or https:// with a host.
Status check_url(const std::string& url);

}  // namespace starling::datasets
