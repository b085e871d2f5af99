// How layers are divided among parts, and which values are gathered.
#include "training/learning/slices/slice_plan.h"

#include <array>
#include <atomic>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "models/spec.h"
#include "tests/catch.h"
#include "training/learning/slices/slice_barrier.h"
#include "training/learning/slices/slice_copy.h"
#include "training/learning/stages/stage_threads.h"

namespace starling::training {
namespace {

using models::Plan;

Plan plan_of_layers(std::vector<models::Layer> layers, models::Shape input) {
  return std::move(models::make_plan({"sliced", input, std::move(layers)})).value();
}

std::string text_of(const Channels& channels) {
  std::string text;
  for (const auto& [begin, end] : channels)
    text += (text.empty() ? "" : "+") + std::to_string(begin) + "-" + std::to_string(end);
  return text.empty() ? "none" : text;
}
std::string text_of(const std::vector<Channels>& parts) {
  std::string text;
  for (const Channels& part : parts) text += (text.empty() ? "" : " ") + text_of(part);
  return text;
}
// "conv1 to pool1: 0-10 10-20, gathered"; then its inputs: "reads NAME: needs".
std::vector<std::string> runs_of(const Plan& plan, std::size_t parts) {
  const SlicePlan slices = slice_layers(plan, parts);
  const auto name = [&](int layer) {
    return layer < 0 ? std::string("batch") : plan.layers[static_cast<std::size_t>(layer)].name;
  };
  std::vector<std::string> texts;
  for (const SliceRun& run : slices.runs) {
    std::string text = name(run.begin) + " to " + name(run.end - 1) + ": " +
                       text_of(slices.layers[static_cast<std::size_t>(run.end) - 1].channels) +
                       (run.gathered ? ", gathered" : "");
    for (const SliceInput& input : run.inputs)
      text += "; " + std::string(input.gathered ? "gathered " : "own ") + name(input.layer) + ": " +
              text_of(input.needs);
    texts.push_back(text);
  }
  return texts;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("convolutions, pools and linear layers are divided as equally as possible") {
  const Plan plan = std::move(models::make_model("lenet", {1, 28, 28}, 10)).value();
  CHECK(runs_of(plan, 4) ==
        Texts{"conv1 to pool1: 0-5 5-10 10-15 15-20, gathered; gathered batch: 0-1 0-1 0-1 0-1",
              "conv2 to pool2: 0-12 12-25 25-37 37-50, gathered; gathered pool1: 0-20 0-20 0-20 0-20",
              "fc1 to relu3: 0-32 32-64 64-96 96-128, gathered; gathered pool2: 0-50 0-50 0-50 0-50",
              "fc2 to fc2: 0-2 2-5 5-7 7-10, gathered; gathered relu3: 0-128 0-128 0-128 0-128"});
}

TEST_CASE("one part computes all layers in one run") {
  for (const char* const name : {"lenet", "resnet8"}) {
    const Plan plan = std::move(models::make_model(name, {3, 32, 32}, 10)).value();
    const SlicePlan slices = slice_layers(plan, 1);
    REQUIRE(slices.runs.size() == 1);
    CHECK(slices.runs[0].end == static_cast<int>(plan.layers.size()));
  }
}

TEST_CASE("sums stay in the slices of what they add") {
  using namespace models;
  const Plan plan = plan_of_layers(
      {Convolution{4, 3, 1, 1}, BatchNorm{}, Relu{}, Residual{{Convolution{4, 3, 1, 1}, BatchNorm{}}}, Relu{},
       Residual{{Convolution{6, 3, 1, 1}, BatchNorm{}}, {Convolution{6, 1}}}, GlobalAveragePool{}, Linear{3}},
      {2, 5, 5});
  CHECK(runs_of(plan, 2) ==
        Texts{"conv1 to relu1: 0-2 2-4, gathered; gathered batch: 0-2 0-2",
              "conv2 to relu2: 0-2 2-4, gathered; gathered relu1: 0-4 0-4; own relu1: 0-2 2-4",
              "conv3 to pool1: 0-3 3-6, gathered; gathered relu2: 0-4 0-4",
              "fc1 to fc1: 0-1 1-3, gathered; gathered pool1: 0-6 0-6"});
}

TEST_CASE("norms of whole samples are repeated, and embeddings are computed by part 0") {
  using namespace models;
  const Plan plan = plan_of_layers({Linear{6}, Dropout{0.5}, LayerNorm{}, Relu{}, Linear{2}}, {5, 1, 1});
  CHECK(runs_of(plan, 3) == Texts{"fc1 to dropout1: 0-2 2-4 4-6, gathered; gathered batch: 0-5 0-5 0-5",
                                  "ln1 to ln1: 0-6 0-6 0-6; gathered dropout1: 0-6 0-6 0-6",
                                  "relu1 to fc2: none 0-1 1-2, gathered; own ln1: 0-6 0-6 0-6"});
  const SlicePlan slices = slice_layers(plan, 3);
  CHECK(slices.layers[2].is_repeated());
  CHECK_FALSE(slices.layers[1].is_repeated());
  CHECK_FALSE(slice_layers(plan, 1).layers[2].is_repeated());
  CHECK_FALSE(slice_layers(plan, 6).layers[4].is_repeated());  // parts 0 and 1 have no unit
}

TEST_CASE("grouped convolutions are divided by groups, and depthwise ones stay in their slices") {
  using namespace models;
  const Plan plan = plan_of_layers(
      {Convolution{9, 3, 1, 1, 3}, Convolution{9, 3, 1, 1, 9}, Convolution{6, 1, 1, 0, 3}, Linear{2}},
      {3, 4, 4});
  CHECK(runs_of(plan, 3) == Texts{"conv1 to conv3: 0-2 2-4 4-6, gathered; gathered batch: 0-1 1-2 2-3",
                                  "fc1 to fc1: none 0-1 1-2, gathered; gathered conv3: none 0-6 0-6"});
  // Two parts cannot share the three groups equally, so nine channels are divided otherwise.
  CHECK(runs_of(plan, 2) == Texts{"conv1 to conv1: 0-3 3-9, gathered; gathered batch: 0-1 1-3",
                                  "conv2 to conv2: 0-4 4-9, gathered; gathered conv1: 0-4 4-9",
                                  "conv3 to conv3: 0-2 2-6, gathered; gathered conv2: 0-3 3-9",
                                  "fc1 to fc1: 0-1 1-2, gathered; gathered conv3: 0-6 0-6"});
}

TEST_CASE("most slices are the units of the widest layer, or its groups") {
  using namespace models;
  CHECK(most_slices(plan_of_layers({Convolution{12, 1, 1, 0, 4}, Linear{3}}, {4, 1, 1})).parts == 4);
  const MostSlices linear = most_slices(plan_of_layers({Convolution{12, 1, 1, 0, 4}, Linear{5}}, {4, 1, 1}));
  CHECK(linear.parts == 5);
  CHECK(linear.layer == 1);
  CHECK(most_slices(plan_of_layers({LayerNorm{}}, {4, 1, 1})).parts == 1);
}

TEST_CASE("slices have pieces in common, which are copied and added") {
  const Channels odd{{1, 2}, {3, 5}}, last{{2, 5}};
  CHECK(common_pieces(odd, last, 10) == std::vector<SlicePiece>{{10, 10, 20}});
  CHECK(common_pieces({{0, 2}}, last, 1).empty());
  CHECK(common_pieces({{0, 6}}, odd, 1) == std::vector<SlicePiece>{{1, 0, 1}, {3, 1, 2}});
  const SliceCopy take({{0, 6}}, odd, 2, 1);
  CHECK(take.floats() == 6);
  CHECK(take.is_complete());
  const std::vector<float> from{0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15};
  std::vector<float> to(6);
  take.copy(from.data(), to.data());
  CHECK(to == std::vector<float>{1, 3, 4, 11, 13, 14});
  const SliceCopy back(odd, {{0, 6}}, 2, 1);
  CHECK_FALSE(back.is_complete());
  std::vector<float> sum(12, 1);
  back.add(to.data(), sum.data());
  CHECK(sum == std::vector<float>{1, 2, 1, 4, 5, 1, 1, 12, 1, 14, 15, 1});
  CHECK(SliceCopy({{2, 4}}, {{2, 4}}, 3, 5).floats() == 30);
}

TEST_CASE("linear layers have the units that attention and SwiGLU need, if all parts have some") {
  using namespace models;
  Spec text{"text", {1, 1, 1, 6}, {}};
  text.layers = {Embedding{8, 6, 9}, Linear{32}, Attention{.heads = 4, .groups = 2},
                 Linear{20},         Swiglu{},   Linear{9}};
  const Plan plan = std::move(make_plan(std::move(text))).value();
  CHECK(runs_of(plan, 2) == Texts{"embedding1 to embedding1: 0-8 none, gathered; gathered batch: 0-1 none",
                                  "fc1 to attention1: 0-8 8-16, gathered; gathered embedding1: 0-8 0-8",
                                  "fc2 to swiglu1: 0-5 5-10, gathered; gathered attention1: 0-16 0-16",
                                  "fc3 to fc3: 0-4 4-9, gathered; gathered swiglu1: 0-10 0-10"});
  const std::vector<LayerSlices> layers = slice_layers(plan, 2).layers;
  CHECK(text_of(layers[1].channels) == "0-8+16-20+24-28 8-16+20-24+28-32");
  CHECK(text_of(layers[3].channels) == "0-5+10-15 5-10+15-20");
  // Only two of three parts compute attention, but all compute what it reads.
  CHECK(runs_of(plan, 3)[1] == "fc1 to fc1: 0-10 10-21 21-32, gathered; gathered embedding1: 0-8 0-8 0-8");
  CHECK(runs_of(plan, 3)[2] ==
        "attention1 to attention1: none 0-8 8-16, gathered; gathered fc1: none "
        "0-8+16-20+24-28 8-16+20-24+28-32");
}

TEST_CASE("parts that wait at a barrier see what all did before", "[arena]") {
  SliceBarrier barrier(3);
  std::array<std::atomic<int>, 3> done{};
  std::atomic<int> late = 0;
  StageThreads threads(
      3,
      [&](std::size_t part) {
        for (int round = 1; round <= 2000; ++round) {
          done[part] = round;
          if (!barrier.wait()) return;
          for (const auto& it : done) late += it < round;
        }
      },
      [&] { barrier.stop(); });
  threads.run();
  CHECK(late == 0);
  for (const auto& it : done) CHECK(it == 2000);
}

TEST_CASE("a part that fails ends the waits of the others, and the next batch computes again", "[arena]") {
  SliceBarrier barrier(3);
  int failing = 0;
  std::array<int, 3> whole{};
  StageThreads threads(
      3,
      [&](std::size_t part) {
        if (static_cast<int>(part) == failing) throw std::runtime_error("part " + std::to_string(part));
        if (barrier.wait() && barrier.wait()) ++whole[part];
      },
      [&] { barrier.stop(); });
  for (int batch = 0; batch < 20; ++batch) {
    failing = batch % 2 == 0 ? batch % 3 : -1;
    barrier.reset();
    if (failing < 0) {
      threads.run();
    } else {
      REQUIRE_THROWS_WITH(threads.run(), "part " + std::to_string(failing));
    }
  }
  for (const int count : whole) CHECK(count == 10);
}

}  // namespace starling::training
