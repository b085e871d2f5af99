#include "gossip/membership.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace starling::gossip {

using wire::Liveness;
using wire::Member;

namespace {

constexpr std::size_t kQuietNews = 16;  // a message with more changes than this does not start rumors

}  // namespace

Duration longest_suspicion(const MembershipOptions& options, std::size_t live) {
  return from_seconds(options.suspicion_multiplier * std::max(1.0, std::log10(static_cast<double>(live))) *
                      to_seconds(options.probe_interval));
}

Duration suspicion_window(const MembershipOptions& options, std::size_t live, std::size_t accusers) {
  constexpr std::size_t kConfirmations = Record::kAccusersMax - 1;
  const double longest = to_seconds(longest_suspicion(options, live));
  if (accusers < 2) return from_seconds(longest);
  // Even with many accusers the news needs time to reach the suspect, and its answer to come back.
  const double shortest =
      std::max(longest / 2, options.suspicion_multiplier * to_seconds(options.probe_interval));
  // Lifeguard, section IV.B: each accuser counts for less than the one before.
  const double share = std::log(static_cast<double>(accusers)) / std::log(kConfirmations + 1.0);
  return from_seconds(longest - (longest - shortest) * std::min(1.0, share));
}

// ---- news ----

void MemberStates::merge(Instant now, PeerId teller, std::span<const Member> news, Actions& out) {
  const std::size_t queued = rumors_.members_queued();
  std::size_t changes = 0;
  for (const Member& member : news) changes += merge_one(now, teller, member, out);
  correct(teller, news, out);
  // After a join or a partition everyone gets this flood by comparing views. As rumors it would only delay
  // other news.
  if (changes > kQuietNews) rumors_.shrink_to(queued);
}

// Returns whether anything changed.
bool MemberStates::merge_one(Instant now, PeerId teller, const Member& news, Actions& out) {
  if (!news.id) return false;
  if (news.id == view_.self.id) {
    refute(news, out);
    return false;
  }
  Record* const record = view_.members.find(news.id);
  if (record == nullptr) return add_live(now, news, out);

  progressed(now, *record, news.samples);
  record->member.steps = std::max(record->member.steps, news.steps);
  if (record->member.device.empty()) record->member.device = news.device;
  bool changed = false;
  if (news.phase > record->member.phase) {
    view_.members.change(*record, [&](Record& r) { r.member.phase = news.phase; });
    changed = true;
  }
  changed |= merge_incarnation(now, *record, news, out);
  if (news.incarnation == record->member.incarnation)
    changed |= merge_liveness(now, *record, teller, news, out);
  if (changed) rumors_.start(*record);
  return changed;
}

bool MemberStates::merge_incarnation(Instant now, Record& record, const Member& news, Actions& out) {
  if (news.incarnation <= record.member.incarnation) return false;
  // The member lived when it chose this incarnation, which answers all claims about earlier ones.
  view_.members.change(record, [&](Record& r) {
    r.member.incarnation = news.incarnation;
    r.member.address = news.address;
  });
  const bool was_doubted = record.member.liveness != Liveness::alive && !record.superseded;
  if (news.liveness <= Liveness::suspect && was_doubted) set_liveness(now, record, Liveness::alive, out);
  return true;
}

// REQUIRES: both are of the same incarnation.
bool MemberStates::merge_liveness(Instant now, Record& record, PeerId teller, const Member& news,
                                  Actions& out) {
  switch (news.liveness) {
    case Liveness::alive:
      return false;
    case Liveness::suspect:
      return accuse(now, record, news.accuser ? news.accuser : teller, out);
    case Liveness::failed:
      return accept_failure(now, record, teller, out);
    case Liveness::left:
      if (record.member.liveness == Liveness::left) return false;
      set_liveness(now, record, Liveness::left, out);
      return true;
  }
  return false;
}

bool MemberStates::add_live(Instant now, const Member& news, Actions& out) {
  if (news.liveness > Liveness::suspect) return false;  // unknown dead members are not news
  if (news.address == view_.self.address) {
    // An earlier instance of this peer whose end others have not noticed yet.
    if (Record* const dead = add_dead(now, news, Liveness::failed)) dead->superseded = true;
    return false;
  }
  if (view_.members.size() >= view_.options.members_max && !view_.members.erase_longest_dead()) return false;
  Record& record = insert(now, news, Liveness::alive);
  out.push_back(Notice{Notice::What::joined, news.id, described(news)});
  if (news.liveness == Liveness::suspect) accuse(now, record, news.accuser, out);
  rumors_.start(record);
  return true;
}

Record* MemberStates::add_dead(Instant now, const Member& dead, Liveness liveness) {
  if (!dead.id || dead.id == view_.self.id || view_.members.find(dead.id) != nullptr ||
      view_.members.size() >= view_.options.members_max)
    return nullptr;
  return &insert(now, dead, liveness);
}

Record& MemberStates::insert(Instant now, const Member& member, Liveness liveness) {
  Record record;
  record.member = member;
  record.changed = now;
  record.member.accuser = {};
  record.member.liveness = liveness;
  return view_.members.insert(std::move(record));
}

void MemberStates::progressed(Instant now, Record& record, std::uint64_t samples) {
  if (samples <= record.member.samples) return;
  view_.members.set_samples(now, record, samples);
  rumors_.progressed(record);
}

