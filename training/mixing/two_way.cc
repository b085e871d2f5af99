#include "training/mixing/two_way.h"

#include <string>

#include "base/check.h"

namespace starling::training {

TwoWay::TwoWay(models::Arena& arena, const MixOptions& options, bool bounded)
    : RuleMixer(arena, options, bounded) {
  STARLING_CHECK(is_dense(payload_));
}

void TwoWay::lent_values(std::size_t cell, std::span<float> out) const {
  const Loan& loan = *loans_.of(cell);
  decode_values(loan.sent.values, loan.cells, {cell, 1}, out);
}

bool TwoWay::encode_own(Cells cells, std::uint64_t seed, MutableBytes bytes) {
  if (own_are_arenas(cells)) {
    const auto acceptable =
        target_.read_encoded(grid_.offset(cells.first), grid_.floats(cells), payload_, seed, bytes);
    if (acceptable) return *acceptable;
  }
  if (!own_values(cells, own_)) return false;
  encode_values(cells, own_, seed, bytes);
  return true;
}

MixResult<Parcel> TwoWay::own_parcel(const Session& session, Cells cells, MutableBytes room, bool reply) {
  const std::size_t n = grid_.floats(cells), offset = grid_.offset(cells.first);
  const MutableBytes bytes = room.first(encoded_bytes(payload_, n));
  if (payload_ == Payload::f32) {
    if (!own_values(cells, as_floats(bytes))) return own_diverged(offset);
  } else {
    own_.resize(n);
    if (!encode_own(cells, rounding_seed(seed_, session, offset, reply), bytes)) return own_diverged(offset);
    decode_values(bytes, cells, cells, own_);
    if (!all_acceptable(own_)) return own_diverged(offset);  // rounded up, beyond the bound
  }
  return Parcel{.offset = offset, .floats = n, .payload = payload_, .sequence = sequence_, .values = bytes};
}

MixResult<Done> TwoWay::check_parcel(const Parcel& parcel) const {
  if (auto shape = check_dense(parcel, payload_); !shape) return shape;
  if (!in_order_ || parcel.sequence == sequence_) return Done{};
  return MixError{{"the chunk at " + std::to_string(parcel.offset) + " is of number " +
                   std::to_string(parcel.sequence) + ", expected " + std::to_string(sequence_)},
                  MixFault::sequence};
}

std::span<const float> TwoWay::view(const Parcel& parcel, const Floats& scratch) const {
  return payload_ == Payload::f32 ? as_floats(parcel.values) : std::span<const float>(scratch);
}

std::span<const float> TwoWay::decoded(Cells cells, const Parcel& parcel, Floats& scratch) const {
  if (payload_ != Payload::f32) {
    scratch.resize(parcel.floats);
    decode_values(parcel.values, cells, cells, scratch);
  }
  return view(parcel, scratch);
}

bool TwoWay::take(Cells cells, std::span<const float> theirs, std::span<const float> own, float weight) {
  target_.mix(grid_.offset(cells.first), theirs, own, weight);
  return false;
}

MixResult<Mixed> TwoWay::mix(const Session& session, Cells cells, std::span<const float> theirs,
                             std::span<const float> own, float weight) {
  const auto mixed = judge_.judge(session, cells, theirs, own);
  if (!mixed) return mixed;
  if (take(cells, theirs, own, weight * session.own_share)) ++counters_.clipped;
  judge_.remember(session);
  return mixed;
}

MixResult<Parcel> TwoWay::do_lend(const Session& session, Cells cells, MutableBytes room) {
  STARLING_CHECK(cells.count > 0 && cells.first + cells.count <= grid_.count());
  STARLING_CHECK(!exclusive_ || !loans_.any_in(cells));
  auto parcel = own_parcel(session, cells, room, false);
  if (parcel) loans_.add({session.exchange, cells, *parcel});
  return parcel;
}

MixResult<Mixed> TwoWay::do_complete(const Session& session, const Parcel& sent, const Parcel& reply) {
  const auto loan = loans_.finish(session, sent);
  if (!loan) return not_lent(sent.offset);
  if (reply.payload == Payload::none || reply.weight == 0) return Mixed{};
  if (reply.offset != sent.offset || reply.floats != sent.floats) return other_chunk(sent, reply);
  if (!known_weight(reply.weight)) return unknown_weight(sent.offset, reply.weight);
  if (auto fits = check_parcel(reply); !fits) return fits.error();
  return mix(session, loan->cells, decoded(loan->cells, reply, theirs_),
             decoded(loan->cells, loan->sent, own_), reply.weight);
}

MixResult<Parcel> TwoWay::do_answer(const Session& session, Cells cells, const Parcel& offer,
                                    MutableBytes room) {
  if (auto fits = check_parcel(offer); !fits) return fits.error();
  auto reply = own_parcel(session, cells, room, true);
  if (!reply) return reply;
  reply->weight = weight(session, cells);
  const auto mixed = mix(session, cells, decoded(cells, offer, theirs_), view(*reply, own_), reply->weight);
  if (!mixed) return mixed.error();
  return reply;
}

}  // namespace starling::training
