// When a peer's training begins. Peers that are started together (MembershipOptions::awaits_expected) begin
// together: each holds its training until MembershipOptions::expected members have the run's parameters. So
// all make their first steps from equal ones, and none exchanges before. A peer does not wait if anyone
// trains already, or if nobody has come for a while.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "gossip/run_state.h"

namespace starling::gossip {

class JointStart {
 public:
  explicit JointStart(RunState& run) : run_(run) {}

  // This peer has its parameters. Returns whether training begins now; otherwise tells others that it may be
  // copied.
  bool begin(Actions& out) {
    if (over_ || expected() < 2 || anyone_trains()) return true;
    holds_ = true;
    run_.membership.spread(run_.now, out);
    out.push_back(HoldTraining{});
    return false;
  }
  // Whether training, which was held, begins now.
  bool tick(Actions& out) {
    if (!may_begin() || (!anyone_trains() && waits(out))) return false;
    holds_ = false;
    over_ = true;
    is_first_ = !anyone_trains();
    return true;
  }
  // Whether training was held and begins with the others', so that all are at their first steps.
  bool is_first() const { return is_first_; }
  // This peer woke `late` after its deadline.
  void slept(Duration late) {
    if (until_ != kNever) until_ = until_ + late;
  }
  Instant next_deadline() const { return may_begin() ? until_ : kNever; }

  // For whom training waits; for display.
  struct Awaited {
    std::uint32_t ready = 0, expected = 0;  // peers
    Instant until = kNever;                 // training begins without the others
  };
  std::optional<Awaited> awaited() const {
    if (!may_begin()) return std::nullopt;
    return Awaited{ready(), expected(), until_};
  }

 private:
  std::uint32_t expected() const {
    const MembershipOptions& options = run_.options.membership;
    return options.awaits_expected ? options.expected : 0;
  }
  bool may_begin() const { return holds_ && !run_.leaving && !run_.diverged; }
  bool anyone_trains() const {
    return run_.steps() > 0 || std::ranges::any_of(run_.membership.others(), [](const Record& record) {
             return record.member.steps > 0;
           });
  }
  bool counts(const wire::Member& member) const {
    return member.phase >= wire::Phase::training &&
           (!run_.rule().has_servers() ||
            role_of(member.name, run_.rules->servers).kind == Role::Kind::worker);
  }
  // Members with parameters that train later, this one and those that have gone again included.
  std::uint32_t ready() const {
    std::uint32_t count = counts(run_.membership.self()) ? 1 : 0;
    for (const Record& record : run_.membership.others()) count += !record.observes && counts(record.member);
    return count;
  }
  bool waits(Actions& out) {
    const std::uint32_t now = ready();
    if (now >= expected()) return false;
    const std::string share = std::to_string(now) + " of " + std::to_string(expected());
    if (!ready_ || now > *ready_) {
      ready_ = now;
      until_ = run_.now + run_.options.recovery_limit;
      out.push_back(Notice{Notice::What::assembling, {}, share});
    }
    if (run_.now < until_) return true;
    out.push_back(Notice{Notice::What::incomplete, {}, share});
    return false;
  }

  RunState& run_;
  bool holds_ = false, over_ = false, is_first_ = false;
  std::optional<std::uint32_t> ready_{};  // the most so far
  Instant until_ = kNever;                // begins by itself
};

}  // namespace starling::gossip
