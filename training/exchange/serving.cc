#include "training/exchange/serving.h"

#include "base/check.h"

namespace starling::training {

void Serving::accept(Mixer& mixer, const Session& session) {
  STARLING_CHECK(!accepted() && session.exchange == exchange_);
  mixer_ = &mixer;
  session_ = session;
  cells_ = mixer.grid().part(session.part, session.parts);
}

bool Serving::expects(const Parcel& chunk) const {
  const CellGrid& grid = mixer_->grid();
  const Cells rest{cells_.first + answered_, cells_.count - answered_};
  return chunk.offset == grid.offset(rest.first) && chunk.floats <= grid.floats(rest);
}

MixResult<Parcel> Serving::take(const Parcel& chunk, MutableBytes room) {
  STARLING_CHECK(accepted());
  if (broken_) return MixError{{"a chunk came after the exchange was broken off"}, MixFault::late};
  auto reply = mixer_->answer(session_, chunk, room);
  if (reply) {
    answered_ += mixer_->grid().cells_in(chunk.floats);
  } else {
    broken_ = true;
    poisoned_ = reply.error().poisoned();
  }
  return reply;
}

}  // namespace starling::training
