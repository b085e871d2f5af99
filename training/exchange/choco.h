// Gossip of compressed differences (CHOCO-SGD, Koloskova, Stich and Jaggi, ICML 2019), on links instead of
// neighborhoods, so that nobody waits. Both ends of a link keep a copy x^ of either side's public values.
// What travels is q = Q(x - x^), both ways; then on both ends x^ += q for either side, and
//
//   x += gamma w (x^_partner - x^_own),
//
// by which one side gains what the other loses. What Q leaves out stays in x - x^ and travels later.
//
// Every q must be applied exactly once, in order, on both ends. So each cell of a link has a tag, a hash of
// all the exchanges that made its copies; an offer carries the tags' hash as its sequence. Where the two ends
// do not agree (a reply was lost, a copy was dropped) the responder says so, and the next offer has the
// sequence 0: it begins anew from copies of zero, densely. Offers of the two ends that cross on the same
// cells cannot both be applied: the lower id's is.
//
// Overlap with exchanges on other links is ruled as in pairwise.h: of a cell whose public value a was lent,
// others get 2x - a, at half the weight.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "training/exchange/floats.h"
#include "training/exchange/judge.h"
#include "training/exchange/loans.h"
#include "training/exchange/mix_target.h"
#include "training/exchange/mixer.h"
#include "training/exchange/options.h"
#include "training/exchange/values.h"

namespace starling::training {

class Choco : public Mixer {
 public:
  Choco(models::Arena& arena, const MixOptions& options);
  void adopt() override;
  void give_up(const Session& session, const Parcel& sent) override;
  void values(std::vector<MutableBytes>& out) override;

  std::size_t links() const { return links_.size(); }

 private:
  struct Link {
    std::uint64_t partner = 0;
    std::uint64_t used = 0;           // when, in exchanges
    std::vector<std::uint64_t> tags;  // by cell; 0: no copies yet, or not those of the other end
    Floats mine, theirs;              // public values
  };
  struct LentOn : Loan {
    Link* link = nullptr;
    std::uint64_t initiator = 0;
    bool yielded = false;  // to an offer of the partner's that crossed it
  };

  MixResult<Parcel> do_lend(const Session& session, Cells cells, MutableBytes room) override;
  MixResult<Mixed> do_complete(const Session& session, const Parcel& sent, const Parcel& reply) override;
  MixResult<Parcel> do_answer(const Session& session, Cells cells, const Parcel& offer,
                              MutableBytes room) override;

  Link& link_to(std::uint64_t partner);
  // Of the cells' tags; 0 where one is 0.
  std::uint64_t sequence(const Link& link, Cells cells) const;
  void forget_copies(Link& link, Cells cells);

  // Encodes x - x^ (from zero where sequence is 0) into room, and leaves x^ + q in own_.
  MixResult<Parcel> own_parcel(const Session& session, Cells cells, const Link& link, std::uint64_t sequence,
                               MutableBytes room, bool reply);
  // out = x^ + q, of one end's copy and a parcel whose shape is right. REQUIRES: out has the chunk's floats.
  void publish(const Parcel& parcel, std::span<const float> copy, std::span<float> out) const;
  MixResult<Done> check_shape(const Parcel& parcel) const;
  // x += weight gamma (theirs_ - own_), and the copies are theirs_ and own_ from now on.
  void commit(const Session& session, Cells cells, Link& link, float weight);

  MixTarget target_;
  Judge judge_;
  Payload payload_;
  double fraction_;
  float rate_;  // gamma
  std::size_t links_most_;
  std::uint64_t seed_;
  std::uint64_t uses_ = 0;
  std::vector<std::unique_ptr<Link>> links_;
  Loans<LentOn> loans_;
  Floats own_, theirs_, values_;  // scratches
  std::vector<std::uint32_t> places_;
};

// The consensus rate that goes with a payload, where none is set.
double default_consensus_rate(const MixOptions& options);

}  // namespace starling::training
