// The arithmetic of exchanges, one class per rule. Both drivers, the daemon and the simulator, call it
// between receiving and sending bytes. The core (gossip) decides who exchanges with whom, in which round, at
// which weight, and when to give up. A Mixer snapshots, encodes, checks, decodes and mixes one cell at a time
// while it is in the cache, straight from and to the bytes that travel. Workers change the arena meanwhile.
//
// An exchange is a sequence of chunks in the order of the arena. For each chunk, the initiator lends (a
// snapshot goes out), the responder answers (mixes, a reply goes back) and the initiator completes (mixes).
// What a rule keeps beside the arena (weights, copies, outer momentum) is in its Mixer. Both sides compute
// with decoded values, their own included, so a rule conserves the same quantity with every payload.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "models/arena.h"
#include "wire/rules/payload.h"
#include "wire/rules/rule.h"

namespace starling::training {

struct Cells {  // [first, first + count)
  std::size_t first = 0, count = 0;
  friend bool operator==(const Cells&, const Cells&) = default;
};

// How an arena is divided: cell k covers [k * cell_floats, ...), the last one may be shorter. All peers of a
// run have the same grid. A chunk is a run of whole cells; its sender chooses how many.
struct CellGrid {
  std::size_t arena_floats;
  std::size_t cell_floats;

  std::size_t count() const { return cells_in(arena_floats); }
  // The cells that this many floats need.
  std::size_t cells_in(std::size_t floats) const { return (floats + cell_floats - 1) / cell_floats; }
  std::size_t offset(std::size_t cell) const { return cell * cell_floats; }
  std::size_t floats(std::size_t cell) const;  // 0 beyond the end
  std::size_t floats(Cells cells) const;
  // The index-th of `of` parts of the arena, equal to within a cell, which together are the whole arena.
  Cells part(std::size_t index, std::size_t of) const {
    const std::size_t first = index * count() / of;
    return {first, (index + 1) * count() / of - first};
  }
  // One cell's part of the floats of a run of cells.
  std::span<const float> part(std::span<const float> chunk, Cells cells, std::size_t cell) const {
    return chunk.subspan(offset(cell) - offset(cells.first), floats(cell));
  }
};

// A little under 32 KiB: a cell's vectors stay in the L1 and L2 caches, and two cells with their frame's 64
// bytes fill one segment of loopback TCP (65,483 bytes). One more byte would travel, and wake the reader, as
// a segment of its own.
inline constexpr std::size_t kDefaultCellFloats = 8160;

// A chunk as it travels, without its frame: wire::ChunkHead's fields of the same names, and the values.
struct Parcel {
  std::size_t offset = 0, floats = 0;  // the part of the arena that the chunk covers
  Payload payload = Payload::f32;
  float weight = 0;
  std::uint32_t entries = 0;
  std::uint64_t sequence = 0;
  Bytes values{};  // aligned to 64 bytes
};

// One exchange, as the core decided it: the same for all its chunks.
struct Session {
  std::uint64_t exchange = 0;   // number, given by the initiator
  std::uint64_t initiator = 0;  // its id
  std::uint64_t partner = 0;    // id of the other side
  std::uint64_t round = 0;      // the initiator's, if the rule counts rounds
  float weight = 0.5F;          // the most that either side mixes of the other; push-sum: of a parcel
  float own_share = 1;          // in (0, 1]: factor by which this side moves less (weights by work or age)
  std::uint32_t part = 0, parts = 1;  // the part of the arena that is exchanged (CellGrid::part)
  bool returns = true;                // the partner may also begin exchanges with this peer
};

// `terms` is a gossip::Terms, which this room may not include. All newcomers have the partner's number 0.
template <class Terms>
Session session_under(const Terms& terms, std::uint64_t exchange, std::uint64_t initiator,
                      std::uint64_t partner) {
  return {exchange,         initiator,     terms.newcomer ? 0 : partner,
          terms.round,      terms.weight,  terms.own_share,
          terms.part.index, terms.part.of, terms.returns};
}

// A rule, its payload and its parameters. training/learning/recipe.h makes them from an experiment.
struct MixOptions {
  Rule rule = Rule::pairwise;
  Payload payload = Payload::f32;
  double top_k = 0.01;          // of a cell's floats, with payload top_k
  double outer_rate = 0.7;      // rules with outer steps
  double outer_momentum = 0.5;  // the same
  std::uint32_t fragments = 1;  // the same: parts of the arena that take turns, as CellGrid::part()
  double consensus_rate = 0;    // choco; 0: by payload
  double clip = 0.5;            // clipped: as a multiple of the median distance
  std::size_t links = 8;        // choco: partners whose copies are kept
  std::size_t cell_floats = kDefaultCellFloats;
  std::uint64_t seed = 1;  // of the chance in rounding
  // Rejects chunks that are far off. False where replicas begin far apart, as in measurements of mixing.
  bool wary = true;
  bool exact = false;  // loses no concurrent atomic_add to the arena, 20 times slower: for tests
};

// Why a chunk was not mixed.
enum class MixFault : std::uint8_t {
  shape,        // not whole cells of the arena, or a payload that this run does not use
  weight,       // a weight that the rule does not allow
  sequence,     // out of order, or of another round
  late,         // a reply to a chunk whose loan is over
  not_finite,   // a value is NaN or infinite
  too_large,    // a value is beyond kLargestMagnitude
  far_off,      // farther from this replica than an honest partner would be
  own_replica,  // the chunk is valid, but this replica itself holds values that may not travel
};
inline constexpr std::size_t kMixFaults = 8;
const char* name(MixFault fault);  // "not finite", for people and labels

struct MixError : Error {
  MixFault fault = MixFault::shape;
  // Whether the partner sent values that may not touch a replica.
  bool poisoned() const { return fault >= MixFault::not_finite && fault <= MixFault::far_off; }
};
template <class T>
using MixResult = Result<T, MixError>;

// Squares of |theirs - own| and |own| over the chunk; zeros if nothing was mixed.
struct Mixed {
  double distance_square = 0, norm_square = 0;
};

struct MixCounters {
  std::array<std::uint64_t, kMixFaults> refused{};  // chunks, by MixFault
  std::uint64_t answered = 0;                       // chunks of other peers' exchanges that were mixed
  std::uint64_t overlapped = 0;  // the answered ones at half the weight, because a part of them was lent
  std::uint64_t clipped = 0;     // chunks whose difference was taken only in part (rule clipped)
  std::uint64_t restarts = 0;    // push-sum: chunks whose weight had become too small and is 1 again
  double lost_weight = 0;        // push-sum: sent and not acknowledged, in replicas (1 is a whole one)
};

// The rejected chunks by reason, as records and statuses name it ("not_finite"), without the zeros.
std::map<std::string, std::uint64_t> refused_by_reason(const MixCounters& counters);

// One per replica; used by one thread at a time, while any number of workers change the arena.
class Mixer {
 public:
  virtual ~Mixer() = default;
  Mixer(const Mixer&) = delete;
  Mixer& operator=(const Mixer&) = delete;

