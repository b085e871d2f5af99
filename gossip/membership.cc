#include "gossip/membership.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace starling::gossip {

using wire::Liveness;
using wire::Member;

namespace {

const std::optional<wire::Vitals> kNoVitals;
constexpr std::size_t kProbesMax = 16;
constexpr std::size_t kRelaysMax = 256;
constexpr std::size_t kRecentMax = 128;
constexpr std::size_t kViewMax = 2048;  // members in one View; where there are more, the next Digest goes on
constexpr std::size_t kRetriesMax = 3;  // at a time
constexpr std::size_t kQuietNews = 16;  // a View with more news than this is not passed on as rumors
constexpr std::uint8_t kProgressTellings = 2;
constexpr Duration kBurialInterval = std::chrono::minutes(1);
constexpr Duration kAvoidMin = std::chrono::milliseconds(250);
constexpr Duration kAvoidMax = std::chrono::seconds(5);
constexpr std::size_t kConfirmations = Record::kAccusersMax - 1;

// What peers claim is summed without ever running backwards.
std::uint64_t add_saturated(std::uint64_t a, std::uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

std::string described(const Member& member) {
  return member.name + " at " + to_string(member.address);
}

}  // namespace

Membership::Membership(Member self, MembershipOptions options, Random random)
    : self_(std::move(self)),
      options_(options),
      random_(random),
      retry_delay_(options.retry_min),
      sync_delay_(options.sync_min) {
  STARLING_CHECK(static_cast<bool>(self_.id));
}

// ---- oneself ----

void Membership::set_phase(wire::Phase phase) {
  STARLING_CHECK(phase >= self_.phase);
  if (phase == self_.phase) return;
  self_.phase = phase;
  self_tellings_ = tellings();
  ++version_;
}

void Membership::set_progress(std::uint64_t steps, std::uint64_t samples) {
  self_.steps = std::max(self_.steps, steps);
  self_.samples = std::max(self_.samples, samples);
}

void Membership::set_vitals(const wire::Vitals& vitals) {
  const std::uint32_t sequence = vitals_ ? vitals_->sequence + 1 : 1;
  vitals_ = vitals;
  vitals_->id = self_.id;
  vitals_->sequence = sequence;
}

void Membership::bring_samples(std::uint64_t samples) {
  others_samples_ = add_saturated(others_samples_, samples);
}

void Membership::welcomed(Instant now, PeerId by, std::span<const Member> members,
                          std::uint64_t retired_samples, std::vector<Action>& out) {
  others_samples_ = add_saturated(others_samples_, retired_samples);
  for (const Member& member : members) {
    if (member.liveness > Liveness::suspect) mourn(now, member);
  }
  merge(now, by, members, out);
}

void Membership::took_part(Instant now, const wire::Progress& progress) {
  if (Record* const record = members_.find(progress.id)) take_progress(now, *record, progress.samples);
}

// Somebody who was gone before this peer came.
void Membership::mourn(Instant now, const Member& dead) {
  if (!dead.id || dead.id == self_.id || find(dead.id) != nullptr || members_.size() >= options_.members_max)
    return;
  Record record;
  record.member = dead;
  record.member.accuser = {};
  record.changed = now;
  members_.insert(std::move(record));
  others_samples_ = add_saturated(others_samples_, dead.samples);
}

std::uint64_t Membership::swarm_samples() const {
  return add_saturated(self_.samples, others_samples_);
}

std::uint64_t Membership::retired_samples(std::span<const Member> told) const {
  std::uint64_t known = 0;
  for (const Record& record : members_.records()) {
    const bool is_told = std::any_of(told.begin(), told.end(),
                                     [&](const Member& member) { return member.id == record.member.id; });
    if (record.is_live() || is_told) known = add_saturated(known, record.member.samples);
  }
  return others_samples_ - std::min(known, others_samples_);
}

std::vector<std::uint64_t> Membership::digest() const {
  std::vector<std::uint64_t> buckets(members_.digest().begin(), members_.digest().end());
  buckets[Members::bucket_of(self_.id)] += Members::hash_of(self_);
  return buckets;
}

std::size_t Membership::queued() const {
  return rumors_.size() + recent_.size() + probes_.size() + relays_.size() + circle_.size() +
         suspects_.size();
}

void Membership::start(Instant now) {
  // Jittered, so that peers started together do not stay in step.
  const auto jittered = [&](Duration interval) {
    return now + Duration{1} + Duration{static_cast<std::int64_t>(random_.below(interval.count()))};
  };
  next_probe_ = jittered(options_.probe_interval);
  next_gossip_ = jittered(options_.gossip_interval);
  next_sync_ = jittered(options_.sync_min);
  next_retry_ = now + retry_delay_;
  next_burial_ = now + kBurialInterval;
}

void Membership::add_contact(const Address& address) {
  if (address == self_.address || contacts_.size() >= kContactsMax) return;
  if (std::find(contacts_.begin(), contacts_.end(), address) == contacts_.end()) contacts_.push_back(address);
}

void Membership::slept(Duration late) {
  lag_ += (late - lag_) / 8;
  for (Probe& probe : probes_) {
    probe.ask_helpers = probe.ask_helpers + late;
    probe.verdict = probe.verdict + late;
  }
  for (const PeerId id : suspects_) {
    Record& record = *members_.find(id);
    record.changed = record.changed + late;
  }
}

// ---- what is heard ----

void Membership::heard(Instant now, PeerId from, const Address& address, std::vector<Action>& out) {
  Record* const record = members_.find(from);
  if (record == nullptr) {
    // Somebody who knows us and whom we do not know: let it say who it is.
    if (from != self_.id) out.push_back(Send{address, wire::Ping{++sequence_, from, {self_}}});
    return;
  }
  if (!record->last_heard) supersede(now, from, address, out);
  record->last_heard = now;
  for (Probe& probe : probes_) {
    if (probe.target == from) probe.over = true;
  }
  switch (record->member.liveness) {
    case Liveness::alive:
      return;
    case Liveness::suspect:
      warn(now, *record, out);  // others may still believe it: only the member itself can make them stop
      set_liveness(now, *record, Liveness::alive, out);
      return;
    case Liveness::failed:
    case Liveness::left:
      warn(now, *record, out);
      return;
  }
}

// Tells a member what is said about it, so that it can refute.
void Membership::warn(Instant now, Record& record, std::vector<Action>& out) {
  if (record.warned_at + options_.probe_interval > now) return;
  // What was on its way when a member left is no sign that it is still there.
  if (!record.is_live() && record.changed + options_.probe_interval > now) return;
  record.warned_at = now;
  out.push_back(Send{record.member.address, wire::Gossip{{record.member, self_}, true, {}}});
}

// Whoever listens at this address, nobody else does: earlier instances there are gone.
void Membership::supersede(Instant now, PeerId by, const Address& address, std::vector<Action>& out) {
  members_.for_each_at(address, [&](Record& record) {
    if (record.member.id == by || record.superseded) return;
    record.superseded = true;
    if (record.is_live()) set_liveness(now, record, Liveness::failed, out);
  });
}

void Membership::on_ping(Instant now, PeerId from, const Address& address, const wire::Ping& ping,
                         std::vector<Action>& out) {
  merge(now, from, ping.members, out);
  heard(now, from, address, out);
  if (ping.target && ping.target != self_.id) {
    // Meant for an earlier instance at this address. That one is gone, and this is who is here now.
    out.push_back(Send{address, wire::Gossip{{self_}, false, {}}});
    return;
  }
  auto news = rumors(now, from, false);
  news.push_back(self_);
  out.push_back(Send{address, wire::Ack{ping.sequence, std::move(news), {}}});
}

void Membership::on_ping_request(Instant now, PeerId from, const Address& address,
                                 const wire::PingRequest& request, std::vector<Action>& out) {
  merge(now, from, request.members, out);
  heard(now, from, address, out);
  if (request.target == self_.id) {
    out.push_back(Send{address, wire::Ack{request.sequence, {self_}, {}}});
    return;
  }
  if (relays_.size() >= kRelaysMax) relays_.pop_front();
  relays_.push_back({++sequence_, request.target, address, request.sequence});
  out.push_back(Send{request.address, wire::Ping{sequence_, request.target, {self_}}});
}

void Membership::on_ack(Instant now, PeerId from, const Address& address, const wire::Ack& ack,
                        std::vector<Action>& out) {
  merge(now, from, ack.members, out);
  if (ack.on_behalf) {
    for (Probe& probe : probes_) {
      if (probe.sequence == ack.sequence && probe.target == ack.on_behalf) probe.over = true;
    }
  } else {
    const auto probe = std::find_if(probes_.begin(), probes_.end(), [&](const Probe& p) {
      return p.sequence == ack.sequence && p.target == from;
    });
    Record* const record = members_.find(from);
    if (probe != probes_.end() && record != nullptr) {
      // Jacobson's estimator (RFC 6298, section 2).
      const Duration measured = std::max(now - probe->sent, Duration{1});
      if (record->round_trip.count() == 0) {
        record->round_trip = measured;
        record->round_trip_deviation = measured / 2;
      } else {
        const Duration error = std::chrono::abs(measured - record->round_trip);
        record->round_trip_deviation += (error - record->round_trip_deviation) / 4;
        record->round_trip += (measured - record->round_trip) / 8;
      }
      probes_.erase(probe);
    }
    const auto relay = std::find_if(relays_.begin(), relays_.end(), [&](const Relay& r) {
      return r.sequence == ack.sequence && r.target == from;
    });
    if (relay != relays_.end()) {
      out.push_back(Send{relay->requester, wire::Ack{relay->requested, {}, from}});
      relays_.erase(relay);
    }
  }
  heard(now, from, address, out);
}

void Membership::on_gossip(Instant now, PeerId from, const Address& address, const wire::Gossip& gossip,
                           std::vector<Action>& out) {
  merge(now, from, gossip.members, out);
  for (const wire::Progress& progress : gossip.progress) took_part(now, progress);
  for (const wire::Vitals& vitals : gossip.vitals) {
    Record* const record = members_.find(vitals.id);
    if (record != nullptr && (!record->vitals || vitals.sequence > record->vitals->sequence)) record->vitals = vitals;
  }
  heard(now, from, address, out);
  if (gossip.reply_wanted)
    out.push_back(Send{address, gossip_of(rumors(now, from, true), false, progress())});
}

void Membership::on_leave(Instant now, PeerId from, const wire::Leave& leave, std::vector<Action>& out) {
  // Only the member itself may say this; of one that was never known there is nothing to remember.
  if (leave.self.id != from || members_.find(from) == nullptr) return;
  merge(now, from, {&leave.self, 1}, out);
}

// ---- views ----

void Membership::sync_with(const Address& address, std::vector<Action>& out) {
  out.push_back(Send{address, wire::Digest{digest(), topology_}});
}

void Membership::on_digest(Instant now, PeerId from, const Address& address, const wire::Digest& digest,
                           std::vector<Action>& out) {
  heard(now, from, address, out);
  const auto own = this->digest();
  std::uint64_t differing = 0;
  for (std::size_t k = 0; k < own.size() && k < digest.buckets.size(); ++k) {
    if (own[k] != digest.buckets[k]) differing |= std::uint64_t{1} << k;
  }
  out.push_back(Send{address, wire::View{differing, differing != 0, view_of(differing), topology_}});
}

void Membership::on_view(Instant now, PeerId from, const Address& address, const wire::View& view,
                         std::vector<Action>& out) {
  if (view.buckets == 0) {
    heard(now, from, address, out);
    sync_delay_ = std::min(2 * sync_delay_, options_.sync_max);
    return;
  }
  sync_delay_ = options_.sync_min;
  next_sync_ = std::min(next_sync_, now + sync_delay_);
  std::vector<Member> answer;
  if (view.reply_wanted) {
    // What they told just so need not be told back.
    std::vector<std::pair<PeerId, std::uint64_t>> told;
    told.reserve(view.members.size());
    for (const Member& member : view.members) told.emplace_back(member.id, Members::hash_of(member));
    std::sort(told.begin(), told.end());
    answer = view_of(view.buckets);
    std::erase_if(answer, [&](const Member& member) {
      return std::binary_search(told.begin(), told.end(), std::pair(member.id, Members::hash_of(member)));
    });
  }
  merge(now, from, view.members, out);
  heard(now, from, address, out);
  if (view.reply_wanted) out.push_back(Send{address, wire::View{view.buckets, false, std::move(answer), topology_}});
}

std::vector<Member> Membership::view_of(std::uint64_t buckets) const {
  std::vector<Member> members;
  if (buckets == 0) return members;
  const auto wanted = [&](PeerId id) { return (buckets >> Members::bucket_of(id) & 1) != 0; };
  if (wanted(self_.id)) members.push_back(self_);
  for (const Record& record : members_.records()) {
    if (members.size() >= kViewMax) break;
    if (record.is_live() && wanted(record.member.id)) members.push_back(record.member);
  }
  return members;
}

std::vector<Member> Membership::introduction(PeerId to) {
  std::vector<Member> told{self_};
  // A run of members from a random place on: together the introductions of many joiners cover everyone.
  const std::size_t n = members_.size();
  const std::size_t first = members_.lower_bound(PeerId{random_.bits()});
  for (std::size_t i = 0; i < n && told.size() < kWelcomeMax; ++i) {
    const Record& record = members_.at((first + i) % n);
    if (record.is_live() && record.member.id != to) told.push_back(record.member);
  }
  std::vector<const Record*> dead;
  for (const Record& record : members_.records()) {
    if (!record.is_live() && !record.superseded) dead.push_back(&record);
  }
  std::stable_sort(dead.begin(), dead.end(),
                   [](const Record* a, const Record* b) { return a->changed > b->changed; });
  if (dead.size() > kMournedMax) dead.resize(kMournedMax);
  for (const Record* record : dead) told.push_back(record->member);
  return told;
}

// ---- merging what is told ----

void Membership::merge(Instant now, PeerId teller, std::span<const Member> news, std::vector<Action>& out) {
  const std::size_t queued = rumors_.size();
  std::size_t changes = 0;
  for (const Member& member : news) changes += merge_one(now, teller, member, out);
  correct(teller, news, out);
  if (changes <= kQuietNews) return;
  // A flood, as when one joins or a partition heals: everyone gets it by comparing views, and rumors of each
  // would only keep the news of the moment waiting.
  for (std::size_t i = rumors_.size() - std::min(queued, rumors_.size()); i > 0; --i) {
    if (Record* const record = members_.find(rumors_.front())) {
      record->rumor_queued = false;
      record->rumor_tellings = 0;
    }
    rumors_.pop_front();
  }
}

// Whoever tells of somebody as alive who is known to be dead is told so.
void Membership::correct(PeerId teller, std::span<const Member> news, std::vector<Action>& out) {
  std::vector<Member> dead;
  for (const Member& member : news) {
    if (member.liveness > Liveness::suspect || member.id == teller || dead.size() == kRumorsMax) continue;
    const Record* const record = find(member.id);
    if (record != nullptr && !record->is_live()) dead.push_back(record->member);
  }
  const Record* const to = dead.empty() ? nullptr : find(teller);
  if (to != nullptr) out.push_back(Send{to->member.address, wire::Gossip{std::move(dead), false, {}}});
}

// True if it was news.
bool Membership::merge_one(Instant now, PeerId teller, const Member& news, std::vector<Action>& out) {
  if (!news.id) return false;
  if (news.id == self_.id) {
    refute(news, out);
    return false;
  }
  Record* const record = members_.find(news.id);
  if (record == nullptr) return meet(now, news, out);

  take_progress(now, *record, news.samples);
  record->member.steps = std::max(record->member.steps, news.steps);
  if (record->member.device.empty()) record->member.device = news.device;
  bool changed = false;
  if (news.phase > record->member.phase) {
    members_.change(*record, [&](Record& r) { r.member.phase = news.phase; });
    if (record->is_live()) ++version_;
    changed = true;
  }
  const bool newer = news.incarnation > record->member.incarnation;
  if (newer) {
    // Whatever was said about an earlier incarnation, it has answered: it lived when it chose this one.
    members_.change(*record, [&](Record& r) {
      r.member.incarnation = news.incarnation;
      r.member.address = news.address;
    });
    changed = true;
    if (news.liveness <= Liveness::suspect && record->member.liveness != Liveness::alive &&
        !record->superseded) {
      set_liveness(now, *record, Liveness::alive, out);
    }
  }
  if (newer || news.incarnation == record->member.incarnation) {
    switch (news.liveness) {
      case Liveness::alive:
        break;
      case Liveness::suspect:
        changed |= accuse(now, *record, news.accuser ? news.accuser : teller, out);
        break;
      case Liveness::failed:
        changed |= believe_failed(now, *record, teller, out);
        break;
      case Liveness::left:
        if (record->member.liveness == Liveness::left) break;
        set_liveness(now, *record, Liveness::left, out);
        changed = true;
        break;
    }
  }
  if (changed) start_rumor(*record);
  return changed;
}

// Somebody thinks this peer is gone. Only it may raise its incarnation, and a higher one beats any state.
void Membership::refute(const Member& news, std::vector<Action>& out) {
  if (news.liveness == Liveness::alive || news.incarnation < self_.incarnation) return;
  // The highest one is forged and cannot be outbid; an incarnation never runs backwards.
  self_.incarnation = std::max(news.incarnation, news.incarnation + 1);
  self_tellings_ = tellings();
  out.push_back(Notice{Notice::What::refuted, self_.id,
                       news.accuser ? to_string(news.accuser) : std::string("somebody")});
  for (const PeerId id : circle_) {
    if (const Record* const record = find(id))
      out.push_back(Send{record->member.address, wire::Gossip{{self_}, false, {}}});
  }
}

bool Membership::meet(Instant now, const Member& news, std::vector<Action>& out) {
  if (news.liveness > Liveness::suspect) return false;  // the unknown dead are no news
  if (news.address == self_.address) {
    // An earlier instance of this very peer, whose death others have not noticed yet.
    Member dead = news;
    dead.liveness = Liveness::failed;
    mourn(now, dead);
    if (Record* const record = members_.find(news.id)) record->superseded = true;
    return false;
  }
  if (members_.size() >= options_.members_max && !make_room()) return false;
  Record fresh;
  fresh.member = news;
  fresh.member.accuser = {};
  fresh.member.liveness = Liveness::alive;
  fresh.changed = now;
  Record& record = members_.insert(std::move(fresh));
  others_samples_ = add_saturated(others_samples_, news.samples);
  ++live_count_;
  ++version_;
  out.push_back(Notice{Notice::What::joined, news.id, described(news)});
  if (news.liveness == Liveness::suspect) accuse(now, record, news.accuser, out);
  start_rumor(record);
  return true;
}

// The longest dead is forgotten; false where all live.
bool Membership::make_room() {
  const Record* oldest = nullptr;
  for (const Record& record : members_.records()) {
    if (!record.is_live() && (oldest == nullptr || record.changed < oldest->changed)) oldest = &record;
  }
  if (oldest == nullptr) return false;
  members_.erase(oldest->member.id);
  return true;
}

bool Membership::accuse(Instant now, Record& record, PeerId accuser, std::vector<Action>& out) {
  switch (record.member.liveness) {
    case Liveness::alive:
      if (record.last_heard && *record.last_heard + options_.probe_interval > now) {
        warn(now, record, out);  // we know better, and it had better say so itself
        return false;
      }
      set_liveness(now, record, Liveness::suspect, out);
      [[fallthrough]];
    case Liveness::suspect:
      if (!record.accuse(accuser)) return false;
      record.member.accuser = accuser;
      start_rumor(record);
      return true;
    case Liveness::failed:
    case Liveness::left:
      return false;
  }
  return false;
}

bool Membership::believe_failed(Instant now, Record& record, PeerId teller, std::vector<Action>& out) {
  if (!record.is_live()) return false;
  // A true failure has been a suspicion everywhere for some time.
  const bool announced =
      record.member.liveness == Liveness::suspect && record.changed + longest_suspicion() / 2 <= now;
  if (!announced) return accuse(now, record, teller, out);
  set_liveness(now, record, Liveness::failed, out);
  return true;
}

void Membership::set_liveness(Instant now, Record& record, Liveness liveness, std::vector<Action>& out) {
  if (record.member.liveness == liveness) return;
  const bool was_live = record.is_live();
  if (record.member.liveness == Liveness::suspect) std::erase(suspects_, record.member.id);
  members_.change(record, [&](Record& r) { r.member.liveness = liveness; });
  record.changed = now;
  record.accuser_count = 0;
  record.member.accuser = {};
  if (was_live != record.is_live()) {
    record.is_live() ? ++live_count_ : --live_count_;
    ++version_;
  }
  Notice notice{Notice::What::recovered, record.member.id, described(record.member)};
  switch (liveness) {
    case Liveness::alive:
      break;
    case Liveness::suspect:
      notice.what = Notice::What::suspected;
      suspects_.push_back(record.member.id);
      break;
    case Liveness::failed:
      notice.what = Notice::What::failed;
      retry_delay_ = options_.retry_min;
      next_retry_ = std::min(next_retry_, now + retry_delay_);
      break;
    case Liveness::left:
      notice.what = Notice::What::left;
      break;
  }
  out.push_back(std::move(notice));
  start_rumor(record);
  if (!was_live && liveness == Liveness::alive) sync_with(record.member.address, out);
}

void Membership::take_progress(Instant now, Record& record, std::uint64_t samples) {
  if (samples <= record.member.samples) return;
  if (record.member.samples > 0) {
    const Duration since = now - record.samples_at;
    record.samples_every = record.samples_every.count() == 0 ? since : (3 * record.samples_every + since) / 4;
  }
  record.samples_at = now;
  others_samples_ = add_saturated(others_samples_, samples - record.member.samples);
  record.member.samples = samples;
  record.progress_tellings = kProgressTellings;
  recent_.push_front(record.member.id);
  if (recent_.size() > kRecentMax) recent_.pop_back();
}

void Membership::unreachable(Instant now, const Address& address, std::vector<Action>& out) {
  members_.for_each_at(address, [&](Record& record) {
    if (record.member.liveness != Liveness::alive) return;
    record.last_heard.reset();
    accuse(now, record, self_.id, out);
  });
}

// ---- what is told ----

std::uint8_t Membership::tellings() const {
  return static_cast<std::uint8_t>(2 * std::bit_width(live_count_ + 1));
}

void Membership::start_rumor(Record& record) {
  record.rumor_tellings = tellings();
  if (record.rumor_queued) return;
  record.rumor_queued = true;
  rumors_.push_front(record.member.id);
}

std::vector<Member> Membership::rumors(Instant now, PeerId to, bool with_self) {
  std::vector<Member> told;
  if (Record* const receiver = members_.find(to);
      receiver != nullptr && receiver->member.liveness != Liveness::alive) {
    receiver->warned_at = now;
    told.push_back(receiver->member);
  }
  if (with_self && self_tellings_ > 0) {
    --self_tellings_;
    told.push_back(self_);
  }
  for (std::size_t left = rumors_.size(); left > 0 && told.size() < kRumorsMax; --left) {
    const PeerId id = rumors_.front();
    rumors_.pop_front();
    Record* const record = members_.find(id);
    if (record == nullptr) continue;
    if (id != to && record->rumor_tellings > 0) {
      told.push_back(record->member);
      --record->rumor_tellings;
    }
    if (record->rumor_tellings > 0) {
      rumors_.push_back(id);
    } else {
      record->rumor_queued = false;
    }
  }
  return told;
}

// Oneself, and whose progress was learned last.
std::vector<wire::Progress> Membership::progress() {
  std::vector<wire::Progress> told;
  if (self_.samples > 0) told.push_back({self_.id, self_.samples});
  std::vector<PeerId> again;
  while (!recent_.empty() && told.size() < kProgressMax) {
    Record* const record = members_.find(recent_.front());
    recent_.pop_front();
    if (record == nullptr || record->progress_tellings == 0) continue;
    told.push_back({record->member.id, record->member.samples});
    if (--record->progress_tellings > 0) again.push_back(record->member.id);
  }
  recent_.insert(recent_.begin(), again.begin(), again.end());
  return told;
}

// What is known of those whose progress is told goes with it.
wire::Gossip Membership::gossip_of(std::vector<Member> members, bool reply_wanted,
                                   std::vector<wire::Progress> progress) const {
  wire::Gossip gossip{std::move(members), reply_wanted, std::move(progress)};
  for (const wire::Progress& told : gossip.progress) {
    const Record* const record = find(told.id);
    const auto& vitals = told.id == self_.id ? vitals_ : record != nullptr ? record->vitals : kNoVitals;
    if (vitals) gossip.vitals.push_back(*vitals);
  }
  return gossip;
}

void Membership::send_gossip(Instant now, std::vector<Action>& out) {
  std::size_t told = 0;
  refresh_circle();
  if (!circle_.empty()) {
    const Record& to = *find(circle_[random_.below(circle_.size())]);
    wire::Gossip gossip = gossip_of(rumors(now, to.member.id, true), true, progress());
    told = gossip.members.size() + gossip.progress.size();
    if (told > 0) out.push_back(Send{to.member.address, std::move(gossip)});
  }
  next_gossip_ =
      now + options_.gossip_interval + options_.gossip_interval_per_entry * static_cast<std::int64_t>(told);
}

void Membership::spread(Instant now, std::vector<Action>& out) {
  std::vector<wire::Progress> everything{{self_.id, self_.samples}};
  for (const Record& record : members_.records()) {
    if (everything.size() >= kWelcomeMax * kUrgentFanout) break;
    if (record.is_live()) everything.push_back({record.member.id, record.member.samples});
  }
  for (const PeerId id : some_live(kUrgentFanout)) {
    const Address& to = find(id)->member.address;
    auto news = rumors(now, id, false);
    news.push_back(self_);
    out.push_back(Send{to, gossip_of(std::move(news), false, everything)});
  }
}

void Membership::say_goodbye(std::vector<Action>& out) {
  Member self = self_;
  self.liveness = Liveness::left;
  tell_some(wire::Leave{self}, out);
}

void Membership::tell_some(const wire::Message& message, std::vector<Action>& out) {
  for (const PeerId id : some_live(kUrgentFanout)) out.push_back(Send{find(id)->member.address, message});
}

Record* Membership::random_live() {
  if (live_count_ == 0) return nullptr;
  constexpr int kTries = 8;
  std::size_t index = 0;
  for (int i = 0; i < kTries; ++i) {
    index = random_.below(members_.size());
    if (members_.at(index).is_live()) return &members_.at(index);
  }
  while (!members_.at(index).is_live()) index = (index + 1) % members_.size();
  return &members_.at(index);
}

std::vector<PeerId> Membership::some_live(std::size_t most) {
  std::vector<PeerId> ids;
  if (live_count_ <= most) {
    for (const Record& record : members_.records()) {
      if (record.is_live()) ids.push_back(record.member.id);
    }
    return ids;
  }
  while (ids.size() < most) {
    const PeerId id = random_live()->member.id;
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

// A few members at a time keep the number of open links small; that they change keeps news from going in
// circles.
void Membership::refresh_circle() {
  std::erase_if(circle_, [&](PeerId id) {
    const Record* const record = find(id);
    return record == nullptr || !record->is_live();
  });
  const std::size_t wanted = std::min(kCircle, live_count_);
  if (wanted == live_count_ && circle_.size() < wanted) circle_ = some_live(wanted);
  while (circle_.size() < wanted) {
    const PeerId id = random_live()->member.id;
    if (std::find(circle_.begin(), circle_.end(), id) == circle_.end()) circle_.push_back(id);
  }
}

// ---- time ----

void Membership::tick(Instant now, std::vector<Action>& out) {
  advance_probes(now, out);
  judge_suspects(now, out);
  if (next_probe_ <= now) {
    next_probe_ = now + options_.probe_interval;
    probe_next(now, out);
    if (circle_.size() >= kCircle && random_.chance(0.25)) circle_.erase(circle_.begin());
  }
  if (next_gossip_ <= now) send_gossip(now, out);
  if (next_sync_ <= now) {
    next_sync_ = now + from_seconds(to_seconds(sync_delay_) * random_.uniform(0.75, 1.25));
    refresh_circle();
    if (!circle_.empty()) sync_with(find(circle_[random_.below(circle_.size())])->member.address, out);
  }
  if (next_retry_ <= now) {
    retry_lost(out);
    next_retry_ = now + from_seconds(to_seconds(retry_delay_) * random_.uniform(0.75, 1.25));
    retry_delay_ = std::min(2 * retry_delay_, options_.retry_max);
  }
  if (next_burial_ <= now) bury(now);
}

Instant Membership::next_deadline() const {
  Instant next = std::min({next_probe_, next_gossip_, next_sync_, next_retry_, next_burial_});
  for (const Probe& probe : probes_) {
    if (!probe.over) next = std::min(next, probe.asked ? probe.verdict : probe.ask_helpers);
  }
  for (const PeerId id : suspects_) {
    const Record& record = *find(id);
    next = std::min(next, record.changed + suspicion_window(record));
  }
  return next;
}

// How long an answer may take: half the probe interval until something was measured, then as TCP reckons (RFC 6298),
// and one's own lag, for which the other cannot help. A link that exchanges keep full may hold one up for longer than
// a probe interval, so that is no bound; a member that is slower than four of them passes for dead.
Duration Membership::answer_limit(const Record& record) const {
  Duration limit = options_.probe_interval / 2;
  if (record.round_trip.count() > 0) {
    limit = std::max(record.round_trip + 4 * record.round_trip_deviation, options_.probe_interval / 10);
  }
  return std::min(limit + 2 * lag_, 4 * options_.probe_interval);
}

Duration Membership::longest_suspicion() const {
  const double n = static_cast<double>(live_count_ + 1);
  return from_seconds(options_.suspicion_multiplier * std::max(1.0, std::log10(n)) *
                      to_seconds(options_.probe_interval));
}

Duration Membership::suspicion_window(const Record& record) const {
  const double longest = to_seconds(longest_suspicion());
  if (record.accuser_count < 2) return from_seconds(longest);
  // Even with many accusers there is time for the news to reach the suspect, and for its answer to come back.
  const double shortest =
      std::max(longest / 2, options_.suspicion_multiplier * to_seconds(options_.probe_interval));
  // Lifeguard, section IV.B: each independent accuser is worth less than the one before.
  const double share = std::log(static_cast<double>(record.accuser_count)) / std::log(kConfirmations + 1.0);
  return from_seconds(longest - (longest - shortest) * std::min(1.0, share));
}

void Membership::begin_probe(Instant now, Record& record, std::vector<Action>& out) {
  if (probes_.size() >= kProbesMax) probes_.erase(probes_.begin());
  const PeerId id = record.member.id;
  const Duration limit = answer_limit(record);
  const Duration verdict = std::max(options_.probe_interval, 2 * limit);
  probes_.push_back({id, ++sequence_, now, now + limit, now + verdict});
  auto news = rumors(now, id, false);
  news.push_back(self_);
  out.push_back(Send{record.member.address, wire::Ping{sequence_, id, std::move(news)}});
}

void Membership::probe_next(Instant now, std::vector<Action>& out) {
  if (live_count_ == 0) return;
  // Everyone once a round, in an order drawn for each round: the time to detect a death is bounded (SWIM,
  // section 4.3).
  for (int round = 0; round < 2; ++round) {
    while (!probe_order_.empty()) {
      Record* const record = members_.find(probe_order_.back());
      probe_order_.pop_back();
      if (record != nullptr && record->is_live()) return begin_probe(now, *record, out);
    }
    for (const Record& record : members_.records()) {
      if (record.is_live()) probe_order_.push_back(record.member.id);
    }
    random_.shuffle(std::span(probe_order_));
  }
}

void Membership::doubt(Instant now, PeerId id, std::vector<Action>& out) {
  Record* const record = members_.find(id);
  if (record == nullptr || !record->is_live()) return;
  const bool under_way =
      std::any_of(probes_.begin(), probes_.end(), [&](const Probe& p) { return p.target == id && !p.over; });
  if (!under_way) begin_probe(now, *record, out);
}

void Membership::advance_probes(Instant now, std::vector<Action>& out) {
  for (Probe& probe : probes_) {
    if (probe.over) continue;
    Record* const record = members_.find(probe.target);
    if (record == nullptr || !record->is_live()) {
      probe.over = true;
      continue;
    }
    if (!probe.asked && probe.ask_helpers <= now) {
      probe.asked = true;
      std::size_t asked = 0;
      for (const PeerId id : some_live(options_.helpers + 1)) {
        const Member& helper = find(id)->member;
        if (id == probe.target || helper.liveness != Liveness::alive || asked == options_.helpers) continue;
        ++asked;
        out.push_back(Send{helper.address,
                           wire::PingRequest{probe.sequence, probe.target, record->member.address, {self_}}});
      }
    }
    if (probe.verdict <= now) {
      probe.over = true;
      accuse(now, *record, self_.id, out);
    }
  }
  constexpr Duration kLateAnswers = std::chrono::seconds(10);  // are still measured
  std::erase_if(probes_,
                [&](const Probe& probe) { return probe.over && probe.verdict + kLateAnswers < now; });
}

void Membership::judge_suspects(Instant now, std::vector<Action>& out) {
  for (std::size_t i = 0; i < suspects_.size();) {
    Record& record = *members_.find(suspects_[i]);
    if (record.changed + suspicion_window(record) > now) {
      ++i;
    } else {
      set_liveness(now, record, Liveness::failed, out);  // takes it out of suspects_
    }
  }
}

// Tries some of the failed, and of the addresses where members may be.
void Membership::retry_lost(std::vector<Action>& out) {
  std::vector<const Record*> failed;
  for (const Record& record : members_.records()) {
    if (record.member.liveness == Liveness::failed && !record.superseded) failed.push_back(&record);
  }
  for (std::size_t k = 0; k < kRetriesMax && !failed.empty(); ++k) {
    const std::size_t drawn = random_.below(failed.size());
    const Member& member = failed[drawn]->member;
    // Whoever listens there now may answer, and the member itself learns what is said about it.
    out.push_back(Send{member.address, wire::Ping{++sequence_, {}, {member, self_}}});
    failed[drawn] = failed.back();
    failed.pop_back();
  }
  for (std::size_t k = 0; k < kRetriesMax && k < contacts_.size(); ++k) {
    const Address& address = contacts_[random_.below(contacts_.size())];
    const bool met = std::any_of(others().begin(), others().end(), [&](const Record& record) {
      return record.is_live() && record.member.address == address;
    });
    if (!met) out.push_back(Send{address, wire::Ping{++sequence_, {}, {self_}}});
  }
}

// Forgets tombstones past their life span. The failed stay: they may come back.
void Membership::bury(Instant now) {
  next_burial_ = now + kBurialInterval;
  std::vector<PeerId> old;
  for (const Record& record : members_.records()) {
    const bool gone = record.member.liveness == Liveness::left || (record.superseded && !record.is_live());
    if (gone && record.changed + options_.tombstone_life <= now) old.push_back(record.member.id);
  }
  for (const PeerId id : old) members_.erase(id);
}

// ---- exchanges ----

void Membership::exchange_completed(PeerId id) {
  if (Record* const record = members_.find(id)) record->failed_exchanges = 0;
}

void Membership::exchange_aborted(Instant now, PeerId id) {
  Record* const record = members_.find(id);
  if (record == nullptr) return;
  const Duration pause =
      std::min(kAvoidMin * (std::int64_t{1} << std::min<int>(record->failed_exchanges, 8)), kAvoidMax);
  if (record->failed_exchanges < UINT8_MAX) ++record->failed_exchanges;
  record->avoided_until = now + from_seconds(to_seconds(pause) * random_.uniform(0.75, 1.25));
}

void Membership::poisoned_by(Instant now, PeerId id, std::vector<Action>& out) {
  Record* const record = members_.find(id);
  if (record == nullptr || ++record->poisonings < kPoisoningsMax) return;
  record->poisonings = 0;
  record->quarantined_until = now + options_.quarantine;
  out.push_back(Notice{Notice::What::quarantined, id, described(record->member)});
}

}  // namespace starling::gossip
