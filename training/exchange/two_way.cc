#include "training/exchange/two_way.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "training/exchange/faults.h"
#include "training/exchange/payload.h"

namespace starling::training {

TwoWay::TwoWay(models::Arena& arena, const MixOptions& options, bool bounded)
    : Mixer(arena, options.cell_floats),
      target_(arena, options.exact),
      judge_(grid_, options.wary && bounded),
      payload_(options.payload),
      seed_(options.seed) {
  STARLING_CHECK(is_dense(payload_));
}

void TwoWay::adopt() {
  judge_.clear();
  loans_.clear();  // of what is no more
}

void TwoWay::values(std::vector<MutableBytes>& out) {
  Mixer::values(out);
  judge_.values(out);
}

void TwoWay::lent_values(std::size_t cell, std::span<float> out) const {
  const Parcel& sent = loans_.of(cell)->sent;
  decode(payload_, sent.values, sent.floats, grid_.offset(cell) - sent.offset, out);
}

bool TwoWay::encode_own(Cells cells, std::uint64_t seed, MutableBytes bytes) {
  if (own_are_arenas(cells)) {
    const auto acceptable =
        target_.read_encoded(grid_.offset(cells.first), grid_.floats(cells), payload_, seed, bytes);
    if (acceptable) return *acceptable;
  }
  if (!own_values(cells, own_scratch_)) return false;
  encode(payload_, own_scratch_, seed, bytes);
  return true;
}

MixResult<Parcel> TwoWay::own_parcel(const Session& session, Cells cells, MutableBytes room, bool reply) {
  const std::size_t n = grid_.floats(cells), offset = grid_.offset(cells.first);
  const MutableBytes bytes = room.first(encoded_bytes(payload_, n));
  if (payload_ == Payload::f32) {
    if (!own_values(cells, as_floats(bytes))) return own_diverged(offset);
    own_ = as_floats(bytes);
  } else {
    own_scratch_.resize(n);
    if (!encode_own(cells, rounding_seed(seed_, session, offset, reply), bytes)) return own_diverged(offset);
    decode(payload_, bytes, n, 0, own_scratch_);
    if (!all_acceptable(own_scratch_)) return own_diverged(offset);  // rounded up, out of the bound
    own_ = own_scratch_;
  }
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

void TwoWay::mix(Cells cells, float weight) {
  if (take(cells, theirs_, own_, weight)) ++counters_.clipped;
  judge_.remember();
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
  if (!known_weight(reply.weight)) return unknown_weight(sent.offset, reply.weight);
  if (auto received = receive(reply); !received) return received.error();
  if (payload_ == Payload::f32) {
    own_ = as_floats(loan->sent.values);
  } else {
    own_scratch_.resize(sent.floats);
    decode(payload_, loan->sent.values, sent.floats, 0, own_scratch_);
    own_ = own_scratch_;
  }
  const auto mixed = judge_.judge(loan->cells, theirs_, own_);
  if (mixed) mix(loan->cells, reply.weight * session.own_share);
  return mixed;
}

MixResult<Parcel> TwoWay::do_answer(const Session& session, Cells cells, const Parcel& offer,
                                    MutableBytes room) {
  if (auto received = receive(offer); !received) return received.error();
  auto reply = own_parcel(session, cells, room, true);
  if (!reply) return reply;
  if (const auto mixed = judge_.judge(cells, theirs_, own_); !mixed) return mixed.error();
  reply->weight = weight(session, cells);
  mix(cells, reply->weight * session.own_share);
  return reply;
}

}  // namespace starling::training
