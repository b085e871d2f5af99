#include "training/planner/partition.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/training/pipelines.h"

namespace starling::training {
namespace {

constexpr double kMs = 1e-3;
constexpr double kClose = 1e-12;

std::string why_not(const PipelineProfile& profile, const PlanRequest& request) {
  const auto plan = plan_pipeline(profile, request);
  REQUIRE_FALSE(plan.ok());
  return plan.error().message;
}

PlanRequest machines(int count, StageCost cost = StageCost::overlapped) {
  return PlanRequest{.levels = {{count, 1e9}}, .cost = cost};
}

TEST_CASE("large parameters are not replicated") {
  // On one stage: synchronization 4 * 1/2 * 20 MB / (1 GB/s) = 40 ms, computation 20 ms, each of two devices
  // does every second mini-batch. In two stages: 10 ms; the transfer takes 2 * 1 MB / (1 GB/s).
  const auto profile = chain_profile({timed(10, 1e6, 10e6), timed(10, 1e6, 10e6)});
  const auto plan = best_plan(profile, machines(2));
  REQUIRE(shape_of(plan) == "1-1");
  REQUIRE(plan.seconds == Approx(10 * kMs).epsilon(kClose));
  REQUIRE(plan.one_device == Approx(20 * kMs).epsilon(kClose));
  REQUIRE(plan.data_parallel == Approx(20 * kMs).epsilon(kClose));
  REQUIRE(best_plan(profile, machines(2, StageCost::added)).data_parallel ==
          Approx(30 * kMs).epsilon(kClose));
  REQUIRE(plan.devices == 2);
  REQUIRE(plan.idle == 0);
  const PipelineStage& first = plan.stages[0];
  const PipelineStage& second = plan.stages[1];
  REQUIRE(first.begin == 0);
  REQUIRE(first.end == 1);
  REQUIRE(second.begin == 1);
  REQUIRE(second.end == 2);
  REQUIRE(second.layers == std::vector<std::size_t>{1});
  REQUIRE(first.transfer == 0);
  REQUIRE(first.received == 0);
  REQUIRE(second.received == 1e6);
  REQUIRE(second.transfer == Approx(2 * kMs).epsilon(kClose));
  REQUIRE(second.parameters == 10e6);
  REQUIRE(second.time == Approx(10 * kMs).epsilon(kClose));
  REQUIRE(first.waiting == 1);
  REQUIRE(first.memory == 2 * 11e6);
  REQUIRE(second.waiting == 0);
  REQUIRE(second.memory == 11e6);
}

TEST_CASE("small parameters are replicated if their synchronization is overlapped, and also without") {
  // Synchronization 4 * 1/2 * 0.2 MB / (1 GB/s) = 0.4 ms: 10 ms for a mini-batch if overlapped, else 10.2 ms.
  const auto profile = chain_profile({timed(10, 1e6, 1e5), timed(10, 1e6, 1e5)});
  const auto overlapped = best_plan(profile, machines(2));
  REQUIRE(shape_of(overlapped) == "2");  // as fast as two stages
  REQUIRE(overlapped.seconds == Approx(10 * kMs).epsilon(kClose));
  REQUIRE(overlapped.stages[0].synchronization == Approx(0.4 * kMs).epsilon(kClose));
  const auto added = best_plan(profile, machines(2, StageCost::added));
  REQUIRE(shape_of(added) == "1-1");
  REQUIRE(added.seconds == Approx(10 * kMs).epsilon(kClose));
  REQUIRE(added.data_parallel == Approx(10.2 * kMs).epsilon(kClose));
}

TEST_CASE("large activations are not sent, unless transfers are free") {
  const auto profile = chain_profile({timed(10, 20e6, 10e6), timed(10, 1e6, 10e6)});
  const auto overlapped = best_plan(profile, machines(2));  // in two stages: a transfer of 40 ms
  REQUIRE(shape_of(overlapped) == "2");
  REQUIRE(overlapped.seconds == Approx(20 * kMs).epsilon(kClose));
  const auto added = best_plan(profile, machines(2, StageCost::added));
  REQUIRE(shape_of(added) == "2");
  REQUIRE(added.seconds == Approx(30 * kMs).epsilon(kClose));
  const auto free = best_plan(profile, machines(2, StageCost::added_without_transfers));
  REQUIRE(shape_of(free) == "1-1");
  REQUIRE(free.seconds == Approx(10 * kMs).epsilon(kClose));
  REQUIRE(free.stages[1].transfer == Approx(40 * kMs).epsilon(kClose));  // for information
}

TEST_CASE("a slow stage without parameters has the replicas") {
  const auto profile = chain_profile({timed(30, 1e6, 0), timed(10, 1e3, 1e9)});
  const auto plan = best_plan(profile, machines(4));
  REQUIRE(shape_of(plan) == "3-1");
  REQUIRE(plan.seconds == Approx(10 * kMs).epsilon(kClose));
  REQUIRE(plan.stages[0].computation == Approx(30 * kMs).epsilon(kClose));
  REQUIRE(plan.stages[0].time == Approx(10 * kMs).epsilon(kClose));
}

TEST_CASE("a transfer is limited by the side with fewer replicas") {
  // The only sender needs 2 * 10 MB / (1 GB/s), though three devices receive.
  const auto profile = chain_profile({timed(10, 10e6, 1e9), timed(30, 1e3, 0)});
  const auto plan = best_plan(profile, machines(4));
  REQUIRE(shape_of(plan) == "1-3");
  REQUIRE(plan.seconds == Approx(20 * kMs).epsilon(kClose));
  REQUIRE(plan.stages[1].transfer == Approx(20 * kMs).epsilon(kClose));
}

TEST_CASE("two racks: stages on racks, replicas in them") {
  // In a rack, a layer takes max(40, 4 * 1/2 * 200 MB / (10 GB/s) = 40) / 2 = 20 ms. Both layers on both
  // racks: max(80, 80) / 2 = 40 ms in a rack; 4 * 1/2 * 400 MB / (2 links of 1 GB/s) = 400 ms between racks.
  const auto profile = chain_profile({timed(40, 1e6, 200e6), timed(40, 1e6, 200e6)});
  const PlanRequest request{.levels = {{2, 1e10}, {2, 1e9}}};
  const auto plan = best_plan(profile, request);
  REQUIRE(shape_of(plan) == "2-2");
  REQUIRE(plan.seconds == Approx(20 * kMs).epsilon(kClose));
  REQUIRE(plan.stages[0].replicas_by_level == std::vector<int>{2, 1});
  REQUIRE(plan.stages[1].transfer == Approx(2 * kMs).epsilon(kClose));
  REQUIRE(plan.data_parallel == Approx(200 * kMs).epsilon(kClose));
  // With small parameters, both layers are on all four devices.
  const auto small = best_plan(chain_profile({timed(40, 1e8, 1e5), timed(40, 1e6, 1e5)}), request);
  REQUIRE(shape_of(small) == "4");
  REQUIRE(small.stages[0].replicas_by_level == std::vector<int>{2, 2});
  REQUIRE(small.seconds == Approx(20 * kMs).epsilon(kClose));
}

TEST_CASE("the memory bound counts mini-batches that wait, and the current one if requested") {
  // In two stages the first one keeps 10 MB for the mini-batch that waits.
  const auto profile = chain_profile({timed(10, 1e6, 9e6), timed(10, 1e6, 9e6)});
  PlanRequest request = machines(2);
  request.memory = 10e6;
  REQUIRE(shape_of(best_plan(profile, request)) == "1-1");
  request.memory = 9.9e6;
  const auto replicated = best_plan(profile, request);
  REQUIRE(shape_of(replicated) == "2");
  REQUIRE(replicated.seconds == Approx(20 * kMs * 0.9).epsilon(kClose));  // synchronization 36 ms, halved
  request.counts_current = true;
  request.memory = 20e6;
  REQUIRE(shape_of(best_plan(profile, request)) == "1-1");
  request.memory = 15e6;
  REQUIRE(why_not(profile, request) ==
          "no plan fits into 15000000 bytes of memory for each device: the least that one needs here is "
          "20000000 bytes.");
}

TEST_CASE("among equal plans: the fewest stages, then the latest cut, then the fewest replicas") {
  const auto cut_anywhere =
      chain_profile({timed(10, 0, 1e9), timed(0, 0, 0), timed(0, 0, 0), timed(10, 0, 1e9)});
  const auto latest = best_plan(cut_anywhere, machines(2));
  REQUIRE(shape_of(latest) == "1-1");
  REQUIRE(latest.stages[1].begin == 3);
  // 1-1-1 and 2-1 take 10 ms; the synchronization of the first two layers takes 20 ms for two mini-batches.
  const auto fewest =
      best_plan(chain_profile({timed(5, 0, 5e6), timed(10, 0, 5e6), timed(10, 0, 1e9)}), machines(3));
  REQUIRE(shape_of(fewest) == "2-1");
  REQUIRE(fewest.seconds == Approx(10 * kMs).epsilon(kClose));
  // 1-2-1 and 1-1-2 take 10 ms. The last two layers together synchronize for 53 ms on three devices.
  const auto replicas =
      best_plan(chain_profile({timed(10, 0, 1e9), timed(10, 0, 10e6), timed(10, 0, 10e6)}), machines(4));
  REQUIRE(shape_of(replicas) == "1-2-1");
  REQUIRE(replicas.seconds == Approx(10 * kMs).epsilon(kClose));
}

TEST_CASE("devices may be left out") {
  // 100 MB: two devices synchronize for 200 ms, four for 300 ms.
  const auto profile = chain_profile({timed(10, 1e6, 100e6)});
  const auto all = best_plan(profile, machines(4));
  REQUIRE(shape_of(all) == "4");
  REQUIRE(all.seconds == Approx(75 * kMs).epsilon(kClose));
  PlanRequest request = machines(4);
  request.may_idle = true;
  const auto one = best_plan(profile, request);
  REQUIRE(shape_of(one) == "1");
  REQUIRE(one.seconds == Approx(10 * kMs).epsilon(kClose));
  REQUIRE(one.devices == 1);
  REQUIRE(one.idle == 3);
}

TEST_CASE("replicas and cuts can be given") {
  const auto profile = chain_profile({timed(10, 1e6, 0), timed(10, 1e6, 0), timed(20, 1e6, 0)});
  PlanRequest request = machines(4);
  request.replicas = {1, 2};
  const auto plan = best_plan(profile, request);
  REQUIRE(shape_of(plan) == "1-2");
  REQUIRE(plan.stages[1].begin == 1);  // 10 and 30 / 2 ms; the other cut: 20 and 20 / 2 ms
  REQUIRE(plan.seconds == Approx(15 * kMs).epsilon(kClose));
  REQUIRE(plan.idle == 1);
  request.cuts = {2};
  REQUIRE(best_plan(profile, request).seconds == Approx(20 * kMs).epsilon(kClose));
  request.cuts = {1, 2};
  REQUIRE(why_not(profile, request) ==
          "the cuts are one less than the stages, but 2 cuts and 2 stages are given.");
  request.cuts = {3};
  REQUIRE(why_not(profile, request) == "the profile has the cuts 1 to 2, but not 3.");
  request.replicas = {1, 1, 1};
  request.cuts = {2, 2};
  REQUIRE(why_not(profile, request) == "the cut 2 does not lie behind 2.");
  request.replicas = {};
  REQUIRE(why_not(profile, request) == "cuts can be given only with the stages' replicas.");
}

TEST_CASE("the error of an impossible plan says what is possible") {
  const auto profile = chain_profile({timed(10, 1e6, 0), timed(10, 1e6, 0)});
  REQUIRE(why_not(profile, PlanRequest{}) == "a plan needs at least one device, and none is given.");
  REQUIRE(why_not(profile, machines(0)) == "level 1 has 0 devices or groups of them, and needs 1 to 4096.");
  PlanRequest request{.levels = {{2, 1e9}, {2, 0}}};
  REQUIRE(why_not(profile, request) ==
          "level 2 has a bandwidth of 0 bytes per second, and needs one from 1 to 1e+15.");
  request.levels[1].bandwidth = 1e9;
  request.replicas = {1, 1};
  REQUIRE(why_not(profile, request) == "the replicas 1-1 can be given only for devices on one level.");
  request = machines(4);
  request.replicas = {3, 1, 1};
  REQUIRE(why_not(profile, request) == "the stages 3-1-1 need 5 devices, and there are 4.");
  request.replicas = {1, 0};
  REQUIRE(why_not(profile, request) == "every stage of 1-0 needs at least one replica.");
  request.replicas = {1, 1, 1};
  REQUIRE(why_not(profile, request) == "the profile can be cut into at most 2 stages, but 3 are requested.");
  request = machines(4);
  request.memory = 0;
  REQUIRE(why_not(profile, request) == "the memory of a device is 0 bytes, and must be positive.");
  request.memory = std::nullopt;
  request.levels.assign(9, {1, 1e9});
  REQUIRE(why_not(profile, request) == "devices can be on at most 8 levels, and 9 are given.");
  request.levels.assign(2, {2000, 1e9});
  REQUIRE(why_not(profile, request) == "a plan is for at most 1000000 devices, and there are 4000000.");
  request = machines(4096);
  request.may_idle = true;
  REQUIRE(why_not(chain_profile(std::vector<ProfiledLayer>(20, timed(1, 1, 1))), request) ==
          "a profile with 20 cuts takes too long to plan for so many devices: join layers, or give fewer "
          "devices.");
  REQUIRE(why_not(PipelineProfile{}, machines(1)) == "the profile has no layers.");
}

}  // namespace
}  // namespace starling::training
