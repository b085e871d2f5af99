// How fast repeated mixing forgets a disagreement: eigenvalues of mixing matrices on the disagreement space
// (the vectors whose entries sum to 0). Dense solvers up to a few hundred nodes, iterations beyond. The only
// code of this room, beside push.cc, that meets the numerical libraries.
#pragma once

#include <optional>
#include <span>

#include "topologies/mixing.h"

namespace starling::topologies {

// The least and the greatest eigenvalue of I - W on the disagreement space: as distances from 1 they keep
// their digits where W's own eigenvalues lie within rounding of it. Where 2 - greatest is larger than least,
// `greatest` may be an upper bound alone: the second-largest modulus, 1 - min(least, 2 - greatest), is the
// same.
struct Distances {
  double least, greatest;
};

// For W symmetric with rows that sum to 1 (its diagonal is not read). {1, 1} for a single node. nullopt where
// neither an iteration nor a factorization settles within its budget.
std::optional<Distances> symmetric_distances(const MixingMatrix& w);

// The spectral radius, on the disagreement space, of W_k ... W_2 W_1, the rounds of a period: by how much a
// whole period shrinks a disagreement in the long run. Exactly 0 where a period leaves less than 1e-9 of it.
// The matrices keep sums (columns sum to 1) or constants (rows sum to 1). nullopt where it does not converge.
std::optional<double> period_modulus(std::span<const MixingMatrix> rounds);

bool is_symmetric(const MixingMatrix& w);

}  // namespace starling::topologies
