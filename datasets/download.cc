#include "datasets/download.h"

#include <httplib.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/text.h"

namespace starling::datasets {
namespace {

constexpr int kConnectSeconds = 15;
constexpr int kSilenceSeconds = 30;

struct Url {
  std::string origin;  // "https://host:8080"
  std::string scheme, host;
  int port = 0;
  std::string path;  // "/a/b"
};

std::optional<Url> split(const std::string& url) {
  Url parts;
  const std::size_t colon = url.find("://");
  if (colon == std::string::npos) return std::nullopt;
  parts.scheme = url.substr(0, colon);
  if (parts.scheme != "http" && parts.scheme != "https") return std::nullopt;
  const std::size_t begin = colon + 3, slash = std::min(url.find('/', begin), url.size());
  std::string authority = url.substr(begin, slash - begin);
  parts.origin = url.substr(0, slash);
  parts.path = slash == url.size() ? "/" : url.substr(slash);
  parts.port = parts.scheme == "https" ? 443 : 80;
  const std::size_t last = authority.rfind(':');
  if (last != std::string::npos && authority.find(']', last) == std::string::npos) {
    const auto port = parse_number<std::uint16_t>(authority.substr(last + 1));
    if (!port || *port == 0) return std::nullopt;
    parts.port = *port;
    authority.resize(last);
  }
  if (authority.empty() || authority.find_first_of(" \t\r\n@") != std::string::npos) return std::nullopt;
  parts.host = std::move(authority);
  return parts;
}

std::string variable(const char* lower, const char* upper) {
  if (const char* value = std::getenv(lower)) return value;
  if (const char* value = std::getenv(upper)) return value;
  return "";
}

// Whether $no_proxy names the host, or the end of its name.
bool goes_directly(const std::string& host) {
  if (host == "localhost" || host == "[::1]" || host.starts_with("127.")) return true;
  const std::string list = variable("no_proxy", "NO_PROXY");
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    std::string name = list.substr(begin, end - begin);
    std::erase(name, ' ');
    if (name.starts_with("*")) name.erase(0, 1);
    if (!name.empty() && (host == name || host.ends_with(name.front() == '.' ? name : "." + name)))
      return true;
    begin = end + 1;
  }
  return list == "*";
}

void take_proxy(httplib::Client& client, const Url& url) {
  if (goes_directly(url.host)) return;
  std::string text =
      url.scheme == "https" ? variable("https_proxy", "HTTPS_PROXY") : variable("http_proxy", "http_proxy");
  if (!text.empty() && text.find("://") == std::string::npos) text = "http://" + text;
  if (const auto proxy = split(text)) client.set_proxy(proxy->host, proxy->port);
}

std::string why(httplib::Error error) {
  switch (error) {
    case httplib::Error::Connection:
      return "cannot connect";
    case httplib::Error::Read:
    case httplib::Error::Write:
      return "the connection broke";
    case httplib::Error::ExceedRedirectCount:
      return "it has too many redirections";
    case httplib::Error::SSLConnection:
      return "cannot make a TLS connection";
    case httplib::Error::SSLLoadingCerts:
      return "cannot read this machine's certificates; install the package ca-certificates";
    case httplib::Error::SSLServerVerification:
      return "this machine does not trust the server's certificate";
    default:
      return "the request failed (" + httplib::to_string(error) + ")";
  }
}

bool may_go_better(httplib::Error error) {
  return error == httplib::Error::Connection || error == httplib::Error::Read ||
         error == httplib::Error::Write || error == httplib::Error::SSLConnection;
}

// The first and the last number of "bytes 100-199/200".
struct ContentRange {
  std::uint64_t from = 0;
  std::optional<std::uint64_t> size;
};
std::optional<ContentRange> parse_content_range(const std::string& text) {
  const std::size_t dash = text.find('-'), slash = text.find('/');
  if (!text.starts_with("bytes ") || dash == std::string::npos || slash == std::string::npos)
    return std::nullopt;
  const auto from = parse_number<std::uint64_t>(text.substr(6, dash - 6));
  if (!from) return std::nullopt;
  return ContentRange{*from, parse_number<std::uint64_t>(text.substr(slash + 1))};
}

}  // namespace

Status check_url(const std::string& url) {
  if (split(url)) return Done{};
  return Error{"'" + url.substr(0, 200) +
               "' is not the address of a folder, such as https://example.org/data"};
}

Result<Done, DownloadError> download(const std::string& url, std::uint64_t from, const Incoming& incoming) {
  const auto parts = split(url);
  if (!parts) return DownloadError{{"'" + url.substr(0, 200) + "' is not an http:// or https:// address"}};
#ifndef CPPHTTPLIB_OPENSSL_SUPPORT
  if (parts->scheme == "https")
    return DownloadError{{url + ": this program was built without TLS; use an http:// mirror"}};
#endif
  httplib::Client client(parts->origin);
  client.set_follow_location(true);
  client.set_decompress(false);
  client.set_connection_timeout(kConnectSeconds);
  client.set_read_timeout(kSilenceSeconds);
  take_proxy(client, *parts);
  httplib::Headers headers = {{"User-Agent", "starling"}, {"Accept-Encoding", "identity"}};
  if (from > 0) headers.emplace("Range", "bytes=" + std::to_string(from) + "-");

  std::optional<DownloadError> stopped;
  const auto stop_with = [&stopped](std::string sentence) {
    stopped = DownloadError{{std::move(sentence)}};
    return false;
  };
  const auto look_at = [&](const httplib::Response& response) {
    if (response.status == 200 || response.status == 206) {
      ContentRange range;
      if (response.status == 206) {
        const auto read = parse_content_range(response.get_header_value("Content-Range"));
        if (!read || read->from != from)
          return stop_with(url + ": the server sent another part than requested");
        range = *read;
      } else {
        range.size = parse_number<std::uint64_t>(response.get_header_value("Content-Length"));
      }
      if (const Status begun = incoming.begin(range.from, range.size); !begun)
        return stop_with(begun.error().message);
      return true;
    }
    stop_with(url + (response.status == 404 || response.status == 410
                         ? ": the server has no such file (" + std::to_string(response.status) + ")"
                         : ": the server answered with status " + std::to_string(response.status)));
    stopped->no_such_part = response.status == 416;
    stopped->worth_trying = response.status >= 500;
    return false;
  };
  const auto take = [&](const char* data, std::size_t size) {
    const Status taken = incoming.take(std::as_bytes(std::span(data, size)));
    return taken ? true : stop_with(taken.error().message);
  };
  const httplib::Result result = client.Get(parts->path, headers, look_at, take);
  if (stopped) return *stopped;
  if (!result) return DownloadError{{url + ": " + why(result.error())}, may_go_better(result.error())};
  return Done{};
}

}  // namespace starling::datasets
