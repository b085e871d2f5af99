#include "training/exchange/two_way.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/check.h"
#include "base/hash.h"
#include "training/exchange/payload.h"

namespace starling::training {

TwoWay::TwoWay(models::Arena& arena, const MixOptions& options)
    : Mixer(arena, options.cell_floats),
      target_(arena, options.exact),
      medians_(grid_.count()),
      payload_(options.payload),
      wary_(options.wary),
      seed_(options.seed) {
  STARLING_CHECK(payload_ == Payload::f32 || payload_ == Payload::bf16 || payload_ == Payload::int8);
}

void TwoWay::adopt() {
  medians_.clear();
  loans_.clear();  // of what is no more
}

void TwoWay::lent_values(std::size_t cell, std::span<float> out) const {
  const Parcel& sent = loans_.of(cell)->sent;
  decode(payload_, sent.values, sent.floats, grid_.offset(cell) - sent.offset, out);
}

std::span<const float> TwoWay::part(std::span<const float> chunk, Cells cells, std::size_t cell) const {
  return chunk.subspan(grid_.offset(cell) - grid_.offset(cells.first), grid_.floats(cell));
}

MixResult<Parcel> TwoWay::own_parcel(const Session& session, Cells cells, MutableBytes room, bool reply) {
  const std::size_t n = floats(cells), offset = grid_.offset(cells.first);
  const MutableBytes bytes = room.first(encoded_bytes(payload_, n));
  const bool plain = payload_ == Payload::f32;
  if (!plain) own_scratch_.resize(n);
  const std::span<float> values = plain ? as_floats(bytes) : std::span(own_scratch_);
  bool acceptable = true;
  for (std::size_t cell = cells.first; cell < cells.first + cells.count; ++cell) {
    const std::span<float> out = values.subspan(grid_.offset(cell) - offset, grid_.floats(cell));
    own_values(cell, out);
    acceptable = all_acceptable(out) && acceptable;  // now, while the cell is in the L1
  }
  if (!acceptable) return own_diverged(offset);
  if (!plain) {
    encode(payload_, values, rounding_seed(seed_, session, offset, reply), bytes);
    decode(payload_, bytes, n, 0, values);
    if (!all_acceptable(values)) return own_diverged(offset);  // rounded up, out of the bound
  }
  own_ = values;
  return Parcel{.offset = offset, .floats = n, .payload = payload_, .sequence = sequence(), .values = bytes};
}

MixResult<Done> TwoWay::receive(const Parcel& parcel) {
  if (parcel.payload != payload_ || parcel.entries != 0 ||
      parcel.values.size() != encoded_bytes(payload_, parcel.floats)) {
    return wrong_payload(parcel);
  }
  if (!fits(parcel.sequence)) {
    return MixError{{"the chunk at " + std::to_string(parcel.offset) + " is of number " +
                     std::to_string(parcel.sequence) + ", expected " + std::to_string(sequence())},
                    MixFault::sequence};
  }
  if (payload_ == Payload::f32) {
    theirs_ = as_floats(parcel.values);
  } else {
    theirs_scratch_.resize(parcel.floats);
    decode(payload_, parcel.values, parcel.floats, 0, theirs_scratch_);
    theirs_ = theirs_scratch_;
  }
  return Done{};
}

MixResult<Mixed> TwoWay::judge(Cells cells) {
  const std::size_t offset = grid_.offset(cells.first);
  measures_.clear();
  Mixed mixed;
  bool acceptable = true;
  for (std::size_t cell = cells.first; cell < cells.first + cells.count; ++cell) {
    measures_.push_back(measure(part(theirs_, cells, cell), part(own_, cells, cell)));
    acceptable = acceptable && measures_.back().acceptable;
    mixed.distance_square += measures_.back().distance_square;
    mixed.norm_square += measures_.back().norm_square;
  }
  if (!acceptable) return unacceptable(offset, theirs_);
  if (wary_ && bounded() && far_off(medians_, cells, measures_)) return too_far(offset);
  return mixed;
}

void TwoWay::take_all(Cells cells, float weight) {
  bool less = false;
  for (std::size_t k = cells.count; k-- > 0;) {
    const std::size_t cell = cells.first + k;
    less = take(cell, part(theirs_, cells, cell), part(own_, cells, cell), weight, measures_[k]) || less;
    medians_.add(cell, measures_[k].distance());
  }
  if (less) ++counters_.clipped;
}

MixResult<Parcel> TwoWay::do_lend(const Session& session, Cells cells, MutableBytes room) {
  STARLING_CHECK(cells.count > 0 && cells.first + cells.count <= grid_.count());
  for (std::size_t k = 0; k < cells.count; ++k) STARLING_CHECK(!exclusive() || !lent(cells.first + k));
  auto parcel = own_parcel(session, cells, room, false);
  if (parcel) loans_.add({session.exchange, cells, *parcel});
  return parcel;
}

void TwoWay::give_up(const Session& session, const Parcel& sent) {
  loans_.finish(session, sent);
}

MixResult<Mixed> TwoWay::do_complete(const Session& session, const Parcel& sent, const Parcel& reply) {
  const auto loan = loans_.finish(session, sent);
  if (!loan) return not_lent(sent.offset);
  if (reply.payload == Payload::none || reply.weight == 0) return Mixed{};
  if (reply.offset != sent.offset || reply.floats != sent.floats) {
    return MixError{{"the reply at " + std::to_string(reply.offset) +
                     " is of another chunk than the offer at " + std::to_string(sent.offset)},
                    MixFault::shape};
  }
  if (!known_weight(reply.weight)) {
    return MixError{{"the chunk at " + std::to_string(sent.offset) + " was answered with the weight " +
                     std::to_string(reply.weight) + ", which this rule does not have"},
                    MixFault::weight};
  }
  if (auto received = receive(reply); !received) return received.error();
  if (payload_ == Payload::f32) {
    own_ = as_floats(loan->sent.values);
  } else {
    own_scratch_.resize(sent.floats);
    decode(payload_, loan->sent.values, sent.floats, 0, own_scratch_);
    own_ = own_scratch_;
  }
  const auto mixed = judge(loan->cells);
  if (mixed) take_all(loan->cells, reply.weight * session.own_share);
  return mixed;
}

MixResult<Parcel> TwoWay::do_answer(const Session& session, const Parcel& offer, MutableBytes room) {
  const auto cells = cells_of(offer);
  if (!cells) return cells.error();
  if (auto received = receive(offer); !received) return received.error();
  auto reply = own_parcel(session, *cells, room, true);
  if (!reply) return reply;
  if (const auto mixed = judge(*cells); !mixed) return mixed.error();
  reply->weight = weight(session, *cells);
  take_all(*cells, reply->weight * session.own_share);
  return reply;
}

std::uint64_t rounding_seed(std::uint64_t seed, const Session& session, std::size_t offset, bool reply) {
  const std::array<std::uint64_t, 4> parts{session.exchange, session.initiator, offset, reply};
  return hash64(std::as_bytes(std::span(parts)), seed);
}

bool far_off(Medians& medians, Cells cells, std::span<const Measure> measures) {
  double distance = 0, bound = 0;
  bool known = true;
  for (std::size_t k = 0; k < cells.count; ++k) {
    const std::size_t cell = cells.first + k;
    known = known && medians.seen(cell) >= kFarOffSeen;
    distance += measures[k].distance_square;
    const double norm_square = medians.largest_norm_square(cell, measures[k].norm_square);
    bound += std::max(16 * norm_square, 256 * std::pow(medians.median(cell), 2));
  }
  if (!known) return false;
  bound *= medians.leniency() * medians.leniency();
  if (bound == 0 || distance <= bound) return false;  // 0: nothing but zeros was ever seen
  medians.refused();
  return true;
}

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

}  // namespace starling::training
