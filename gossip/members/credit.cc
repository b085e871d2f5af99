#include "gossip/members/credit.h"

#include <algorithm>
#include <vector>

namespace starling::gossip {

namespace {

constexpr Duration kSpeedsInterval = std::chrono::seconds(1);
constexpr double kLeastSeconds = 0.05;  // over which a speed is measured

}  // namespace

void Credit::own(Instant now, std::uint64_t samples) {
  own_.add(now, samples);
  worked_ = add_saturated(worked_, samples - std::min(samples, own_samples_));
  own_samples_ = std::max(own_samples_, samples);
}

// In its first second from the samples since its first step.
double Credit::own_speed(Instant now) const {
  if (own_.per_second() > 0 || !own_.any()) return own_.per_second();
  const auto since = static_cast<double>(own_samples_ - std::min(own_samples_, own_.count()));
  return since / std::max(to_seconds(now - own_.since()), kLeastSeconds);
}

void Credit::meet(Instant now, Record& record) const {
  record.standing.met = now;
  record.standing.earlier = record.member.samples;
  record.standing.welcomed = record.member.samples > 0;
  record.standing.others_worked = worked_;
  record.standing.all_before = all();
  record.standing.allowed_at = now;
}

void Credit::vouch(Instant now, Record& record, PeerId teller, std::uint64_t samples) {
  if (now > record.standing.met + kMeeting) return;
  if (teller != record.standing.voucher && record.standing.vouched > 0) {
    const std::uint64_t both = std::min(samples, record.standing.vouched);
    const double most = kOthersFactor * reference(now, record) * to_seconds(now - view_.run_start);
    if (static_cast<double>(both) <= most) record.standing.earlier = std::max(record.standing.earlier, both);
  }
  if (samples > record.standing.vouched) {
    record.standing.voucher = teller;
    record.standing.vouched = samples;
  }
}

Credit::Verdict Credit::judge(Instant now, Record& record, std::uint64_t& samples, bool by_itself,
                              bool teller_works) {
  const double speed = reference(now, record);
  const double possible = speed > 0 ? std::max(speed, kSlowest) : kUnknown;
  const std::uint64_t waiting =
      record.standing.claimed - std::min(record.standing.claimed, record.standing.speed.count());
  const double most =
      by_itself ? limit(now, record, possible, kImpossible) + static_cast<double>(waiting)
                : limit(now, record, std::max(speed, record.standing.speed.per_second()), kOthersFactor);
  if (view_.options.guards.samples) {
    if (static_cast<double>(samples) > most) {
      // It may have consumed this before this peer met it.
      const double since_begin = kImpossible * possible * to_seconds(now - view_.run_start);
      const bool may_be_earlier = !record.standing.speed.any() && static_cast<double>(samples) <= since_begin;
      return may_be_earlier ? Verdict::waits : Verdict::impossible;
    }
    if (by_itself) {
      record.standing.claimed = std::max(record.standing.claimed, samples);
      samples = std::min(samples, allowed(now, record));
    }
  }
  // A restarted member says little until the swarm has told it what its earlier lives consumed, and then all
  // of that at once.
  if (by_itself && samples >= record.standing.speed.count()) record.standing.speed.add(now, samples);
  if (view_.options.guards.samples && !counts(record, samples, teller_works)) return Verdict::waits;
  const std::uint64_t grown = samples - std::min(samples, record.member.samples);
  if (record.standing.works) worked_ = add_saturated(worked_, grown);
  const std::uint64_t counted = std::max(record.member.samples, record.standing.earlier);
  record.standing.allowed -= static_cast<double>(samples - std::min(samples, counted));
  return Verdict::counts;
}

// What a member may count by its own word: this grows by kOwnFactor times the fastest speed, and is at most
// what that makes in kMeeting ahead of what counts.
std::uint64_t Credit::allowed(Instant now, Record& record) {
  Standing& standing = record.standing;
  const double speed = fastest(now, record);
  const bool is_early = now < std::max(standing.met, view_.run_start) + kMeeting;
  const double factor =
      std::clamp(kOwnFactor * standing.exchanges / kExchangesForMore, kOwnFactor, kImpossible);
  const double a_second = (view_.exchanges ? factor : kImpossible) * (speed > 0  ? speed
                                                                      : is_early ? kEarly
                                                                                 : 0);
  const auto counted = static_cast<double>(std::max(record.member.samples, standing.earlier));
  standing.allowed += a_second * to_seconds(now - standing.allowed_at);
  standing.allowed_at = now;
  standing.allowed = std::clamp(standing.allowed, 0.0, a_second * to_seconds(kMeeting) + kSlack);
  const double most = counted + standing.allowed;
  return most < 0x1p63 ? static_cast<std::uint64_t>(most) : UINT64_MAX;
}

bool Credit::counts(const Record& record, std::uint64_t samples, bool teller_works) const {
  if (samples <= record.member.samples) return true;
  if (record.observes || record.member.phase == wire::Phase::joining) return false;
  if (!view_.exchanges || teller_works) return true;
  return samples - std::min(samples, add_saturated(record.standing.earlier, kSlack)) <=
         worked_ - record.standing.others_worked;
}

double Credit::limit(Instant now, const Record& record, double speed, double factor) const {
  const Instant since = record.standing.speed.any() ? record.standing.speed.since() : record.standing.met;
  const std::uint64_t said =
      record.standing.speed.any() ? record.standing.speed.count() : record.standing.earlier;
  const auto base = static_cast<double>(add_saturated(said, kSlack));
  return base + factor * speed * to_seconds(now - since);
}

void Credit::look_at_speeds(Instant now) {
  if (speeds_at_ + kSpeedsInterval > now) return;
  speeds_at_ = now;
  median_ = fastest_ = second_ = 0;
  std::vector<double> speeds;
  for (const Record& record : view_.members.records()) {
    const double speed = record.standing.speed.per_second();
    if (!record.is_live() || speed == 0) continue;
    speeds.push_back(speed);
    if (!record.standing.works || speed <= second_) continue;
    second_ = std::min(speed, std::max(fastest_, second_));
    if (speed > fastest_) fastest_ = speed, first_ = record.member.id;
  }
  if (speeds.empty()) return;
  const auto middle = speeds.begin() + static_cast<std::ptrdiff_t>((speeds.size() - 1) / 2);
  std::ranges::nth_element(speeds, middle);
  median_ = *middle;
}

// The median is of all members: one of many changes it little. With one other member there is nothing to
// compare with but this peer itself.
double Credit::reference(Instant now, const Record& except) {
  look_at_speeds(now);
  const bool is_only_one = median_ == except.standing.speed.per_second();
  return std::max(own_speed(now), is_only_one ? 0 : median_);
}

// Where members do not exchange with one another, nobody is known to work.
double Credit::fastest(Instant now, const Record& except) {
  if (!view_.exchanges) return reference(now, except);
  look_at_speeds(now);
  return std::max(own_speed(now), first_ == except.member.id ? second_ : fastest_);
}

std::uint64_t Credit::lead(Instant now, const Record& record) {
  const Standing& standing = record.standing;
  if (standing.welcomed || 2 * (now - standing.met) >= now - view_.run_start) return 0;
  const std::uint64_t since = record.member.samples - std::min(record.member.samples, standing.earlier);
  const double others = fastest(now, record) * to_seconds(now - standing.met);
  const bool leads = since > kSlack && since > (all() - std::min(all(), standing.all_before)) / 2 &&
                     static_cast<double>(since) > kOthersFactor * others;
  return leads ? since : 0;
}

}  // namespace starling::gossip
