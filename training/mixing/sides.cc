#include "training/mixing/sides.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace starling::training {

Offering::Offering(Mixer& mixer, const Session& session, std::uint64_t& half_applied)
    : mixer_(mixer),
      session_(session),
      half_applied_(half_applied),
      cells_(mixer.grid().part(session.part, session.parts)),
      ending_(cells_.count == 0 ? Ending::completed : Ending::none) {}

Cells Offering::next(std::size_t cells_max) const {
  return {cells_.first + lent_, over() ? 0 : std::min(cells_max, cells_.count - lent_)};
}

MixResult<Parcel> Offering::lend(Cells cells, MutableBytes room) {
  STARLING_CHECK(cells.count > 0 && cells == next(cells.count));
  const auto sent = mixer_.lend(session_, cells, room);
  if (!sent) return sent;
  lent_ += cells.count;
  in_flight_.push_back({*sent, cells});
  return sent;
}

MixResult<Mixed> Offering::take(const Parcel& reply) {
  if (over() || in_flight_.empty()) {
    end(Ending::aborted);
    return MixError{{"a reply at " + std::to_string(reply.offset) + " came while none was due"},
                    MixFault::late};
  }
  const Chunk chunk = std::move(in_flight_.front());
  in_flight_.erase(in_flight_.begin());
  const auto mixed = mixer_.complete(session_, chunk.sent, reply);
  if (mixed) {
    answered(chunk.cells);
  } else {
    ++half_applied_;
    end(mixed.error().poisoned() ? Ending::poisoned : Ending::aborted);
  }
  return mixed;
}

void Offering::skip() {
  STARLING_CHECK(!in_flight_.empty());
  const Chunk chunk = std::move(in_flight_.front());
  in_flight_.erase(in_flight_.begin());
  mixer_.give_up(session_, chunk.sent);
  answered(chunk.cells);
}

void Offering::answered(Cells cells) {
  answered_ += cells.count;
  if (answered_ == cells_.count) end(Ending::completed);
}

bool Offering::report_due() {
  const std::size_t sixteenth = std::max<std::size_t>(1, cells_.count / 16);
  if (answered_ == reported_ || (answered_ < reported_ + sixteenth && answered_ < cells_.count)) return false;
  reported_ = answered_;
  return true;
}

void Offering::refuse() { end(answered_ == 0 ? Ending::rejected : Ending::aborted); }

void Offering::abort() { end(Ending::aborted); }

void Offering::end(Ending ending) {
  if (over()) return;
  ending_ = ending;
  for (const Chunk& chunk : std::exchange(in_flight_, {})) {
    if (ending == Ending::rejected) {
      mixer_.take_back(session_, chunk.sent);
    } else {
      mixer_.give_up(session_, chunk.sent);
      ++half_applied_;
    }
  }
}

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
