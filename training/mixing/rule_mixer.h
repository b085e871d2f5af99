// What the mixers of all rules consist of: the arena as they change it, the judge of what comes, the payload,
// and the chunks that are lent.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "models/arena.h"
#include "training/mixing/judge.h"
#include "training/mixing/mixer.h"
#include "training/mixing/payload.h"
#include "training/mixing/values.h"

namespace starling::training {

// The arena as a rule changes it: downwards. Workers' updates run upwards through the arena: a mix that also
// did could keep step with one for a whole chunk, and every element that both touch may lose an update. In
// opposite directions the two meet once, in one block.
class MixTarget {
 public:
  // `exact`: as MixOptions. `arena` outlives it.
  MixTarget(models::Arena& arena, bool exact) : arena_(arena), exact_(exact) {}

  // out = x. Returns whether all of it is acceptable (values.h).
  bool read(std::size_t offset, std::span<float> out) const {
    return arena_.read(offset, out) <= kLargestMagnitude;
  }

  // The same for `count` floats, encoded as by encode(); nullopt if the arena's memory cannot encode.
  std::optional<bool> read_encoded(std::size_t offset, std::size_t count, Payload payload, std::uint64_t seed,
                                   MutableBytes out) const {
    if (payload != Payload::bf16 && payload != Payload::int8) return std::nullopt;
    const auto packing = payload == Payload::bf16 ? kernels::Packing::bf16 : kernels::Packing::int8;
    const auto largest = arena_.read_packed(offset, count, packing, seed, out);
    return largest ? std::optional(*largest <= kLargestMagnitude) : std::nullopt;
  }

  // x += w (theirs - own). REQUIRES: both have the same length, which fits behind `offset`.
  void mix(std::size_t offset, std::span<const float> theirs, std::span<const float> own, float w) {
    if (!exact_) return arena_.mix(offset, theirs, own, w);
    delta_.resize(theirs.size());
    for (std::size_t i = 0; i < theirs.size(); ++i) delta_[i] = w * (theirs[i] - own[i]);
    arena_.atomic_add(offset, delta_);
  }

  // x += delta, in blocks, the last one first.
  void add(std::size_t offset, std::span<const float> delta) {
    if (exact_) return arena_.atomic_add(offset, delta);
    constexpr std::size_t kBlock = 512;  // floats
    for (std::size_t n = delta.size(); n > 0;) {
      const std::size_t count = (n - 1) % kBlock + 1;
      n -= count;
      arena_.add(offset + n, delta.subspan(n, count));
    }
  }

  // As mix(), only at some places, counted from `offset`; `mixed` receives what is there afterwards.
  // REQUIRES: all four have the same length.
  void mix_at(std::size_t offset, std::span<const std::uint32_t> places, std::span<const float> theirs,
              std::span<const float> own, float w, std::span<float> mixed) {
    if (!exact_) return arena_.mix_at(offset, places, theirs, own, w, mixed);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const float delta = w * (theirs[i] - own[i]);
      arena_.atomic_add(offset + places[i], std::span(&delta, 1));
      arena_.read(offset + places[i], mixed.subspan(i, 1));
    }
  }

 private:
  models::Arena& arena_;
  bool exact_;
  Floats delta_;  // scratch
};

// An own chunk that is on its way: sent, and neither answered nor given up.
struct Loan {
  std::uint64_t exchange = 0;
  Cells cells{};
  Parcel sent{};
};

// Few at a time (a window), so a list is the fastest to search.
template <class T>
class Loans {
 public:
  void add(T loan) { list_.push_back(std::move(loan)); }
  // Removes and returns the loan; nullopt if it is over, or never was.
  std::optional<T> finish(const Session& session, const Parcel& sent) {
    const auto found = std::find_if(list_.begin(), list_.end(), [&](const T& loan) {
      return loan.exchange == session.exchange && loan.sent.offset == sent.offset &&
             loan.sent.floats == sent.floats;
    });
    if (found == list_.end()) return std::nullopt;
    std::optional<T> loan = std::move(*found);
    list_.erase(found);
    return loan;
  }
  // One that covers the cell, or null.
  const T* of(std::size_t cell) const {
    const auto found = std::find_if(list_.begin(), list_.end(), [cell](const T& loan) {
      return cell >= loan.cells.first && cell - loan.cells.first < loan.cells.count;
    });
    return found == list_.end() ? nullptr : &*found;
  }
  T* of(std::size_t cell) { return const_cast<T*>(std::as_const(*this).of(cell)); }
  // Whether one covers any of these cells.
  bool any_in(Cells cells) const {
    return std::any_of(list_.begin(), list_.end(), [cells](const T& loan) {
      return loan.cells.first < cells.first + cells.count &&
             cells.first < loan.cells.first + loan.cells.count;
    });
  }
  void clear() { list_.clear(); }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }

 private:
  std::vector<T> list_;
};

// `T`: a Loan, and what the rule keeps with it.
template <class T = Loan>
class RuleMixer : public Mixer {
 public:
  void adopt() override {
    loans_.clear();
    judge_.clear();
    if (!kept_.empty()) keep_copy();
  }
  void trust() override { judge_.trust(); }
  void give_up(const Session& session, const Parcel& sent) override { loans_.finish(session, sent); }
  void values(std::vector<MutableBytes>& out) override {
    Mixer::values(out);
    judge_.values(out);
    if (!kept_.empty()) out.push_back(std::as_writable_bytes(std::span(kept_)));
  }

 protected:
  // `arena` outlives the mixer. `bounded`: chunks may be rejected for being far off.
  RuleMixer(models::Arena& arena, const MixOptions& options, bool bounded = true)
      : Mixer(arena, options.cell_floats),
        target_(arena, options.exact),
        judge_(grid_, options.wary && bounded),
        payload_(options.payload),
        seed_(options.seed) {}

  // The rule has kept_: called by its constructor.
  void keep_copy() {
    kept_.resize(grid_.arena_floats);
    target_.read(0, kept_);
  }

  // Whether a parcel from outside has this dense payload and the length of its floats.
  MixResult<Done> check_dense(const Parcel& parcel, Payload payload) const {
    if (parcel.payload != payload || parcel.entries != 0 ||
        parcel.values.size() != encoded_bytes(payload, parcel.floats)) {
      return wrong_payload(parcel);
    }
    return Done{};
  }
  // Decodes the values of a parcel that passed check_dense().
  void decode_into(Floats& values, const Parcel& parcel) const {
    values.resize(parcel.floats);
    decode(payload_, parcel.values, parcel.floats, 0, values);
  }
  // Encodes the values of a parcel at `offset` into `room`. REQUIRES: `payload` is dense.
  Bytes encode_dense(Payload payload, std::span<const float> values, const Session& session,
                     std::size_t offset, bool reply, MutableBytes room) const {
    const MutableBytes bytes = room.first(encoded_bytes(payload, values.size()));
    encode(payload, values, rounding_seed(seed_, session, offset, reply), bytes);
    return bytes;
  }

  MixTarget target_;
  Judge judge_;
  Payload payload_;
  std::uint64_t seed_;
  Loans<T> loans_;
  Floats kept_;          // begins as a copy of the adopted arena; empty if the rule has none
  Floats own_, theirs_;  // scratch
};

}  // namespace starling::training
