#include "node/front/http_message.h"

#include <algorithm>
#include <array>

#include "training/runs/records/json.h"

namespace starling::node {
namespace {

// Headers whose value decides how a request is treated.
constexpr std::array<std::string_view, 7> kDecisive = {
    "host",   "authorization",    "content-type",     "content-length",
    "expect", "content-encoding", "transfer-encoding"};

char lower(char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c + 32) : c; }

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return lower(c); });
  return out;
}

// The characters of names of methods and headers.
bool is_http_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return ('a' <= lower(c) && lower(c) <= 'z') || ('0' <= c && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

bool has_control_character(std::string_view text) {
  return std::ranges::any_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t') || byte == 0x7f;
  });
}

// Splits off the text before the next "\r\n".
std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find("\r\n"), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 2, text.size()));
  return line;
}

const char* reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    default:
      return "Other";
  }
}

}  // namespace

HttpAnswer http_refusal(int status, const std::string& sentence) {
  return {status, training::to_line({{"error", sentence}})};
}

// No other page may show an answer in a frame, where clicks could be redirected to it.
std::string http_head_of(const HttpAnswer& answer, bool of_unknown_length) {
  std::string head = "HTTP/1.1 " + std::to_string(answer.status) + " " + reason_of(answer.status) +
                     "\r\nContent-Type: " + answer.type + "\r\n";
  if (!of_unknown_length) head += "Content-Length: " + std::to_string(answer.body.size()) + "\r\n";
  return head +
         "Cache-Control: no-store\r\nX-Frame-Options: DENY\r\n"
         "Content-Security-Policy: frame-ancestors 'none'\r\nConnection: close\r\n\r\n";
}

std::string HttpHead::header(const std::string& name) const {
  const auto at = headers.find(name);
  return at == headers.end() ? std::string() : at->second;
}

Result<HttpHead> parse_http_head(std::string_view text) {
  const Error invalid{"the request is not valid HTTP"};
  HttpHead head;
  const std::string_view first = take_line(text);
  const std::size_t space = first.find(' '), second = first.rfind(' ');
  if (space == std::string_view::npos || second <= space || has_control_character(first)) return invalid;
  const std::string_view target = first.substr(space + 1, second - space - 1);
  const std::string_view version = first.substr(second + 1);
  head.method = first.substr(0, space);
  if (!is_http_token(head.method) || target.find(' ') != std::string_view::npos) return invalid;
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return invalid;
  if (!target.starts_with('/')) return Error{"the request must name a path that begins with '/'"};
  head.path = target.substr(0, target.find('?'));

  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || has_control_character(line)) return invalid;
    if (!is_http_token(line.substr(0, colon)))
      return invalid;  // also a continued line, which begins with a blank
    std::string_view value = line.substr(colon + 1);
    value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
    value = value.substr(0, value.find_last_not_of(" \t") + 1);
    const std::string name = lower(line.substr(0, colon));
    const bool fresh = head.headers.emplace(name, value).second;
    if (!fresh && std::ranges::find(kDecisive, name) != kDecisive.end())
      return Error{"the request has the header " + name + " twice"};
  }
  return head;
}

bool is_from_a_peer(std::string_view input) {
  return input.starts_with("STRL") || input.starts_with("\x16\x03");
}

bool same_word(std::string_view text, std::string_view word) { return lower(text) == lower(word); }

}  // namespace starling::node
