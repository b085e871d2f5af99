#include "node/front/http_client.h"

#include <httplib.h>

#include <chrono>
#include <cstdint>

#include "base/text.h"

namespace starling::node {
namespace {

constexpr std::time_t kConnectSeconds = 5;
constexpr auto kWholeAnswer = std::chrono::seconds(20);  // from its first byte on
constexpr std::size_t kAnswerBytesMax = 64 << 20;        // that http_request accepts

}  // namespace

Result<HttpAnswer, NoAnswer> http_request(const Address& at, const std::string& method,
                                          const std::string& path, const std::string& body,
                                          const std::string& token, Duration patience) {
  httplib::Client client(at.host, at.port);
  client.set_connection_timeout(kConnectSeconds);
  client.set_read_timeout(patience);
  client.set_write_timeout(kConnectSeconds);
  httplib::Request request;
  request.method = method;
  request.path = path;
  request.set_header("Host", to_string(at));
  if (!token.empty()) request.set_header("Authorization", "Bearer " + token);
  if (method == "POST") {
    request.set_header("Content-Type", kJsonType);
    request.body = body;
  }
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + patience + kWholeAnswer;
  HttpAnswer answer;
  bool too_long = false;
  request.content_receiver = [&](const char* data, std::size_t size, std::uint64_t, std::uint64_t) {
    too_long = answer.body.size() + size > kAnswerBytesMax || Clock::now() > end;
    if (!too_long) answer.body.append(data, size);
    return !too_long;
  };
  const httplib::Result result = client.send(request);
  if (result) {
    answer.status = result->status;
    return answer;
  }
  switch (result.error()) {
    case httplib::Error::Connection:
    case httplib::Error::ConnectionTimeout:
      return NoAnswer{{"nothing listens at " + to_string(at)}, false};
    default:
      return NoAnswer{{"the server at " + to_string(at) +
                       (too_long ? " sent an answer that is too long"
                                 : " did not answer within " + format_duration(patience))},
                      true};
  }
}

}  // namespace starling::node
