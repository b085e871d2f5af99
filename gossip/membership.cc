#include "gossip/membership.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace starling::gossip {

using wire::Liveness;
using wire::Member;

namespace {

constexpr Duration kBurialInterval = std::chrono::minutes(1);
constexpr Duration kAvoidMin = std::chrono::milliseconds(250);
constexpr Duration kAvoidMax = std::chrono::seconds(5);
constexpr std::size_t kSpreadMax = 1024;  // progress entries in one urgent Gossip

}  // namespace

Membership::Membership(Member self, MembershipOptions options, Random random)
    : view_{.options = options, .self = std::move(self), .random = random} {
  STARLING_CHECK(static_cast<bool>(view_.self.id));
}

// ---- this peer ----

void Membership::set_phase(wire::Phase phase) {
  STARLING_CHECK(phase >= view_.self.phase);
  if (phase == view_.self.phase) return;
  view_.self.phase = phase;
  rumors_.start_self();
}

void Membership::set_progress(std::uint64_t steps, std::uint64_t samples) {
  view_.self.steps = std::max(view_.self.steps, steps);
  view_.self.samples = std::max(view_.self.samples, samples);
}

void Membership::set_vitals(const wire::Vitals& vitals) {
  const std::uint32_t sequence = view_.vitals ? view_.vitals->sequence + 1 : 1;
  view_.vitals = vitals;
  view_.vitals->id = view_.self.id;
  view_.vitals->sequence = sequence;
}

std::uint64_t Membership::version() const {
  return view_.members.version() + static_cast<std::uint64_t>(view_.self.phase);  // both only grow
}

std::uint64_t Membership::swarm_samples() const {
  return add_saturated(view_.self.samples, view_.members.samples());
}

void Membership::add_progress(Instant now, const wire::Progress& progress) {
  if (Record* const record = view_.members.find(progress.id))
    states_.progressed(now, *record, progress.samples);
}

std::size_t Membership::queued() const {
  return rumors_.members_queued() + rumors_.progress_queued() + prober_.queued() + circle_.members().size() +
         states_.suspects();
}

// ---- time ----

void Membership::start(Instant now) {
  prober_.start(now);
  next_gossip_ = view_.jittered(now, view_.options.gossip_interval);
  views_.start(now);
  retries_.start(now);
  next_burial_ = now + kBurialInterval;
}

void Membership::slept(Duration late) {
  prober_.slept(late);
  states_.slept(late);
}

void Membership::tick(Instant now, std::vector<Action>& out) {
  while (const auto silent = prober_.advance(now, out))
    states_.accuse(now, *view_.members.find(*silent), view_.self.id, out);
  states_.tick(now, out);
  if (prober_.due(now)) {
    prober_.probe_next(now, out);
    circle_.renew();
  }
  if (next_gossip_ <= now) send_gossip(now, out);
  views_.tick(now, circle_, out);
  retries_.tick(now, out);
  if (next_burial_ <= now) {
    next_burial_ = now + kBurialInterval;
    view_.members.erase_gone(now - view_.options.tombstone_life);
  }
}

Instant Membership::next_deadline() const {
  return std::min({prober_.next_deadline(), next_gossip_, views_.next_deadline(), retries_.next_deadline(),
                   next_burial_, states_.next_deadline()});
}

void Membership::send_gossip(Instant now, std::vector<Action>& out) {
  std::size_t entries = 0;
  if (const Record* const to = circle_.draw()) {
    wire::Gossip gossip = rumors_.take_gossip(now, to->member.id, Rumors::Reply::wanted);
    entries = gossip.members.size() + gossip.progress.size();
    if (entries > 0) out.push_back(Send{to->member.address, std::move(gossip)});
  }
  const Duration pause = view_.options.gossip_interval_per_entry * static_cast<std::int64_t>(entries);
  next_gossip_ = now + view_.options.gossip_interval + pause;
}

// ---- messages ----

void Membership::heard(Instant now, PeerId from, const Address& address, std::vector<Action>& out) {
  Record* const record = view_.members.find(from);
  if (record == nullptr) {  // the answer to this Ping introduces the sender
    if (from != view_.self.id)
      out.push_back(Send{address, wire::Ping{++view_.last_sequence, from, {view_.self}}});
    return;
  }
  prober_.heard(from);
  states_.heard(now, *record, address, out);
}

void Membership::on_ping(Instant now, PeerId from, const Address& address, const wire::Ping& ping,
                         std::vector<Action>& out) {
  merge(now, from, ping.members, out);
  heard(now, from, address, out);
  if (ping.target && ping.target != view_.self.id) {
    // Meant for an earlier instance at this address, so there is no Ack. The sender learns who is here now.
    out.push_back(Send{address, wire::Gossip{{view_.self}, false, {}}});
    return;
  }
  out.push_back(Send{address, wire::Ack{ping.sequence, rumors_.take_with_self(now, from), {}}});
}

