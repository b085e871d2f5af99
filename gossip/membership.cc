#include "gossip/membership.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace starling::gossip {

using wire::Liveness;
using wire::Member;

namespace {

// What peers claim is summed without ever running backwards.
std::uint64_t add_saturated(std::uint64_t a, std::uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

}  // namespace

Membership::Membership(Member self, MembershipOptions options, Random random)
    : self_(std::move(self)), options_(options), random_(random), retry_delay_(options.retry_min) {
  STARLING_CHECK(static_cast<bool>(self_.id));
}

std::uint64_t Membership::swarm_samples() const {
  return add_saturated(self_.samples, others_samples_);
}

void Membership::set_phase(wire::Phase phase) {
  STARLING_CHECK(phase >= self_.phase);
  if (phase != self_.phase) ++version_;
  self_.phase = phase;
}

void Membership::set_progress(std::uint64_t steps, std::uint64_t samples) {
  self_.steps = std::max(self_.steps, steps);
  self_.samples = std::max(self_.samples, samples);
}

const Member* Membership::find(PeerId id) const {
  const auto found = others_.find(id);
  return found == others_.end() ? nullptr : &found->second;
}

void Membership::start(Instant now) {
  // Jittered, so that peers started together do not stay in step.
  const auto jitter = [&](Duration interval) {
    return now + Duration{1} + Duration{static_cast<std::int64_t>(random_.below(interval.count()))};
  };
  next_probe_ = jitter(options_.probe_interval);
  next_gossip_ = jitter(options_.gossip_interval);
  next_retry_ = now + retry_delay_;
}

void Membership::heard(Instant now, PeerId from, std::vector<Action>& out) {
  if (probe_ && probe_->target == from) probe_.reset();
  const auto found = others_.find(from);
  if (found != others_.end() && found->second.liveness == Liveness::suspect) {
    set_liveness(now, found->second, Liveness::alive, out);
  }
}

void Membership::on_ping(Instant now, PeerId from, const Address& address, const wire::Ping& ping,
                         std::vector<Action>& out) {
  merge(now, ping.members, out);
  if (ping.target != self_.id) return;  // meant for an earlier instance at this address: it is not alive
  out.push_back(Send{address, wire::Ack{ping.sequence, news(from)}});
}

void Membership::on_gossip(Instant now, PeerId from, const Address& address, const wire::Gossip& gossip,
                           std::vector<Action>& out) {
  merge(now, gossip.members, out);
  if (gossip.reply_wanted) out.push_back(Send{address, wire::Gossip{news(from), false}});
}

void Membership::merge(Instant now, std::span<const Member> news, std::vector<Action>& out) {
  for (const auto& member : news) merge_one(now, member, out);
}

void Membership::merge_one(Instant now, const Member& news, std::vector<Action>& out) {
  if (!news.id) return;
  if (news.id == self_.id) {
    // Somebody thinks we are gone. Only we may raise our incarnation, and a higher one beats any state.
    if (news.liveness != Liveness::alive && news.incarnation >= self_.incarnation) {
      // The highest one is forged and cannot be outbid; an incarnation never runs backwards.
      self_.incarnation = std::max(news.incarnation, news.incarnation + 1);
    }
    return;
  }
  const auto [found, is_new] = others_.try_emplace(news.id, news);
  Member& known = found->second;
  if (is_new) {
    if (others_.size() > options_.members_max) {
      others_.erase(found);
      return;
    }
    others_samples_ = add_saturated(others_samples_, known.samples);
    known.liveness = Liveness::alive;
    ++live_count_;
    ++version_;
    if (is_live(news))
      out.push_back(Notice{Notice::What::joined, known.id, known.name + " at " + to_string(known.address)});
    if (news.liveness != Liveness::alive) set_liveness(now, known, news.liveness, out);
    return;
  }
  if (news.samples > known.samples) {
    others_samples_ = add_saturated(others_samples_, news.samples - known.samples);
    known.samples = news.samples;
  }
  known.steps = std::max(known.steps, news.steps);
  if (news.phase > known.phase) {
    known.phase = news.phase;
    ++version_;
  }
  const bool newer = news.incarnation > known.incarnation;
  if (newer) {
    known.incarnation = news.incarnation;
    known.address = news.address;
  }
  if (newer || (news.incarnation == known.incarnation && news.liveness > known.liveness)) {
    if (news.liveness != known.liveness) set_liveness(now, known, news.liveness, out);
  }
}

void Membership::set_liveness(Instant now, Member& member, Liveness liveness, std::vector<Action>& out) {
  const bool was_live = is_live(member);
  const Liveness before = member.liveness;
  member.liveness = liveness;
  if (was_live && !is_live(member)) --live_count_;
  if (!was_live && is_live(member)) ++live_count_;
  if (was_live != is_live(member)) ++version_;
  suspected_since_.erase(member.id);
  if (liveness == Liveness::suspect) suspected_since_[member.id] = now;
  if (liveness == Liveness::failed) {
    retry_delay_ = options_.retry_min;
    next_retry_ = std::min(next_retry_, now + retry_delay_);
  }

  Notice notice{Notice::What::recovered, member.id, member.name + " at " + to_string(member.address)};
  switch (liveness) {
    case Liveness::alive:
      notice.what = Notice::What::recovered;
      break;
    case Liveness::suspect:
      notice.what = Notice::What::suspected;
      break;
    case Liveness::failed:
      notice.what = Notice::What::failed;
      break;
    case Liveness::left:
      notice.what = Notice::What::left;
      break;
  }
  if (before != liveness) out.push_back(std::move(notice));
}

void Membership::unreachable(Instant now, const Address& address, std::vector<Action>& out) {
  for (auto& [id, member] : others_) {
    if (member.address != address || member.liveness != Liveness::alive) continue;
    set_liveness(now, member, Liveness::suspect, out);
    if (probe_ && probe_->target == id) probe_.reset();
  }
}

void Membership::tick(Instant now, std::vector<Action>& out) {
  if (probe_ && probe_->deadline <= now) {
    const auto found = others_.find(probe_->target);
    probe_.reset();
    if (found != others_.end() && found->second.liveness == Liveness::alive) {
      set_liveness(now, found->second, Liveness::suspect, out);
    }
  }
  const Duration window = suspicion_window();
  std::vector<PeerId> overdue;
  for (const auto& [id, since] : suspected_since_) {
    if (since + window <= now) overdue.push_back(id);
  }
  for (const PeerId id : overdue) set_liveness(now, others_.at(id), Liveness::failed, out);

  if (next_probe_ <= now) {
    next_probe_ = now + options_.probe_interval;
    if (!probe_) probe_next(now, out);
  }
  if (next_gossip_ <= now) {
    next_gossip_ = now + options_.gossip_interval;
    send_gossip(out);
  }
  if (next_retry_ <= now) retry_failed(now, out);
}

Instant Membership::next_deadline() const {
  Instant next = std::min({next_probe_, next_gossip_, next_retry_});
  if (probe_) next = std::min(next, probe_->deadline);
  const Duration window = suspicion_window();
  for (const auto& [id, since] : suspected_since_) next = std::min(next, since + window);
  return next;
}

std::vector<Member> Membership::news(PeerId to) {
  std::vector<Member> told{self_};
  const auto receiver = others_.find(to);
  if (receiver != others_.end()) told.push_back(receiver->second);
  if (others_.size() + 1 <= options_.news_max) {
    for (const auto& [id, member] : others_) {
      if (id != to) told.push_back(member);
    }
    return told;
  }
  // A run of members from a random place on: over many messages everyone is told about.
  auto next = others_.lower_bound(PeerId{random_.bits()});
  while (told.size() < options_.news_max) {
    if (next == others_.end()) next = others_.begin();
    if (next->first != to) told.push_back(next->second);
    ++next;
  }
  return told;
}

void Membership::say_goodbye(std::vector<Action>& out) const {
  Member self = self_;
  self.liveness = Liveness::left;
  for (const auto& [id, member] : others_) {
    if (is_live(member)) out.push_back(Send{member.address, wire::Leave{self}});
  }
}

void Membership::probe_next(Instant now, std::vector<Action>& out) {
  if (live_count_ == 0) return;
  // Everyone once a round, in an order drawn for each round: the time to detect a death is bounded (SWIM,
  // section 4.3).
  for (int round = 0; round < 2; ++round) {
    while (!probe_order_.empty()) {
      const PeerId id = probe_order_.back();
      probe_order_.pop_back();
      const auto found = others_.find(id);
      if (found == others_.end() || !is_live(found->second)) continue;
      send_ping(found->second, out);
      probe_ = Probe{id, now + options_.probe_timeout};
      return;
    }
    probe_order_ = live_others();
    random_.shuffle(std::span(probe_order_));
  }
}

void Membership::send_ping(const Member& member, std::vector<Action>& out) {
  out.push_back(Send{member.address, wire::Ping{++ping_sequence_, member.id, news(member.id)}});
}

void Membership::send_gossip(std::vector<Action>& out) {
  if (live_count_ == 0) return;
  const auto live = live_others();
  const Member& to = others_.at(live[random_.below(live.size())]);
  out.push_back(Send{to.address, wire::Gossip{news(to.id), true}});
}

void Membership::spread(std::vector<Action>& out) {
  auto live = live_others();
  random_.shuffle(std::span(live));
  if (live.size() > kUrgentFanout) live.resize(kUrgentFanout);
  for (const PeerId id : live) out.push_back(Send{others_.at(id).address, wire::Gossip{news(id), false}});
}

void Membership::retry_failed(Instant now, std::vector<Action>& out) {
  std::vector<const Member*> failed;
  for (const auto& [id, member] : others_) {
    if (member.liveness == Liveness::failed) failed.push_back(&member);
  }
  if (!failed.empty()) send_ping(*failed[random_.below(failed.size())], out);
  next_retry_ = now + from_seconds(to_seconds(retry_delay_) * random_.uniform(0.75, 1.25));
  retry_delay_ = std::min(2 * retry_delay_, options_.retry_max);
}

Duration Membership::suspicion_window() const {
  const double n = static_cast<double>(live_count_ + 1);
  return from_seconds(options_.suspicion_multiplier * std::max(1.0, std::log10(n)) *
                      to_seconds(options_.probe_interval));
}

std::vector<PeerId> Membership::live_others() const {
  std::vector<PeerId> ids;
  ids.reserve(live_count_);
  for (const auto& [id, member] : others_) {
    if (is_live(member)) ids.push_back(id);
  }
  return ids;
}

}  // namespace starling::gossip
