// What the rules of two-way exchanges have in common: the initiator's values travel, the responder's come
// back, in one of the dense payloads, and each side does with the pair (theirs, own), as decoded, what its
// rule says. Here the chunk is read, encoded, decoded, measured and judged as a whole before the first float
// of it is mixed.
#pragma once

#include <cstdint>
#include <span>

#include "training/exchange/floats.h"
#include "training/exchange/judge.h"
#include "training/exchange/loans.h"
#include "training/exchange/mix_target.h"
#include "training/exchange/mixer.h"
#include "training/exchange/options.h"

namespace starling::training {

class TwoWay : public Mixer {
 public:
  void adopt() override;
  void give_up(const Session& session, const Parcel& sent) override;
  void values(std::vector<MutableBytes>& out) override;

 protected:
  // `arena` outlives the mixer. `bounded`: chunks may be refused for being far off.
  TwoWay(models::Arena& arena, const MixOptions& options, bool bounded = true);

  MixResult<Parcel> do_answer(const Session& session, Cells cells, const Parcel& offer,
                              MutableBytes room) override;

  // The values of these cells that a partner gets now. Returns whether all of them are acceptable.
  virtual bool own_values(Cells cells, std::span<float> out) = 0;
  // Whether these values are the arena's own, which may then be encoded where they lie instead.
  virtual bool own_are_arenas(Cells /*cells*/) const { return false; }
  // The weight to answer these cells with: what both sides mix.
  virtual float weight(const Session& session, Cells cells) const = 0;
  // Whether a reply may carry this weight, which is not 0.
  virtual bool known_weight(float weight) const = 0;
  // What a parcel's sequence is, and whether one that came fits.
  virtual std::uint64_t sequence() const { return 0; }
  virtual bool fits(std::uint64_t /*sequence*/) const { return true; }
  // Whether a cell may be lent but once at a time.
  virtual bool exclusive() const { return true; }
  // Moves this side of the cells, which judge_ has just measured, by what `weight` (own share included) says.
  // Returns whether it took less of the difference than the weight says.
  virtual bool take(Cells cells, std::span<const float> theirs, std::span<const float> own, float weight) = 0;

  bool lent(std::size_t cell) const { return loans_.of(cell) != nullptr; }
  // The values of this cell that were lent. REQUIRES: lent(cell); out.size() == grid().floats(cell).
  void lent_values(std::size_t cell, std::span<float> out) const;

  MixTarget target_;
  Judge judge_;

 private:
  MixResult<Parcel> do_lend(const Session& session, Cells cells, MutableBytes room) override;
  MixResult<Mixed> do_complete(const Session& session, const Parcel& sent, const Parcel& reply) override;

  // Encodes own values into `bytes`, which is not done with f32. Returns whether all of them are acceptable.
  bool encode_own(Cells cells, std::uint64_t seed, MutableBytes bytes);
  // Reads and encodes own values into `room`, decodes them into own_. An Error where they may not travel.
  MixResult<Parcel> own_parcel(const Session& session, Cells cells, MutableBytes room, bool reply);
  // Checks a parcel from outside and decodes it into theirs_.
  MixResult<Done> receive(const Parcel& parcel);
  void mix(Cells cells, float weight);

  Payload payload_;
  std::uint64_t seed_;
  Loans<> loans_;
  std::span<const float> own_, theirs_;  // the chunk at hand, as decoded: in the parcels or in the scratches
  Floats own_scratch_, theirs_scratch_;
};

}  // namespace starling::training
