#include "training/exchange/pairwise.h"

namespace starling::training {

MixResult<Parcel> Pairwise::do_answer(const Session& session, const Parcel& offer, MutableBytes room) {
  auto reply = TwoWay::do_answer(session, offer, room);
  if (reply && reply->weight == 0.25F) ++counters_.overlapped;
  return reply;
}

bool Pairwise::own_values(std::size_t cell, std::span<float> out) {
  const bool acceptable = target_.read(grid_.offset(cell), out);
  if (!lent(cell)) return acceptable;
  lent_.resize(out.size());
  lent_values(cell, lent_);
  free_half(lent_, out);
  return all_acceptable(out);
}

float Pairwise::weight(const Session& /*session*/, Cells cells) const {
  for (std::size_t k = 0; k < cells.count; ++k) {
    if (lent(cells.first + k)) return 0.25F;
  }
  return 0.5F;
}

bool Pairwise::take(std::size_t cell, std::span<const float> theirs, std::span<const float> own, float weight,
                    const Measure& /*measure*/) {
  target_.mix(grid_.offset(cell), theirs, own, weight);
  return false;
}

}  // namespace starling::training
