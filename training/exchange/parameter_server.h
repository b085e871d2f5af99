// Pushes to a parameter server, and pulls from it, in one exchange (DistBelief: Dean et al., NIPS 2012). The
// initiator keeps r, what it had from the server last, and pushes by how much it has gone on from there; the
// server adds its share w of that, and its new values come back:
//
//   d = x - r;   x_server += w d;   x += x_server - (r + d),  r = x_server
//
// What workers add meanwhile stays, and goes with the next push. So does what a payload's rounding took from
// d.
#pragma once

#include <cstdint>

#include "training/exchange/floats.h"
#include "training/exchange/judge.h"
#include "training/exchange/loans.h"
#include "training/exchange/mix_target.h"
#include "training/exchange/mixer.h"
#include "training/exchange/options.h"

namespace starling::training {

class ParameterServer : public Mixer {
 public:
  ParameterServer(models::Arena& arena, const MixOptions& options);
  void adopt() override;
  void give_up(const Session& session, const Parcel& sent) override { loans_.finish(session, sent); }
  void values(std::vector<MutableBytes>& out) override;

 private:
  MixResult<Parcel> do_lend(const Session& session, Cells cells, MutableBytes room) override;
  MixResult<Mixed> do_complete(const Session& session, const Parcel& sent, const Parcel& reply) override;
  MixResult<Parcel> do_answer(const Session& session, Cells cells, const Parcel& offer,
                              MutableBytes room) override;

  MixResult<Done> receive(const Parcel& parcel, Floats& values) const;

  MixTarget target_;
  Judge judge_;
  Payload payload_;
  std::uint64_t seed_;
  Floats pulled_;  // r, of the whole arena
  Loans<> loans_;
  Floats own_, theirs_;  // scratch
};

}  // namespace starling::training
