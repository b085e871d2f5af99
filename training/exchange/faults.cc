#include "training/exchange/faults.h"

#include <string>

#include "training/exchange/values.h"

namespace starling::training {

MixError not_lent(std::size_t offset) {
  return {{"the chunk at " + std::to_string(offset) + " is not lent: the reply comes too late"},
          MixFault::late};
}

MixError own_diverged(std::size_t offset) {
  return {
      {"this replica's own chunk at " + std::to_string(offset) + " holds a value beyond 2^60 or none at all"},
      MixFault::own_replica};
}

MixError unacceptable(std::size_t offset, std::span<const float> theirs) {
  const bool finite = all_finite(theirs);
  return {{"the chunk at " + std::to_string(offset) +
           (finite ? " holds a value beyond 2^60" : " holds a value that is not finite")},
          finite ? MixFault::too_large : MixFault::not_finite};
}

MixError too_far(std::size_t offset) {
  return {{"the chunk at " + std::to_string(offset) +
           " is farther from this replica than any honest partner's has been"},
          MixFault::far_off};
}

MixError wrong_payload(const Parcel& parcel) {
  return {{"the chunk at " + std::to_string(parcel.offset) + " of " + std::to_string(parcel.floats) +
           " floats came as " + std::to_string(parcel.values.size()) + " bytes of payload " +
           std::to_string(static_cast<int>(parcel.payload)) + ", which is not this run's"},
          MixFault::shape};
}

MixError unknown_weight(std::size_t offset, float weight) {
  return {{"the chunk at " + std::to_string(offset) + " was answered with the weight " +
           std::to_string(weight) + ", which this rule does not have"},
          MixFault::weight};
}

}  // namespace starling::training
