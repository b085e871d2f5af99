#include "training/exchange/clipped.h"

namespace starling::training {

bool Clipped::take(Cells cells, std::span<const float> theirs, std::span<const float> own, float weight) {
  bool clipped = false;
  for (std::size_t k = cells.count; k-- > 0;) {
    const std::size_t cell = cells.first + k;
    const double distance = judge_.measure(k).distance(), most = tau(cell);
    const auto part = static_cast<float>(distance > most ? most / distance : 1);
    target_.mix(grid_.offset(cell), grid_.part(theirs, cells, cell), grid_.part(own, cells, cell),
                weight * part);
    clipped = clipped || distance > most;
  }
  return clipped;
}

}  // namespace starling::training
