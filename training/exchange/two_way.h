// What the rules of two-way exchanges have in common: the initiator's values travel, the responder's come
// back, in one of the dense payloads, and each side does with the pair (theirs, own), as decoded, what its
// rule says. Here the chunk is read, encoded, decoded, measured and judged as a whole before the first float
// of it is mixed, cell by cell.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "training/exchange/floats.h"
#include "training/exchange/loans.h"
#include "training/exchange/medians.h"
#include "training/exchange/mix_target.h"
#include "training/exchange/mixer.h"
#include "training/exchange/options.h"
#include "training/exchange/values.h"

namespace starling::training {

class TwoWay : public Mixer {
 public:
  void adopt() override;
  void give_up(const Session& session, const Parcel& sent) override;

 protected:
  // `arena` outlives the mixer.
  TwoWay(models::Arena& arena, const MixOptions& options);

  MixResult<Parcel> do_answer(const Session& session, const Parcel& offer, MutableBytes room) override;

  // The values of the cell that a partner gets now.
  virtual void own_values(std::size_t cell, std::span<float> out) = 0;
  // The weight to answer these cells with: what both sides mix.
  virtual float weight(const Session& session, Cells cells) const = 0;
  // Whether a reply may carry this weight, which is not 0.
  virtual bool known_weight(float weight) const = 0;
  // What a parcel's sequence is, and whether one that came fits.
  virtual std::uint64_t sequence() const { return 0; }
  virtual bool fits(std::uint64_t /*sequence*/) const { return true; }
  // Whether a cell may be lent but once at a time.
  virtual bool exclusive() const { return true; }
  // Whether a chunk may be refused for being far off.
  virtual bool bounded() const { return true; }
  // Moves this side of the cell, by what `weight` (own share included) says. Returns whether it took less of
  // the difference than the weight says.
  virtual bool take(std::size_t cell, std::span<const float> theirs, std::span<const float> own, float weight,
                    const Measure& measure) = 0;

  bool lent(std::size_t cell) const { return loans_.of(cell) != nullptr; }
  // The values of this cell that were lent. REQUIRES: lent(cell); out.size() == grid().floats(cell).
  void lent_values(std::size_t cell, std::span<float> out) const;

  MixTarget target_;
  Medians medians_;  // of |theirs - own|, by cell

 private:
  MixResult<Parcel> do_lend(const Session& session, Cells cells, MutableBytes room) override;
  MixResult<Mixed> do_complete(const Session& session, const Parcel& sent, const Parcel& reply) override;

  // Reads and encodes own values into `room`, decodes them into own_. An Error where they may not travel.
  MixResult<Parcel> own_parcel(const Session& session, Cells cells, MutableBytes room, bool reply);
  // Checks a parcel from outside and decodes it into theirs_.
  MixResult<Done> receive(const Parcel& parcel);
  // Measures theirs_ against own_ and judges the whole chunk.
  MixResult<Mixed> judge(Cells cells);
  void take_all(Cells cells, float weight);
  std::span<const float> part(std::span<const float> chunk, Cells cells, std::size_t cell) const;

  Payload payload_;
  bool wary_;
  std::uint64_t seed_;
  Loans<> loans_;
  std::vector<Measure> measures_;        // of the chunk at hand, by its cells
  std::span<const float> own_, theirs_;  // the chunk at hand, as decoded: in the parcels or in the scratches
  Floats own_scratch_, theirs_scratch_;
};

// The seed of the chance in rounding one parcel.
std::uint64_t rounding_seed(std::uint64_t seed, const Session& session, std::size_t offset, bool reply);

// Whether a chunk is farther off than any honest partner would be: once kFarOffSeen distances of each of its cells
// are known, more than the root of the cells' sum of max(4 |own| at its largest, 16 medians)^2, times the leniency
// (medians.h), which a refusal raises.
bool far_off(Medians& medians, Cells cells, std::span<const Measure> measures);
inline constexpr std::uint64_t kFarOffSeen = 8;

// The Errors that several rules have.
MixError not_lent(std::size_t offset);
MixError own_diverged(std::size_t offset);
MixError unacceptable(std::size_t offset, std::span<const float> theirs);
MixError too_far(std::size_t offset);
MixError wrong_payload(const Parcel& parcel);

}  // namespace starling::training
