// Trying the model of a running peer from its page: its parameters as a file, the prediction for a sample,
// and the continuation of a text. They need the right to send commands, as they cost memory and time. They
// use a thread of their own, at low priority. Used by the daemon's thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "datasets/dataset.h"
#include "kernels/backend.h"
#include "node/front/http_rules.h"
#include "node/peer/lives.h"
#include "node/work/background.h"

namespace starling::node {

// {"values": [...]}: one sample of this shape in the order [channels, height, width]; pixels from 0 to 255 if
// the data set has images as bytes, else finite numbers. As a data set of that sample, with the
// normalization of `like`.
Result<datasets::Dataset> parse_sample(const std::string& text, const datasets::Dataset& like);
// {"shape": [channels, height, width], "pixels": whether values are bytes, "classes": N}, or of a text
// {"text": true, "context": tokens, "vocabulary": tokens, "writes": whether its tokens can be shown as text}
std::string input_json(const datasets::DataPair& pair);

class Trial {
 public:
  Trial(const Started& started, const Lives& lives, asio::any_io_executor executor)
      : started_(started), lives_(lives), thread_(std::move(executor)) {}

  // GET /api/v1/input, POST /api/v1/model, POST /api/v1/predict and POST /api/v1/generate.
  std::vector<HttpRoute> routes();

 private:
  static constexpr std::size_t kWaitingMax = 8;            // requests that the thread has not answered yet
  static constexpr std::size_t kModelBytesMax = 1U << 30;  // that are sent over HTTP, to all clients together

  // Counts the bytes of one more model that clients have not read yet, until the pointer is released. Null:
  // it would be more than kModelBytesMax.
  std::shared_ptr<const void> lease_model();
  // Replies with the outcome of work(parameters) on the thread, or with the reason for which there is none.
  void with_parameters(const HttpReply& reply,
                       std::function<HttpAnswer(const std::vector<float>& parameters)> work);
  void generate(const std::string& body, const HttpReply& reply);
  HttpAnswer predict(const datasets::Dataset& sample, const std::vector<float>& parameters,
                     std::uint64_t steps);

  const Started& started_;
  const Lives& lives_;
  std::unique_ptr<kernels::Backend> backend_;  // the CPU's, for every training device
  std::size_t waiting_ = 0;
  // Shared with answers, which may outlive this object.
  std::shared_ptr<std::atomic<std::size_t>> unread_ = std::make_shared<std::atomic<std::size_t>>(0);
  Background thread_;  // last: it ends first
};

}  // namespace starling::node
