#include "training/mixing/judge.h"

#include <string>

#include "base/check.h"

namespace starling::training {

MixError not_lent(std::size_t offset) {
  return {{"the chunk at " + std::to_string(offset) + " is not lent: the reply comes too late"},
          MixFault::late};
}

MixError own_diverged(std::size_t offset) {
  return {{"this replica's own chunk at " + std::to_string(offset) +
           " holds a value beyond 2^60 or one that is not finite"},
          MixFault::own_replica};
}

MixError unacceptable(std::size_t offset, std::span<const float> theirs) {
  const bool finite = all_finite(theirs);
  return {{"the chunk at " + std::to_string(offset) +
           (finite ? " holds a value beyond 2^60" : " holds a value that is not finite")},
          finite ? MixFault::too_large : MixFault::not_finite};
}

MixError wrong_payload(const Parcel& parcel) {
  return {{"the chunk at " + std::to_string(parcel.offset) + " of " + std::to_string(parcel.floats) +
           " floats came as " + std::to_string(parcel.values.size()) + " bytes of payload " +
           std::to_string(static_cast<int>(parcel.payload)) + ", which is not this run's"},
          MixFault::shape};
}

MixError other_chunk(const Parcel& sent, const Parcel& reply) {
  return {{"the reply at " + std::to_string(reply.offset) + " is of another chunk than the one sent at " +
           std::to_string(sent.offset)},
          MixFault::shape};
}

MixError unknown_weight(std::size_t offset, float weight) {
  return {{"the chunk at " + std::to_string(offset) + " was answered with the weight " +
           std::to_string(weight) + ", which this rule does not have"},
          MixFault::weight};
}

void Judge::begin(Cells cells) {
  cells_ = cells;
  measures_.clear();
}

void Judge::add(std::span<const float> theirs, std::span<const float> own) {
  measures_.push_back(training::measure(theirs, own));
}

MixResult<Mixed> Judge::verdict(const Session& session, std::span<const float> theirs) {
  STARLING_CHECK(measures_.size() == cells_.count);
  const std::size_t offset = grid_.offset(cells_.first);
  Mixed mixed;
  bool acceptable = true;
  for (const Measure& measure : measures_) {
    acceptable = acceptable && measure.acceptable;
    mixed.distance_square += measure.distance_square;
    mixed.norm_square += measure.norm_square;
  }
  if (!acceptable) return unacceptable(offset, theirs);
  if (wary_ && far_off(session)) {
    return MixError{{"the chunk at " + std::to_string(offset) +
                     " is farther from this replica than any honest partner's has been"},
                    MixFault::far_off};
  }
  return mixed;
}

MixResult<Mixed> Judge::judge(const Session& session, Cells cells, std::span<const float> theirs,
                              std::span<const float> own) {
  begin(cells);
  for (std::size_t cell = cells.first; cell < cells.first + cells.count; ++cell) {
    add(grid_.part(theirs, cells, cell), grid_.part(own, cells, cell));
  }
  return verdict(session, theirs);
}

void Judge::remember(const Session& session) {
  for (std::size_t k = 0; k < cells_.count; ++k)
    medians_.add(cells_.first + k, session, measures_[k].distance());
}

bool Judge::far_off(const Session& session) {
  const auto largest_norm_square = [this](std::size_t k) {
    return medians_.largest_norm_square(cells_.first + k, measures_[k].norm_square);
  };
  const double leniency = medians_.leniency() * medians_.leniency();
  double distance = 0, least_bound = 0;
  bool known = true;
  for (std::size_t k = 0; k < cells_.count; ++k) {
    known = known && medians_.seen(cells_.first + k) >= kFarOffSeen;
    distance += measures_[k].distance_square;
    least_bound += 16 * largest_norm_square(k);
  }
  if (!known || distance <= least_bound * leniency) return false;  // usually: medians only raise the bound
  double bound = 0;
  for (std::size_t k = 0; k < cells_.count; ++k) {
    const double median = medians_.median(cells_.first + k);
    bound += std::max(16 * largest_norm_square(k), 256 * median * median);
  }
  bound *= leniency;
  if (bound == 0 || distance <= bound) return false;  // 0: all values so far were zeros
  medians_.refused(session);
  return true;
}

}  // namespace starling::training
