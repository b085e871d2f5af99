// pipedream_figures() of figures.h.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "training/pipeline/cuts.h"
#include "training/pipeline/partition.h"
#include "training/pipeline/prediction.h"
#include "training/pipeline/published/figures.h"

namespace starling::training {
namespace {

struct AgainstData {
  const char* network;  // of the profile
  const char* name;
  std::vector<int> replicas;
  double gigabits;  // per second, of each device's link
  double published;
  const char* source;
};

constexpr std::array<const char*, 3> kNetworks{"vgg16", "alexnet", "resnet50"};
constexpr const char* kSosp = "Narayanan et al., SOSP 2019, table 1 (V100)";
constexpr const char* kTitan = "Harlap et al., arXiv 1806.03377 (Titan X)";
constexpr const char* kVolta = "Harlap et al., arXiv 1806.03377 (V100)";

const std::vector<AgainstData>& rows_against_data() {
  static const std::vector<AgainstData> kRows{{"vgg16", "VGG-16", {15, 1}, 10, 5.28, kSosp},
                                              {"alexnet", "AlexNet", {15, 1}, 10, 4.92, kSosp},
                                              {"resnet50", "ResNet-50", {16}, 10, 1, kSosp},
                                              {"vgg16", "VGG-16", {7, 1}, 25, 2.99, kTitan},
                                              {"vgg16", "VGG-16", {7, 1}, 10, 5.12, kVolta}};
  return kRows;
}

std::string joined(const std::vector<int>& replicas) {
  std::string text;
  for (const int count : replicas) text += (text.empty() ? "" : "-") + std::to_string(count);
  return text;
}

PlanRequest request_of(const AgainstData& row, StageCost cost) {
  int devices = 0;
  for (const int count : row.replicas) devices += count;
  return {.levels = {{devices, 1e9 / 8 * row.gigabits}}, .cost = cost, .counts_current = true};
}

// The schedule's time of the published stages against data parallelism, on devices that compute `speed` times
// as fast as that of the profile.
Result<double> over_data(const PipelineProfile& profile, const AgainstData& row, StageCost cost,
                         double speed) {
  PipelineProfile faster = profile;
  for (ProfiledLayer& layer : faster.layers) {
    layer.forward /= speed;
    layer.backward /= speed;
  }
  PlanRequest request = request_of(row, cost);
  request.replicas = row.replicas;
  const auto prediction = predict_pipeline(faster, request);
  if (!prediction) return prediction.error();
  return prediction->data_parallel / prediction->scheduled;
}

// The least speed at which ours is the published figure; nullopt if there is none below kMostSpeed.
std::optional<double> speed_for(const PipelineProfile& profile, const AgainstData& row) {
  constexpr double kMostSpeed = 8, kStep = 0.1;
  const auto ours = [&](double speed) {
    const auto value = over_data(profile, row, StageCost::overlapped, speed);
    return value ? *value : 0;
  };
  for (int step = 1; 1 + step * kStep <= kMostSpeed; ++step)
    if (ours(1 + step * kStep) >= row.published) return 1 + step * kStep;
  return std::nullopt;
}

std::string reason_for(const PublishedFigure& figure, const PipelineProfile& profile,
                       const AgainstData& row) {
  constexpr double kNear = 0.05;
  const auto short_number = [](double value) { return format_number(std::round(100 * value) / 100); };
  if (std::abs(*figure.ours / figure.published - 1) <= kNear)
    return row.replicas.size() == 1 ? "both: one stage is data parallelism"
                                    : "near; the links of ours carry both directions at once";
  const std::string text = "without overlap " + short_number(*figure.without_overlap) + "x";
  if (*figure.ours > figure.published) return text;
  if (const auto speed = speed_for(profile, row))
    return "devices " + short_number(*speed) + " times as fast as its profile would give it; " + text;
  return text;
}

Status complete(PublishedFigure& figure, const PipelineProfile& profile, const AgainstData& row) {
  const auto ours = over_data(profile, row, StageCost::overlapped, 1);
  if (!ours) return ours.error();
  const auto sum = over_data(profile, row, StageCost::added, 1);
  if (!sum) return sum.error();
  const auto best = plan_pipeline(profile, request_of(row, StageCost::overlapped));
  if (!best) return best.error();
  std::vector<int> chosen;
  for (const PipelineStage& stage : best->stages) chosen.push_back(stage.replicas);
  figure.ours = *ours;
  figure.without_overlap = *sum;
  figure.planner_chooses = joined(chosen);
  figure.reason = reason_for(figure, profile, row);
  return Done{};
}

}  // namespace

std::vector<std::string> pipedream_networks() { return {kNetworks.begin(), kNetworks.end()}; }

Result<std::vector<PublishedFigure>> pipedream_figures(
    const std::vector<std::optional<PipelineProfile>>& profiles) {
  STARLING_CHECK(profiles.size() == kNetworks.size());
  std::vector<PublishedFigure> figures;
  for (const AgainstData& row : rows_against_data()) {
    const auto at =
        static_cast<std::size_t>(std::ranges::find(kNetworks, std::string(row.network)) - kNetworks.begin());
    figures.push_back({.work = "PipeDream",
                       .setting = std::string(row.name) + ", " + joined(row.replicas) + ", " +
                                  format_number(row.gigabits) + "Gbit/s",
                       .baseline = "data parallelism",
                       .source = row.source,
                       .published = row.published,
                       .reason = std::string("no profile ") + row.network + ".graph.txt: --profiles"});
    if (!profiles[at]) continue;
    if (Status done = complete(figures.back(), *profiles[at], row); !done)
      return Error{std::string(row.network) + ": " + done.error().message};
  }
  return figures;
}

}  // namespace starling::training
