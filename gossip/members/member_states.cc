#include "gossip/members/membership.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace starling::gossip {

using wire::Liveness;
using wire::Member;

namespace {

constexpr std::size_t kQuietNews = 16;  // a message with more changes than this does not start rumors
constexpr Duration kConflictInterval =
    std::chrono::minutes(1);  // between notices about one address of two peers

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
  // What the teller says about itself comes first: it may not be a member yet.
  if (const auto own = std::ranges::find(news, teller, &Member::id); own != news.end())
    changes += merge_one(now, teller, *own, out);
  for (const Member& member : news)
    if (member.id != teller) changes += merge_one(now, teller, member, out);
  correct(teller, news, out);
  // After a join or a partition everyone gets this flood by comparing views. As rumors it would only delay
  // other news.
  if (changes > kQuietNews) rumors_.shrink_to(queued);
}

// Returns whether anything changed.
bool MemberStates::merge_one(Instant now, PeerId teller, const Member& news, Actions& out) {
  if (!news.id) return false;
  if (news.id == view_.self.id) {
    hear_of_self(now, teller, news, out);
    return false;
  }
  Record* const record = view_.members.find(news.id);
  if (record == nullptr) return meet(now, teller, news, out);

  bool changed = merge_statement(now, *record, teller, news, out);
  progressed(now, teller, *record, news.samples, out);
  if (teller == news.id && !record->observes)
    record->member.steps = std::max(record->member.steps, news.steps);
  if (news.incarnation == record->member.incarnation) changed |= merge_claim(now, *record, teller, news, out);
  if (changed) rumors_.start(*record);
  return changed;
}

// What the member says about itself: it carries its signature, so any peer may pass it on.
bool MemberStates::merge_statement(Instant now, Record& record, PeerId teller, const Member& news,
                                   Actions& out) {
  if (version_of(news) <= version_of(record.member) || !view_.is_authentic(now, teller, news)) return false;
  const bool is_reborn = news.incarnation > record.member.incarnation;
  const bool leaves = news.liveness == Liveness::left;
  view_.members.change(record, [&](Record& r) {
    r.member.name = news.name;
    r.member.address = news.address;
    r.member.also = news.also;
    r.member.homes = news.homes;
    r.member.relays = news.relays;
    r.member.http = news.http;
    r.member.device = news.device;
    r.member.incarnation = news.incarnation;
    r.member.phase = news.phase;
    r.member.key = news.key;
    r.member.signature = news.signature;
  });
  // The member lived when it chose this incarnation, which answers all claims about earlier ones.
  const bool was_doubted = record.member.liveness != Liveness::alive && !record.superseded;
  if (leaves)
    set_liveness(now, record, Liveness::left, out);
  else if (is_reborn && was_doubted)
    set_liveness(now, record, Liveness::alive, out);
  else if (is_reborn && record.member.liveness == Liveness::left)  // superseded, and it did not leave again
    set_liveness(now, record, Liveness::failed, out);
  return true;
}

// What the teller says about a member. REQUIRES: both are of the same incarnation.
bool MemberStates::merge_claim(Instant now, Record& record, PeerId teller, const Member& news, Actions& out) {
  if (news.liveness != Liveness::suspect && news.liveness != Liveness::failed) return false;
  if (teller == news.id || view_.members.find(teller) == nullptr) return false;
  if (news.liveness == Liveness::failed) return accept_failure(now, record, teller, out);
  const bool is_known = news.accuser == view_.self.id || view_.members.find(news.accuser) != nullptr;
  return accuse(now, record, is_known && news.accuser != view_.self.id ? news.accuser : teller, out);
}

// A member becomes known by its own word. What others say about an unknown one is a reason to ask it.
bool MemberStates::meet(Instant now, PeerId teller, const Member& news, Actions& out) {
  if (news.liveness > Liveness::suspect) return false;  // unknown dead members are not news
  if (teller == news.id) return view_.is_authentic(now, teller, news) && add_live(now, news, out);
  if (view_.members.find(teller) == nullptr || introductions_.is_waiting(news.id)) return false;
  if (news.address && news.address == view_.self.address)
    return false;  // an earlier instance of this peer, or a mistake
  if (!view_.options.guards.introductions) return add_live(now, news, out);
  introductions_.offer(now, teller, news);
  return false;
}

