#include "gossip/members/membership.h"

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

Membership::Membership(const Identity& identity, Member self, MembershipOptions options, Random random)
    : view_{.options = options, .identity = &identity, .self = std::move(self), .random = random} {
  STARLING_CHECK(view_.self.id && view_.self.id == identity.id() && view_.self.key == identity.key());
  view_.change_self([](Member&) {});
}

// ---- this peer ----

void Membership::set_phase(wire::Phase phase) {
  STARLING_CHECK(phase >= view_.self.phase);
  if (phase == view_.self.phase) return;
  view_.change_self([phase](Member& self) { self.phase = phase; });
  rumors_.start_self();
}

void Membership::set_vitals(const wire::Vitals& vitals) {
  const std::uint32_t sequence = view_.vitals ? view_.vitals->sequence + 1 : 1;
  view_.vitals = vitals;
  view_.vitals->id = view_.self.id;
  view_.vitals->sequence = sequence;
}

// ---- time ----

void Membership::start(Instant now) {
  view_.run_start = now;
  prober_.start(now);
  next_gossip_ = view_.jittered(now, view_.options.gossip_interval);
  views_.start(now);
  retries_.start(now);
  reach_.start(now);
  next_burial_ = now + kBurialInterval;
}

void Membership::tick(Instant now, Actions& out) {
  while (const auto silent = prober_.advance(now, out))
    states_.accuse(now, *view_.members.find(*silent), view_.self.id, out);
  states_.tick(now, out);
  if (prober_.due(now)) {
    prober_.probe_next(now, out);
    view_.renew_circle();
  }
  if (next_gossip_ <= now) send_gossip(now, out);
  views_.tick(now, out);
  retries_.tick(now, out);
  reach_.tick(now, out);
  if (next_burial_ <= now) {
    next_burial_ = now + kBurialInterval;
    view_.members.erase_gone(now - view_.options.tombstone_life);
  }
}

void Membership::send_gossip(Instant now, Actions& out) {
  std::size_t entries = 0;
  if (const Record* const to = view_.draw_from_circle()) {
    wire::Gossip gossip = rumors_.take_gossip(now, to->member.id, Rumors::Reply::wanted);
    entries = gossip.members.size() + gossip.progress.size();
    if (entries > 0) view_.tell(to->member, std::move(gossip), out);
  }
  const Duration pause = view_.options.gossip_interval_per_entry * static_cast<std::int64_t>(entries);
  next_gossip_ = now + view_.options.gossip_interval + pause;
}

// ---- messages ----

void Membership::heard(Instant now, PeerId from, const Address& address, Actions& out) {
  Record* const record = view_.members.find(from);
  if (record == nullptr) {  // the answer to this Ping introduces the sender
    if (from != view_.self.id)
      out.push_back(
          Send{view_.reply_to(from, address), wire::Ping{++view_.last_sequence, from, {view_.self}}});
    return;
  }
  prober_.heard(from);
  states_.heard(now, *record, out);
}

void Membership::on(Instant now, PeerId from, const Address& address, const wire::Ping& ping, Actions& out) {
  merge(now, from, ping.members, out);
  heard(now, from, address, out);
  if (ping.target && ping.target != view_.self.id) {
    // Meant for an earlier instance at this address, so this peer sends no Ack. The sender learns who is here
    // now.
    out.push_back(Send{view_.reply_to(from, address), wire::Gossip{{view_.self}, false, {}}});
    return;
  }
  wire::Ack ack{ping.sequence, rumors_.take_with_self(now, from), {}, {}};
  Record* const asker = view_.members.find(from);
  if (ping.requester && asker != nullptr && asker->verifications.take(now))
    ack.signature = view_.identity->sign(answer_statement(view_.self.key, ping.requester, ping.requested));
  out.push_back(Send{view_.reply_to(from, address), std::move(ack)});
}

void Membership::on(Instant now, PeerId from, const Address& address, const wire::PingRequest& request,
                    Actions& out) {
  merge(now, from, request.members, out);
  heard(now, from, address, out);
  if (request.target == view_.self.id) {
    out.push_back(Send{view_.reply_to(from, address), wire::Ack{request.sequence, {view_.self}, {}, {}}});
    return;
  }
  // A peer dials only members, and for members; otherwise anyone could make it dial any address at any rate.
  Record* const requester = view_.members.find(from);
  const Record* const target = view_.members.find(request.target);
  const bool is_known =
      requester != nullptr && target != nullptr && target->member.address == request.address;
  if (is_known && requester->relays.take(now))
    prober_.relay(view_.reply_to(from, address), request, target->member, out);
}

