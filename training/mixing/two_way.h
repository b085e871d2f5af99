// What the rules of two-way exchanges have in common: the initiator sends its values, the responder answers
// with its own, in one of the dense payloads, and each side mixes the decoded pair (theirs, own) by its rule.
// The chunk is read, encoded, decoded, measured and judged as a whole before its first float is mixed.
#pragma once

#include <cstdint>
#include <span>

#include "training/mixing/rule_mixer.h"

namespace starling::training {

class TwoWay : public RuleMixer<> {
 protected:
  TwoWay(models::Arena& arena, const MixOptions& options, bool bounded = true);

  MixResult<Parcel> do_answer(const Session& session, Cells cells, const Parcel& offer,
                              MutableBytes room) override;

  // The values of these cells that a partner gets now. Returns whether all of them are acceptable.
  virtual bool own_values(Cells cells, std::span<float> out) = 0;
  // Whether these values are the arena's own, which may then be encoded in the arena's memory.
  virtual bool own_are_arenas(Cells /*cells*/) const { return false; }
  // How values of these cells travel, in payload_: as encode() and decode().
  virtual void encode_values(Cells /*cells*/, std::span<const float> values, std::uint64_t seed,
                             MutableBytes out) const {
    encode(payload_, values, seed, out);
  }
  // Decodes the values of `cells` from a parcel that covers `sent`.
  virtual void decode_values(Bytes in, Cells sent, Cells cells, std::span<float> out) const {
    decode(payload_, in, grid_.floats(sent), grid_.offset(cells.first) - grid_.offset(sent.first), out);
  }
  // The weight to answer these cells with: what both sides mix.
  virtual float weight(const Session& session, Cells cells) const = 0;
  // Whether a reply may carry this weight, which is not 0.
  virtual bool known_weight(float weight) const = 0;
  // Moves this side of the cells, which judge_ has just measured, by what `weight` (own share included) says.
  // Returns whether it took less of the difference than that.
  virtual bool take(Cells cells, std::span<const float> theirs, std::span<const float> own, float weight);

  // The values of this cell that were lent. REQUIRES: loans_.of(cell); out.size() == grid().floats(cell).
  void lent_values(std::size_t cell, std::span<float> out) const;

  std::uint64_t sequence_ = 0;  // of the parcels that are sent
  bool in_order_ = false;       // parcels with another sequence are rejected
  bool exclusive_ = true;       // a cell is lent only once at a time

 private:
  MixResult<Parcel> do_lend(const Session& session, Cells cells, MutableBytes room) override;
  MixResult<Mixed> do_complete(const Session& session, const Parcel& sent, const Parcel& reply) override;

  // Encodes own values into `bytes`, with a payload other than f32. Returns whether all are acceptable.
  bool encode_own(Cells cells, std::uint64_t seed, MutableBytes bytes);
  // Reads and encodes own values into `room`, and leaves them decoded in view(parcel, own_). An Error if they
  // may not travel.
  MixResult<Parcel> own_parcel(const Session& session, Cells cells, MutableBytes room, bool reply);
  MixResult<Done> check_parcel(const Parcel& parcel) const;
  // The values of a parcel: where they lie if they are f32, else decoded into `scratch`, which view() expects
  // to be done.
  std::span<const float> view(const Parcel& parcel, const Floats& scratch) const;
  std::span<const float> decoded(Cells cells, const Parcel& parcel, Floats& scratch) const;
  MixResult<Mixed> mix(const Session& session, Cells cells, std::span<const float> theirs,
                       std::span<const float> own, float weight);
};

}  // namespace starling::training
