#include "gossip/rumors.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace starling::gossip {

using wire::Member;

namespace {

const std::optional<wire::Vitals> kNoVitals;
constexpr std::size_t kProgressQueueMax = 128;
constexpr std::uint8_t kProgressTellings = 2;

}  // namespace

std::uint8_t Rumors::tellings() const {
  return static_cast<std::uint8_t>(2 * std::bit_width(view_.members.live() + 1));
}

void Rumors::start(Record& record) {
  record.rumor_tellings = tellings();
  if (record.rumor_queued) return;
  record.rumor_queued = true;
  members_.push_front(record.member.id);
}

void Rumors::progressed(Record& record) {
  record.progress_tellings = kProgressTellings;
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
  for (std::size_t left = members_.size(); left > 0 && news.size() < kMembersMax; --left) {
    const PeerId id = members_.front();
    members_.pop_front();
    Record* const record = view_.members.find(id);
    if (record == nullptr) continue;
    if (id != receiver && record->rumor_tellings > 0) {
      news.push_back(record->member);
      --record->rumor_tellings;
    }
    if (record->rumor_tellings > 0) {
      members_.push_back(id);
    } else {
      record->rumor_queued = false;
    }
  }
}

std::vector<wire::Progress> Rumors::take_progress() {
  std::vector<wire::Progress> taken;
  if (view_.self.samples > 0) taken.push_back({view_.self.id, view_.self.samples});
  std::vector<PeerId> again;
  while (!progress_.empty() && taken.size() < kProgressMax) {
    Record* const record = view_.members.find(progress_.front());
    progress_.pop_front();
    if (record == nullptr || record->progress_tellings == 0) continue;
    taken.push_back({record->member.id, record->member.samples});
    if (--record->progress_tellings > 0) again.push_back(record->member.id);
  }
  progress_.insert(progress_.begin(), again.begin(), again.end());
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
    const auto& vitals = progress.id == view_.self.id ? view_.vitals
                         : record != nullptr          ? record->vitals
                                                      : kNoVitals;
    if (vitals) gossip.vitals.push_back(*vitals);
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

}  // namespace starling::gossip
