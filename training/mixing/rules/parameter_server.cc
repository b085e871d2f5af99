#include "training/mixing/rules/parameter_server.h"

#include <algorithm>

#include "base/check.h"

namespace starling::training {

ParameterServer::ParameterServer(models::Arena& arena, const MixOptions& options)
    : RuleMixer(arena, options) {
  STARLING_CHECK(is_dense(payload_));
  keep_copy();
}

MixResult<Parcel> ParameterServer::do_lend(const Session& session, Cells cells, MutableBytes room) {
  STARLING_CHECK(cells.count > 0 && cells.first + cells.count <= grid_.count());
  const std::size_t n = grid_.floats(cells), offset = grid_.offset(cells.first);
  own_.resize(n);
  if (!target_.read(offset, own_)) return own_diverged(offset);
  for (std::size_t i = 0; i < n; ++i) own_[i] -= kept_[offset + i];
  const Parcel parcel{.offset = offset,
                      .floats = n,
                      .payload = payload_,
                      .values = encode_dense(payload_, own_, session, offset, false, room)};
  loans_.add({session.exchange, cells, parcel});
  return parcel;
}

MixResult<Parcel> ParameterServer::do_answer(const Session& session, Cells cells, const Parcel& offer,
                                             MutableBytes room) {
  if (auto fits = check_dense(offer, payload_); !fits) return fits.error();
  decode_into(theirs_, offer);
  own_.resize(offer.floats);
  if (!target_.read(offer.offset, own_)) return own_diverged(offer.offset);
  add(own_, theirs_);  // where the push would lead
  if (const auto mixed = judge_.judge(session, cells, theirs_, own_); !mixed) return mixed.error();
  target_.mix(offer.offset, theirs_, own_, session.weight);
  judge_.remember(session);
  if (!target_.read(offer.offset, own_)) return own_diverged(offer.offset);
  return Parcel{.offset = offer.offset,
                .floats = offer.floats,
                .payload = payload_,
                .weight = session.weight,
                .values = encode_dense(payload_, own_, session, offer.offset, true, room)};
}

MixResult<Mixed> ParameterServer::do_complete(const Session& session, const Parcel& sent,
                                              const Parcel& reply) {
  const auto loan = loans_.finish(session, sent);
  if (!loan) return not_lent(sent.offset);
  if (reply.offset != sent.offset || reply.floats != sent.floats) return other_chunk(sent, reply);
  if (!(reply.weight > 0 && reply.weight <= 1)) return unknown_weight(sent.offset, reply.weight);
  if (auto fits = check_dense(reply, payload_); !fits) return fits.error();
  decode_into(theirs_, reply);
  decode_into(own_, loan->sent);
  const auto pulled = std::span(kept_).subspan(sent.offset, sent.floats);
  add(pulled, own_);  // r + d: where this replica was, as the server knows it
  const auto mixed = judge_.judge(session, loan->cells, theirs_, own_);
  if (!mixed) return mixed;
  target_.mix(sent.offset, theirs_, own_, 1);
  std::copy(theirs_.begin(), theirs_.end(), pulled.begin());
  judge_.remember(session);
  return mixed;
}

}  // namespace starling::training
