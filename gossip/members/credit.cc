#include "gossip/members/credit.h"

#include <algorithm>
#include <vector>

namespace starling::gossip {

namespace {

constexpr Duration kMedianInterval = std::chrono::seconds(1);

}  // namespace

void Credit::own(Instant now, std::uint64_t samples) {
  own_.add(now, samples);
  worked_ = add_saturated(worked_, samples - std::min(samples, own_samples_));
  own_samples_ = std::max(own_samples_, samples);
}

void Credit::meet(Instant now, Record& record) const {
  record.standing.met = now;
  record.standing.earlier = record.member.samples;
  record.standing.others_worked = worked_;
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

Credit::Verdict Credit::judge(Instant now, Record& record, std::uint64_t samples, bool by_itself,
                              bool teller_works) {
  const double speed = reference(now, record);
  const double fastest = speed > 0 ? std::max(speed, kSlowest) : kUnknown;
  const double most =
      by_itself ? limit(now, record, fastest, kOwnFactor)
                : limit(now, record, std::max(speed, record.standing.speed.per_second()), kOthersFactor);
  if (view_.options.guards.samples) {
    if (static_cast<double>(samples) > most) {
      // It may have consumed this before this peer met it.
      const double since_begin = kOwnFactor * fastest * to_seconds(now - view_.run_start);
      const bool may_be_earlier = !record.standing.speed.any() && static_cast<double>(samples) <= since_begin;
      return may_be_earlier ? Verdict::waits : Verdict::impossible;
    }
  }
  // A restarted member says little until the swarm has told it what its earlier lives consumed, and then all
  // of that at once.
  if (by_itself && samples >= record.standing.speed.count()) record.standing.speed.add(now, samples);
  if (view_.options.guards.samples && !counts(record, samples, teller_works)) return Verdict::waits;
  if (record.standing.works)
    worked_ = add_saturated(worked_, samples - std::min(samples, record.member.samples));
  return Verdict::counts;
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

// The median is of all members: one of many changes it little. With one other member there is nothing to
// compare with but this peer itself.
double Credit::reference(Instant now, const Record& except) {
  if (median_at_ + kMedianInterval <= now) {
    median_at_ = now;
    std::vector<double> speeds;
    for (const Record& record : view_.members.records())
      if (record.is_live() && record.standing.speed.per_second() > 0)
        speeds.push_back(record.standing.speed.per_second());
    median_ = 0;
    if (!speeds.empty()) {
      const auto middle = speeds.begin() + static_cast<std::ptrdiff_t>((speeds.size() - 1) / 2);
      std::ranges::nth_element(speeds, middle);
      median_ = *middle;
    }
  }
  const bool is_only_one = median_ == except.standing.speed.per_second();
  return std::max(own_.per_second(), is_only_one ? 0 : median_);
}

}  // namespace starling::gossip
