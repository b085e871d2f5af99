#include "models/spec.h"

#include "tests/catch.h"
#include "tests/models/zoo_input.h"

namespace starling::models {
namespace {

std::string refusal(Spec spec) {
  const auto plan = make_plan(std::move(spec));
  REQUIRE(!plan.ok());
  return plan.error().message;
}

}  // namespace

TEST_CASE("a plan infers shapes, names, costs and the offsets of parameters") {
  const auto plan = make_plan(
      {"net", {3, 8, 6}, {Convolution{4, 3, 2, 1}, Relu{}, MaxPool{2}, Linear{7}, Relu{}, Linear{2}}});
  REQUIRE(plan.ok());
  REQUIRE(plan->layers.size() == 6);
  CHECK(plan->classes == 2);
  CHECK(plan->layers[0].name == "conv1");
  CHECK(plan->layers[0].output == Shape{4, 4, 3});
  CHECK(plan->layers[0].parameters == 4 * 27 + 4);
  CHECK(plan->layers[0].flops_forward == 2.0 * 27 * 4 * 4 * 3);
  CHECK(plan->layers[2].kind == "max pool");
  CHECK(plan->layers[2].output == Shape{4, 2, 1});
  CHECK(plan->layers[3].name == "fc1");
  CHECK(plan->layers[3].flops_forward == 2.0 * 8 * 7);
  CHECK(plan->layers[4].name == "relu2");
  CHECK(plan->layers[5].name == "fc2");
  const auto& tensors = plan->layout.tensors();
  REQUIRE(tensors.size() == 6);
  CHECK(tensors[0].name == "conv1.weight");
  CHECK(tensors[0].shape == std::vector<std::int64_t>{4, 3, 3, 3});
  CHECK(tensors[1].name == "conv1.bias");
  CHECK(tensors[1].offset == 112);
  CHECK(tensors[2].shape == std::vector<std::int64_t>{7, 8});
  CHECK(tensors[5].name == "fc2.bias");
}

TEST_CASE("a spec that does not fit is rejected with the layer's name and the reason") {
  const Shape image{1, 8, 8};
  CHECK(refusal({"net", image, {Convolution{4, 9}, Linear{2}}}) ==
        "model \"net\": conv1 has a kernel of 9, larger than its input 1x8x8 with padding 0");
  CHECK(refusal({"net", image, {Convolution{4, 3}, AveragePool{7}, Linear{2}}}) ==
        "model \"net\": pool1 has a window of 7, larger than its input 4x6x6");
  CHECK(refusal({"net", image, {Linear{5}, Linear{0}}}) ==
        "model \"net\": fc2 needs from 1 to 1048576 features");
  CHECK(refusal({"net", image, {Convolution{4, 3, 0}, Linear{2}}}).find("conv1 needs") != std::string::npos);
  CHECK(refusal({"net", image, {Convolution{4, 3, 1, 3}, Linear{2}}}).find("conv1 has padding 3") !=
        std::string::npos);
  CHECK(refusal({"net", image, {Linear{5}, MaxPool{-1}}}).find("pool1 needs") != std::string::npos);
  CHECK(refusal({"net", image, {Convolution{4, 3}}}) ==
        "model \"net\": conv1 yields 4x6x6, but the last layer must yield one logit for each of at least 2 "
        "classes");
  CHECK(refusal({"net", image, {}}).find("no layers") != std::string::npos);
  CHECK(refusal({"net", {2, 1, 1}, {Relu{}}}).find("no layer has parameters") != std::string::npos);
  CHECK(refusal({"net", {0, 8, 8}, {Linear{2}}}).find("input 0x8x8") != std::string::npos);
}

TEST_CASE("layers of residual blocks, groups and normalizations are checked too") {
  const Shape image{6, 8, 8};
  CHECK(refusal({"net", image, {Residual{{Convolution{7, 3, 1, 1}}}, Linear{2}}}) ==
        "model \"net\": add1 cannot add 7x8x8, which its layers yield, and 6x8x8, its input: add a "
        "shortcut that changes the shape");
  CHECK(refusal({"net", image, {Residual{{Convolution{7, 3, 2, 1}}, {Convolution{7, 1}}}, Linear{2}}}) ==
        "model \"net\": add1 cannot add 7x4x4, which its layers yield, and 7x8x8, which its shortcut yields");
  CHECK(refusal({"net", image, {Residual{{Relu{}, Convolution{4, 9}}}, Linear{2}}}) ==
        "model \"net\": conv1 has a kernel of 9, larger than its input 6x8x8 with padding 0 (in the block "
        "that ends in "
        "add1)");
  CHECK(refusal({"net", image, {Residual{}, Linear{2}}}).find("add1 is a residual block without layers") !=
        std::string::npos);
  CHECK(refusal({"net", image, {Convolution{8, 3, 1, 1, 4}, Linear{2}}}) ==
        "model \"net\": conv1 has 4 groups, which must divide its 6 channels in and its 8 out");
  CHECK(refusal({"net", image, {GroupNorm{4}, Linear{2}}}) ==
        "model \"net\": gn1 has 4 groups, which must divide its 6 channels");
  CHECK(refusal({"net", image, {Dropout{1}, Linear{2}}}).find("dropout1 needs a rate") != std::string::npos);
  CHECK(refusal({"net", image, {BatchNorm{0}, Linear{2}}}).find("bn1 needs an epsilon") != std::string::npos);
  CHECK(refusal({"net", image, {BatchNorm{1e-5, 2}, Linear{2}}}).find("bn1 needs a momentum") !=
        std::string::npos);
}

TEST_CASE("absurd extents are rejected before an overflow") {
  CHECK(refusal({"net", {1 << 20, 1 << 20, 1 << 20}, {Linear{2}}}).find("input") != std::string::npos);
  CHECK(refusal({"net", {1000, 1000, 1000}, {Linear{1 << 20}, Linear{2}}}).find("fc1 would have") !=
        std::string::npos);
  CHECK(refusal({"net", {1, 1000, 1000}, {Convolution{1 << 20, 1}, Linear{2}}}).find("conv1 would yield") !=
        std::string::npos);
}

TEST_CASE("the models of the zoo have the expected numbers of parameters") {
  const Shape digit{1, 28, 28};
  const auto softmax = make_model("softmax", digit, 10);
  const auto mlp = make_model("mlp", digit, 10);
  const auto lenet = make_model("lenet", digit, 10);
  REQUIRE((softmax.ok() && mlp.ok() && lenet.ok()));
  CHECK(softmax->layout.parameter_count() == 7850);
  CHECK(mlp->layout.parameter_count() == 784 * 256 + 256 + 256 * 128 + 128 + 128 * 10 + 10);
  CHECK(lenet->layout.parameter_count() == 129068);
  CHECK(lenet->layers[5].output == Shape{50, 4, 4});
  const Shape color{3, 32, 32};
  CHECK(make_model("resnet18", color, 10)->layout.parameter_count() == 11'173'962);
  CHECK(make_model("resnet8", color, 10)->layout.parameter_count() == 78'042);
  CHECK(make_model("vgg-small", color, 10)->layout.parameter_count() == 1'148'874);
  CHECK(lenet->classes == 10);
}

TEST_CASE("an unknown model is rejected with a list of the known ones and their descriptions") {
  const auto plan = make_model("alexnet", {1, 28, 28}, 10);
  REQUIRE(!plan.ok());
  CHECK(plan.error().message ==
        "unknown model \"alexnet\"; the models are softmax, mlp, lenet, vgg-small, resnet8, "
        "resnet18, gpt-tiny, gpt-char, gpt2 or llama-tiny");
  for (const std::string& name : model_names()) {
    CHECK(!describe_model(name).empty());
    CHECK(make_model(name, zoo_input(name), 7).ok());
  }
  CHECK(describe_model("alexnet").empty());
}

TEST_CASE("a zoo model that does not fit its data is an error with the layer's name") {
  const auto plan = make_model("lenet", {1, 8, 8}, 10);
  REQUIRE(!plan.ok());
  CHECK(plan.error().message ==
        "model \"lenet\": conv2 has a kernel of 5, larger than its input 20x3x3 with padding 0");
}

}  // namespace starling::models