  const CellGrid& grid() const { return grid_; }
  // Bytes that have room for any parcel of these cells.
  std::size_t room(Cells cells) const { return sizeof(float) * grid_.floats(cells) + kRoomBesides; }
  // Bytes that have room for the answer to this parcel.
  static std::size_t answer_room(const Parcel& offer) { return sizeof(float) * offer.floats + kRoomBesides; }

  // The arena was just filled with first parameters or with a copy of another peer's: resets the rule.
  virtual void adopt() {}
  // Whether lend() may write to the replica.
  virtual bool lending_writes() const { return false; }
  // The core begins a round: a rule in lock-step gives partners the replica as it is now. REQUIRES: round is
  // greater than the last.
  virtual void begin_round(std::uint64_t /*round*/) {}

  // The replica is good, by the loss of its own steps: its norm now bounds what is acceptable. Before the
  // first call the largest norm so far does.
  virtual void trust() {}
  // The replica learns no more: from now on outer steps only average, without momentum, which would go on in
  // the direction of what was learned before.
  virtual void settle() {}

  // Initiator. Snapshots these cells and encodes them into `room`, which must stay unchanged until
  // complete(), give_up() or take_back(). MixFault::own_replica if they hold values that may not travel; then
  // nothing is lent. REQUIRES: the cells exist and are not lent (d-psgd and push-sum lend them to several
  // at once); room.size() >= room(cells), aligned to 64 bytes.
  MixResult<Parcel> lend(const Session& session, Cells cells, MutableBytes room);
  // The reply to what lend() returned. The loan is over in any case; an Error mixed nothing.
  MixResult<Mixed> complete(const Session& session, const Parcel& sent, const Parcel& reply);
  // Ends the loan without a reply. The partner may have mixed the chunk.
  virtual void give_up(const Session& session, const Parcel& sent) = 0;
  // Ends the loan after the partner rejected the exchange, so it has mixed nothing. The mass that a rule sent
  // with the chunk returns.
  virtual void take_back(const Session& session, const Parcel& sent) { give_up(session, sent); }

  // Responder. Checks the offer, mixes, and encodes the reply into `room`. An Error changed nothing.
  // REQUIRES: room.size() >= answer_room(offer), aligned to 64 bytes, apart from the offer's values.
  MixResult<Parcel> answer(const Session& session, const Parcel& offer, MutableBytes room);

  const MixCounters& counters() const { return counters_; }
  // Appends the memory of this mixer that depends on values, not only on which exchanges took place. Copying
  // these bytes and the lent chunks turns a mixer after the same exchanges with other values into this one.
  virtual void values(std::vector<MutableBytes>& out);
  // Exchanges, own and answered ones, that were mixed up to the arena's end. May be called on any thread.
  std::uint64_t mixes() const { return arena_.mixes(); }

  static constexpr std::size_t kRoomBesides = 4096;

 protected:
  Mixer(models::Arena& arena, std::size_t cell_floats) : grid_{arena.size(), cell_floats}, arena_(arena) {}

  virtual MixResult<Parcel> do_lend(const Session& session, Cells cells, MutableBytes room) = 0;
  virtual MixResult<Mixed> do_complete(const Session& session, const Parcel& sent, const Parcel& reply) = 0;
  // REQUIRES: `offer` covers exactly `cells`.
  virtual MixResult<Parcel> do_answer(const Session& session, Cells cells, const Parcel& offer,
                                      MutableBytes room) = 0;

  CellGrid grid_;
  MixCounters counters_;

 private:
  // The cells that a parcel from a partner covers; MixFault::shape if they are not whole cells of the arena.
  MixResult<Cells> cells_of(const Parcel& parcel) const;

  models::Arena& arena_;
};

}  // namespace starling::training
