#include "training/exchange/push_sum.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/check.h"
#include "training/exchange/payload.h"
#include "training/exchange/two_way.h"

namespace starling::training {

PushSum::PushSum(models::Arena& arena, const MixOptions& options)
    : Mixer(CellGrid{arena.size(), options.cell_floats}),
      target_(arena, options.exact),
      medians_(grid_.count()),
      payload_(options.payload),
      seed_(options.seed),
      shares_(grid_.count(), 1.0),
      loans_(grid_.count()) {
  STARLING_CHECK(payload_ == Payload::f32 || payload_ == Payload::bf16 || payload_ == Payload::int8);
}

void PushSum::adopt() {
  std::fill(shares_.begin(), shares_.end(), 1.0);
  std::fill(loans_.begin(), loans_.end(), Loan{});
  medians_.clear();
}

std::span<const float> PushSum::part(std::span<const float> chunk, Cells cells, std::size_t cell) const {
  return chunk.subspan(grid_.offset(cell) - grid_.offset(cells.first), grid_.floats(cell));
}

MixResult<Parcel> PushSum::do_lend(const Session& session, Cells cells, MutableBytes room) {
  const std::size_t n = floats(cells), offset = grid_.offset(cells.first), end = cells.first + cells.count;
  double least = shares_[cells.first];
  for (std::size_t cell = cells.first; cell < end; ++cell) {
    STARLING_CHECK(loans_[cell].floats == 0);
    least = std::min(least, shares_[cell]);
  }
  const auto share = static_cast<float>(least / 2);
  if (static_cast<double>(share) < kSmallestShare) {
    return Parcel{.offset = offset, .floats = n, .payload = Payload::none};
  }
  own_.resize(n);
  target_.read(offset, own_);
  if (!all_acceptable(own_)) return own_diverged(offset);
  const MutableBytes bytes = room.first(encoded_bytes(payload_, n));
  encode(payload_, own_, rounding_seed(seed_, session, offset, false), bytes);
  theirs_.resize(n);  // what they will get
  decode(payload_, bytes, n, 0, theirs_);
  if (!all_acceptable(theirs_)) return own_diverged(offset);
  for (std::size_t cell = cells.first; cell < end; ++cell) {
    shares_[cell] -= static_cast<double>(share);
    // What rounding took from the share that leaves stays with the one that does not: u z = u_f z^ + u' z'.
    if (payload_ != Payload::f32) {
      const auto w = static_cast<float>(static_cast<double>(share) / shares_[cell]);
      target_.mix(grid_.offset(cell), part(own_, cells, cell), part(theirs_, cells, cell), w);
    }
    loans_[cell] = {bytes, offset, n, session.exchange, share};
  }
  return Parcel{.offset = offset, .floats = n, .payload = payload_, .weight = share, .values = bytes};
}

void PushSum::forget(Cells cells) {
  for (std::size_t k = 0; k < cells.count; ++k) loans_[cells.first + k] = {};
}

void PushSum::give_up(const Session& session, const Parcel& sent) {
  const auto cells = cells_of(sent);
  if (!cells) return;
  const Loan loan = loans_[cells->first];
  if (loan.floats != sent.floats || loan.offset != sent.offset || loan.exchange != session.exchange) return;
  forget(*cells);
  counters_.lost_weight += static_cast<double>(loan.share) * static_cast<double>(loan.floats) /
                           static_cast<double>(grid_.arena_floats);
}

MixResult<Mixed> PushSum::do_complete(const Session& session, const Parcel& sent, const Parcel& reply) {
  const auto cells = cells_of(sent);
  if (!cells) return cells.error();
  if (sent.payload == Payload::none) return Mixed{};
  const Loan loan = loans_[cells->first];
  if (loan.floats != sent.floats || loan.offset != sent.offset || loan.exchange != session.exchange) {
    return not_lent(sent.offset);
  }
  if (reply.weight == 0) {
    forget(*cells);
    theirs_.resize(loan.floats);
    own_.resize(loan.floats);
    decode(payload_, loan.values, loan.floats, 0, theirs_);
    target_.read(loan.offset, own_);
    for (std::size_t cell = cells->first; cell < cells->first + cells->count; ++cell) {
      shares_[cell] += static_cast<double>(loan.share);
      const auto w = static_cast<float>(static_cast<double>(loan.share) / shares_[cell]);
      target_.mix(grid_.offset(cell), part(theirs_, *cells, cell), part(own_, *cells, cell), w);
    }
    return Mixed{};
  }
  if (reply.payload != Payload::none || reply.weight != loan.share) {
    give_up(session, sent);
    return MixError{{"the chunk at " + std::to_string(sent.offset) + " was acknowledged with the weight " +
                     std::to_string(reply.weight) + ", but was sent with " + std::to_string(loan.share)},
                    MixFault::weight};
  }
  forget(*cells);
  return Mixed{};
}

MixResult<Parcel> PushSum::do_answer(const Session& session, const Parcel& offer, MutableBytes /*room*/) {
  const auto cells = cells_of(offer);
  if (!cells) return cells.error();
  Parcel reply{.offset = offer.offset, .floats = offer.floats, .payload = Payload::none};
  if (offer.payload == Payload::none && offer.values.empty()) return reply;  // the sender had too little to give
  if (offer.payload != payload_ || offer.entries != 0 ||
      offer.values.size() != encoded_bytes(payload_, offer.floats)) {
    return wrong_payload(offer);
  }
  if (!(offer.weight > 0 && offer.weight <= kLargestShare)) {  // NaN neither
    return MixError{{"the chunk at " + std::to_string(offer.offset) + " came with the weight " +
                     std::to_string(offer.weight) + "; accepted are those above 0 and up to 1024"},
                    MixFault::weight};
  }
  theirs_.resize(offer.floats);
  own_.resize(offer.floats);
  decode(payload_, offer.values, offer.floats, 0, theirs_);
  target_.read(offer.offset, own_);
  if (!all_acceptable(own_)) return own_diverged(offer.offset);
  measures_.clear();
  bool acceptable = true;
  for (std::size_t cell = cells->first; cell < cells->first + cells->count; ++cell) {
    measures_.push_back(measure(part(theirs_, *cells, cell), part(own_, *cells, cell)));
    acceptable = acceptable && measures_.back().acceptable;
  }
  if (!acceptable) return unacceptable(offer.offset, theirs_);
  if (far_off(medians_, *cells, measures_)) return too_far(offer.offset);
  const auto share = static_cast<double>(offer.weight);
  for (std::size_t k = cells->count; k-- > 0;) {
    const std::size_t cell = cells->first + k;
    const auto w = static_cast<float>(share / (share + shares_[cell]) * static_cast<double>(session.own_share));
    target_.mix(grid_.offset(cell), part(theirs_, *cells, cell), part(own_, *cells, cell), w);
    shares_[cell] += share;
    medians_.add(cell, measures_[k].distance());
  }
  reply.weight = offer.weight;
  return reply;
}

}  // namespace starling::training
