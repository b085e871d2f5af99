#include "node/front/http_client.h"

#include <httplib.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <thread>

#include "base/text.h"

namespace starling::node {
namespace {

constexpr std::time_t kConnectSeconds = 5;
constexpr std::size_t kAnswerBytesMax = 64 << 20;  // that http_request accepts

// Ends the connection of a request that takes too long: a server may send its answer byte by byte.
class Watch {
 public:
  Watch(httplib::Client& client, Duration limit)
      : thread_([this, &client, limit](const std::stop_token& over) {
          std::unique_lock lock(mutex_);
          changed_.wait_for(lock, over, limit, [] { return false; });
          if (over.stop_requested()) return;
          late_ = true;
          client.stop();
        }) {}
  // Whether it has ended the connection. Later it will not.
  bool is_late() {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
    return late_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool late_ = false;
  std::jthread thread_;
};

}  // namespace

Result<HttpAnswer, NoAnswer> http_request(const Address& at, const std::string& method,
                                          const std::string& path, const std::string& body,
                                          const std::string& token, Duration patience, Duration whole) {
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
  HttpAnswer answer;
  bool too_long = false;
  request.content_receiver = [&](const char* data, std::size_t size, std::uint64_t, std::uint64_t) {
    too_long = answer.body.size() + size > kAnswerBytesMax;
    if (!too_long) answer.body.append(data, size);
    return !too_long;
  };
  Watch watch(client, patience + whole);
  const httplib::Result result = client.send(request);
  const bool late = watch.is_late();
  if (result) {
    answer.status = result->status;
    return answer;
  }
  switch (result.error()) {
    case httplib::Error::Connection:
    case httplib::Error::ConnectionTimeout:
      return NoAnswer{{"nothing listens at " + to_string(at)}, false};
    default:
      return NoAnswer{
          {"the server at " + to_string(at) +
           (too_long ? " sent an answer that is too long"
                     : " did not answer within " + format_duration(late ? patience + whole : patience))},
          true};
  }
}

}  // namespace starling::node
