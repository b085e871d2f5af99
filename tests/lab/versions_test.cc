// Swarms of programs of several versions: some Joins say what their program knows, those of earlier programs
// do not.
#include "tests/catch.h"
#include "tests/lab/world_story.h"

namespace starling::lab {
namespace {

// A scene in which later programs know more than the run needs, earlier ones do not say what they know, and
// the last machine lacks a setting of the run if `outdated`.
Scene mixed_scene(std::uint64_t seed, bool outdated) {
  Scene scene = overlapping_scene(seed, 300);
  scene.adding_steps = 100;
  scene.options.manifest.settings = {{"gossip.rule", "pairwise"}, {"gossip.new", "1"}};
  Random random = Random(seed).split(80);
  for (MachineOptions& machine : scene.options.machines) {
    if (random.chance(0.4)) continue;
    machine.program = {"0.5.0", {"gossip.rule", "gossip.rule=pairwise", "gossip.new", "gossip.later"}};
  }
  if (outdated) {
    MachineOptions& last = scene.options.machines.emplace_back(scene.options.machines.back());
    last.name = "outdated";
    last.start = at_instant(100ms);  // the others have joined
    last.program = {"0.4.0", {"gossip.rule", "gossip.rule=pairwise"}};
  }
  return scene;
}

}  // namespace

TEST_CASE("peers of several versions train together, and an outdated one is never a member") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const bool outdated = seed % 2 == 0;
    INFO("seed " << seed);
    Watched watched(mixed_scene(seed, outdated));
    const std::uint32_t all = watched.world.machines();
    const std::uint32_t others = outdated ? all - 1 : all;
    const PeerId refused = watched.world.machine(all - 1).id;
    bool member = false;
    while (!watched.over() && watched.run_one()) {
      if (!outdated) continue;
      for (std::uint32_t i = 0; i < others && !member; ++i) {
        const gossip::Membership* seen = watched.world.machine(i).membership;
        member = seen != nullptr && seen->find(refused) != nullptr;
      }
    }
    CHECK_FALSE(member);
    for (std::uint32_t i = 0; i < others; ++i)
      CHECK(watched.world.machine(i).state == MachineState::finished);
    if (outdated) CHECK(watched.world.machine(all - 1).state == MachineState::failed);
    CHECK(watched.exchanges().completed > 0);
    CHECK(watched.sum() == Approx(watched.expected_sum()).margin(1e-2));
  }
}

}  // namespace starling::lab
