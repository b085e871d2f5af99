// The bookkeeping of both sides of one exchange, without sockets, queues or clocks: which cells to lend next,
// which reply is due, which chunk is accepted, when to report progress, and how many chunks a broken exchange
// leaves half applied. The daemon drives it with coroutines (node::Initiator, node::Responder), the simulator
// with an event queue (lab::VirtualExchanges), so both accept and reject the same chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "training/mixing/mixer.h"

namespace starling::training {

// The initiator's side. The driver lends and sends chunks while fewer than its window are in flight, and
// takes the replies in order. The exchange, and its loans, end when every cell is answered (at once if it has
// none), at the first error, or by refuse() or abort().
class Offering {
 public:
  enum class Ending : std::uint8_t {
    none,       // under way
    completed,  // every cell was answered
    aborted,    // the connection broke, a side gave up, or a reply broke the rules
    rejected,   // the partner rejected the offer
    poisoned,   // the partner sent values that may not touch a replica
  };

  // `mixer` and `half_applied` must outlive the exchange. `half_applied` counts the chunks that the partner
  // may have mixed and this side did not.
  Offering(Mixer& mixer, const Session& session, std::uint64_t& half_applied);

  const Session& session() const { return session_; }
  Cells cells() const { return cells_; }  // all that are exchanged
  Ending ending() const { return ending_; }
  bool over() const { return ending_ != Ending::none; }
  std::size_t in_flight() const { return in_flight_.size(); }  // chunks
  std::size_t cells_answered() const { return answered_; }

  // The next cells to lend, at most `cells_max`; none if all are lent or the exchange is over.
  Cells next(std::size_t cells_max) const;
  // Lends next(cells_max). An error (MixFault::own_replica) ends nothing: the driver closes the connection.
  // REQUIRES: next() has cells; `room` as for Mixer::lend().
  MixResult<Parcel> lend(Cells cells, MutableBytes room);

  // The chunk whose reply is due. REQUIRES: in_flight() > 0.
  const Parcel& oldest() const { return in_flight_.front().sent; }
  // Mixes the reply to oldest(). An error ends the exchange.
  MixResult<Mixed> take(const Parcel& reply);
  // Counts oldest() as answered without mixing a reply: a bug that the simulator can plant.
  void skip();
  // Whether a further sixteenth of the cells, or all, have been answered since this last returned true.
  bool report_due();

  // The partner rejected the offer. An exchange that it has begun to answer is aborted instead.
  void refuse();
  // The connection broke, or the core gave up.
  void abort();

 private:
  struct Chunk {
    Parcel sent;
    Cells cells;
  };

  void answered(Cells cells);
  void end(Ending ending);

  Mixer& mixer_;
  Session session_;
  std::uint64_t& half_applied_;
  Cells cells_;
  std::size_t lent_ = 0, answered_ = 0, reported_ = 0;  // cells
  std::vector<Chunk> in_flight_;                        // a few, in the order of their replies
  Ending ending_ = Ending::none;
};

// The responder's side. The offer waits for the core's decision; once it is accepted, its chunks are mixed in
// the order of the arena.
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
  // duplicate, a gap, an overlap, or a chunk beyond the exchanged cells. After an error no further chunk is
  // taken. REQUIRES: accepted(); room.size() >= Mixer::answer_room(chunk), aligned to 64 bytes.
  MixResult<Parcel> take(const Parcel& chunk, MutableBytes room);

  // The driver ends the exchange: it is not completed, and no further chunk is taken.
  void abort() { broken_ = true; }

 private:
  std::uint64_t exchange_;
  Mixer* mixer_ = nullptr;  // null: the core has not accepted the offer
  Session session_;
  Cells cells_;               // that are exchanged
  std::size_t answered_ = 0;  // cells
  bool broken_ = false;       // a chunk was rejected, or abort()
  bool poisoned_ = false;
};

}  // namespace starling::training
