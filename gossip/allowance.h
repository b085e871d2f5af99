// How many samples this peer may train on before it hears from the others, in a run that ends when the swarm
// has consumed a number of samples.
//
// A peer may take an equal part of the samples that are left, as far as it knows: left / number of peers that
// train. Its limit falls whenever others turn out to have consumed more. It is raised only on fresh counts:
// when half of its part is used up, the peer asks the other members for theirs, and waits if the answers come
// late. So the swarm consumes about a batch per peer more than it should, and not what all peers consume
// between two pieces of news. A fast peer asks more often and gets more. In a long run the parts are far
// larger than what is consumed between question and answer, and nobody waits.
//
// No member can hold this peer up for long. One that does not answer in kAnswerTime is passed over until it
// is heard again. A peer that has waited for kPatience in all gets no limit any more. A member that claims to
// have consumed nothing only makes the parts smaller; the others consume what is left in a few more of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gossip/run_state.h"

namespace starling::gossip {

class Allowance {
 public:
  static constexpr std::size_t kAskedMax = 16;  // members at a time
  static constexpr Duration kAnswerTime = std::chrono::seconds(1);
  static constexpr Duration kPatience = std::chrono::seconds(3);  // for answers, in all
  // Within which MembershipOptions::expected peers are to make their first steps, from when this peer trains.
  static constexpr Duration kArrivalTime = std::chrono::seconds(10);

  explicit Allowance(RunState& run) : run_(run), expected_(run.options.membership.expected) {}

  // Training begins. Appends AllowSamples if the run ends by samples, and asks the others for their counts,
  // which also tells them that this peer trains.
  void start(Actions& out);
  // The member has sent its count.
  void heard(PeerId from);
  // Lowers or raises the limit, and asks.
  void tick(Actions& out);
  // This peer woke `late` after its deadline: the others get that much more time.
  void slept(Duration late);
  // REQUIRES: tick() was called at this instant.
  Instant next_deadline() const;

 private:
  static constexpr std::uint64_t kUnlimited = UINT64_MAX;

  bool applies() const;
  bool trains(const wire::Member& member) const;
  void count_members();
  void expect_nobody();
  std::uint64_t own() const { return run_.membership.self().samples; }
  std::uint64_t fair_limit() const;
  bool used_up() const { return limit_ <= own(); }
  void set_limit(std::uint64_t limit, Actions& out);
  void raise(Actions& out);
  void ask(Actions& out);
  void measure_wait();

  RunState& run_;
  bool started_ = false;
  std::uint64_t limit_ = kUnlimited;  // of its own samples, with earlier lives that the swarm counts
  std::uint64_t part_ = 0;            // what the last raise gave

  std::vector<PeerId> others_{};  // that train, without those that are passed over; sorted
  std::vector<PeerId> passed_over_{};
  std::uint32_t expected_;                  // peers that begin together; 0: no more awaited
  bool absent_ = false;                     // some of these have not made a step yet
  std::uint64_t sharing_ = 1;               // peers that share what is left
  std::optional<std::uint64_t> version_{};  // of the membership that was counted

  bool asks_ = false;
  std::vector<PeerId> awaited_{};  // members that were asked and have not answered
  Instant answer_by_ = kNever;
  Instant arrive_by_ = kNever;            // of those that are expected
  std::optional<Instant> waits_since_{};  // for answers, with its part used up
  Duration waited_{0};                    // before that
};

}  // namespace starling::gossip
