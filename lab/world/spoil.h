// What a poisoned machine does to a chunk on its way out, in whatever payload it travels.
#pragma once

#include <span>

#include "base/random.h"
#include "lab/world/faults.h"
#include "training/exchange/mixer.h"

namespace starling::lab {

// Puts one to three values that may not touch a replica into the parcel, whose values lie in `bytes`.
// REQUIRES: kind < PoisonKind::noise; the parcel holds values.
void put_poison(PoisonKind kind, const training::Parcel& parcel, MutableBytes bytes, Random& random);

// Replaces all values by a lie. `first` begins with the first parameters of the chunk's floats.
// REQUIRES: kind >= PoisonKind::noise.
void tell_lie(PoisonKind kind, const training::Parcel& parcel, MutableBytes bytes, std::span<const float> first,
              Random& random);

}  // namespace starling::lab
