#include "training/exchange/parameter_server.h"

#include <algorithm>

#include "base/check.h"
#include "training/exchange/faults.h"
#include "training/exchange/payload.h"
#include "training/exchange/values.h"

namespace starling::training {

ParameterServer::ParameterServer(models::Arena& arena, const MixOptions& options)
    : Mixer(arena, options.cell_floats),
      target_(arena, options.exact),
      judge_(grid_, options.wary),
      payload_(options.payload),
      seed_(options.seed),
      pulled_(arena.size()) {
  STARLING_CHECK(is_dense(payload_));
  adopt();
}

void ParameterServer::adopt() {
  target_.read(0, pulled_);
  loans_.clear();
  judge_.clear();
}

MixResult<Done> ParameterServer::receive(const Parcel& parcel, Floats& values) const {
  if (parcel.payload != payload_ || parcel.entries != 0 ||
      parcel.values.size() != encoded_bytes(payload_, parcel.floats)) {
    return wrong_payload(parcel);
  }
  values.resize(parcel.floats);
  decode(payload_, parcel.values, parcel.floats, 0, values);
  return Done{};
}

void ParameterServer::values(std::vector<MutableBytes>& out) {
  Mixer::values(out);
  judge_.values(out);
  out.push_back(std::as_writable_bytes(std::span(pulled_)));
}

MixResult<Parcel> ParameterServer::do_lend(const Session& session, Cells cells, MutableBytes room) {
  STARLING_CHECK(cells.count > 0 && cells.first + cells.count <= grid_.count());
  const std::size_t n = grid_.floats(cells), offset = grid_.offset(cells.first);
  own_.resize(n);
  if (!target_.read(offset, own_)) return own_diverged(offset);
  for (std::size_t i = 0; i < n; ++i) own_[i] -= pulled_[offset + i];
  const MutableBytes bytes = room.first(encoded_bytes(payload_, n));
  encode(payload_, own_, rounding_seed(seed_, session, offset, false), bytes);
  const Parcel parcel{.offset = offset, .floats = n, .payload = payload_, .values = bytes};
  loans_.add({session.exchange, cells, parcel});
  return parcel;
}

MixResult<Parcel> ParameterServer::do_answer(const Session& session, Cells cells, const Parcel& offer,
                                             MutableBytes room) {
  if (auto received = receive(offer, theirs_); !received) return received.error();
  own_.resize(offer.floats);
  if (!target_.read(offer.offset, own_)) return own_diverged(offer.offset);
  add(own_, theirs_);  // where the push would lead
  if (const auto mixed = judge_.judge(cells, theirs_, own_); !mixed) return mixed.error();
  target_.mix(offer.offset, theirs_, own_, session.weight);
  judge_.remember();
  if (!target_.read(offer.offset, own_)) return own_diverged(offer.offset);
  const MutableBytes bytes = room.first(encoded_bytes(payload_, offer.floats));
  encode(payload_, own_, rounding_seed(seed_, session, offer.offset, true), bytes);
  return Parcel{.offset = offer.offset,
                .floats = offer.floats,
                .payload = payload_,
                .weight = session.weight,
                .values = bytes};
}

MixResult<Mixed> ParameterServer::do_complete(const Session& session, const Parcel& sent,
                                              const Parcel& reply) {
  const auto loan = loans_.finish(session, sent);
  if (!loan) return not_lent(sent.offset);
  if (reply.offset != sent.offset || reply.floats != sent.floats) {
    return MixError{{"the reply at " + std::to_string(reply.offset) +
                     " is of another chunk than the push at " + std::to_string(sent.offset)},
                    MixFault::shape};
  }
  if (!(reply.weight > 0 && reply.weight <= 1)) return unknown_weight(sent.offset, reply.weight);
  if (auto received = receive(reply, theirs_); !received) return received.error();
  own_.resize(sent.floats);
  decode(payload_, loan->sent.values, sent.floats, 0, own_);
  const auto pulled = std::span(pulled_).subspan(sent.offset, sent.floats);
  add(pulled, own_);  // r + d: where this replica was, as the server knows it
  const auto mixed = judge_.judge(loan->cells, theirs_, own_);
  if (!mixed) return mixed;
  target_.mix(sent.offset, theirs_, own_, 1);
  std::copy(theirs_.begin(), theirs_.end(), pulled.begin());
  judge_.remember();
  return mixed;
}

}  // namespace starling::training
