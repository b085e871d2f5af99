// The invariants of every virtual world: fifteen statements about exchanges and membership. A Checkers
// observes the world after each event. It keeps a shadow of each replica, a ledger of the sum of all
// parameters, and the latest known view of each peer. It reports the first statement that is violated, as a
// sentence.
//
//    1 a mutated frame changes nothing
//    2 the sum of all parameters is conserved
//    3 no mix raises the energy
//    4 no replica accepts poison
//    5 no stale snapshot is mixed
//    6 after the faults all peers exchange, and their views are equal
//    7 no peer slows another one
//    8 dead peers are found dead and live ones alive, permanently
//    9 every queue is bounded, every deadline is in the future
//   10 the same seed gives the same run (lab/hunt/hunt.h)
//   11 after the faults, each record has an address exactly if others can dial the peer there, and homes
//      that live; peers use only ways that exist
//   12 the fragments of an arena take turns in every peer
//   13 answers are limited, and one that moves does not end while one without a chunk wastes a place
//   14 members that take part in no exchange delay each other peer by a bounded sum
//   15 peers that are started together begin together
//
// The meaning of 2 and 3 depends on the rule. Pairwise averaging in float32 is checked exactly. With pairwise
// in other payloads, d-psgd and choco, both sides of a chunk must move by opposite vectors. With push-sum,
// each receipt must be the weighted mean of the counted weights. clipped and noloco do not conserve the sum
// of each chunk, so only the ledger is updated. Energy is checked only for pairwise in float32: rounding
// payloads may raise it, and other rules mix with values of other moments. 7 is not checked in lock-step,
// where neighbors wait for each other, nor is 5, whose limit is the time to a reply: lock-step takes its
// snapshots earlier.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/time.h"
#include "lab/hunt/answer_checks.h"
#include "lab/hunt/joint_start_checks.h"
#include "lab/hunt/reach_checks.h"
#include "lab/hunt/wait_checks.h"
#include "lab/world/world.h"

namespace starling::lab {

struct Violation {
  int statement = 0;
  Instant at;
  std::string text;  // one sentence
};

struct CheckSetting {
  Instant faults_end = kNever;  // no fault happens from then on
  Duration detection{0};        // from then, or from a death, until all peers know of the death
  Duration recovery{0};         // from then until all peers know all live peers as live
  // Nothing hinders messages between live peers: no live member fails in any view, and deaths are found at
  // any time.
  bool calm = false;
  double share = 0.9;          // of the steps that a peer could make at its own speed
  std::uint32_t together = 0;  // JointStartChecks
};

class Checkers : public Watcher {
 public:
  explicit Checkers(CheckSetting setting) : setting_(setting) {}

  // Sets the world that has this watcher. REQUIRES: before its first happening.
  virtual void watch(const World& world);
  // Checks the views of all peers; called regularly.
  void look();
  // Checks the final state, unless a statement is violated already.
  virtual void finish();
  // In lock-step, the additional time that a peer may be without an exchange from now on: until the steps
  // under way have ended, and two periods of the topology. Each link has its turn once per period, and peers
  // that are not in step may miss the first one.
  Duration barrier() const;
  // What the end of the world has to wait for.
  struct Unsettled {
    bool addresses_differ;  // ReachChecks
    Instant awaited_again;  // WaitChecks
  };
  Unsettled unsettled() const { return {reach_.addresses_differ(), waits_.awaited_again()}; }

  const std::optional<Violation>& violation() const { return violation_; }

  struct Counts {
    std::uint64_t poison_refused = 0, mutations_refused = 0;  // chunks, frames
    std::uint64_t exchanges_completed = 0, exchanges_aborted = 0, half_applied_chunks = 0;
    std::uint64_t circuits = 0;
  };
  const Counts& counts() const { return counts_; }

  void started(std::uint32_t machine) override;
  void ended(std::uint32_t machine, MachineState state) override;
  void event(std::uint32_t machine, const gossip::Event& event) override;
  void action(std::uint32_t machine, const gossip::Action& action) override;
  void stood_still(std::uint32_t machine) override;
  void has_parameters(std::uint32_t machine) override;
  void lost_parameters(std::uint32_t machine) override;
  void lent(std::uint32_t machine, const training::Parcel& parcel) override;
  void taken_back(std::uint32_t machine, const training::Parcel& parcel) override;
  void step_began(std::uint32_t machine, Duration takes) override;
  void step_ended(std::uint32_t machine) override;
  void answered(const Mix& mix) override;
  void answer_changed(std::uint32_t machine, const AnswerChange& change) override;
  void completed(const Mix& mix) override;
  void half_applied(std::uint32_t machine, std::uint64_t exchange, std::size_t chunk) override;
  void circuit_opened(std::uint32_t relay, std::uint32_t requester, std::uint32_t target) override;
  void poison_arrived(std::uint32_t machine, std::uint32_t from, bool refused) override;
  void mutation_arrived(std::uint32_t machine, std::uint32_t from, bool refused) override;

