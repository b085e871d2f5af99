#include "gossip/members/credit.h"

#include <algorithm>
#include <vector>

namespace starling::gossip {

namespace {

constexpr Duration kMedianInterval = std::chrono::seconds(1);

}  // namespace

void Credit::own(Instant now, std::uint64_t samples) { own_.add(now, samples); }

bool Credit::accept(Instant now, Record& record, std::uint64_t samples, bool by_itself) {
  const double speed = reference(now, record);
  const double most = by_itself
                          ? limit(now, record, speed > 0 ? std::max(speed, kSlowest) : kUnknown, kOwnFactor)
                          : limit(now, record, std::max(speed, record.speed.per_second()), kOthersFactor);
  if (view_.options.guards.samples && static_cast<double>(samples) > most) return false;
  // A restarted member says little until the swarm has told it what its earlier lives consumed, and then all
  // of that at once.
  if (by_itself && samples >= record.speed.count()) record.speed.add(now, samples);
  return true;
}

double Credit::limit(Instant now, const Record& record, double speed, double factor) const {
  // A member that has not said anything yet may have trained since the run began.
  const Instant since = record.speed.any() ? record.speed.since() : std::min(view_.run_start, now);
  const auto base = static_cast<double>(add_saturated(record.speed.any() ? record.speed.count() : 0, kSlack));
  return base + factor * speed * to_seconds(now - since);
}

// The median is of all members: one of many changes it little. With one other member there is nothing to
// compare with but this peer itself.
double Credit::reference(Instant now, const Record& except) {
  if (median_at_ + kMedianInterval <= now) {
    median_at_ = now;
    std::vector<double> speeds;
    for (const Record& record : view_.members.records())
      if (record.is_live() && record.speed.per_second() > 0) speeds.push_back(record.speed.per_second());
    median_ = 0;
    if (!speeds.empty()) {
      const auto middle = speeds.begin() + static_cast<std::ptrdiff_t>((speeds.size() - 1) / 2);
      std::ranges::nth_element(speeds, middle);
      median_ = *middle;
    }
  }
  const bool is_only_one = median_ == except.speed.per_second();
  return std::max(own_.per_second(), is_only_one ? 0 : median_);
}

}  // namespace starling::gossip
