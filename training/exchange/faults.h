// The refusals that several rules have, one sentence each.
#pragma once

#include <cstddef>
#include <span>

#include "training/exchange/mixer.h"

namespace starling::training {

MixError not_lent(std::size_t offset);
MixError own_diverged(std::size_t offset);
// Of values that all_acceptable() says no to.
MixError unacceptable(std::size_t offset, std::span<const float> theirs);
MixError too_far(std::size_t offset);
MixError wrong_payload(const Parcel& parcel);
// A reply's weight, where the rule has no such.
MixError unknown_weight(std::size_t offset, float weight);

}  // namespace starling::training
