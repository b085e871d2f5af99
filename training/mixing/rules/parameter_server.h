// Pushes to a parameter server, and pulls from it, in one exchange (DistBelief: Dean et al., NIPS 2012). The
// initiator keeps r, the last values from the server, and pushes its change d since then; the server adds its
// share w of d, and its new values come back:
//
//   d = x - r;   x_server += w d;   x += x_server - (r + d),  r = x_server
//
// What workers add meanwhile stays in x and is part of the next push, as is what rounding took from d.
#pragma once

#include "training/mixing/rule_mixer.h"

namespace starling::training {

// kept_ is r.
class ParameterServer : public RuleMixer<> {
 public:
  ParameterServer(models::Arena& arena, const MixOptions& options);

 private:
  MixResult<Parcel> do_lend(const Session& session, Cells cells, MutableBytes room) override;
  MixResult<Mixed> do_complete(const Session& session, const Parcel& sent, const Parcel& reply) override;
  MixResult<Parcel> do_answer(const Session& session, Cells cells, const Parcel& offer,
                              MutableBytes room) override;
};

}  // namespace starling::training
