#include "training/exchange/serving.h"

#include <string>

#include "base/check.h"

namespace starling::training {

void Serving::accept(Mixer& mixer, const Session& session) {
  STARLING_CHECK(!accepted() && session.exchange == exchange_);
  mixer_ = &mixer;
  session_ = session;
  cells_ = mixer.grid().part(session.part, session.parts);
}

MixResult<Parcel> Serving::take(const Parcel& chunk, MutableBytes room) {
  STARLING_CHECK(accepted());
  const CellGrid& grid = mixer_->grid();
  const Cells rest{cells_.first + answered_, cells_.count - answered_};
  if (broken_ || chunk.offset != grid.offset(rest.first) || chunk.floats > grid.floats(rest)) {
    broken_ = true;
    return MixError{{"the chunk at " + std::to_string(chunk.offset) + " of " + std::to_string(chunk.floats) +
                     " floats does not continue the exchange at " + std::to_string(grid.offset(rest.first))},
                    MixFault::sequence};
  }
  auto reply = mixer_->answer(session_, chunk, room);
  if (reply) {
    answered_ += grid.cells_in(chunk.floats);
  } else {
    broken_ = true;
    poisoned_ = reply.error().poisoned();
  }
  return reply;
}

}  // namespace starling::training
