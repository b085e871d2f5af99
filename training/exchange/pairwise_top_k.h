// Pairwise averaging of a few coordinates: the initiator picks, of every cell, those that have changed most
// since they were last mixed; the responder answers with its own values of the same places; both mix only
// these. What is not picked stays in the difference and is picked later (error feedback). Loans and weights
// are those of pairwise.h: a place that is lent is worth 2x - a to others, and where any cell of a chunk is
// lent, 1/4 is mixed.
#pragma once

#include <cstdint>
#include <vector>

#include "training/exchange/floats.h"
#include "training/exchange/judge.h"
#include "training/exchange/loans.h"
#include "training/exchange/mix_target.h"
#include "training/exchange/mixer.h"
#include "training/exchange/options.h"
#include "training/exchange/top_k.h"
#include "training/exchange/values.h"

namespace starling::training {

class PairwiseTopK : public Mixer {
 public:
  PairwiseTopK(models::Arena& arena, const MixOptions& options);
  void adopt() override;
  void give_up(const Session& session, const Parcel& sent) override;
  void values(std::vector<MutableBytes>& out) override;

 private:
  struct LentEntries : Loan {
    Entries entries{};  // of the chunk, where they lie
  };

  MixResult<Parcel> do_lend(const Session& session, Cells cells, MutableBytes room) override;
  MixResult<Mixed> do_complete(const Session& session, const Parcel& sent, const Parcel& reply) override;
  MixResult<Parcel> do_answer(const Session& session, Cells cells, const Parcel& offer,
                              MutableBytes room) override;

  // Reads what this replica has to give of these places into own_: x, or the free half of what is lent.
  // Returns whether any cell of the chunk is lent.
  bool read_own(Cells cells, std::span<const std::uint32_t> places);
  // Measures theirs against own, by cell, and judges the chunk.
  MixResult<Mixed> judge(Cells cells, const Entries& theirs, std::span<const float> own);
  void take(Cells cells, const Entries& theirs, std::span<const float> own, float weight);

  MixTarget target_;
  Judge judge_;
  double fraction_;
  Floats reference_;  // every float as it was last mixed
  Loans<LentEntries> loans_;
  std::vector<std::uint32_t> places_;  // scratches
  Floats own_, cell_, mixed_;
};

}  // namespace starling::training
