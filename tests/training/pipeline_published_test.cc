// PipeDream's published profiles. They are not part of this project; STARLING_PIPEDREAM names the folder with
// alexnet.graph.txt, gnmt.graph.txt, gnmt_large.graph.txt, resnet50.graph.txt and vgg16.graph.txt.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/training/pipelines.h"

namespace starling::training {
namespace {

struct PublishedRow {
  const char* profile;
  std::size_t cuts;
  int racks;  // 0: four machines at 1e9 bytes/s; 4: racks of four at 16e9, 1.25e9 between them
  StageCost cost;
  const char* shape;
  // As in the published planner's numbers. Where several cuts are equal, its choice depends on the order of
  // Python's sets, and ours may be another one, which takes the same time. Empty: not known.
  std::vector<std::size_t> at;
  const char* ms;         // printed with 3 decimals
  const char* speed_up;   // over one machine
  const char* over_data;  // over data parallelism with the sum of computation and synchronization, or ""
};

constexpr auto kMax = StageCost::overlapped;
constexpr auto kSum = StageCost::added;
constexpr auto kFree = StageCost::added_without_transfers;

const std::vector<PublishedRow>& published_rows() {
  static const std::vector<PublishedRow> kRows = {
      {"vgg16", 40, 0, kFree, "3-1", {15}, "175.733", "3.827", "3.319"},
      {"vgg16", 40, 0, kSum, "3-1", {17}, "205.521", "3.272", "2.838"},
      {"vgg16", 40, 0, kMax, "3-1", {17}, "205.521", "3.272", "2.838"},
      {"alexnet", 22, 0, kFree, "2-1-1", {6, 10}, "23.166", "3.683", ""},
      {"alexnet", 22, 0, kSum, "3-1", {16}, "34.217", "2.494", ""},
      {"alexnet", 22, 0, kMax, "3-1", {16}, "25.436", "3.354", "8.045"},
      {"resnet50", 240, 0, kFree, "1-1-1-1", {45, 98, 165}, "111.497", "3.977", ""},
      {"resnet50", 240, 0, kSum, "2-2", {142}, "162.881", "2.722", ""},
      {"resnet50", 240, 0, kMax, "4", {}, "110.855", "4.000", ""},
      {"gnmt", 99, 0, kFree, "1-1-1-1", {6, 84, 94}, "25.868", "3.457", "23.336"},
      {"gnmt", 99, 0, kSum, "1-1-1-1", {4, 70, 95}, "25.868", "3.457", ""},
      {"gnmt_large", 1495, 0, kFree, "1-1-1-1", {17, 1178, 1387}, "137.129", "3.795", "7.025"},
      {"vgg16", 40, 4, kFree, "12-3-1", {16, 25}, "43.972", "15.295", ""},
      {"vgg16", 40, 4, kSum, "", {}, "66.582", "10.101", ""},
      {"vgg16", 40, 4, kMax, "", {}, "55.199", "12.184", ""},
      {"resnet50", 240, 4, kFree, "", {}, "28.590", "15.509", ""},
      {"resnet50", 240, 4, kSum, "", {}, "43.208", "10.262", ""},
      {"resnet50", 240, 4, kMax, "16", {}, "27.714", "16.000", ""},
  };
  return kRows;
}

std::string three_decimals(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.3f", value);
  return text;
}

PipelineCuts published_cuts(const std::string& folder, const std::string& name) {
  std::ifstream file(folder + "/" + name + ".graph.txt");
  std::stringstream text;
  text << file.rdbuf();
  const auto profile = read_pipedream_profile(text.str());
  if (!profile) FAIL(name + ": " + profile.error().message);
  auto cuts = find_cuts(*profile);
  if (!cuts) FAIL(name + ": " + cuts.error().message);
  return *std::move(cuts);
}

// The time of the row's own cuts. REQUIRES: they are on one level.
double time_of_cuts(const PipelineCuts& cuts, const PlanRequest& request, const PublishedRow& row,
                    const PipelinePlan& plan) {
  PlanRequest given = request;
  for (const PipelineStage& stage : plan.stages) given.replicas.push_back(stage.replicas);
  given.cuts = row.at;
  const auto same = plan_pipeline(cuts, given);
  if (!same) FAIL(same.error().message);
  REQUIRE(shape_of(*same) == row.shape);
  return same->seconds;
}

void check_published(const PublishedRow& row, const PipelineCuts& cuts) {
  PlanRequest request{.levels = {{4, 1e9}}, .cost = row.cost};
  if (row.racks > 0) request.levels = {{4, 16e9}, {row.racks, 1.25e9}};
  const auto start = std::chrono::steady_clock::now();
  const auto plan = plan_pipeline(cuts, request);
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!plan) FAIL(plan.error().message);
  std::ostringstream found;
  found.precision(12);
  found << row.profile << (row.racks > 0 ? " 4x4" : " 4") << ", cost " << static_cast<int>(row.cost) << ": "
        << shape_of(*plan) << ", " << plan->seconds * 1e3 << " ms, " << plan->one_device / plan->seconds
        << "x one machine, " << plan->data_parallel / plan->seconds << "x data parallel; cuts";
  for (const PipelineStage& stage : plan->stages)
    if (stage.begin > 0) found << " " << stage.begin;
  found << "; planned in " << took << " s";
  WARN(found.str());
  CAPTURE(found.str());
  REQUIRE(cuts.size() == row.cuts);
  REQUIRE(three_decimals(plan->seconds * 1e3) == row.ms);
  REQUIRE(three_decimals(plan->one_device / plan->seconds) == row.speed_up);
  if (*row.over_data != 0) {
    request.cost = StageCost::added;
    const double data_parallel = plan_pipeline(cuts, request)->data_parallel;
    REQUIRE(three_decimals(data_parallel / plan->seconds) == row.over_data);
    request.cost = row.cost;
  }
  if (*row.shape != 0) REQUIRE(shape_of(*plan) == row.shape);
  if (row.at.empty()) return;
  REQUIRE(plan->stages.size() == row.at.size() + 1);
  if (row.racks == 0)
    REQUIRE(time_of_cuts(cuts, request, row, *plan) == Approx(plan->seconds).epsilon(1e-12));
}

}  // namespace