bool MemberStates::add_live(Instant now, const Member& news, Actions& out) {
  if (view_.members.size() >= view_.options.members_max && !view_.members.erase_longest_dead()) return false;
  Member member = news;
  member.samples = introductions_.samples_of(news.id);
  Record& record = insert(now, member, Liveness::alive);
  progressed(now, news.id, record, news.samples, out);
  out.push_back(Notice{Notice::What::joined, news.id, described(news)});
  rumors_.start(record);
  return true;
}

Record* MemberStates::add_dead(Instant now, PeerId teller, const Member& dead, Liveness liveness) {
  if (!dead.id || dead.id == view_.self.id || view_.members.find(dead.id) != nullptr ||
      view_.members.size() >= view_.options.members_max || !view_.is_authentic(now, teller, dead))
    return nullptr;
  return &insert(now, dead, liveness);
}

Record& MemberStates::insert(Instant now, const Member& member, Liveness liveness) {
  Record record;
  record.named = introductions_.is_waiting(member.id);
  introductions_.drop(member.id);
  record.member = member;
  record.changed = now;
  record.member.accuser = {};
  record.member.liveness = liveness;
  record.observes = std::ranges::binary_search(view_.options.observers, member.id);
  credit_.meet(now, record);
  return view_.members.insert(std::move(record));
}

void MemberStates::keep(Instant now, PeerId welcomer, const Member& named, Actions& out) {
  introductions_.keep(named);
  Record* const record = view_.members.find(named.id);
  if (record == nullptr) return;
  record->standing.earlier = std::max(record->standing.earlier, named.samples);
  record->standing.welcomed |= named.samples > 0;
  progressed(now, welcomer, *record, named.samples, out);
}

void MemberStates::progressed(Instant now, PeerId teller, Record& record, std::uint64_t samples,
                              Actions& out) {
  const bool by_itself = teller == record.member.id;
  if (!by_itself && samples <= record.member.samples) return;
  if (!by_itself) credit_.vouch(now, record, teller, samples);
  const Record* const from = by_itself ? &record : view_.members.find(teller);
  const bool works = from != nullptr && from->standing.works;
  const Credit::Verdict verdict = credit_.judge(now, record, samples, by_itself, works);
  if (verdict != Credit::Verdict::counts) {
    const bool is_lie = by_itself && verdict == Credit::Verdict::impossible;
    if (is_lie && !std::exchange(record.standing.incredible, true)) {
      out.push_back(Notice{Notice::What::incredible, record.member.id,
                           described(record.member) + " reports " + std::to_string(samples) + " samples"});
    }
    return;
  }
  if (samples <= record.member.samples) return;
  view_.members.set_samples(now, record, samples);
  rumors_.progressed(record);
  if (by_itself) report_lead(now, record, out);
}

// One member decides when the run ends, if that is by samples.
void MemberStates::report_lead(Instant now, Record& record, Actions& out) {
  constexpr Duration kInterval = std::chrono::minutes(1);
  if (now < std::max(record.standing.met, view_.run_start) + kInterval / 2) return;
  if (record.standing.noticed_at + kInterval > now || credit_.lead(now, record) == 0) return;
  record.standing.noticed_at = now;
  out.push_back(Notice{Notice::What::leads, record.member.id, described(record.member)});
}

std::uint64_t MemberStates::doubtful_samples(Instant now) {
  std::uint64_t doubtful = 0;
  for (const Record& record : view_.members.records())
    doubtful = add_saturated(doubtful, credit_.lead(now, record));
  return doubtful;
}

void MemberStates::take_figures(Instant now, PeerId from, const wire::Gossip& gossip, Actions& out) {
  for (const wire::Progress& progress : gossip.progress) {
    if (Record* const record = view_.members.find(progress.id))
      progressed(now, from, *record, progress.samples, out);
  }
  for (const wire::Vitals& vitals : gossip.vitals) {
    Record* const record = view_.members.find(vitals.id);
    if (record == nullptr) continue;
    // By others, only a sequence that the member can have reached: it must not pin the figures.
    constexpr std::uint32_t kMissedMost = 1000;
    const std::uint32_t known = record->vitals ? record->vitals->sequence : 0;
    const bool is_next = vitals.sequence > known && vitals.sequence - known <= kMissedMost;
    if (from == vitals.id || is_next) record->vitals = vitals;
  }
}

