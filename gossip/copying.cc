#include "gossip/copying.h"

#include <algorithm>
#include <utility>

namespace starling::gossip {

std::vector<const wire::Member*> Copying::donors() const {
  std::vector<const wire::Member*> donors;
  for (const Record& record : run_.membership.others()) {
    if (record.may_exchange(run_.now) && record.member.phase >= wire::Phase::training)
      donors.push_back(&record.member);
  }
  // A server keeps only the part that it serves up to date; a worker keeps all.
  if (run_.rule().meeting == Meeting::served) {
    const auto is_server = [&](const wire::Member* m) {
      return role_of(m->name, run_.rules->servers).kind != Role::Kind::worker;
    };
    if (!std::all_of(donors.begin(), donors.end(), is_server)) std::erase_if(donors, is_server);
  }
  if (donors.size() > 1) std::erase_if(donors, [&](const wire::Member* m) { return m->id == last_donor_; });
  return donors;
}

void Copying::start(std::vector<Action>& out) {
  const auto candidates = donors();
  if (candidates.empty()) {
    out.push_back(Notice{Notice::What::waiting, {}, "no member of the swarm has parameters to copy yet"});
    next_request_ = run_.now + run_.options.state_retry_min;
    return;
  }
  const wire::Member& donor = *candidates[run_.random.below(candidates.size())];
  next_request_ = kNever;
  copy_ = Copy{donor.id, run_.now + run_.options.state_stall, 0, run_.now, 0};
  out.push_back(FetchState{donor.id, donor.address, std::exchange(afresh_, false)});
}

void Copying::restart(Duration delay) {
  afresh_ = true;
  best_rate_ = 0;
  delay_ = run_.options.state_retry_min;
  next_request_ = run_.now + delay;
}

void Copying::stop(std::vector<Action>& out) {
  if (copy_) out.push_back(AbortFetch{});
  copy_.reset();
  next_request_ = kNever;
}

void Copying::tick(std::vector<Action>& out) {
  if (next_request_ <= run_.now) start(out);
  if (!copy_) return;
  const Record* const donor = run_.membership.find(copy_->donor);
  const bool alive = donor != nullptr && donor->member.liveness == wire::Liveness::alive;
  if (!alive || copy_->deadline <= run_.now) drop_donor(out);
}

void Copying::slept(Duration late) {
  if (copy_) copy_->deadline = copy_->deadline + late;
}

void Copying::advanced(const StateAdvanced& advanced, std::vector<Action>& out) {
  if (!copy_) return;
  delay_ = run_.options.state_retry_min;
  copy_->deadline = run_.now + run_.options.state_stall;
  if (copy_->window_chunks == 0) copy_->window_chunks = copy_->chunks = advanced.chunks;
  copy_->chunks = advanced.chunks;
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

void Copying::drop_donor(std::vector<Action>& out) {
  last_donor_ = copy_->donor;
  copy_.reset();
  out.push_back(AbortFetch{});
  next_request_ = run_.now + run_.options.state_retry_min;
}

void Copying::lost(const StateLost& lost, std::vector<Action>& out) {
  if (!copy_) return;
  last_donor_ = copy_->donor;
  if (lost.poisoned) run_.membership.poisoned_by(run_.now, copy_->donor, out);
  copy_.reset();
  next_request_ = run_.now + from_seconds(to_seconds(delay_) * run_.random.uniform(0.75, 1.25));
  delay_ = std::min(2 * delay_, run_.options.state_retry_max);
  out.push_back(Notice{Notice::What::waiting, {}, lost.why});
}

bool Copying::arrived() {
  const bool under_way = copy_.has_value();
  copy_.reset();
  return under_way;
}

Instant Copying::next_deadline() const {
  return copy_ ? std::min(next_request_, copy_->deadline) : next_request_;
}

}  // namespace starling::gossip
