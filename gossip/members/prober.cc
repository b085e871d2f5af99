#include "gossip/members/prober.h"

namespace starling::gossip {

namespace {

constexpr std::size_t kProbesMax = 16;
constexpr Duration kLateAnswers = std::chrono::seconds(10);  // measured for this long after the verdict

// Jacobson's estimator (RFC 6298, section 2).
void measure_round_trip(RoundTrip& known, Duration measured) {
  if (known.mean.count() == 0) {
    known = {measured, measured / 2};
    return;
  }
  const Duration error = std::chrono::abs(measured - known.mean);
  known.deviation += (error - known.deviation) / 4;
  known.mean += (measured - known.mean) / 8;
}

}  // namespace

Duration answer_limit(const Record& record, Duration lag, Duration probe_interval) {
  Duration limit = probe_interval / 2;
  const RoundTrip& known = record.round_trip;
  if (known.mean.count() > 0) limit = std::max(known.mean + 4 * known.deviation, probe_interval / 10);
  return std::min(limit + 2 * lag, 4 * probe_interval);
}

void Prober::slept(Duration late) {
  lag_ += (late - lag_) / 8;
  for (Probe& probe : probes_) {
    probe.ask_helpers = probe.ask_helpers + late;
    probe.verdict = probe.verdict + late;
  }
}

void Prober::probe_next(Instant now, Actions& out) {
  next_ = now + view_.options.probe_interval;
  if (view_.members.live() == 0) return;
  for (int round = 0; round < 2; ++round) {
    while (!order_.empty()) {
      Record* const record = view_.members.find(order_.back());
      order_.pop_back();
      if (record != nullptr && record->is_live()) return begin(now, *record, Helpers::asked, out);
    }
    for (const Record& record : view_.members.records())
      if (record.is_live()) order_.push_back(record.member.id);
    view_.random.shuffle(std::span(order_));
  }
}

void Prober::begin(Instant now, Record& record, Helpers helpers, Actions& out) {
  if (probes_.size() >= kProbesMax) probes_.erase(probes_.begin());
  const Duration interval = view_.options.probe_interval;
  const Duration limit = answer_limit(record, lag_, interval);
  const PeerId id = record.member.id;
  const bool is_told = view_.can_tell(record.member);
  probes_.push_back({id, ++view_.last_sequence, now, now + limit, now + std::max(interval, 2 * limit),
                     helpers == Helpers::none || !is_told});
  if (is_told)
    view_.tell(record.member, wire::Ping{view_.last_sequence, id, rumors_.take_with_self(now, id)}, out);
  else
    ask_helpers(probes_.back(), record.member, out);
}

std::optional<PeerId> Prober::advance(Instant now, Actions& out) {
  for (Probe& probe : probes_) {
    if (probe.over) continue;
    const Record* const record = view_.members.find(probe.target);
    if (record == nullptr || !record->is_live()) {
      probe.over = true;
      continue;
    }
    if (!probe.asked && probe.ask_helpers <= now) {
      probe.asked = true;
      ask_helpers(probe, record->member, out);
    }
    if (probe.verdict <= now) {
      probe.over = true;
      return probe.target;
    }
  }
  std::erase_if(probes_,
                [&](const Probe& probe) { return probe.over && probe.verdict + kLateAnswers < now; });
  return std::nullopt;
}

void Prober::ask_helpers(const Probe& probe, const wire::Member& target, Actions& out) {
  std::vector<PeerId> helpers = target.homes;
  for (const PeerId id : view_.draw_live(view_.options.helpers + 1))
    if (std::ranges::find(target.homes, id) == target.homes.end()) helpers.push_back(id);
  std::size_t asked = 0;
  for (const PeerId id : helpers) {
    const Record* const helper = view_.members.find(id);
    if (helper == nullptr || id == probe.target || asked == view_.options.helpers) continue;
    if (helper->member.liveness != wire::Liveness::alive || !view_.can_tell(helper->member)) continue;
    ++asked;
    view_.tell(helper->member, wire::PingRequest{probe.sequence, probe.target, target.address, {view_.self}},
               out);
  }
}

PeerId Prober::answered(Instant now, PeerId from, const wire::Ack& ack, Actions& out) {
  if (ack.on_behalf) {
    Record* const target = view_.members.find(ack.on_behalf);
    const auto is_meant = [&](const Probe& it) {
      return it.sequence == ack.sequence && it.target == ack.on_behalf && !it.over;
    };
    const auto probe = std::ranges::find_if(probes_, is_meant);
    if (probe == probes_.end() || target == nullptr || !view_.has_answered(target->member.key, ack))
      return {};
    probe->over = true;
    if (!view_.can_tell(target->member))  // there is no shorter way
      measure_round_trip(target->round_trip, std::max(now - probe->sent, Duration{1}));
    return ack.on_behalf;
  }
  const auto meant = [&](const auto& it) { return it.sequence == ack.sequence && it.target == from; };
  const auto probe = std::ranges::find_if(probes_, meant);
  Record* const record = view_.members.find(from);
  if (probe != probes_.end() && record != nullptr) {
    measure_round_trip(record->round_trip, std::max(now - probe->sent, Duration{1}));
    probes_.erase(probe);
  }
  const auto relay = std::ranges::find_if(relays_, meant);
  if (relay != relays_.end()) {
    out.push_back(Send{relay->requester, wire::Ack{relay->requested, {}, from, ack.signature}});
    relays_.erase(relay);
  }
  return {};
}

Instant Prober::next_deadline() const {
  Instant next = next_;
  for (const Probe& probe : probes_)
    if (!probe.over) next = std::min(next, probe.asked ? probe.verdict : probe.ask_helpers);
  return next;
}

void Retries::tick(Instant now, Actions& out) {
  if (next_ > now) return;
  constexpr std::size_t kRetriesMax = 3;  // of each kind at a time
  std::vector<const wire::Member*> failed;
  for (const Record& record : view_.members.records()) {
    const bool is_lost = record.member.liveness == wire::Liveness::failed && !record.superseded;
    if (is_lost && record.member.address)  // others come back by themselves
      failed.push_back(&record.member);
  }
  for (std::size_t k = 0; k < kRetriesMax && !failed.empty(); ++k) {
    const std::size_t drawn = view_.random.below(failed.size());
    const wire::Member& member = *failed[drawn];
    // Without a target, so that any instance at this address answers. A member that is back finds out that
    // others consider it failed.
    out.push_back(Send{{{}, member.address}, wire::Ping{++view_.last_sequence, {}, {member, view_.self}}});
    failed[drawn] = failed.back();
    failed.pop_back();
  }
  for (std::size_t k = 0; k < kRetriesMax && k < contacts_.size(); ++k) {
    const Address& address = contacts_[view_.random.below(contacts_.size())];
    const bool met = std::ranges::any_of(view_.members.records(), [&](const Record& record) {
      return record.is_live() && record.member.address == address;
    });
    if (!met) out.push_back(Send{{{}, address}, wire::Ping{++view_.last_sequence, {}, {view_.self}}});
  }
  next_ = now + varied(view_.random, delay_);
  delay_ = view_.options.retry.next(delay_);
}

}  // namespace starling::gossip
