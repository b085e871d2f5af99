#include "gossip/shares.h"

#include <algorithm>

namespace starling::gossip {

namespace {

constexpr double kLeast = 1.0 / 64;  // with a share of 0 the exchange would have no effect
constexpr double kWorkTolerated = 2;
constexpr double kAgeTolerated = 8;

}  // namespace

float own_share(Shares shares, Instant now, const wire::Member& self, const Record& partner) {
  double share = 1;
  if (shares == Shares::work && self.samples > 0)
    share = kWorkTolerated * static_cast<double>(partner.member.samples) / static_cast<double>(self.samples);
  const Duration age = now - partner.samples_at;
  if (shares == Shares::age && partner.samples_every.count() > 0 && age.count() > 0)
    share = kAgeTolerated * to_seconds(partner.samples_every) / to_seconds(age);
  return static_cast<float>(std::clamp(share, kLeast, 1.0));
}

}  // namespace starling::gossip
