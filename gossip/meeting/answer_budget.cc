#include "gossip/meeting/answer_budget.h"

#include <algorithm>

namespace starling::gossip {

void AnswerBudget::Transfer::moved(Instant now, std::uint64_t more) {
  begun = true;
  last = now;
  bytes += more;
  const Duration time = now - measured;
  if (time < kTrial) return;
  below_floor = static_cast<double>(bytes) < kFloorPerSecond * to_seconds(time);
  measured = now;
  bytes = 0;
}

// ---- answers ----

std::optional<AnswerBudget::Number> AnswerBudget::end_for_offer(PeerId of) const {
  std::size_t count = 0;
  std::optional<Number> oldest;
  for (const auto& [number, answer] : answers_) {
    if (answer.peer != of) continue;
    if (++count == 1 || answer.last < answers_.at(*oldest).last) oldest = number;
  }
  return count >= limits_.answers_per_peer ? oldest : std::nullopt;
}

std::optional<AnswerBudget::Number> AnswerBudget::end_for_refused(PeerId of, Instant now) const {
  if (answers_.size() < limits_.answers_scarce) return std::nullopt;
  auto first = answers_.end();
  for (auto it = answers_.begin(); it != answers_.end(); ++it) {
    if (it->second.begun && !it->second.is_slow(now)) continue;
    if (first == answers_.end() || ends_before(it->second, first->second)) first = it;
  }
  if (first == answers_.end() || wasted_by(first->second.peer) < wasted_by(of)) return std::nullopt;
  return first->first;
}

// The order of rule 2; false for equal ones.
bool AnswerBudget::ends_before(const Transfer& a, const Transfer& b) const {
  const std::uint32_t wasted_a = wasted_by(a.peer), wasted_b = wasted_by(b.peer);
  if (wasted_a != wasted_b) return wasted_a > wasted_b;
  if (a.begun != b.begun) return b.begun;
  return a.last < b.last;
}

void AnswerBudget::answer_began(Number number, PeerId of, Instant now) {
  answers_.insert_or_assign(number, Transfer{.peer = of, .measured = now, .last = now});
}

void AnswerBudget::answer_moved(Number number, Instant now, std::uint64_t bytes) {
  if (const auto found = answers_.find(number); found != answers_.end()) found->second.moved(now, bytes);
}

void AnswerBudget::answer_ended(Number number, bool completed) {
  const auto found = answers_.find(number);
  if (found == answers_.end()) return;
  const Transfer ended = found->second;
  answers_.erase(found);
  if (completed) {
    wasted_.erase(ended.peer);
  } else if (!ended.begun) {
    count_waste(ended.peer);
  }
}

std::uint32_t AnswerBudget::wasted_by(PeerId peer) const {
  const auto found = wasted_.find(peer);
  return found == wasted_.end() ? 0 : found->second;
}

void AnswerBudget::count_waste(PeerId peer) {
  if (wasted_.size() >= limits_.wasters && !wasted_.contains(peer)) {
    const auto count = [](const auto& entry) { return entry.second; };
    wasted_.erase(std::ranges::min_element(wasted_, {}, count));
  }
  std::uint32_t& wasted = wasted_[peer];
  if (wasted < UINT32_MAX) ++wasted;
}

// ---- copies ----

std::optional<AnswerBudget::Number> AnswerBudget::end_for_copy(PeerId of, Instant now) const {
  auto slowest = copies_.end();
  for (auto it = copies_.begin(); it != copies_.end(); ++it) {
    if (it->second.peer == of) return it->first;
    if (may_copy() || !it->second.is_slow(now)) continue;
    if (slowest == copies_.end() || it->second.last < slowest->second.last) slowest = it;
  }
  return slowest == copies_.end() ? std::nullopt : std::optional(slowest->first);
}

void AnswerBudget::copy_began(Number number, PeerId of, Instant now) {
  copies_.insert_or_assign(number, Transfer{.peer = of, .measured = now, .last = now});
}

void AnswerBudget::copy_moved(Number number, Instant now, std::uint64_t bytes) {
  if (const auto found = copies_.find(number); found != copies_.end()) found->second.moved(now, bytes);
}

}  // namespace starling::gossip
