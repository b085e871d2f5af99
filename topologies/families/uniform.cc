// The complete graph, in which a partner is drawn uniformly from all peers for every exchange (Boyd, Ghosh,
// Prabhakar & Shah, "Randomized gossip algorithms", IEEE Transactions on Information Theory 52, 2006; used by
// GoSGD, Blot et al., arXiv:1611.09726). A connection is made when it is drawn, so no peer keeps n - 1.
#include "topologies/family.h"

namespace starling::topologies {

Result<Family> make_uniform(Name& name) { return make_complete(name); }

}  // namespace starling::topologies
