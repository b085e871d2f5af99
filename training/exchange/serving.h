// The responder's side of one exchange, without sockets, queues or clocks: an offer waits for the core's
// decision; once it is accepted, its chunks are mixed in the order of the arena. node::Responder drives it
// with coroutines, lab::VirtualExchanges with an event queue, so both accept and reject the same chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "training/exchange/mixer.h"

namespace starling::training {

class Serving {
 public:
  // The initiator has offered an exchange of this number.
  explicit Serving(std::uint64_t exchange) : exchange_(exchange) {}

  std::uint64_t exchange() const { return exchange_; }
  bool accepted() const { return mixer_ != nullptr; }
  // Every cell was answered.
  bool completed() const { return accepted() && !broken_ && answered_ == cells_.count; }
  // The initiator sent values that may not touch a replica.
  bool poisoned() const { return poisoned_; }

  // The core accepts the offer on the session's terms. `mixer` must outlive the exchange.
  // REQUIRES: !accepted(); session.exchange == exchange().
  void accept(Mixer& mixer, const Session& session);

  // Mixes the next chunk and encodes the reply into `room`. MixFault::sequence if it is not the next one: a
  // duplicate, a gap, an overlap, or a chunk beyond the exchanged cells. After an error no chunk is taken any
  // more. REQUIRES: accepted(); room.size() >= Mixer::answer_room(chunk), aligned to 64 bytes.
  MixResult<Parcel> take(const Parcel& chunk, MutableBytes room);

  // The driver breaks the exchange off: it is not completed, and no chunk is taken any more.
  void abort() { broken_ = true; }

 private:
  std::uint64_t exchange_;
  Mixer* mixer_ = nullptr;  // null: the core has not accepted the offer
  Session session_;
  Cells cells_;               // that are exchanged
  std::size_t answered_ = 0;  // cells
  bool broken_ = false;       // a chunk was refused, or abort()
  bool poisoned_ = false;
};

}  // namespace starling::training
