// A world's run as a story: what befell whom, and who knew what when, one sentence a line. It stands between
// the world and another watcher, to whom it passes everything on.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lab/world/faults.h"
#include "lab/world/watcher.h"
#include "lab/world/world.h"

namespace starling::lab {

class Story : public Watcher {
 public:
  Story(Watcher& next, std::string& text) : next_(next), text_(text) {}

  // REQUIRES: before the world's first happening.
  void watch(const World& world);
  void finish();  // what everybody believes at the end

  void started(std::uint32_t machine) override;
  void ended(std::uint32_t machine, MachineState state) override;
  void event(std::uint32_t machine, const gossip::Event& event) override;
  void action(std::uint32_t machine, const gossip::Action& action) override;
  void stood_still(std::uint32_t machine) override { next_.stood_still(machine); }
  void lost_parameters(std::uint32_t machine) override;
  void round_began(std::uint32_t machine) override { next_.round_began(machine); }
  void lent(std::uint32_t machine, const training::Parcel& parcel) override { next_.lent(machine, parcel); }
  void taken_back(std::uint32_t machine, const training::Parcel& parcel) override {
    next_.taken_back(machine, parcel);
  }
  void has_parameters(std::uint32_t machine) override;
  void step_began(std::uint32_t machine, Duration takes) override { next_.step_began(machine, takes); }
  void step_ended(std::uint32_t machine) override { next_.step_ended(machine); }
  void answered(const Mix& mix) override { next_.answered(mix); }
  void completed(const Mix& mix) override { next_.completed(mix); }
  void half_applied(std::uint32_t machine, std::uint64_t exchange, std::size_t chunk) override;
  void poison_arrived(std::uint32_t machine, std::uint32_t from, bool refused) override;
  void mutation_arrived(std::uint32_t machine, std::uint32_t from, bool refused) override;

 private:
  void tell(std::uint32_t machine, const std::string& sentence);
  void tell_incidents();
  void line(Instant at, const std::string& text);
  std::string name(std::uint32_t machine) const;
  std::string name(PeerId id) const;

  Watcher& next_;
  std::string& text_;
  const World* world_ = nullptr;
  std::size_t incidents_told_ = 0;
};

}  // namespace starling::lab