// Others consider this peer suspect or dead, or know an incarnation of an earlier instance. A higher
// incarnation overrides that, and only this peer can sign one.
void MemberStates::hear_of_self(Instant now, PeerId teller, const Member& news, Actions& out) {
  const Member& self = view_.self;
  if (news.incarnation < self.incarnation || view_.members.find(teller) == nullptr) return;
  const bool is_accused = news.incarnation == self.incarnation && news.liveness != Liveness::alive;
  const bool is_earlier_life = version_of(news) > version_of(self) && view_.is_authentic(now, teller, news);
  if (is_accused || is_earlier_life) refute(now, news, out);
}

void MemberStates::refute(Instant now, const Member& news, Actions& out) {
  constexpr Duration kPauseMax = std::chrono::seconds(4);
  if (now < refute_after_) return;  // accusations without end shall not make this peer answer without end
  const Duration interval = view_.options.probe_interval;
  refute_pause_ = refute_after_ + 8 * kPauseMax < now ? interval / 4 : std::min(2 * refute_pause_, kPauseMax);
  refute_after_ = now + refute_pause_;
  // An incarnation never wraps; the greatest one cannot be exceeded.
  view_.change_self(
      [&](Member& self) { self.incarnation = std::max(news.incarnation, news.incarnation + 1); });
  rumors_.start_self();
  out.push_back(Notice{Notice::What::refuted, view_.self.id,
                       news.accuser ? to_string(news.accuser) : std::string("an unknown peer")});
  view_.tell_circle(out);
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
  if (to != nullptr) view_.tell(to->member, wire::Gossip{std::move(dead), false, {}}, out);
}

// ---- direct evidence ----

void MemberStates::heard(Instant now, Record& record, Actions& out) {
  if (record.superseded) {
    report_conflict(now, record, out);
  } else if (!record.met) {  // not each time that it is heard again after it was unreachable
    supersede(now, record, out);
  }
  if (!record.met) record.met = now;
  record.superseded = false;
  record.unanswered = false;
  record.last_heard = now;
  if (record.member.liveness == Liveness::alive) return;
  warn(now, record, out);  // others may still doubt it, and only the member itself can refute that
  if (record.member.liveness == Liveness::suspect) set_liveness(now, record, Liveness::alive, out);
}

// A peer that starts at the address of an earlier one shows that the earlier one has ended.
void MemberStates::supersede(Instant now, const Record& by, Actions& out) {
  const PeerId id = by.member.id;
  view_.members.for_each_at(by.member.address, [&](Record& record) {
    if (record.member.id == id || record.superseded) return;
    record.superseded = true;
    if (record.is_live()) set_liveness(now, record, Liveness::failed, out);
  });
}

// A superseded member has been heard again: two live peers advertise one address. Each is told about the
// other.
void MemberStates::report_conflict(Instant now, Record& record, Actions& out) {
  if (conflict_noticed_ + kConflictInterval > now) return;
  view_.members.for_each_at(record.member.address, [&](Record& other) {
    if (other.member.id == record.member.id || !other.is_live()) return;
    conflict_noticed_ = now;
    out.push_back(Notice{
        Notice::What::conflict, record.member.id,
        described(record.member) + " and " + other.member.name + " (" + to_string(other.member.id) + ")"});
    for (const Record* told : {&record, &other})
      view_.tell(told->member, wire::Refusal{wire::RefusalReason::address_taken, {}}, out);
  });
}

void MemberStates::answered_for(Instant now, const wire::Ack& ack, Actions& out) {
  if (view_.members.find(ack.on_behalf) != nullptr) return;
  if (const auto member = introductions_.answered_for(ack)) add_live(now, *member, out);
}

void MemberStates::address_taken(Instant now, PeerId teller, Actions& out) {
  const Record* const record = view_.members.find(teller);
  if (record == nullptr || conflict_noticed_ + kConflictInterval > now) return;
  conflict_noticed_ = now;
  out.push_back(Notice{Notice::What::conflict, view_.self.id,
                       "this peer and another one, as " + described(record->member) + " says"});
}

