#include "gossip/members/rumors.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace starling::gossip {

using wire::Member;

void Rumors::start(Record& record) {
  record.rumor_tellings = tellings();
  if (record.rumor_queued) return;
  record.rumor_queued = true;
  members_.push_front(record.member.id);
}

void Rumors::progressed(Record& record) {
  constexpr std::size_t kProgressQueueMax = 128;
  record.progress_tellings = 2;
  progress_.push_front(record.member.id);
  if (progress_.size() > kProgressQueueMax) progress_.pop_back();
}

std::vector<Member> Rumors::warning(Instant now, PeerId receiver) {
  Record* const record = view_.members.find(receiver);
  if (record == nullptr || record->member.liveness == wire::Liveness::alive) return {};
  record->warned_at = now;
  return {record->member};
}

std::vector<Member> Rumors::take(Instant now, PeerId receiver) {
  std::vector<Member> news = warning(now, receiver);
  if (self_tellings_ > 0) {
    --self_tellings_;
    news.push_back(view_.self);
  }
  take_members(receiver, news);
  return news;
}

std::vector<Member> Rumors::take_with_self(Instant now, PeerId receiver) {
  std::vector<Member> news = warning(now, receiver);
  take_members(receiver, news);
  news.push_back(view_.self);
  return news;
}

void Rumors::take_members(PeerId receiver, std::vector<Member>& news) {
  if (members_.empty()) return;
  news.reserve(news.size() + std::min(members_.size(), kMembersMax) + 1);  // and this peer itself
  for (std::size_t left = members_.size(); left > 0 && news.size() < kMembersMax; --left) {
    const PeerId id = members_.front();
    members_.pop_front();
    Record* const record = view_.members.find(id);
    if (record == nullptr) continue;
    if (id != receiver && record->rumor_tellings > 0) {
      news.push_back(record->member);
      --record->rumor_tellings;
    }
    record->rumor_queued = record->rumor_tellings > 0;
    if (record->rumor_queued) members_.push_back(id);
  }
}

std::vector<wire::Progress> Rumors::take_progress() {
  std::vector<wire::Progress> taken;
  taken.reserve(std::min(progress_.size() + 1, kProgressMax));
  if (view_.self.samples > 0) taken.push_back({view_.self.id, view_.self.samples});
  auto passed = progress_.begin(), kept = passed;
  for (; passed != progress_.end() && taken.size() < kProgressMax; ++passed) {
    Record* const record = view_.members.find(*passed);
    if (record == nullptr || record->progress_tellings == 0) continue;
    taken.push_back({record->member.id, record->member.samples});
    if (--record->progress_tellings > 0) *kept++ = record->member.id;
  }
  progress_.erase(kept, passed);
  return taken;
}

wire::Gossip Rumors::take_gossip(Instant now, PeerId receiver, Reply reply) {
  wire::Gossip gossip{take(now, receiver), reply == Reply::wanted, take_progress()};
  add_vitals(gossip);
  return gossip;
}

void Rumors::add_vitals(wire::Gossip& gossip) const {
  for (const wire::Progress& progress : gossip.progress) {
    const Record* const record = view_.members.find(progress.id);
    if (progress.id == view_.self.id && view_.vitals) gossip.vitals.push_back(*view_.vitals);
    if (record != nullptr && record->vitals) gossip.vitals.push_back(*record->vitals);
  }
}

void Rumors::shrink_to(std::size_t size) {
  while (members_.size() > size) {
    if (Record* const record = view_.members.find(members_.front())) {
      record->rumor_queued = false;
      record->rumor_tellings = 0;
    }
    members_.pop_front();
  }
}

void Views::tick(Instant now, Actions& out) {
  if (next_ > now) return;
  next_ = now + varied(view_.random, delay_);
  if (const Record* const to = view_.draw_from_circle()) sync_with(to->member, out);
}

wire::View Views::answer(const wire::Digest& digest) const {
  const auto own = view_.digest();
  std::uint64_t differing = 0;
  for (std::size_t k = 0; k < own.size() && k < digest.buckets.size(); ++k)
    if (own[k] != digest.buckets[k]) differing |= std::uint64_t{1} << k;
  return {differing, differing != 0, members_in(differing), view_.topology};
}

wire::View Views::answer(const wire::View& theirs) const {
  std::vector<std::pair<PeerId, std::uint64_t>> known;
  for (const Member& member : theirs.members) known.emplace_back(member.id, Members::hash_of(member));
  std::ranges::sort(known);
  std::vector<Member> members = members_in(theirs.buckets);
  std::erase_if(members, [&](const Member& member) {
    return std::ranges::binary_search(known, std::pair(member.id, Members::hash_of(member)));
  });
  return {theirs.buckets, false, std::move(members), view_.topology};
}

void Views::adapt(Instant now, const wire::View& theirs) {
  if (theirs.buckets == 0) {
    delay_ = view_.options.sync.next(delay_);
  } else {
    delay_ = view_.options.sync.min;
    next_ = std::min(next_, now + delay_);
  }
}

std::vector<Member> Views::members_in(std::uint64_t buckets) const {
  constexpr std::size_t kViewMax = 2048;  // the next Digest finds the rest
  std::vector<Member> members;
  if (buckets == 0) return members;
  const auto wanted = [&](PeerId id) { return (buckets >> Members::bucket_of(id) & 1) != 0; };
  if (wanted(view_.self.id)) members.push_back(view_.self);
  for (const Record& record : view_.members.records()) {
    if (members.size() >= kViewMax) break;
    if (record.is_live() && wanted(record.member.id)) members.push_back(record.member);
  }
  return members;
}

std::vector<Member> Views::introduction(PeerId joiner) {
  std::vector<Member> members{view_.self};
  // Consecutive members from a random one: the introductions of many joiners together cover the whole swarm.
  const std::size_t n = view_.members.size();
  const std::size_t first = view_.members.lower_bound(PeerId{view_.random.bits()});
  for (std::size_t i = 0; i < n && members.size() < kWelcomeMax; ++i) {
    const Record& record = view_.members.at((first + i) % n);
    if (record.is_live() && record.member.id != joiner) members.push_back(record.member);
  }
  std::vector<const Record*> dead;
  for (const Record& record : view_.members.records())
    if (!record.is_live() && !record.superseded) dead.push_back(&record);
  std::ranges::stable_sort(dead, std::greater{}, &Record::changed);
  if (dead.size() > kDeadMax) dead.resize(kDeadMax);
  for (const Record* record : dead)
    if (record->member.id != joiner) members.push_back(record->member);
  // What its earlier lives consumed.
  if (const Record* const own = view_.members.find(joiner)) members.push_back(own->member);
  return members;
}

}  // namespace starling::gossip
