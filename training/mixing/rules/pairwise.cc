#include "training/mixing/rules/pairwise.h"

namespace starling::training {

MixResult<Parcel> Pairwise::do_answer(const Session& session, Cells cells, const Parcel& offer,
                                      MutableBytes room) {
  auto reply = TwoWay::do_answer(session, cells, offer, room);
  if (reply && reply->weight == 0.25F) ++counters_.overlapped;
  return reply;
}

bool Pairwise::own_values(Cells cells, std::span<float> out) {
  bool acceptable = target_.read(grid_.offset(cells.first), out);
  for (std::size_t cell = cells.first; cell < cells.first + cells.count; ++cell) {
    if (loans_.of(cell) == nullptr) continue;
    const auto free = out.subspan(grid_.offset(cell) - grid_.offset(cells.first), grid_.floats(cell));
    lent_.resize(free.size());
    lent_values(cell, lent_);
    free_half(lent_, free);
    acceptable = acceptable && all_acceptable(free);
  }
  return acceptable;
}

double Clipped::part_to_take(std::size_t cell, double distance) const {
  const double most = tau(cell), far = kFar * judge_.medians().median(cell);
  const double beyond = distance > far ? far / distance : 1;
  return (distance > most ? most / distance : 1) * beyond * beyond;
}

bool Clipped::take(Cells cells, std::span<const float> theirs, std::span<const float> own, float weight) {
  bool clipped = false;
  for (std::size_t k = cells.count; k-- > 0;) {
    const std::size_t cell = cells.first + k;
    const double distance = judge_.measure(k).distance(), part = part_to_take(cell, distance);
    target_.mix(grid_.offset(cell), grid_.part(theirs, cells, cell), grid_.part(own, cells, cell),
                weight * static_cast<float>(part));
    clipped = clipped || part < 1;
  }
  return clipped;
}

}  // namespace starling::training