void MemberStates::unreachable(Instant now, const Endpoint& to, Actions& out) {
  introductions_.unreachable(now, to);
  view_.members.for_each_at(to.address, [&](Record& record) {
    if (record.member.liveness > Liveness::suspect || (to.id && record.member.id != to.id)) return;
    record.last_heard.reset();
    const bool was_alive = record.member.liveness == Liveness::alive;
    accuse(now, record, view_.self.id, out);
    // The connection may be of the time before it lost its power: a new one may reach it.
    if (was_alive) prober_.probe(now, record, Prober::Helpers::asked, out);
  });
}

// Sends a member the claims about it, so that it can refute them. A member that cannot be dialed gets the
// claim of its accuser from this peer, because the accuser may not be able to send it.
void MemberStates::warn(Instant now, Record& record, Actions& out, Liveness claimed) {
  const Duration interval = view_.options.probe_interval;
  if (record.warned_at + interval > now) return;
  // Messages that were under way when a member left do not show that it is back.
  if (!record.is_live() && record.changed + interval > now) return;
  record.warned_at = now;
  wire::Gossip gossip{{record.member, view_.self}, true, {}};
  if (!record.member.address) gossip.members[0].liveness = std::max(claimed, record.member.liveness);
  view_.tell(record.member, std::move(gossip), out);
}

// ---- transitions ----

bool MemberStates::accuse(Instant now, Record& record, PeerId accuser, Actions& out) {
  if (!record.is_live()) return false;
  const bool is_own = accuser == view_.self.id;
  if (record.member.liveness == Liveness::alive) {
    if (record.last_heard && *record.last_heard + view_.options.probe_interval > now) {
      warn(now, record, out, Liveness::suspect);  // it lives, but has to refute the claim itself
      return false;
    }
    set_liveness(now, record, Liveness::suspect, out);
    if (!is_own && view_.options.guards.own_probe) prober_.probe(now, record, Prober::Helpers::none, out);
  }
  record.unanswered |= is_own;
  if (!record.accuse(accuser)) return false;
  record.member.accuser = accuser;
  rumors_.start(record);
  return true;
}

bool MemberStates::accept_failure(Instant now, Record& record, PeerId teller, Actions& out) {
  if (!record.is_live()) return false;
  // A true failure has been a suspicion everywhere for some time.
  const Duration half_window = longest_suspicion(view_.options, view_.members.live() + 1) / 2;
  const bool announced = has_not_answered(record) && record.changed + half_window <= now;
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
  record.unanswered = false;
  if (liveness == Liveness::suspect) suspects_.push_back(record.member.id);
  if (liveness == Liveness::failed) retries_.restart(now);
  constexpr Notice::What kNotices[] = {Notice::What::recovered, Notice::What::suspected, Notice::What::failed,
                                       Notice::What::left};
  out.push_back(
      Notice{kNotices[static_cast<std::size_t>(liveness)], record.member.id, described(record.member)});
  rumors_.start(record);
  if (!was_live && liveness == Liveness::alive) views_.sync_with(record.member, out);
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
      settle_suspicion(now, record, out);  // may remove it from suspects_
  }
  introductions_.tick(now, out);
  if (!introductions_.any_silent()) return;
  for (const Member& silent : introductions_.take_silent()) {
    if (add_dead(now, silent.id, silent, Liveness::failed) != nullptr) retries_.restart(now);
  }
}

// The window of a suspect has passed. It has failed if it did not answer this peer either.
void MemberStates::settle_suspicion(Instant now, Record& suspect, Actions& out) {
  set_liveness(now, suspect, has_not_answered(suspect) ? Liveness::failed : Liveness::alive, out);
}

void MemberStates::slept(Duration late) {
  for (const PeerId id : suspects_) {
    Record& record = *view_.members.find(id);
    record.changed = record.changed + late;
  }
  introductions_.slept(late);
}

Instant MemberStates::next_deadline() const {
  Instant next = introductions_.next_deadline();
  for (const PeerId id : suspects_) next = std::min(next, window_end(*view_.members.find(id)));
  return next;
}

}  // namespace starling::gossip
