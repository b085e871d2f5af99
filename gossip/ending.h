// The end of a peer's run. Training ends when the run's end is reached or on request; then the peer settles:
// a few more exchanges without training bring the replicas together. It makes them with members that have
// ended their training too, so that a replica that trains is never mixed with one that has ended for this
// reason, and waits for the others for a limited time. A finished peer answers until the others have finished
// too. A peer that leaves makes one last exchange, so that what it learned stays in the swarm.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include "gossip/run_state.h"

namespace starling::gossip {

class Ending {
 public:
  explicit Ending(RunState& run) : run_(run) {}

  void request() { requested_ = true; }
  // Whether training is to end. REQUIRES: run.rules.
  bool reached() const {
    const End& end = run_.rules->end;
    return requested_ || (end.swarm_samples && samples_reached(*end.swarm_samples)) ||
           (end.steps && run_.steps() >= *end.steps) || (end.time && run_.now - run_.run_start >= *end.time);
  }
  // If training ends now, and rests on samples of one member that may not have consumed them: a sentence.
  std::string doubt() const {
    const End& end = run_.rules->end;
    if (requested_ || !end.swarm_samples || (end.steps && run_.steps() >= *end.steps) ||
        (end.time && run_.now - run_.run_start >= *end.time))
      return "";
    const std::uint64_t all = run_.membership.swarm_samples();
    const std::uint64_t doubtful = std::min(all, run_.membership.doubtful_samples(run_.now));
    if (all - doubtful >= *end.swarm_samples || (doubtful == 0 && all >= *end.swarm_samples)) return "";
    return "the run has ended by the samples that one member claims, more than half of all since it came and "
           "much faster than others; if no machine is that fast, the model is not trained to the end";
  }
  Instant next_deadline() const {
    const Instant next = std::min(linger_until_, leave_by_);
    if (awaits_others()) return std::min(next, settle_from_);
    if (run_.phase() != wire::Phase::training || !run_.rules->end.time) return next;
    return std::min(next, run_.run_start + *run_.rules->end.time);
  }

  // ---- settling ----
  // This number of exchanges must complete; at most four times as many are tried.
  void settle(std::uint64_t exchanges) {
    left_ = exchanges;
    tries_ = 4 * exchanges;
    settle_from_ = run_.now + run_.options.linger;
  }
  // Whether others still train and have time left to end, too.
  bool awaits_others() const {
    return is_settling() && run_.now < settle_from_ &&
           std::ranges::any_of(run_.membership.others(), [](const Record& record) {
             return record.is_live() && !record.observes && record.member.phase == wire::Phase::training;
           });
  }
  // Enough to bring n replicas together: 2 + log2 n, rounded up; 0 for a lone peer.
  std::uint64_t exchanges_to_settle() const {
    const std::uint64_t live = 1 + run_.membership.view().members.live();
    return live < 2 ? 0 : 2 + static_cast<std::uint64_t>(std::bit_width(live - 1));
  }
  bool is_settling() const { return run_.phase() == wire::Phase::settling && left_ > 0; }
  bool settled() const { return left_ == 0; }
  void exchange_settled() { left_ -= left_ > 0 ? 1 : 0; }
  // An exchange is about to be tried. Returns false, and ends settling, if there were too many tries.
  bool try_settling(Actions& out) {
    if (tries_ == 0) {
      out.push_back(Notice{Notice::What::unsettled, {}, std::to_string(left_)});
      left_ = 0;  // nobody is left to settle with
      return false;
    }
    --tries_;
    return true;
  }

  // ---- finished ----
  void linger() { linger_until_ = run_.now + run_.options.linger; }
  // Whether every other member has finished, or has had the time to; `answering`: it is served right now.
  bool may_stop(bool answering) const {
    if (run_.now >= linger_until_) return true;
    return !answering && std::ranges::none_of(run_.membership.others(), [](const Record& record) {
      return record.is_live() && record.member.phase != wire::Phase::finished;
    });
  }

  // ---- leaving ----
  void leave() {
    run_.leaving = true;
    leave_by_ = run_.now + run_.options.leave_limit;
  }
  bool leave_overdue() const { return leave_by_ <= run_.now; }
  // A leaving peer begins one last exchange, and another one if that fails.
  bool last_exchange_due() const { return run_.phase() >= wire::Phase::training && !last_exchange_begun_; }
  void begin_last_exchange() { last_exchange_begun_ = run_.leaving; }
  void last_exchange_failed() { last_exchange_begun_ = false; }

 private:
  // A member may be so fast that its claims do not count here. When all members that work have finished by
  // them, this peer does too.
  bool samples_reached(std::uint64_t samples) const {
    if (run_.membership.swarm_samples() >= samples) return true;
    if (run_.phase() != wire::Phase::training) return false;
    std::uint64_t claimed = run_.membership.swarm_samples();
    bool any = false;
    for (const Record& record : run_.membership.others()) {
      const std::uint64_t counted = record.member.samples;
      claimed = add_saturated(claimed, std::max(record.standing.claimed, counted) - counted);
      if (!record.standing.works) continue;
      const bool is_over = record.member.phase > wire::Phase::training;
      if (!is_over && record.is_live()) return false;
      any = any || is_over;
    }
    return any && claimed >= samples;
  }

  RunState& run_;
  bool requested_ = false;
  std::uint64_t left_ = 0;        // exchanges to complete
  std::uint64_t tries_ = 0;       // exchanges that may still be tried
  Instant settle_from_ = kNever;  // at the latest
  Instant linger_until_ = kNever;
  Instant leave_by_ = kNever;
  bool last_exchange_begun_ = false;
};

}  // namespace starling::gossip
