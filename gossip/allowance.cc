#include "gossip/allowance.h"

#include <algorithm>
#include <span>

namespace starling::gossip {

using wire::Phase;

// ---- members ----

// Servers make no steps.
bool Allowance::trains(const wire::Member& member) const {
  return !run_.rule().has_servers() || role_of(member.name, run_.rules->servers).kind == Role::Kind::worker;
}

bool Allowance::applies() const {
  return started_ && run_.phase() == Phase::training && !run_.leaving && limit_ != kUnlimited;
}

void Allowance::count_members() {
  if (version_ == run_.membership.version() && !absent_) return;
  version_ = run_.membership.version();
  others_.clear();
  std::uint64_t begun = 1, gone = 0;
  for (const Record& record : run_.membership.others()) {
    if (!trains(record.member)) continue;
    if (!record.is_live() || record.member.phase > Phase::training)
      ++gone;
    else if (record.member.samples > 0)
      ++begun;
    const bool is_passed_over = std::ranges::find(passed_over_, record.member.id) != passed_over_.end();
    if (record.responds() && record.member.phase == Phase::training && !is_passed_over)
      others_.push_back(record.member.id);
  }
  absent_ = expected_ > begun + gone;
  if (!absent_) expected_ = 0;  // from now on those count that train
  sharing_ =
      std::max<std::uint64_t>(1 + others_.size(), expected_ - std::min<std::uint64_t>(expected_, gone));
  std::erase_if(awaited_, [this](PeerId id) { return !std::ranges::binary_search(others_, id); });
}

void Allowance::expect_nobody() {
  arrive_by_ = kNever;
  expected_ = 0;
  version_.reset();
}

void Allowance::heard(PeerId from) {
  std::erase(awaited_, from);
  if (std::erase(passed_over_, from) > 0) version_.reset();
}

// ---- the limit ----

std::uint64_t Allowance::fair_limit() const {
  const std::uint64_t end = *run_.rules->end.swarm_samples, consumed = run_.membership.swarm_samples();
  const std::uint64_t left = end - std::min(end, consumed);
  // At least one sample, and so one batch: the last few are not worth an agreement.
  return add_saturated(own(), std::max<std::uint64_t>(left / sharing_, 1));
}

void Allowance::set_limit(std::uint64_t limit, Actions& out) {
  if (limit == limit_) return;
  limit_ = limit;
  const std::uint64_t of_this_life = limit - std::min(limit, run_.samples_before);
  out.push_back(AllowSamples{
      limit == kUnlimited ? kUnlimited : add_saturated(of_this_life, run_.options.earlier.samples)});
}

void Allowance::raise(Actions& out) {
  asks_ = false;
  answer_by_ = kNever;
  if (absent_) return;
  set_limit(fair_limit(), out);
  part_ = limit_ - own();
}

void Allowance::start(Actions& out) {
  if (!run_.rules->end.swarm_samples || !trains(run_.membership.self())) return;
  started_ = true;
  if (expected_ > 0) arrive_by_ = run_.now + kArrivalTime;
  count_members();
  set_limit(fair_limit(), out);
  part_ = limit_ - own();
  ask(out);
}

// ---- questions ----

void Allowance::ask(Actions& out) {
  awaited_ = others_;
  std::erase_if(awaited_, [this](PeerId id) {
    return !run_.membership.view().can_tell(run_.membership.find(id)->member);
  });
  if (awaited_.size() > kAskedMax) {
    run_.random.shuffle(std::span(awaited_));
    awaited_.resize(kAskedMax);
  }
  asks_ = true;
  answer_by_ = run_.now + kAnswerTime;
  run_.membership.ask_for_samples(run_.now, awaited_, out);
}

void Allowance::tick(Actions& out) {
  if (!applies()) return;
  if (arrive_by_ <= run_.now) expect_nobody();
  count_members();
  set_limit(std::min(limit_, fair_limit()), out);
  if (asks_ && !awaited_.empty() && answer_by_ <= run_.now) {
    passed_over_.insert(passed_over_.end(), awaited_.begin(), awaited_.end());
    version_.reset();
    count_members();
    ask(out);  // the counts of the others are no longer fresh
  }
  if (asks_ && awaited_.empty()) raise(out);
  const bool is_low = limit_ - std::min(limit_, own()) <= part_ / 2;
  if (!asks_ && is_low && !absent_) {
    ask(out);
    if (awaited_.empty()) raise(out);
  }
  measure_wait();
  if (waits_since_ && waited_ + (run_.now - *waits_since_) >= kPatience) set_limit(kUnlimited, out);
}

void Allowance::measure_wait() {
  const bool waits = asks_ && used_up();
  if (waits == waits_since_.has_value()) return;
  if (waits) {
    waits_since_ = run_.now;
  } else {
    waited_ += run_.now - *waits_since_;
    waits_since_.reset();
  }
}

void Allowance::slept(Duration late) {
  for (Instant* const deadline : {&answer_by_, &arrive_by_})
    if (*deadline != kNever) *deadline = *deadline + late;
  if (waits_since_) waits_since_ = *waits_since_ + late;
}

Instant Allowance::next_deadline() const {
  if (!applies()) return kNever;
  Instant next = std::min(asks_ ? answer_by_ : kNever, arrive_by_);
  if (waits_since_) next = std::min(next, *waits_since_ + (kPatience - waited_));
  return next;
}

}  // namespace starling::gossip
