#include "training/mixing/rules/push_sum.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace starling::training {

PushSum::PushSum(models::Arena& arena, const MixOptions& options)
    : RuleMixer(arena, options), shares_(grid_.count(), 1.0), starved_(grid_.count(), 0) {
  STARLING_CHECK(is_dense(payload_));
}

void PushSum::adopt() {
  RuleMixer::adopt();
  std::fill(shares_.begin(), shares_.end(), 1.0);
  std::fill(starved_.begin(), starved_.end(), 0);
}

bool PushSum::restart_if_starved(Cells cells) {
  bool starved = true;
  for (std::size_t cell = cells.first; cell < cells.first + cells.count; ++cell)
    starved = ++starved_[cell] > kStarved && starved;
  if (!starved) return false;
  for (std::size_t cell = cells.first; cell < cells.first + cells.count; ++cell)
    shares_[cell] = std::max(shares_[cell], 1.0);
  ++counters_.restarts;
  return true;
}

MixResult<Parcel> PushSum::do_lend(const Session& session, Cells cells, MutableBytes room) {
  const std::size_t n = grid_.floats(cells), offset = grid_.offset(cells.first),
                    end = cells.first + cells.count;
  const auto first = shares_.begin() + static_cast<std::ptrdiff_t>(cells.first);
  const double least = *std::min_element(first, first + static_cast<std::ptrdiff_t>(cells.count));
  auto share = std::min(static_cast<float>(least / 2), session.weight);
  const Parcel nothing{.offset = offset, .floats = n, .payload = Payload::none};
  if (session.returns && balance_of(session.partner) >= kMostGiven) return nothing;
  if (static_cast<double>(share) < kSmallestShare) {
    if (!restart_if_starved(cells)) return nothing;
    share = 0.5F;
  }
  own_.resize(n);
  if (!target_.read(offset, own_)) return own_diverged(offset);
  const Bytes bytes = encode_dense(payload_, own_, session, offset, false, room);
  theirs_.resize(n);  // what they will get
  decode(payload_, bytes, n, 0, theirs_);
  if (!all_acceptable(theirs_)) return own_diverged(offset);
  balance_of(session.partner) += replicas(share, n);
  for (std::size_t cell = cells.first; cell < end; ++cell) {
    shares_[cell] -= static_cast<double>(share);
    starved_[cell] = 0;
    // What rounding took from the share that leaves stays here: u z = u_f z^ + u' z'.
    if (payload_ != Payload::f32) {
      const auto w = static_cast<float>(static_cast<double>(share) / shares_[cell]);
      target_.mix(grid_.offset(cell), grid_.part(own_, cells, cell), grid_.part(theirs_, cells, cell), w);
    }
  }
  const Parcel parcel{.offset = offset, .floats = n, .payload = payload_, .weight = share, .values = bytes};
  loans_.add({session.exchange, cells, parcel});
  return parcel;
}

void PushSum::give_up(const Session& session, const Parcel& sent) {
  if (loans_.finish(session, sent)) lose(sent);
}

void PushSum::take_back(const Session& session, const Parcel& sent) {
  if (const auto loan = loans_.finish(session, sent)) restore(session, *loan);
}

// The share returns with the values that it had: z += u_f / (u_f + u) (z^ - z), u += u_f.
void PushSum::restore(const Session& session, const Loan& loan) {
  const Parcel& sent = loan.sent;
  balance_of(session.partner) -= replicas(sent.weight, sent.floats);
  const auto share = static_cast<double>(sent.weight);
  decode_into(theirs_, sent);
  own_.resize(sent.floats);
  target_.read(sent.offset, own_);
  for (std::size_t cell = loan.cells.first; cell < loan.cells.first + loan.cells.count; ++cell) {
    shares_[cell] += share;
    const auto w = static_cast<float>(share / shares_[cell]);
    target_.mix(grid_.offset(cell), grid_.part(theirs_, loan.cells, cell), grid_.part(own_, loan.cells, cell),
                w);
  }
}

void PushSum::lose(const Parcel& sent) { counters_.lost_weight += replicas(sent.weight, sent.floats); }

MixResult<Mixed> PushSum::do_complete(const Session& session, const Parcel& sent, const Parcel& reply) {
  if (sent.payload == Payload::none) return Mixed{};
  const auto loan = loans_.finish(session, sent);
  if (!loan) return not_lent(sent.offset);
  if (reply.weight == 0) {
    restore(session, *loan);
    return Mixed{};
  }
  if (reply.payload != Payload::none || reply.weight != loan->sent.weight) {
    lose(loan->sent);
    return MixError{
        {"the chunk at " + std::to_string(sent.offset) + " was acknowledged with the weight " +
         std::to_string(reply.weight) + ", but was sent with " + std::to_string(loan->sent.weight)},
        MixFault::weight};
  }
  return Mixed{};
}

MixResult<Parcel> PushSum::do_answer(const Session& session, Cells cells, const Parcel& offer,
                                     MutableBytes /*room*/) {
  Parcel reply{.offset = offer.offset, .floats = offer.floats, .payload = Payload::none};
  if (offer.payload == Payload::none && offer.values.empty())
    return reply;  // the sender had too little to give
  if (auto fits = check_dense(offer, payload_); !fits) return fits.error();
  if (!(offer.weight > 0)) return unknown_weight(offer.offset, offer.weight);  // NaN neither
  if (offer.weight > session.weight) return reply;  // more than there is: its sender takes it back
  decode_into(theirs_, offer);
  own_.resize(offer.floats);
  if (!target_.read(offer.offset, own_)) return own_diverged(offer.offset);
  if (const auto mixed = judge_.judge(session, cells, theirs_, own_); !mixed) return mixed.error();
  const auto share = static_cast<double>(offer.weight);
  for (std::size_t k = cells.count; k-- > 0;) {
    const std::size_t cell = cells.first + k;
    const auto w =
        static_cast<float>(share / (share + shares_[cell]) * static_cast<double>(session.own_share));
    target_.mix(grid_.offset(cell), grid_.part(theirs_, cells, cell), grid_.part(own_, cells, cell), w);
    shares_[cell] += share;
    starved_[cell] = 0;
  }
  balance_of(session.partner) -= replicas(offer.weight, offer.floats);
  judge_.remember(session);
  reply.weight = offer.weight;
  return reply;
}

}  // namespace starling::training