void Membership::on(Instant now, PeerId from, const Address& address, const wire::Ack& ack, Actions& out) {
  merge(now, from, ack.members, out);
  const PeerId alive = prober_.answered(now, from, ack, out);
  Record* const silent = alive ? view_.members.find(alive) : nullptr;
  // The only sign of life of a member to which this peer cannot send. It signed the number of this probe.
  if (silent != nullptr && !view_.can_tell(silent->member)) states_.heard(now, *silent, out);
  if (ack.on_behalf) states_.answered_for(now, ack, out);
  heard(now, from, address, out);
}

void Membership::on(Instant now, PeerId from, const Address& address, const wire::Gossip& gossip,
                    Actions& out) {
  merge(now, from, gossip.members, out);
  if (view_.members.find(from) != nullptr) states_.take_figures(now, from, gossip, out);
  heard(now, from, address, out);
  if (gossip.reply_wanted)
    out.push_back(Send{view_.reply_to(from, address), rumors_.take_gossip(now, from, Rumors::Reply::none)});
}

void Membership::on(Instant now, PeerId from, const Address& address, const wire::Digest& digest,
                    Actions& out) {
  heard(now, from, address, out);
  out.push_back(Send{view_.reply_to(from, address), views_.answer(digest)});
}

void Membership::on(Instant now, PeerId from, const Address& address, const wire::View& view, Actions& out) {
  views_.adapt(now, view);
  if (view.buckets == 0) return heard(now, from, address, out);
  std::optional<wire::View> answer;
  if (view.reply_wanted) answer = views_.answer(view);
  merge(now, from, view.members, out);
  heard(now, from, address, out);
  if (answer) out.push_back(Send{view_.reply_to(from, address), std::move(*answer)});
}

void Membership::on(Instant now, PeerId from, const Address&, const wire::Leave& leave, Actions& out) {
  // Only the member itself may say goodbye, and an unknown one need not be remembered.
  if (leave.self.id != from || find(from) == nullptr) return;
  merge(now, from, {&leave.self, 1}, out);
}

void Membership::welcomed(Instant now, PeerId by, std::span<const Member> members,
                          std::uint64_t retired_samples, Actions& out, Duration elapsed) {
  view_.run_start = now - elapsed;
  view_.members.add_samples(retired_samples);
  for (const Member& member : members) {
    if (member.liveness > Liveness::suspect) {
      states_.add_dead(now, by, member, member.liveness);
    } else if (member.address && member.address == view_.self.address && member.id != by) {
      // An earlier instance of this peer whose end others have not noticed yet.
      if (Record* const dead = states_.add_dead(now, by, member, Liveness::failed)) dead->superseded = true;
    }
  }
  merge(now, by, members, out);
  for (const Member& member : members) states_.keep(now, by, member, out);
}

void Membership::assembled(Instant now, std::span<const Member> members, Actions& out) {
  const std::size_t queued = rumors_.members_queued();
  for (const Member& member : members) {
    merge(now, member.id, {&member, 1}, out);
    Record* const record = view_.members.find(member.id);
    if (record == nullptr) continue;
    record->named = true;  // however many begin, none is a stranger
    states_.heard(now, *record, out);
  }
  rumors_.shrink_to(queued);
}

void Membership::spread(Instant now, Actions& out) {
  std::vector<wire::Progress> progress{{view_.self.id, view_.self.samples}};
  for (const Record& record : others()) {
    if (progress.size() >= kSpreadMax) break;
    if (record.is_live()) progress.push_back({record.member.id, record.member.samples});
  }
  for (const PeerId id : view_.draw_live(kUrgentFanout)) {
    wire::Gossip gossip{rumors_.take_with_self(now, id), false, progress};
    rumors_.add_vitals(gossip);
    view_.tell(find(id)->member, std::move(gossip), out);
  }
}

void Membership::ask_for_samples(Instant now, std::span<const PeerId> ids, Actions& out) {
  for (const PeerId id : ids) {
    wire::Gossip gossip = rumors_.take_gossip(now, id, Rumors::Reply::wanted);
    if (std::ranges::find(gossip.members, view_.self.id, &Member::id) == gossip.members.end())
      gossip.members.push_back(view_.self);
    view_.tell(find(id)->member, std::move(gossip), out);
  }
}

// ---- exchanges ----

void Membership::exchange_aborted(Instant now, PeerId id) {
  Record* const record = view_.members.find(id);
  if (record == nullptr) return;
  const Duration pause =
      std::min(kAvoidMin * (std::int64_t{1} << std::min<int>(record->failed_exchanges, 8)), kAvoidMax);
  if (record->failed_exchanges < UINT8_MAX) ++record->failed_exchanges;
  record->avoided_until = now + varied(view_.random, pause);
}

void Membership::poisoned_by(Instant now, PeerId id, Actions& out) {
  Record* const record = view_.members.find(id);
  if (record == nullptr || ++record->poisonings < kPoisoningsMax) return;
  record->poisonings = 0;
  record->quarantined_until = now + view_.options.quarantine;
  out.push_back(Notice{Notice::What::quarantined, id, described(record->member)});
}

}  // namespace starling::gossip
