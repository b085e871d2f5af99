#include "node/peer/trial.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "kernels/by_name/backends.h"
#include "node/front/writing.h"
#include "node/work/processors.h"
#include "training/learning/evaluator.h"
#include "training/runs/records/checkpoint.h"
#include "training/runs/records/json.h"

namespace starling::node {
namespace {

using training::Json;

constexpr const char* kModelType = "application/octet-stream";
constexpr double kPixelMax = 255;
constexpr const char* kNoModel = "the peer has no model yet";
constexpr const char* kUnread = "other clients have not read the models yet that they asked for";
constexpr const char* kText =
    "the network reads text; only images and rows of numbers can be classified here";
constexpr const char* kNoText =
    "the network reads no text; only a network for text, such as gpt-tiny, can continue one";
constexpr const char* kNoTokenizer =
    "the data are token numbers without a tokenizer, so there is no text; put tokenizer.txt beside them";
constexpr const char* kOutside = "a program outside this peer has the network; only that can predict";

Result<std::vector<double>> parse_values(const std::string& text, std::size_t count) {
  const Json object = training::parse_json(text);
  const auto values = object.is_object() ? object.find("values") : object.end();
  if (values == object.end() || !values->is_array())
    return Error{"the body must be {\"values\": [NUMBER, ...]}"};
  if (values->size() != count)
    return Error{fmt::format("a sample has {} values, and {} were sent", count, values->size())};
  std::vector<double> numbers;
  for (const Json& value : *values) {
    if (!value.is_number() || !std::isfinite(value.get<double>()))
      return Error{fmt::format("value {} is not a finite number", numbers.size() + 1)};
    numbers.push_back(value.get<double>());
  }
  return numbers;
}

}  // namespace

Result<datasets::Dataset> parse_sample(const std::string& text, const datasets::Dataset& like) {
  const auto values = parse_values(text, static_cast<std::size_t>(like.shape.size()));
  if (!values) return values.error();
  datasets::Dataset sample;
  sample.shape = like.shape;
  sample.classes = like.classes;
  sample.offsets = like.offsets;
  sample.normalization = like.normalization;
  sample.labels = {0};
  for (const double value : *values) {
    if (like.has_floats()) {
      sample.features.push_back(static_cast<float>(value - like.offset_of(sample.features.size())));
    } else if (value >= 0 && value <= kPixelMax) {
      sample.images.push_back(static_cast<std::uint8_t>(std::lround(value)));
    } else {
      return Error{fmt::format("the pixel {} is not between 0 and {}", value, kPixelMax)};
    }
  }
  return sample;
}

std::string input_json(const datasets::DataPair& pair) {
  const datasets::Dataset& data = pair.train;
  if (data.is_text()) {
    return training::to_line({{"text", true},
                              {"context", data.context},
                              {"vocabulary", data.classes},
                              {"writes", pair.tokenizer != nullptr}});
  }
  return training::to_line({{"shape", {data.shape.channels, data.shape.height, data.shape.width}},
                            {"pixels", !data.has_floats()},
                            {"classes", data.classes}});
}

std::vector<HttpRoute> Trial::routes() {
  HttpRoute input{"GET", "/api/v1/input", [this](const std::string&) {
                    if (!lives_.built) return http_refusal(503, kNoModel);
                    if (lives_.built->replica->is_outside())
                      return HttpAnswer{200, training::to_line({{"outside", true}})};
                    return HttpAnswer{200, input_json(lives_.built->replica->data)};
                  }};
  HttpRoute model{.method = "POST", .path = "/api/v1/model"};
  model.later = [this](const std::string&, const HttpReply& reply) {
    if (!lives_.built) return reply(http_refusal(503, kNoModel));
    auto lease = lease_model();
    if (!lease) return reply(http_refusal(503, kUnread));
    with_parameters(reply, [this, lease = std::move(lease)](const std::vector<float>& parameters) {
      return HttpAnswer{
          200,
          training::to_safetensors(lives_.built->replica->plan.layout, parameters,
                                   replica_metadata(*lives_.built->replica, lives_.built->experiment)),
          kModelType, lease};
    });
  };
  HttpRoute predict{.method = "POST", .path = "/api/v1/predict"};
  predict.later = [this](const std::string& body, const HttpReply& reply) {
    if (!lives_.built) return reply(http_refusal(503, kNoModel));
    if (lives_.built->replica->is_outside()) return reply(http_refusal(404, kOutside));
    if (lives_.built->replica->data.train.is_text()) return reply(http_refusal(404, kText));
    auto sample = parse_sample(body, lives_.built->replica->data.train);
    if (!sample) return reply(http_refusal(400, sample.error().message));
    with_parameters(reply, [this, sample = std::move(*sample),
                            steps = lives_.equipped->trainer->steps()](const std::vector<float>& parameters) {
      return this->predict(sample, parameters, steps);
    });
  };
  HttpRoute generate{.method = "POST", .path = "/api/v1/generate"};
  generate.later = [this](const std::string& body, const HttpReply& reply) { this->generate(body, reply); };
  return {std::move(input), std::move(model), std::move(predict), std::move(generate)};
}

void Trial::generate(const std::string& body, const HttpReply& reply) {
  if (!lives_.built) return reply(http_refusal(503, kNoModel));
  const Replica& replica = *lives_.built->replica;
  if (replica.is_outside()) return reply(http_refusal(404, kOutside));
  if (!replica.data.train.is_text()) return reply(http_refusal(404, kNoText));
  if (replica.data.tokenizer == nullptr) return reply(http_refusal(404, kNoTokenizer));
  auto request = parse_writing_request(body, replica.plan.spec.input.tokens, replica.plan.classes);
  if (!request) return reply(http_refusal(400, request.error().message));
  with_parameters(reply, [&replica, request = std::move(*request),
                          steps = lives_.equipped->trainer->steps()](const std::vector<float>& parameters) {
    auto written = continue_text(replica.plan, parameters, *replica.data.tokenizer, request);
    if (!written) return http_refusal(400, written.error().message);
    written->steps = steps;
    return HttpAnswer{200, to_json(*written)};
  });
}

std::shared_ptr<const void> Trial::lease_model() {
  const std::size_t bytes = lives_.built->replica->arena.size() * sizeof(float);
  // A larger model gets the answer of with_parameters().
  if (bytes <= kModelBytesMax && *unread_ + bytes > kModelBytesMax) return nullptr;
  *unread_ += bytes;
  return {this, [unread = unread_, bytes](const void*) { *unread -= bytes; }};
}

void Trial::with_parameters(const HttpReply& reply,
                            std::function<HttpAnswer(const std::vector<float>& parameters)> work) {
  // Before that the builder may be writing the replica.
  if (started_.stage == PeerStage::starting || started_.stage == PeerStage::ending)
    return reply(http_refusal(503, "the peer has no model yet, or is ending"));
  if (waiting_ >= kWaitingMax) return reply(http_refusal(503, "enough requests for the model wait already"));
  if (lives_.built->replica->arena.size() * sizeof(float) > kModelBytesMax)
    return reply(http_refusal(413, "the model is larger than 1 GiB; --export and --checkpoints write it"));
  ++waiting_;
  thread_.run(
      [this, work = std::move(work)] {
        if (!lower_priority()) return http_refusal(503, "the priority of the thread cannot be lowered");
        const models::Arena& arena = lives_.built->replica->arena;
        std::vector<float> parameters(arena.size());
        try {
          arena.read(0, parameters);
        } catch (const kernels::DeviceError& failed) {  // which ends the peer elsewhere
          return http_refusal(503, failed.what());
        }
        return work(parameters);
      },
      [this, reply](HttpAnswer answer) {
        --waiting_;
        reply(std::move(answer));
      });
}

HttpAnswer Trial::predict(const datasets::Dataset& sample, const std::vector<float>& parameters,
                          std::uint64_t steps) {
  if (!backend_) {
    auto backend = kernels::make_backend("cpu");
    if (!backend) return http_refusal(503, backend.error().message);
    backend_ = std::move(*backend);
  }
  const auto probabilities =
      training::class_probabilities(lives_.built->replica->plan, *backend_, sample, parameters.data());
  const auto best = std::max_element(probabilities.begin(), probabilities.end());
  return {200, training::to_line({{"class", best - probabilities.begin()},
                                  {"probability", *best},
                                  {"probabilities", probabilities},
                                  {"steps", steps}})};
}

}  // namespace starling::node