TEST_CASE("PipeDream's published profiles are planned as by its own planner") {
  const char* folder = std::getenv("STARLING_PIPEDREAM");
  if (folder == nullptr) {
    WARN("skipped: STARLING_PIPEDREAM does not name a folder with PipeDream's profiles");
    return;
  }
  std::string name;
  std::optional<PipelineCuts> cuts;
  for (const PublishedRow& row : published_rows()) {
    if (name != row.profile) cuts = published_cuts(folder, name = row.profile);
    check_published(row, *cuts);
  }
}

TEST_CASE("cuts that PipeDream's planner chooses alone are ours") {
  const char* folder = std::getenv("STARLING_PIPEDREAM");
  if (folder == nullptr) {
    WARN("skipped: STARLING_PIPEDREAM does not name a folder with PipeDream's profiles");
    return;
  }
  for (const PublishedRow& row : published_rows()) {
    const std::string name = row.profile;
    const bool tied = name.starts_with("gnmt") || (name == "resnet50" && row.cost == kFree);
    if (row.at.empty() || tied) continue;
    PlanRequest request{.levels = {{4, 1e9}}, .cost = row.cost};
    if (row.racks > 0) request.levels = {{4, 16e9}, {row.racks, 1.25e9}};
    const auto plan = plan_pipeline(published_cuts(folder, name), request);
    REQUIRE(plan.ok());
    std::vector<std::size_t> at;
    for (const PipelineStage& stage : plan->stages)
      if (stage.begin > 0) at.push_back(stage.begin);
    CAPTURE(name, row.ms);
    REQUIRE(at == row.at);
  }
}

}  // namespace starling::training
