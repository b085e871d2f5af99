#include "gossip/health.h"

#include <array>
#include <cstdio>

namespace starling::gossip {

namespace {

std::string figure(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data();
}

}  // namespace

void Health::measured(Instant now, double loss) {
  loss_ = loss;
  best_ = best_ == 0 ? std::max(loss, kLeast) : std::max(std::min(best_, loss), kLeast);
  if (loss <= kTimes * best_) {
    high_since_.reset();
    if (is_good() && not_before_ + pause_ < now) pause_ = kPause;
  } else if (!high_since_) {
    high_since_ = now;
  }
}

void Health::ended(Instant now, PeerId partner, bool quarantined) {
  std::erase_if(verdicts_, [now](const auto& it) { return it.second.at + kPatience < now; });
  verdicts_[partner] = {now, quarantined};
}

std::optional<std::string> Health::complaint(Instant now) const {
  if (now < not_before_) return std::nullopt;
  if (high_since_ && *high_since_ + kPatience <= now)
    return "this peer's own loss has been far above its best for a minute (" + figure(loss_) + ", after " +
           figure(best_) + ")";
  const auto refusing = static_cast<std::size_t>(std::ranges::count_if(
      verdicts_, [now](const auto& it) { return it.second.quarantined && it.second.at + kPatience >= now; }));
  if (refusing >= 2 && 2 * refusing > verdicts_.size())
    return "most partners refuse this peer, because it sent them unusable parameters";
  return std::nullopt;
}

void Health::replaced(Instant now) {
  high_since_.reset();
  verdicts_.clear();
  not_before_ = now + pause_;
  pause_ = std::min(2 * pause_, kLongestPause);
}

}  // namespace starling::gossip
