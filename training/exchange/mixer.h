// The arithmetic of exchanges, a rule a class: what both drivers, the daemon and the simulator, call between
// the bytes. Who exchanges with whom, in which round, at which weight, and when to give up, is the core's
// decision (gossip); here chunks are snapshotted, encoded, checked, decoded and mixed, a cell at a time while
// it is in the cache, straight from and to the bytes that travel. Workers change the arena meanwhile.
//
// An exchange is a number of chunks in the order of the arena. Of each, the initiator lends (a snapshot goes
// out), the responder answers (mixes, a reply goes back), the initiator completes (mixes). Whatever a rule
// keeps beside the arena (weights, copies, outer momentum) lives in its Mixer. Payloads are a Mixer's affair
// as well: both sides compute with what was decoded, their own values included, so what a rule conserves it
// conserves in every payload.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "models/arena.h"

namespace starling::training {

struct Cells {  // [first, first + count)
  std::size_t first = 0, count = 0;
  friend bool operator==(const Cells&, const Cells&) = default;
};

// How an arena is cut: cell k covers [k * cell_floats, ...), the last one may be shorter. All peers of a run
// have the same grid. A chunk is a run of whole cells; how many, its sender chooses.
struct CellGrid {
  std::size_t arena_floats;
  std::size_t cell_floats;

  std::size_t count() const { return (arena_floats + cell_floats - 1) / cell_floats; }
  std::size_t offset(std::size_t cell) const { return cell * cell_floats; }
  std::size_t floats(std::size_t cell) const;  // 0 behind the end
  // The index-th of `of` equal parts of the arena, to within a cell; all of them together are all of it.
  Cells part(std::size_t index, std::size_t of) const {
    const std::size_t first = index * count() / of;
    return {first, (index + 1) * count() / of - first};
  }
  // One cell's part of the floats of a run of cells.
  std::span<const float> part(std::span<const float> chunk, Cells cells, std::size_t cell) const {
    return chunk.subspan(offset(cell) - offset(cells.first), floats(cell));
  }
};

// A little under 32 KiB: a cell's vectors stay in the L1 and L2, and every two cells fill a segment of loopback TCP
// (65,483 bytes) with their frame's 64 bytes; a byte more would travel, and wake the reader, as a segment of its own.
inline constexpr std::size_t kDefaultCellFloats = 8160;

// As wire::Payload, whose numbers these are.
enum class Payload : std::uint8_t { f32, bf16, int8, top_k, none };

// A chunk as it travels, without its frame: wire::ChunkHead's fields of the same names, and the values.
struct Parcel {
  std::size_t offset = 0, floats = 0;  // of the arena that the chunk covers
  Payload payload = Payload::f32;
  float weight = 0;
  std::uint32_t entries = 0;
  std::uint64_t sequence = 0;
  Bytes values{};  // aligned to 64 bytes
};

// One exchange, as the core decided it: the same for all its chunks.
struct Session {
  std::uint64_t exchange = 0;   // of the initiator
  std::uint64_t initiator = 0;  // its id
  std::uint64_t partner = 0;    // id of the other side
  std::uint64_t round = 0;      // of rules that count rounds: the initiator's
  float weight = 0.5F;          // the most that either side mixes of the other
  float own_share = 1;  // in (0, 1]: by which this side moves less than it would (weights by work or age)
  std::uint32_t part = 0, parts = 1;  // which of how many parts of the arena is exchanged (CellGrid::part)
};

// Why a chunk was not mixed.
enum class MixFault : std::uint8_t {
  shape,        // no such cells, or not as long as they are, or in a payload that this run does not use
  weight,       // none that the rule knows
  sequence,     // out of order, of another round
  late,         // a reply to what is not lent any more
  not_finite,   // a value is NaN or infinite
  too_large,    // a value is beyond kLargestMagnitude
  far_off,      // farther from this replica than any honest partner would be
  own_replica,  // nothing is wrong with the chunk: this replica itself holds values that may not travel
};
inline constexpr std::size_t kMixFaults = 8;
const char* name(MixFault fault);  // "not finite", for people and labels

struct MixError : Error {
  MixFault fault = MixFault::shape;
  // The partner sent values that may not touch a replica: it is held against it.
  bool poisoned() const { return fault >= MixFault::not_finite && fault <= MixFault::far_off; }
};
template <class T>
using MixResult = Result<T, MixError>;

// Squares of |theirs - own| and |own| over the chunk; zeros where nothing was mixed.
struct Mixed {
  double distance_square = 0, norm_square = 0;
};

struct MixCounters {
  std::array<std::uint64_t, kMixFaults> refused{};  // chunks, by MixFault
  std::uint64_t answered = 0;                       // chunks of others' exchanges that were mixed
  std::uint64_t overlapped = 0;  // among them: at half the weight, because a part of them was lent
  std::uint64_t clipped = 0;     // chunks of which not all of the difference was taken (rule clipped)
  double lost_weight = 0;        // push-sum: sent and not acknowledged, in replicas (1 is a whole one)
};

// The refused chunks by reason, as records and statuses name it ("not_finite"): those that occurred.
std::map<std::string, std::uint64_t> refused_by_reason(const MixCounters& counters);

// One per replica; used by one thread at a time, while any number of workers change the arena.
class Mixer {
 public:
  virtual ~Mixer() = default;
  Mixer(const Mixer&) = delete;
  Mixer& operator=(const Mixer&) = delete;

