#include "gossip/members/introductions.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace starling::gossip {

namespace {

constexpr int kAnswerIntervals = 3;                             // probe intervals in which to answer
constexpr Duration kFailureForgiven = std::chrono::seconds(4);  // one failure of a teller
constexpr std::size_t kTellersMax = 1024;

}  // namespace

const Introductions::Candidate* Introductions::find(PeerId id) const {
  const auto is_meant = [id](const Candidate& candidate) { return candidate.member.id == id; };
  const auto found = std::ranges::find_if(candidates_, is_meant);
  return found == candidates_.end() ? nullptr : &*found;
}

double Introductions::failures(const Teller& teller, Instant now) const {
  return std::max(0.0, teller.failures - to_seconds(now - teller.counted) / to_seconds(kFailureForgiven));
}

void Introductions::offer(Instant now, PeerId teller, const wire::Member& news) {
  if (find(news.id) != nullptr) return;
  if (tellers_.size() >= kTellersMax && !tellers_.contains(teller)) return;
  Teller& its = tellers_[teller];
  its.failures = failures(its, now);
  its.counted = now;
  if (static_cast<double>(its.waiting) + its.failures >= kPerTeller || candidates_.size() >= kTotal) {
    its.knows_more = true;
    return;
  }
  if (!view_.is_authentic(now, teller, news)) {
    its.failures += 1;
    return;
  }
  ++its.waiting;
  candidates_.push_back({news, teller});
  may_ping_ = true;
}

void Introductions::keep(const wire::Member& named) {
  for (Candidate& candidate : candidates_) {
    if (candidate.member.id != named.id) continue;
    candidate.kept = true;
    candidate.member.samples = named.samples;
  }
}

std::uint64_t Introductions::samples() const {
  std::uint64_t sum = 0;
  for (const Candidate& candidate : candidates_)
    if (candidate.kept) sum = add_saturated(sum, candidate.member.samples);
  return sum;
}

void Introductions::tick(Instant now, Actions& out) {
  for (std::size_t k = candidates_.size(); k-- > 0;)
    if (candidates_[k].deadline <= now) fail(now, k);
  for (Candidate& candidate : candidates_)
    if (candidate.ask_teller <= now) ask_teller_of(candidate, out);
  if (std::exchange(may_ping_, false)) ping(now, out);
  if (!tellers_.empty()) ask_tellers(now, out);
}

void Introductions::ping(Instant now, Actions& out) {
  std::map<PeerId, std::size_t> of_teller;
  std::map<std::string_view, std::size_t> at_host;
  for (const Candidate& candidate : candidates_) {
    if (candidate.deadline == kNever) continue;
    ++of_teller[candidate.teller];
    ++at_host[candidate.member.address.host];
  }
  for (Candidate& candidate : candidates_) {
    if (pinged_ >= kAtOnce) return;
    if (candidate.deadline != kNever) continue;
    const wire::Member& member = candidate.member;
    std::size_t& others_of_teller = of_teller[candidate.teller];
    std::size_t& others_at_host = at_host[member.address.host];
    const bool is_crowded = member.address && others_at_host >= kAtOncePerHost;
    if (others_of_teller >= kAtOncePerTeller || is_crowded) continue;
    ++others_of_teller;
    ++others_at_host;
    ++pinged_;
    candidate.deadline = now + kAnswerIntervals * view_.options.probe_interval;
    candidate.sequence = ++view_.last_sequence;
    if (view_.can_tell(member)) {
      candidate.ask_teller = now + view_.options.probe_interval;
      view_.tell(member, wire::Ping{candidate.sequence, member.id, {view_.self}}, out);
    } else {
      ask_teller_of(candidate, out);
    }
  }
}

void Introductions::ask_teller_of(Candidate& candidate, Actions& out) {
  candidate.ask_teller = kNever;
  const Record* const teller = view_.members.find(candidate.teller);
  if (teller == nullptr) return;
  const wire::Member& member = candidate.member;
  view_.tell(teller->member, wire::PingRequest{candidate.sequence, member.id, member.address, {view_.self}},
             out);
}

std::optional<wire::Member> Introductions::answered_for(const wire::Ack& ack) const {
  const Candidate* const candidate = find(ack.on_behalf);
  if (candidate == nullptr || candidate->sequence != ack.sequence) return std::nullopt;
  if (!view_.has_answered(candidate->member.key, ack)) return std::nullopt;
  return candidate->member;
}

void Introductions::ask_tellers(Instant now, Actions& out) {
  for (auto it = tellers_.begin(); it != tellers_.end();) {
    Teller& teller = it->second;
    const bool idle = teller.waiting == 0 && failures(teller, now) < 1;
    const Record* const record = view_.members.find(it->first);
    if (idle && std::exchange(teller.knows_more, false) && record != nullptr && record->is_live())
      view_.tell(record->member, wire::Digest{view_.digest(), view_.topology}, out);
    it = idle && failures(teller, now) == 0 ? tellers_.erase(it) : std::next(it);
  }
}

void Introductions::drop(PeerId id) {
  if (const Candidate* const found = find(id)) erase(static_cast<std::size_t>(found - candidates_.data()));
}

void Introductions::unreachable(Instant now, const Endpoint& to) {
  for (std::size_t k = candidates_.size(); k-- > 0;) {
    Candidate& candidate = candidates_[k];
    if (candidate.deadline == kNever || candidate.member.address != to.address) continue;
    if (to.id && to.id != candidate.member.id) continue;
    // Its teller may reach it.
    if (candidate.ask_teller != kNever) candidate.ask_teller = now;
    candidate.deadline = std::min(candidate.deadline, now + view_.options.probe_interval);
  }
}

void Introductions::fail(Instant now, std::size_t index) {
  Teller& teller = tellers_[candidates_[index].teller];
  teller.failures = failures(teller, now) + 1;
  teller.counted = now;
  if (candidates_[index].kept) silent_.push_back(candidates_[index].member);
  erase(index);
}

void Introductions::erase(std::size_t index) {
  --tellers_[candidates_[index].teller].waiting;
  if (candidates_[index].deadline != kNever) --pinged_;
  may_ping_ = true;
  candidates_.erase(candidates_.begin() + static_cast<std::ptrdiff_t>(index));
}

Instant Introductions::next_deadline() const {
  Instant next = kNever;
  for (const Candidate& candidate : candidates_)
    next = std::min({next, candidate.deadline, candidate.ask_teller});
  return next;
}

}  // namespace starling::gossip
