// The planner against a search of all plans, on random chains.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "tests/catch.h"
#include "tests/training/pipelines.h"

namespace starling::training {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Tries every division into consecutive stages and every number of replicas, with the formulas written out
// again.
class AllPlans {
 public:
  AllPlans(const std::vector<ProfiledLayer>& layers, const PlanRequest& request)
      : layers_(layers), request_(request) {}

  // The least time for layers begin .. end - 1 in one group of the levels below `levels`.
  double least(std::size_t levels, std::size_t begin, std::size_t end) {
    if (levels == 0) return sum(begin, end, [](const auto& l) { return l.forward + l.backward; });
    const int count = request_.levels[levels - 1].count;
    double best = kNever;
    for (int used = request_.may_idle ? 1 : count; used <= count; ++used)
      best = std::min(best, follow(levels, begin, end, used, 0, 0));
    return best;
  }

 private:
  template <class Amount>
  double sum(std::size_t begin, std::size_t end, Amount amount) const {
    double total = 0;
    for (std::size_t i = begin; i < end; ++i) total += amount(layers_[i]);
    return total;
  }

  // The least time if `left` groups remain for the layers from `begin` on; the stage before has `before`
  // replicas (0: there is none), and everything up to here takes `so_far`.
  double follow(std::size_t levels, std::size_t begin, std::size_t end, int left, int before, double so_far) {
    if (begin == end) return left == 0 ? so_far : kNever;
    double best = kNever;
    for (std::size_t cut = begin + 1; cut <= end; ++cut) {
      for (int replicas = 1; replicas <= left; ++replicas) {
        const double time = stage(levels, begin, cut, left, replicas, before);
        best = std::min(best, follow(levels, cut, end, left - replicas, replicas, std::max(so_far, time)));
      }
    }
    return best;
  }

  double stage(std::size_t levels, std::size_t begin, std::size_t end, int left, int replicas, int before) {
    const double bandwidth = request_.levels[levels - 1].bandwidth;
    const double parameters = sum(begin, end, [](const auto& l) { return l.parameters; });
    const double activations = sum(begin, end, [](const auto& l) { return l.activations; });
    const double held = std::ceil(static_cast<double>(left - replicas) / replicas) + request_.counts_current;
    if (request_.memory && held * (activations + parameters) > *request_.memory) return kNever;
    double links = 1;
    for (std::size_t i = 0; i + 1 < levels; ++i) links *= request_.levels[i].count;
    const double own = least(levels - 1, begin, end);
    const double synchronization = 4.0 * (replicas - 1) / replicas * parameters / bandwidth / links;
    double time =
        request_.cost == StageCost::overlapped ? std::max(own, synchronization) : own + synchronization;
    time /= replicas;
    if (before > 0 && request_.cost != StageCost::added_without_transfers)
      time = std::max(time, 2 * layers_[begin - 1].activations / bandwidth / std::min(before, replicas));
    return time;
  }

  const std::vector<ProfiledLayer>& layers_;
  const PlanRequest& request_;
};

// Sometimes 0, sometimes a round number, so that plans are equal; else from a range of three decades.
double random_amount(Random& random, double most) {
  if (random.chance(0.15)) return 0;
  if (random.chance(0.3)) return most * 0.25 * static_cast<double>(1 + random.below(4));
  return most * std::pow(10, -random.uniform(0, 3));
}

std::vector<ProfiledLayer> random_chain(Random& random) {
  std::vector<ProfiledLayer> layers(1 + random.below(8));
  for (auto& layer : layers) {
    layer = timed(random_amount(random, 20), random_amount(random, 10e6), random_amount(random, 20e6));
  }
  return layers;
}

PlanRequest random_request(Random& random) {
  PlanRequest request;
  request.may_idle = random.chance(0.3);
  if (random.chance(0.2)) {
    request.levels = {{2, 1e9 * random.uniform(1, 10)}, {2, 1e9}};
  } else {
    request.levels = {{static_cast<int>(1 + random.below(5)), 1e9 * random.uniform(0.3, 3)}};
  }
  if (random.chance(0.4)) {
    request.memory = 100e6 * random.uniform(0.02, 1);
    request.counts_current = random.chance(0.5);
  }
  return request;
}

bool nearly(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

// The plan's own stages must take the time that it states; on one level.
double time_of_stages(const PipelinePlan& plan, StageCost cost) {
  double time = 0;
  for (const PipelineStage& stage : plan.stages) {
    time = std::max(time, stage.time);
    if (cost != StageCost::added_without_transfers) time = std::max(time, stage.transfer);
  }
  return time;
}

// What the error says is needed is enough, and less is not.
std::string check_least_memory(const PipelineProfile& profile, PlanRequest request,
                               const std::string& error) {
  const auto at = error.find("needs here is ");
  if (at == std::string::npos) return "another error: " + error;
  const auto number = error.substr(at + 14, error.find(" bytes.", at) - at - 14);
  const auto least = parse_number<double>(number);
  if (!least) return "no number: " + error;
  request.memory = *least;
  if (!plan_pipeline(profile, request)) return "does not fit into " + number;
  request.memory = *least * 0.999 - 1;
  if (*request.memory > 0 && plan_pipeline(profile, request)) return "fits into less than " + number;
  return {};
}

std::string check_against_search(std::uint64_t seed, StageCost cost) {
  Random random(seed);
  const auto layers = random_chain(random);
  PlanRequest request = random_request(random);
  request.cost = cost;
  const double least = AllPlans(layers, request).least(request.levels.size(), 0, layers.size());
  const auto profile = chain_profile(layers);
  const auto plan = plan_pipeline(profile, request);
  if (!plan) {
    if (least != kNever) return "a plan takes " + format_number(least) + " s, but: " + plan.error().message;
    return check_least_memory(profile, request, plan.error().message);
  }
  if (!nearly(plan->seconds, least)) {
    return "the plan takes " + format_number(plan->seconds) + " s, the best one " + format_number(least) +
           " s";
  }
  int groups = 1;
  for (const auto& level : request.levels) groups *= level.count;
  if (plan->devices + plan->idle != groups || (!request.may_idle && plan->idle > 0)) return "idle devices";
  if (request.levels.size() == 1) {
    if (!nearly(time_of_stages(*plan, cost), plan->seconds)) return "its stages take another time";
    for (const PipelineStage& stage : plan->stages) {
      const double held = stage.memory / (stage.waiting + 1) * (stage.waiting + request.counts_current);
      if (request.memory && held > *request.memory * (1 + 1e-12)) return "a stage does not fit";
    }
  }
  return {};
}

}  // namespace

TEST_CASE("no plan of a random chain is better than the planner's") {
  // To replay a failure, set the variable to the seed that it names.
  const char* replay = std::getenv("STARLING_PIPELINE_SEED");
  const auto given = parse_number<std::uint64_t>(replay == nullptr ? "" : replay);
  const auto now = static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  const std::uint64_t first = given ? *given : Random(now).bits() >> 1;
  const std::uint64_t seeds = given ? 1 : 10'000;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    for (const auto cost : {StageCost::overlapped, StageCost::added, StageCost::added_without_transfers}) {
      const std::string wrong = check_against_search(seed, cost);
      if (!wrong.empty())
        FAIL("STARLING_PIPELINE_SEED=" << seed << ", cost " << static_cast<int>(cost) << ": " << wrong);
    }
  }
  SUCCEED();
}

}  // namespace starling::training
