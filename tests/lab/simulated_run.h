// Runs an experiment in virtual time, in a folder that is removed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "lab/simulate/simulate.h"
#include "tests/catch.h"
#include "tests/training/temporary_folder.h"
#include "training/learning/recipe.h"
#include "training/runs/experiment/check.h"
#include "training/runs/records/checkpoint.h"

namespace starling::lab {

struct SimulatedRun {
  training::Summary summary;
  std::vector<float> parameters;  // the mean
};

inline models::Plan plan_of(const training::Experiment& experiment) {
  auto data = training::load_data(experiment, "");
  REQUIRE(data.ok());
  auto plan = training::make_plan(experiment, *data);
  REQUIRE(plan.ok());
  return *std::move(plan);
}

inline SimulatedRun simulated(const training::Experiment& experiment, unsigned threads = 2) {
  const training::TemporaryFolder scratch;
  auto folder = training::RunFolder::create(scratch.path() + "/run", false);
  REQUIRE(folder.ok());
  if (const Status fine = training::check(experiment); !fine) FAIL(fine.error().message);
  SimulateOptions options;
  options.threads = threads;
  auto summary = simulate(experiment, options, *folder);
  if (!summary) FAIL(summary.error().message);
  const models::Plan plan = plan_of(experiment);
  auto saved = training::read_safetensors(folder->file("model.safetensors"), plan.layout);
  REQUIRE(saved.ok());
  return {*summary, std::move(saved->arena)};
}

inline double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return largest;
}

}  // namespace starling::lab
