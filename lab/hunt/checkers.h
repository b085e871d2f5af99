// What must hold in every virtual world, whatever befalls it: the ten statements of the exchange and of
// membership. A Checkers stands outside the world and looks after every event; it keeps a copy of every
// replica as it must be, a ledger of the sum of all parameters, and what every peer was last seen to believe.
// The first statement that does not hold is kept, in a sentence.
//
//   1 a mutated frame changes nothing         6 after the faults everyone exchanges, and all views are equal
//   2 the sum of all parameters is conserved  7 nobody slows another
//   3 no mix raises the energy                8 the dead are found dead, the living alive, once and for all
//   4 no poison touches a replica             9 every queue is bounded, every deadline lies ahead
//   5 nothing stale is mixed                 10 the same seed gives the same run (lab/hunt.h)
//
// What 2 and 3 mean depends on the rule. Of pairwise averaging in float32 both are checked to the last value. Of
// pairwise in other payloads, d-psgd and choco both sides of a chunk must have moved by opposite vectors; of push-sum
// each receipt must be the weighted mean that the weights say, which are counted along; clipped and noloco do not
// conserve the sum chunk by chunk, so there the ledger is only kept. Energy is defined for pairwise in float32 alone:
// rounding payloads may raise it, and the others mix with values of other moments. Statement 7 is void in lock-step,
// where neighbors do wait for each other, and 5 is about the time to a reply, which lock-step's snapshots precede.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "lab/world/watcher.h"
#include "lab/world/world.h"

namespace starling::lab {

struct Violation {
  int statement = 0;
  Instant at;
  std::string text;  // one sentence
};

struct CheckSetting {
  Instant faults_end = kNever;  // from then on nothing goes wrong any more
  Duration detection{0};        // then, or after a death, so long until everyone knows of it
  Duration recovery{0};         // then so long until whoever lives is known to live
  double share = 0.9;           // of the steps that a peer's own speed allows
};

class Checkers : public Watcher {
 public:
  explicit Checkers(CheckSetting setting) : setting_(setting) {}

  // The world that has this watcher. REQUIRES: before its first happening.
  void watch(const World& world);
  // Looks at what everyone believes; called now and then.
  void look();
  // What must hold at the end.
  void finish();
  // In lock-step, how much longer than under other rules a peer may rightly be without an exchange from now on: until
  // the steps that go on are over, which slowness may have drawn out, and two periods of the topology after them, as
  // each link has its turn once in a period and peers that are not in step may miss the first.
  Duration barrier() const;
  bool is_served(std::uint32_t machine) const;

  const std::optional<Violation>& violation() const { return violation_; }

  struct Counts {
    std::uint64_t poison_refused = 0, mutations_refused = 0, half_applied = 0;
    std::uint64_t exchanges_completed = 0, exchanges_aborted = 0;
  };
  const Counts& counts() const { return counts_; }

  void started(std::uint32_t machine) override;
  void ended(std::uint32_t machine, MachineState state) override;
  void event(std::uint32_t machine, const gossip::Event& event) override;
  void action(std::uint32_t machine, const gossip::Action& action) override;
  void stood_still(std::uint32_t machine) override;
  void has_parameters(std::uint32_t machine) override;
  void lost_parameters(std::uint32_t machine) override;
  void round_began(std::uint32_t machine) override;
  void lent(std::uint32_t machine, const training::Parcel& parcel) override;
  void taken_back(std::uint32_t machine, const training::Parcel& parcel) override;
  void step_began(std::uint32_t machine, Duration takes) override;
  void step_ended(std::uint32_t machine) override;
  void answered(const Mix& mix) override;
  void completed(const Mix& mix) override;
  void half_applied(std::uint32_t machine, std::uint64_t exchange, std::size_t chunk) override;
  void poison_arrived(std::uint32_t machine, std::uint32_t from, bool refused) override;
  void mutation_arrived(std::uint32_t machine, std::uint32_t from, bool refused) override;

 private:
  // A replica as it must be.
  struct Shadow {
    bool live = false;
    std::vector<float> values;
    Instant step_began;
    Duration step_takes{0}, stepped{0}, longest_step{0};
    bool stopped = false;  // its core stopped its training
    std::optional<Instant> lost;  // since when it has no replica
    Duration rested{0};           // for how long it had none
    std::vector<double> weights;  // of push-sum, by cell
  };
  // A chunk that was answered, or given up before its answer was mixed.
  struct Open {
    PeerId initiator{};
    std::uint64_t exchange = 0;
    std::uint64_t a = 0, b = 0;  // hashes of the two vectors
    float w = 0;
    bool answered = false, counted = false;
    std::vector<double> moved;  // by how much the responder did, where that is compared
    double magnitude = 0;       // of its values, the largest
  };
  struct Instance {
    PeerId id;
    std::uint32_t machine = 0;
    std::uint32_t incarnation = 0;  // the highest it ever chose
    std::optional<Instant> ended{};
    bool leaving = false;
    std::vector<std::uint64_t> under_way{};  // exchanges of its own
    std::uint64_t exchanges_before = 0;  // its completed and answered ones when the faults ended
  };
  struct Seen {
    bool known = false;
    std::uint32_t incarnation = 0;
    wire::Liveness liveness = wire::Liveness::alive;
  };

  void violate(int statement, std::string text);
  const std::string& name(std::uint32_t machine) const;
  std::string called(const Instance& instance) const;
  Open& open(PeerId initiator, std::uint64_t exchange, std::size_t chunk);
  bool check_mix(const Mix& mix, bool responder);
  void check_pairwise(const Mix& mix, bool responder);
  bool check_push(std::uint32_t machine, const training::Parcel& parcel, std::span<const float> values);
  std::vector<double> take_over(std::uint32_t machine, std::size_t offset, std::size_t floats);
  void check_sum();
  void check_energy();
  void look_at(std::uint32_t viewer, Instance& instance, const wire::Member& member);
  Instance& instance_of(std::uint32_t machine) { return instances_[current_[machine]]; }

  CheckSetting setting_;
  const World* world_ = nullptr;
  bool exact_ = true;         // pairwise in float32
  bool opposite_ = false;     // both sides of a chunk move by opposite vectors
  bool push_sum_ = false;
  bool served_ = false;
  bool lock_step_ = false;
  bool lets_wait_ = false;  // a partner that is well
  std::optional<Violation> violation_;

  Counts counts_;

  std::vector<Shadow> shadows_;
  double ledger_ = 0;    // what the sum of all live replicas must be
  double rounding_ = 0;  // and how far it may be off
  std::unordered_map<std::uint64_t, Open> open_;
  double energy_ = -1;  // at the last look; < 0: something that may change it happened since
  Instant energy_looked_;

  std::vector<Instance> instances_;  // in the order they started
  std::unordered_map<std::uint64_t, std::size_t> by_id_;
  std::vector<std::size_t> current_;     // per machine: its latest instance
  std::vector<std::vector<Seen>> seen_;  // per machine: what its instance last believed of each
  bool faults_over_ = false;
  std::uint64_t looks_ = 0;
};

}  // namespace starling::lab
