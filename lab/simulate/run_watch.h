// Observes a world for a run's report: exactly what each machine does when, and the staleness of what it
// mixes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lab/world/watcher.h"
#include "lab/world/world.h"
#include "training/records/staleness.h"
#include "training/records/timeline.h"

namespace starling::lab {

// Adds what a machine did from `from` to `to`, except during its pauses, when it is stopped.
void add_around_pauses(training::Timeline& timeline, std::span<const Interval> pauses, Instant from,
                       Instant to, const training::Activity& doing);

class RunWatch final : public Watcher {
 public:
  explicit RunWatch(std::size_t machines);

  // Sets the world to observe, before its first happening.
  void look_at(const World& world) { world_ = &world; }

  // Up to the world's current time. Seconds count from its beginning.
  const training::Timeline& timeline(std::uint32_t machine);
  const training::Staleness& staleness() const { return staleness_; }

  void started(std::uint32_t machine) override;
  void ended(std::uint32_t machine, MachineState state) override;
  void event(std::uint32_t machine, const gossip::Event& event) override;
  void action(std::uint32_t machine, const gossip::Action& action) override;
  void lent(std::uint32_t machine, const training::Parcel& parcel) override;
  void step_began(std::uint32_t machine, Duration takes) override;
  void step_ended(std::uint32_t machine) override;
  void step_discarded(std::uint32_t machine) override;
  void completed(const Mix& mix) override;

 private:
  struct Own {  // an exchange that the machine began
    std::uint64_t exchange;
    bool accepted = false;    // by the partner; until then the machine waits
    std::uint64_t stale = 0;  // steps since the oldest chunk was lent
  };
  struct Answer {
    PeerId from;
    std::uint64_t exchange;
  };
  struct Lent {
    std::size_t offset;   // floats
    std::uint64_t steps;  // of the machine when it lent the chunk
  };
  struct Seen {
    bool up = false, training = false;
    std::uint32_t stepping = 0;  // workers
    std::uint64_t steps = 0;
    Instant since{};  // the time line is complete up to here
    std::vector<Own> owns{};
    std::vector<Answer> answers{};
    std::vector<Lent> lent{};
    training::Timeline timeline;
  };

  void account(std::uint32_t machine);
  void forget(Seen& seen, std::uint64_t exchange);

  const World* world_ = nullptr;
  std::vector<Seen> seen_;
  training::Staleness staleness_;
};

}  // namespace starling::lab
