// A partner drawn uniformly from everyone at every exchange (Boyd, Ghosh, Prabhakar & Shah, "Randomized
// gossip algorithms", IEEE Transactions on Information Theory 52, 2006; GoSGD, Blot et al., arXiv:1611.09726,
// gossips so). Who may meet is the complete graph; nobody keeps n - 1 connections: one is made when it is
// drawn.
#include "topologies/family.h"

namespace starling::topologies {

Result<Family> make_uniform(Name& name) { return make_complete(name); }

}  // namespace starling::topologies
