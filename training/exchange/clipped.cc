#include "training/exchange/clipped.h"

namespace starling::training {

bool Clipped::take(std::size_t cell, std::span<const float> theirs, std::span<const float> own, float weight,
                   const Measure& measure) {
  const double distance = measure.distance(), most = tau(cell);
  const bool clipped = distance > most;
  const auto part = static_cast<float>(clipped ? most / distance : 1);
  return Pairwise::take(cell, theirs, own, weight * part, measure) || clipped;
}

}  // namespace starling::training
