#include "models/generator.h"

#include <cmath>
#include <map>

#include "kernels/by_name/backends.h"
#include "models/network.h"
#include "models/spec_text.h"
#include "tests/catch.h"
#include "tests/kernels/near.h"
#include "tests/models/zoo_input.h"

namespace starling::models {
namespace {

std::vector<float> parameters_of(const Plan& plan) {
  std::vector<float> parameters(plan.layout.arena_size());
  initialize(plan, Random(5), parameters);
  for (const Tensor& tensor : plan.layout.tensors()) {  // larger ones, so that the logits differ
    if (tensor.start != Tensor::Start::normal) continue;
    for (std::size_t i = 0; i < tensor.size; ++i) parameters[tensor.offset + i] *= 5;
  }
  return parameters;
}

}  // namespace

TEST_CASE("a token read with cached keys and values has the logits of the whole sequence") {
  for (const std::string name : {"gpt-tiny", "llama-tiny"}) {
    const Plan plan = std::move(make_model(name, zoo_input(name), 65)).value();
    const std::vector<float> parameters = parameters_of(plan);
    const auto backend = std::move(kernels::make_backend("cpu")).value();
    Network network(plan, *backend, 1, NetworkUse::evaluate);
    Random random(6);
    std::vector<float> tokens(64), logits(64 * 65);
    for (float& token : tokens) token = static_cast<float>(random.below(65));
    network.score(parameters.data(), tokens.data(), 1, logits);
    auto generator = Generator::make(plan, parameters);
    REQUIRE(generator.ok());
    for (int round = 0; round < 2; ++round) {
      for (std::size_t i = 0; i < 64; ++i) {
        const auto read = generator->read(static_cast<std::uint32_t>(tokens[i]));
        REQUIRE(read.size() == 65);
        for (std::size_t c = 0; c < 65; ++c) REQUIRE(near(read[c], logits[i * 65 + c], 2e-5));
      }
      CHECK(generator->length() == 64);
      generator->clear();
    }
  }
}

TEST_CASE("text is generated only with networks for text") {
  const Plan plan = std::move(make_model("mlp", {1, 28, 28}, 10)).value();
  const auto made = Generator::make(plan, std::vector<float>(plan.layout.arena_size()));
  REQUIRE(!made.ok());
  CHECK(made.error().message == "model \"mlp\" is not for text, so it cannot write any");
}

TEST_CASE("tokens are drawn with the softmax's probabilities, restricted to the likeliest") {
  const std::vector<float> logits{0, std::log(2.0F), std::log(4.0F), std::log(1.0F)};  // 1/8, 2/8, 4/8, 1/8
  Random random(7);
  const auto shares = [&](const Sampling& sampling) {
    std::map<std::uint32_t, double> counts;
    for (int i = 0; i < 20'000; ++i) counts[draw_token(logits, sampling, random)] += 1 / 20'000.0;
    return counts;
  };
  auto all = shares({});
  for (const auto& [token, share] :
       std::map<std::uint32_t, double>{{0, 0.125}, {1, 0.25}, {2, 0.5}, {3, 0.125}})
    CHECK(near(all[token], share, 0.02));
  auto two = shares({.top_k = 2});
  CHECK(two.size() == 2);
  CHECK(near(two[2], 2.0 / 3, 0.02));
  CHECK(shares({.top_p = 0.5}).size() == 1);
  CHECK(shares({.top_p = 0.51}).size() == 2);
  CHECK(shares({.top_p = 0.8}).size() == 3);
  CHECK(shares({.top_p = 0.8}).contains(0));  // of equal ones the lower number
  CHECK(near(shares({.temperature = 0.5})[2], 16.0 / 22, 0.02));
  CHECK(shares({.temperature = 0}).size() == 1);
  CHECK(draw_token(logits, {.temperature = 0}, random) == 2);
}

}  // namespace starling::models