void Membership::on_ping_request(Instant now, PeerId from, const Address& address,
                                 const wire::PingRequest& request, std::vector<Action>& out) {
  merge(now, from, request.members, out);
  heard(now, from, address, out);
  if (request.target == view_.self.id) {
    out.push_back(Send{address, wire::Ack{request.sequence, {view_.self}, {}}});
  } else {
    prober_.relay(address, request, out);
  }
}

void Membership::on_ack(Instant now, PeerId from, const Address& address, const wire::Ack& ack,
                        std::vector<Action>& out) {
  merge(now, from, ack.members, out);
  prober_.answered(now, from, ack, out);
  heard(now, from, address, out);
}

void Membership::on_gossip(Instant now, PeerId from, const Address& address, const wire::Gossip& gossip,
                           std::vector<Action>& out) {
  merge(now, from, gossip.members, out);
  for (const wire::Progress& progress : gossip.progress) add_progress(now, progress);
  for (const wire::Vitals& vitals : gossip.vitals) {
    Record* const record = view_.members.find(vitals.id);
    if (record != nullptr && (!record->vitals || vitals.sequence > record->vitals->sequence))
      record->vitals = vitals;
  }
  heard(now, from, address, out);
  if (gossip.reply_wanted) out.push_back(Send{address, rumors_.take_gossip(now, from, Rumors::Reply::none)});
}

void Membership::on_digest(Instant now, PeerId from, const Address& address, const wire::Digest& digest,
                           std::vector<Action>& out) {
  heard(now, from, address, out);
  out.push_back(Send{address, views_.answer(digest)});
}

void Membership::on_view(Instant now, PeerId from, const Address& address, const wire::View& view,
                         std::vector<Action>& out) {
  views_.adapt(now, view);
  if (view.buckets == 0) return heard(now, from, address, out);
  std::optional<wire::View> answer;
  if (view.reply_wanted) answer = views_.answer(view);
  merge(now, from, view.members, out);
  heard(now, from, address, out);
  if (answer) out.push_back(Send{address, std::move(*answer)});
}

void Membership::on_leave(Instant now, PeerId from, const wire::Leave& leave, std::vector<Action>& out) {
  // Only the member itself may say goodbye, and an unknown one need not be remembered.
  if (leave.self.id != from || find(from) == nullptr) return;
  merge(now, from, {&leave.self, 1}, out);
}

void Membership::welcomed(Instant now, PeerId by, std::span<const Member> members,
                          std::uint64_t retired_samples, std::vector<Action>& out) {
  view_.members.add_samples(retired_samples);
  for (const Member& member : members) {
    if (member.liveness > Liveness::suspect) states_.add_dead(now, member);
  }
  merge(now, by, members, out);
}

void Membership::doubt(Instant now, PeerId id, std::vector<Action>& out) {
  Record* const record = view_.members.find(id);
  if (record != nullptr && record->is_live()) prober_.probe(now, *record, out);
}

void Membership::tell_some(const wire::Message& message, std::vector<Action>& out) {
  for (const PeerId id : view_.draw_live(kUrgentFanout))
    out.push_back(Send{find(id)->member.address, message});
}

void Membership::spread(Instant now, std::vector<Action>& out) {
  std::vector<wire::Progress> progress{{view_.self.id, view_.self.samples}};
  for (const Record& record : others()) {
    if (progress.size() >= kSpreadMax) break;
    if (record.is_live()) progress.push_back({record.member.id, record.member.samples});
  }
  for (const PeerId id : view_.draw_live(kUrgentFanout)) {
    wire::Gossip gossip{rumors_.take_with_self(now, id), false, progress};
    rumors_.add_vitals(gossip);
    out.push_back(Send{find(id)->member.address, std::move(gossip)});
  }
}

void Membership::say_goodbye(std::vector<Action>& out) {
  Member self = view_.self;
  self.liveness = Liveness::left;
  tell_some(wire::Leave{self}, out);
}

// ---- exchanges ----

void Membership::exchange_completed(PeerId id) {
  if (Record* const record = view_.members.find(id)) record->failed_exchanges = 0;
}

void Membership::exchange_aborted(Instant now, PeerId id) {
  Record* const record = view_.members.find(id);
  if (record == nullptr) return;
  const Duration pause =
      std::min(kAvoidMin * (std::int64_t{1} << std::min<int>(record->failed_exchanges, 8)), kAvoidMax);
  if (record->failed_exchanges < UINT8_MAX) ++record->failed_exchanges;
  record->avoided_until = now + view_.varied(pause);
}

void Membership::poisoned_by(Instant now, PeerId id, std::vector<Action>& out) {
  Record* const record = view_.members.find(id);
  if (record == nullptr || ++record->poisonings < kPoisoningsMax) return;
  record->poisonings = 0;
  record->quarantined_until = now + view_.options.quarantine;
  const Member& member = record->member;
  out.push_back(Notice{Notice::What::quarantined, id, member.name + " at " + to_string(member.address)});
}

}  // namespace starling::gossip
