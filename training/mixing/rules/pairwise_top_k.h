// Pairwise averaging of a few coordinates. In every cell the initiator picks the coordinates that have
// changed most since they were last mixed; the responder answers with its own values of the same places; both
// mix only these. Other changes stay in the difference and are picked later (error feedback). Loans and
// weights are as in pairwise.h: others get 2x - a of a place that is lent, and the weight is 1/4 if any cell
// of the chunk is.
#pragma once

#include <cstdint>
#include <vector>

#include "training/mixing/rule_mixer.h"
#include "training/mixing/rules/top_k.h"

namespace starling::training {

struct LentEntries : Loan {
  Entries entries{};  // of the chunk, where they lie
};

// kept_ has every float as it was last mixed.
class PairwiseTopK : public RuleMixer<LentEntries> {
 public:
  PairwiseTopK(models::Arena& arena, const MixOptions& options)
      : RuleMixer(arena, options), fraction_(options.top_k) {
    keep_copy();
  }

 private:
  MixResult<Parcel> do_lend(const Session& session, Cells cells, MutableBytes room) override;
  MixResult<Mixed> do_complete(const Session& session, const Parcel& sent, const Parcel& reply) override;
  MixResult<Parcel> do_answer(const Session& session, Cells cells, const Parcel& offer,
                              MutableBytes room) override;

  // Reads these places into own_: x, or the free half of a lent place. Returns whether any cell of the chunk
  // is lent.
  bool read_own(Cells cells, std::span<const std::uint32_t> places);
  // Measures theirs against own, by cell, and judges the chunk.
  MixResult<Mixed> judge(const Session& session, Cells cells, const Entries& theirs,
                         std::span<const float> own);
  void take(const Session& session, Cells cells, const Entries& theirs, std::span<const float> own,
            float weight);

  double fraction_;
  std::vector<std::uint32_t> places_;  // scratch
  Floats cell_, mixed_;                // scratch
};

}  // namespace starling::training
