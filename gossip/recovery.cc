#include "gossip/recovery.h"

#include <algorithm>

namespace starling::gossip {

void Recovery::begin() {
  const PeerOptions& options = run_.options;
  run_.diverged = true;
  if (copies_ > 0 && run_.steps() - recovered_steps_ >= options.recovery_steps)
    copies_ = 0;  // the last one lasted
  Duration delay{0};
  if (copies_ > 0)
    delay = std::min(options.state_retry_min * (1 << std::min(copies_ - 1, 16U)), options.state_retry_max);
  deadline_ = run_.now + delay + options.recovery_limit;
  copying_.restart(delay);
}

void Recovery::complete() {
  run_.diverged = false;
  deadline_ = kNever;
  ++copies_;
  recovered_steps_ = run_.steps();
}

void Recovery::tick(std::vector<Action>& out) {
  if (!run_.diverged || run_.leaving) return;
  const PeerOptions& options = run_.options;
  if (copies_ >= options.recoveries_max) {
    return run_.say_goodbye_and_finish(Finish::How::failed,
                                       "the parameters were not finite again within " +
                                           std::to_string(options.recovery_steps) + " steps after each of " +
                                           std::to_string(copies_) +
                                           " copies of a neighbor's: this peer's own steps diverge; a lower "
                                           "training.learning_rate would help",
                                       out);
  }
  const auto& others = run_.membership.others();
  const bool hope = std::any_of(others.begin(), others.end(), [](const Record& record) {
    return record.member.liveness <= wire::Liveness::failed &&
           !record.superseded;  // failed members may come back
  });
  if (deadline_ > run_.now && hope) return;
  if (const auto donor_deadline = copying_.deadline()) {  // a donor that makes progress is waited for
    deadline_ = *donor_deadline;
    if (deadline_ > run_.now) return;
  }
  run_.say_goodbye_and_finish(
      Finish::How::failed,
      "the parameters are not finite any more, and no member has finite ones to copy: all replicas are lost; "
      "the usual cause is a training.learning_rate that is too high",
      out);
}

}  // namespace starling::gossip
