// Gossip of compressed differences (CHOCO-SGD, Koloskova, Stich and Jaggi, ICML 2019), on links instead of
// neighborhoods, so that no peer waits. Both ends of a link keep a copy x^ of each side's public values.
// q = Q(x - x^) travels, both ways; then on both ends x^ += q for each side, and
//
//   x += gamma w (x^_partner - x^_own),
//
// One side gains what the other loses. What Q leaves out stays in x - x^ and travels later.
//
// Every q must be applied exactly once, in order, on both ends. So each cell of a link has a tag, a hash of
// all the exchanges that made its copies; an offer carries the tags' hash as its sequence. If the two ends do
// not agree (a reply was lost, a copy was dropped), the responder reports it, and the next offer has the
// sequence 0: it restarts from copies of zero, densely. If offers of the two ends cross on the same cells,
// only the lower id's is applied.
//
// Exchanges on other links overlap as in pairwise.h: while a cell's public value a is lent, others get
// 2x - a, at half the weight.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "training/mixing/rule_mixer.h"

namespace starling::training {

// Both ends' public values of one link.
struct ChocoLink {
  std::uint64_t partner = 0;
  std::uint64_t used = 0;           // when, in exchanges
  std::vector<std::uint64_t> tags;  // by cell; 0: no copies yet, or not the other end's
  Floats mine, theirs;
};
struct LentOnLink : Loan {
  ChocoLink* link = nullptr;
  std::uint64_t initiator = 0;
  bool yielded = false;  // to an offer of the partner that crossed it
};

class Choco : public RuleMixer<LentOnLink> {
 public:
  Choco(models::Arena& arena, const MixOptions& options);
  void adopt() override;
  void values(std::vector<MutableBytes>& out) override;

  std::size_t links() const { return links_.size(); }

 private:
  MixResult<Parcel> do_lend(const Session& session, Cells cells, MutableBytes room) override;
  MixResult<Mixed> do_complete(const Session& session, const Parcel& sent, const Parcel& reply) override;
  MixResult<Parcel> do_answer(const Session& session, Cells cells, const Parcel& offer,
                              MutableBytes room) override;

  ChocoLink& link_to(std::uint64_t partner);
  // The hash of the cells' tags; 0 if one is 0.
  std::uint64_t sequence(const ChocoLink& link, Cells cells) const;
  void forget_copies(ChocoLink& link, Cells cells);

  // Encodes x - x^ (x^ = 0 if sequence is 0) into room, and leaves x^ + q in own_.
  MixResult<Parcel> own_parcel(const Session& session, Cells cells, const ChocoLink& link,
                               std::uint64_t sequence, MutableBytes room, bool reply);
  // out = x^ + q, from one end's copy and a checked parcel. REQUIRES: out has the chunk's floats.
  void publish(const Parcel& parcel, std::span<const float> copy, std::span<float> out) const;
  MixResult<Done> check_shape(const Parcel& parcel) const;
  // x += weight gamma (theirs_ - own_); theirs_ and own_ become the copies.
  void commit(const Session& session, Cells cells, ChocoLink& link, float weight);

  double fraction_;
  float rate_;  // gamma
  std::size_t links_most_;
  std::uint64_t uses_ = 0;
  std::vector<std::unique_ptr<ChocoLink>> links_;
  Floats values_;                      // scratch
  std::vector<std::uint32_t> places_;  // scratch
};

}  // namespace starling::training