 protected:
  const std::string& name(std::uint32_t machine) const;

  const World* world_ = nullptr;

 private:
  // The expected state of a replica.
  struct Shadow {
    bool live = false;
    std::vector<float> values;
    Instant step_began;
    Duration step_takes{0}, stepped{0}, longest_step{0};
    bool stopped = false;         // its core stopped its training
    std::optional<Instant> lost;  // since when it has no replica
    Duration rested{0};           // for how long it had none
    std::vector<double> weights;  // with push-sum, by cell
    std::vector<int> empty;       // the same: chunks that were empty since the last one that was not
  };
  // A chunk that was answered, or given up before its reply was mixed.
  struct Open {
    PeerId initiator{};
    std::uint64_t exchange = 0;
    std::uint64_t a = 0, b = 0;  // hashes of the two vectors
    float w = 0;
    bool answered = false, counted = false;
    std::vector<double> moved;  // the responder's change, if it is compared
    double magnitude = 0;       // the largest of its values
  };
  struct Instance {
    PeerId id;
    std::uint32_t machine = 0;
    std::uint32_t incarnation = 0;  // the highest that it, or an earlier one with this id, chose
    Instant began{};
    std::uint64_t first_exchange = 0;  // exchanges of earlier ones with this id have lower numbers
    std::optional<Instant> ended{};
    bool leaving = false;
    std::vector<std::uint64_t> under_way{};   // exchanges that it began
    std::optional<std::uint32_t> fragment{};  // of the latest own exchange
    std::uint64_t exchanges_before = 0;       // completed and answered when the faults ended
  };
  struct Seen {
    bool known = false;
    std::uint32_t incarnation = 0;
    wire::Liveness liveness = wire::Liveness::alive;
  };

  template <class... Args>
  void violate(int statement, fmt::format_string<Args...> text, Args&&... args) {
    if (!violation_)
      violation_ = Violation{statement, world_->now(), fmt::format(text, std::forward<Args>(args)...)};
  }
  std::string called(const Instance& instance) const;
  Open& open(PeerId initiator, std::uint64_t exchange, std::size_t chunk);
  void check_turn(Instance& self, const gossip::Part& part);
  void check_mix(const Mix& mix, bool responder);
  void check_opposite(const Mix& mix, bool responder);
  void check_pairwise(const Mix& mix, bool responder);
  bool check_push(std::uint32_t machine, const training::Parcel& parcel, std::span<const float> values);
  void take_over(std::uint32_t machine, std::size_t offset, std::size_t floats);
  void check_sum();
  void check_energy();
  // `truth`: the machine of the instance.
  void look_at(std::uint32_t viewer, Instance& instance, const wire::Member& member,
               const World::MachineView& truth);
  void check_claims(std::uint32_t viewer, const Instance& instance, const wire::Member& member,
                    const World::MachineView& truth);
  void check_final_view(std::uint32_t i, const std::vector<PeerId>& alive,
                        std::optional<std::uint32_t> first);
  void check_final_exchanges(std::uint32_t i, bool could_exchange);
  void check_final_steps(std::uint32_t i);
  void check_counted();
  Instance& instance_of(std::uint32_t machine) { return instances_[current_[machine]]; }

  CheckSetting setting_;
  // What follows from the rule.
  struct Kind {
    bool exact = true;      // pairwise in float32
    bool opposite = false;  // both sides of a chunk move by opposite vectors
    bool push_sum = false;
    bool served = false;
    bool lock_step = false;
    bool lets_wait = false;  // a healthy peer may let its partner wait
  } kind_;
  std::optional<Violation> violation_;

  Counts counts_;

  std::vector<Shadow> shadows_;
  double ledger_ = 0;    // the expected sum of all live replicas
  double rounding_ = 0;  // the error that it may have
  std::unordered_map<std::uint64_t, Open> open_;
  double energy_ = -1;  // at the latest check; < 0: it may have changed since then
  Instant energy_looked_;

  std::vector<Instance> instances_;  // in the order of their starts
  std::unordered_map<std::uint64_t, std::size_t> by_id_;
  std::vector<std::size_t> current_;     // by machine: its latest instance
  std::vector<std::vector<Seen>> seen_;  // by machine and instance: the latest known view
  ReachChecks reach_;
  AnswerChecks answers_;
  WaitChecks waits_;
  JointStartChecks joint_start_;
  bool faults_over_ = false;
  std::uint64_t looks_ = 0;
};

// Checkers that also describe the run, one sentence per line: incidents, exchanges, what each peer learned of
// the others, and the final views. They append to `text`, which outlives them.
std::unique_ptr<Checkers> make_story(CheckSetting setting, std::string& text);

}  // namespace starling::lab
