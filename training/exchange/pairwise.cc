#include "training/exchange/pairwise.h"

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
    if (!lent(cell)) continue;
    const auto free = out.subspan(grid_.offset(cell) - grid_.offset(cells.first), grid_.floats(cell));
    lent_.resize(free.size());
    lent_values(cell, lent_);
    free_half(lent_, free);
    acceptable = acceptable && all_acceptable(free);
  }
  return acceptable;
}

bool Pairwise::any_lent(Cells cells) const {
  for (std::size_t k = 0; k < cells.count; ++k) {
    if (lent(cells.first + k)) return true;
  }
  return false;
}

float Pairwise::weight(const Session& /*session*/, Cells cells) const {
  return any_lent(cells) ? 0.25F : 0.5F;
}

bool Pairwise::take(Cells cells, std::span<const float> theirs, std::span<const float> own, float weight) {
  target_.mix(grid_.offset(cells.first), theirs, own, weight);
  return false;
}

}  // namespace starling::training
