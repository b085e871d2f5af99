// Plans of networks for text.
#include <algorithm>
#include <numeric>

#include "models/gpt.h"
#include "models/network.h"
#include "models/spec_text.h"
#include "tests/catch.h"
#include "tests/kernels/near.h"

namespace starling::models {
namespace {

std::string wrong(const std::string& layers, Shape input = {1, 1, 1, 8}) {
  const auto plan = make_model(ModelText{"my-net", layers}, input, 11);
  return plan.ok() ? std::string() : plan.error().message.substr(std::string("model \"my-net\": ").size());
}

std::size_t parameters(const std::string& name, int tokens) {
  return make_model(name, {1, 1, 1, 1}, tokens)->layout.parameter_count();
}

}  // namespace

TEST_CASE("the zoo's Transformers have the published numbers of parameters") {
  // nanoGPT prints them without the positions: 0.80 M and 10.65 M for 65 characters; GPT-2 has 124,439,808
  // with them.
  CHECK(parameters("gpt-tiny", 65) - 64 * 128 == 795'904);
  CHECK(parameters("gpt-char", 65) - 256 * 384 == 10'646'784);
  CHECK(parameters("gpt2", 50257) == 124'439'808);
}

TEST_CASE("a GPT's layers, shapes and tensors follow from its options") {
  const Plan plan = std::move(make_model("gpt-tiny", {1, 1, 1, 1}, 65)).value();
  CHECK(plan.spec.input == Shape{1, 1, 1, 64});
  CHECK(plan.labels() == 64);
  CHECK(plan.classes == 65);
  CHECK(plan.layers.front().output == Shape{128, 1, 1, 64});
  CHECK(plan.layers.back().output == Shape{65, 1, 1, 64});
  // The output layer's weight is the embedding's.
  CHECK(plan.layers.back().tensors == plan.layers.front().tensors);
  CHECK(plan.layers.back().parameters == 0);
  CHECK(plan.layout.tensors().front().name == "embedding1.weight");
  CHECK(plan.layout.tensors().front().shape == std::vector<std::int64_t>{65, 128});
  // The deviations of the first values.
  std::vector<float> values(plan.layout.arena_size());
  initialize(plan, Random(3), values);
  for (const Tensor& tensor : plan.layout.tensors()) {
    if (tensor.start != Tensor::Start::normal) continue;
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(tensor.offset);
    const double squares =
        std::inner_product(begin, begin + static_cast<std::ptrdiff_t>(tensor.size), begin, 0.0);
    const bool last = tensor.name == "fc2.weight" || tensor.name == "fc4.weight" ||
                      tensor.name == "fc6.weight" || tensor.name == "fc8.weight" ||
                      tensor.name == "fc10.weight" || tensor.name == "fc12.weight" ||
                      tensor.name == "fc14.weight" || tensor.name == "fc16.weight";
    INFO(tensor.name);
    CHECK(near(std::sqrt(squares / static_cast<double>(tensor.size)), last ? 0.02 / std::sqrt(8.0) : 0.02,
               0.05, 0));
  }
}

TEST_CASE("layers for text that do not fit are rejected with a sentence") {
  const std::string embedding = R"({ type = "embedding", features = 12, context = 8 }, )";
  CHECK(
      wrong("[" + embedding + R"({ type = "block", heads = 3 }, { type = "linear", tied = true }])").empty());
  CHECK(wrong("[" + embedding + R"("linear"])", {1, 28, 28}) ==
        "it is for text, but the data has images or vectors");
  CHECK(wrong(R"([{ type = "embedding", features = 12, context = 8, tokens = 10 }, "linear"])") ==
        "its embedding has 10 tokens, but the data has 11");
  CHECK(wrong(R"(["linear"])") == "it reads text, so its first layer must be an embedding");
  CHECK(wrong("[" + embedding +
              R"({ type = "embedding", features = 2, context = 8, tokens = 11 }, "linear"])") ==
        "embedding2 must be the first layer of a network for text");
  CHECK(wrong(R"(["relu", "linear"])") == "it reads text, so its first layer must be an embedding");
  CHECK(wrong(R"([{ type = "linear", features = 10, tied = true }, "linear"])", {1, 28, 28}) ==
        "fc1 is tied, but no embedding comes before it");
  CHECK(wrong("[" + embedding + R"({ type = "linear", features = 6 }, { type = "linear", tied = true }])") ==
        "fc2 is tied, so its 6 inputs and 11 features must be the embedding's 12 features and 11 tokens");
  CHECK(wrong("[" + embedding + R"({ type = "attention", heads = 5 }, "linear"])") ==
        "attention1 reads 12 features, which must be a multiple of the 15 for its 5 queries, 5 keys and 5 "
        "values");
  CHECK(wrong("[" + embedding + R"({ type = "attention", heads = 4, groups = 3 }, "linear"])") ==
        "attention1 has 3 groups, which must divide its 4 heads");
  CHECK(wrong("[" + embedding + R"({ type = "attention", heads = 4, groups = 1, rotary = true }, "linear"])")
            .empty());
  CHECK(wrong("[" + embedding + R"({ type = "attention", heads = 4, rotary = true }, "linear"])") ==
        "attention1 reads 12 features, which must be a multiple of the 24 for its 4 queries, 4 keys and 4 "
        "values in "
        "pairs");
  CHECK(wrong("[" + embedding + R"({ type = "block", heads = 5 }, "linear"])") ==
        "block1 has 5 heads and 5 groups; the heads must divide its 12 features, and the groups the heads");
  CHECK(wrong(R"([{ type = "position" }, "linear"])", {12, 1, 1}) ==
        "position1 needs a sequence of vectors: an embedding must come before it");
  CHECK(
      wrong(
          R"([{ type = "embedding", features = 12, context = 8 }, { type = "linear", features = 3 }, "swiglu",
                 "linear"])") ==
      "swiglu1 reads 8 tokens of 3 features, but needs an even number of features");
}

TEST_CASE("a Llama's block has grouped keys, RMS norm, SwiGLU and no positions") {
  const Plan plan = std::move(make_model("llama-tiny", {1, 1, 1, 1}, 65)).value();
  std::vector<std::string> kinds;
  for (std::size_t i = 0; i < 12; ++i) kinds.push_back(plan.layers[i].kind);
  CHECK(kinds == std::vector<std::string>{"embedding", "rms norm", "linear", "attention", "linear", "sum",
                                          "rms norm", "linear", "swiglu", "linear", "sum", "rms norm"});
  CHECK(plan.layers[2].output.features() == 128 + 2 * 64);
  CHECK(plan.layers[7].output.features() == 2 * 352);
}

}  // namespace starling::models
