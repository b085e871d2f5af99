#include "gossip/copying.h"

#include <algorithm>
#include <utility>

namespace starling::gossip {

std::vector<const wire::Member*> Copying::donors() const {
  std::vector<const wire::Member*> donors;
  for (const Record& record : run_.membership.others()) {
    if (record.may_exchange(run_.now) && record.member.phase >= wire::Phase::training &&
        run_.membership.view().can_begin_with(record.member))
      donors.push_back(&record.member);
  }
  // A server keeps only the part that it serves up to date; a worker keeps all. But if a worker has none to
  // give, all may wait for one another, and only a server has parameters.
  if (run_.rule().meeting == Meeting::served && !refused_) {
    const auto is_server = [&](const wire::Member* m) {
      return role_of(m->name, run_.rules->servers).kind != Role::Kind::worker;
    };
    if (!std::all_of(donors.begin(), donors.end(), is_server)) std::erase_if(donors, is_server);
  }
  if (donors.size() > 1) std::erase_if(donors, [&](const wire::Member* m) { return m->id == last_donor_; });
  return donors;
}

// A member with parameters that this peer cannot use gives as much hope as one that is gone.
Copying::Hope Copying::hope() const {
  bool some_live = false, some_gone = false, some_unusable = false;
  for (const Record& record : run_.membership.others()) {
    const bool has_parameters = record.member.phase >= wire::Phase::training;
    const bool unusable = record.quarantined_until > run_.now;
    if (record.responds() && has_parameters && !unusable) return Hope::some;
    some_live |= record.responds() && !has_parameters;
    some_gone |= !record.responds() && has_parameters;
    some_unusable |= record.responds() && unusable;
  }
  if (some_unusable) return Hope::unusable;
  return some_live && !some_gone ? Hope::some : Hope::gone;
}

void Copying::wait(Actions& out) {
  if (!std::exchange(waits_, true))
    out.push_back(Notice{Notice::What::waiting, {}, "no member of the swarm has parameters to copy yet"});
  version_ = run_.membership.version();
  next_request_ = run_.now + run_.options.state_retry.min;
  const Hope hope = this->hope();
  if (run_.diverged || hope == Hope::some) {  // Recovery has this limit itself
    give_up_at_ = kNever;
  } else if (give_up_at_ == kNever) {
    give_up_at_ = run_.now + run_.options.recovery_limit;
  } else if (give_up_at_ <= run_.now) {
    stop(out);
    const std::string why =
        hope == Hope::unusable ? "every member that has parameters sends some that this peer cannot use, and "
                                 "no other came within half a minute; the latest failure: " +
                                     why_lost_
                               : "every member that had the run's parameters has failed or left, and none "
                                 "came back within half a minute: "
                                 "start one with --resume and its checkpoint, or begin the run anew";
    run_.say_goodbye_and_finish(Finish::How::failed, why, out);
  }
}

void Copying::start(Actions& out) {
  const auto candidates = donors();
  if (candidates.empty()) return wait(out);
  waits_ = false;
  give_up_at_ = kNever;
  const wire::Member& donor = *candidates[run_.random.below(candidates.size())];
  next_request_ = kNever;
  copy_ = Copy{donor.id, run_.now + run_.options.state_stall, 0, run_.now, 0};
  out.push_back(FetchState{run_.membership.view().bulk_endpoint(donor), std::exchange(afresh_, false)});
}

void Copying::restart(Duration delay) {
  afresh_ = true;
  refused_ = false;
  waits_ = false;  // the delay counts, also if a member appears
  best_rate_ = 0;
  delay_ = run_.options.state_retry.min;
  next_request_ = run_.now + delay;
}

void Copying::tick(Actions& out) {
  // The members that the Welcome named answer one after the other: the first that has parameters is asked.
  const bool has_news = waits_ && next_request_ != kNever && version_ != run_.membership.version();
  if (has_news || next_request_ <= run_.now) start(out);
  if (!copy_) return;
  const Record* const donor = run_.membership.find(copy_->donor);
  const bool alive = donor != nullptr && donor->responds();
  if (!alive || copy_->deadline <= run_.now) drop_donor(out);
}

void Copying::advanced(const StateAdvanced& advanced, Actions& out) {
  if (!copy_) return;
  delay_ = run_.options.state_retry.min;
  copy_->deadline = run_.now + run_.options.state_stall;
  if (copy_->window_chunks == 0) copy_->window_chunks = copy_->chunks = advanced.chunks;
  copy_->chunks = advanced.chunks;
  if (advanced.chunks == advanced.total) return;  // what follows depends on the donor's trainer
  const double seconds = to_seconds(run_.now - copy_->window_began);
  if (seconds < to_seconds(run_.options.state_stall)) return;
  const double rate = static_cast<double>(copy_->chunks - copy_->window_chunks) / seconds;
  if (rate < best_rate_ / 4) {
    best_rate_ = rate;  // once: if all donors have become slow, this rate is the standard
    return drop_donor(out);
  }
  best_rate_ = std::max(best_rate_, rate);
  copy_->window_began = run_.now;
  copy_->window_chunks = copy_->chunks;
}

void Copying::drop_donor(Actions& out) {
  last_donor_ = copy_->donor;
  copy_.reset();
  out.push_back(AbortFetch{});
  next_request_ = run_.now + run_.options.state_retry.min;
}

void Copying::lost(const StateLost& lost, Actions& out) {
  if (!copy_) return;
  last_donor_ = copy_->donor;
  refused_ = true;
  why_lost_ = lost.why;
  if (lost.unusable) run_.membership.poisoned_by(run_.now, copy_->donor, out);
  copy_.reset();
  next_request_ = run_.now + varied(run_.random, delay_);
  delay_ = run_.options.state_retry.next(delay_);
  out.push_back(Notice{Notice::What::waiting, {}, lost.why});
}

void Recovery::begin(bool finite, std::string why) {
  const PeerOptions& options = run_.options;
  run_.diverged = true;
  finite_ = finite;
  why_ = std::move(why);
  if (copies_ > 0 && run_.steps() - recovered_steps_ >= options.recovery_steps)
    copies_ = 0;  // the last one lasted
  Duration delay{0};
  if (copies_ > 0 && !finite)
    delay = std::min(options.state_retry.min * (1 << std::min(copies_ - 1, 16U)), options.state_retry.max);
  deadline_ = run_.now + delay + options.recovery_limit;
  copying_.restart(delay);
}

void Recovery::tick(Actions& out) {
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
      why_ +
          ", and no member has others to copy: all replicas are lost; the usual cause is a "
          "training.learning_rate that is too high",
      out);
}

}  // namespace starling::gossip