// Others consider this peer suspect or dead. A higher incarnation overrides that, and only this peer may
// raise it.
void MemberStates::refute(const Member& news, Actions& out) {
  Member& self = view_.self;
  if (news.liveness == Liveness::alive || news.incarnation < self.incarnation) return;
  // The greatest number is forged and cannot be exceeded; an incarnation never wraps.
  self.incarnation = std::max(news.incarnation, news.incarnation + 1);
  rumors_.start_self();
  out.push_back(Notice{Notice::What::refuted, self.id,
                       news.accuser ? to_string(news.accuser) : std::string("an unknown peer")});
  for (const PeerId id : view_.circle) {
    if (const Record* const record = view_.members.find(id))
      out.push_back(Send{record->member.address, wire::Gossip{{self}, false, {}}});
  }
}

// The sender lists members as alive that are known to be dead: it gets their records.
void MemberStates::correct(PeerId teller, std::span<const Member> news, Actions& out) {
  std::vector<Member> dead;
  for (const Member& member : news) {
    if (member.liveness > Liveness::suspect || member.id == teller || dead.size() == Rumors::kMembersMax)
      continue;
    const Record* const record = view_.members.find(member.id);
    if (record != nullptr && !record->is_live()) dead.push_back(record->member);
  }
  const Record* const to = dead.empty() ? nullptr : view_.members.find(teller);
  if (to != nullptr) out.push_back(Send{to->member.address, wire::Gossip{std::move(dead), false, {}}});
}

// ---- direct evidence ----

void MemberStates::heard(Instant now, Record& record, const Address& address, Actions& out) {
  if (!record.last_heard) supersede(now, record.member.id, address, out);
  record.last_heard = now;
  if (record.member.liveness == Liveness::alive) return;
  warn(now, record, out);  // others may still doubt it, and only the member itself can refute that
  if (record.member.liveness == Liveness::suspect) set_liveness(now, record, Liveness::alive, out);
}

// One instance per address: older records with this address are dead.
void MemberStates::supersede(Instant now, PeerId by, const Address& address, Actions& out) {
  view_.members.for_each_at(address, [&](Record& record) {
    if (record.member.id == by || record.superseded) return;
    record.superseded = true;
    if (record.is_live()) set_liveness(now, record, Liveness::failed, out);
  });
}

void MemberStates::unreachable(Instant now, const Address& address, Actions& out) {
  view_.members.for_each_at(address, [&](Record& record) {
    if (record.member.liveness != Liveness::alive) return;
    record.last_heard.reset();
    accuse(now, record, view_.self.id, out);
  });
}

// Sends a member the claims about it, so that it can refute them.
void MemberStates::warn(Instant now, Record& record, Actions& out) {
  const Duration interval = view_.options.probe_interval;
  if (record.warned_at + interval > now) return;
  // Messages that were under way when a member left do not show that it is back.
  if (!record.is_live() && record.changed + interval > now) return;
  record.warned_at = now;
  out.push_back(Send{record.member.address, wire::Gossip{{record.member, view_.self}, true, {}}});
}

// ---- transitions ----

bool MemberStates::accuse(Instant now, Record& record, PeerId accuser, Actions& out) {
  if (!record.is_live()) return false;
  if (record.member.liveness == Liveness::alive) {
    if (record.last_heard && *record.last_heard + view_.options.probe_interval > now) {
      warn(now, record, out);  // it lives, but has to refute the claim itself
      return false;
    }
    set_liveness(now, record, Liveness::suspect, out);
  }
  if (!record.accuse(accuser)) return false;
  record.member.accuser = accuser;
  rumors_.start(record);
  return true;
}

bool MemberStates::accept_failure(Instant now, Record& record, PeerId teller, Actions& out) {
  if (!record.is_live()) return false;
  // A true failure has been a suspicion everywhere for some time.
  const Duration half_window = longest_suspicion(view_.options, view_.members.live() + 1) / 2;
  const bool announced = record.member.liveness == Liveness::suspect && record.changed + half_window <= now;
  if (!announced) return accuse(now, record, teller, out);
  set_liveness(now, record, Liveness::failed, out);
  return true;
}

void MemberStates::set_liveness(Instant now, Record& record, Liveness liveness, Actions& out) {
  if (record.member.liveness == liveness) return;
  const bool was_live = record.is_live();
  if (record.member.liveness == Liveness::suspect) std::erase(suspects_, record.member.id);
  view_.members.change(record, [&](Record& r) { r.member.liveness = liveness; });
  record.changed = now;
  record.accuser_count = 0;
  record.member.accuser = {};
  if (liveness == Liveness::suspect) suspects_.push_back(record.member.id);
  if (liveness == Liveness::failed) retries_.restart(now);
  constexpr Notice::What kNotices[] = {Notice::What::recovered, Notice::What::suspected, Notice::What::failed,
                                       Notice::What::left};
  out.push_back(
      Notice{kNotices[static_cast<std::size_t>(liveness)], record.member.id, described(record.member)});
  rumors_.start(record);
  if (!was_live && liveness == Liveness::alive) views_.sync_with(record.member.address, out);
}

// ---- time ----

Instant MemberStates::window_end(const Record& suspect) const {
  return suspect.changed + suspicion_window(view_.options, view_.members.live() + 1, suspect.accuser_count);
}

void MemberStates::tick(Instant now, Actions& out) {
  for (std::size_t i = 0; i < suspects_.size();) {
    Record& record = *view_.members.find(suspects_[i]);
    if (window_end(record) > now)
      ++i;
    else
      set_liveness(now, record, Liveness::failed, out);  // removes it from suspects_
  }
}

void MemberStates::slept(Duration late) {
  for (const PeerId id : suspects_) {
    Record& record = *view_.members.find(id);
    record.changed = record.changed + late;
  }
}

Instant MemberStates::next_deadline() const {
  Instant next = kNever;
  for (const PeerId id : suspects_) next = std::min(next, window_end(*view_.members.find(id)));
  return next;
}

}  // namespace starling::gossip