  const CellGrid& grid() const { return grid_; }
  std::size_t floats(Cells cells) const;
  // So many bytes have room for any parcel of these cells.
  std::size_t room(Cells cells) const { return sizeof(float) * floats(cells) + kRoomBesides; }

  // The arena has just been filled, with first parameters or a copy of somebody's: the rule begins anew.
  virtual void adopt() {}
  // Whether lend() may write to the replica.
  virtual bool lending_writes() const { return false; }
  // The core begins a round: of a rule in lock-step the replica as it is now is what partners get, of one
  // with outer steps an outer step is made. REQUIRES: round is greater than the last.
  virtual void begin_round(std::uint64_t /*round*/) {}

  // Initiator. Snapshots these cells and encodes them into `room`, which must stay as it is until complete(),
  // give_up() or take_back(). MixFault::own_replica where they hold what may not travel: nothing is lent then.
  // REQUIRES: the cells exist, and are not lent (but d-psgd, noloco and push-sum lend them to several at
  // once); room.size() >= room(cells), aligned to 64 bytes.
  MixResult<Parcel> lend(const Session& session, Cells cells, MutableBytes room);
  // The reply to what lend() returned. Whatever it says, the loan is over; an Error mixed nothing.
  MixResult<Mixed> complete(const Session& session, const Parcel& sent, const Parcel& reply);
  // Ends the loan without a reply, which will be dropped if it comes. The partner may have mixed the chunk.
  virtual void give_up(const Session& session, const Parcel& sent) = 0;
  // As give_up(), where the partner is known to have mixed nothing of the exchange: it refused it. What a rule let
  // go with the chunk comes back.
  virtual void take_back(const Session& session, const Parcel& sent) { give_up(session, sent); }

  // Responder. Checks the offer, mixes, and encodes the reply into `room`. An Error changed nothing.
  // REQUIRES: room.size() >= sizeof(float) * offer.floats + kRoomBesides, aligned to 64 bytes, apart from the
  // offer's values.
  MixResult<Parcel> answer(const Session& session, const Parcel& offer, MutableBytes room);

  const MixCounters& counters() const { return counters_; }
  // Appends what it remembers that depends on what the values were, and not only on which exchanges there were: who
  // has driven another mixer through the same exchanges, of other values, makes it this one by copying these, and
  // what is lent.
  virtual void values(std::vector<MutableBytes>& out);
  // How many exchanges, own and answered ones, have been mixed up to the arena's end. On any thread.
  std::uint64_t mixes() const { return arena_.mixes(); }

  static constexpr std::size_t kRoomBesides = 4096;

 protected:
  Mixer(models::Arena& arena, std::size_t cell_floats) : grid_{arena.size(), cell_floats}, arena_(arena) {}

  virtual MixResult<Parcel> do_lend(const Session& session, Cells cells, MutableBytes room) = 0;
  virtual MixResult<Mixed> do_complete(const Session& session, const Parcel& sent, const Parcel& reply) = 0;
  virtual MixResult<Parcel> do_answer(const Session& session, const Parcel& offer, MutableBytes room) = 0;

  // The cells that a parcel from outside covers, exactly; MixFault::shape where it does not.
  MixResult<Cells> cells_of(const Parcel& parcel) const;

  CellGrid grid_;
  MixCounters counters_;

 private:
  models::Arena& arena_;
};

}  // namespace starling::training
