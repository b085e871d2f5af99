// How fast repeated mixing reduces a disagreement: eigenvalues of mixing matrices on the disagreement space
// (the vectors whose entries sum to 0), by dense solvers for up to a few hundred nodes, else by iterations.
#pragma once

#include <optional>
#include <span>

#include "topologies/spectra/mixing.h"

namespace starling::topologies {

// The least and the greatest eigenvalue of I - W on the disagreement space. As distances from 1 they stay
// accurate even if eigenvalues of W equal 1 to rounding. If 2 - greatest is larger than least, `greatest` may
// be only an upper bound; this does not change the second-largest modulus, 1 - min(least, 2 - greatest).
struct Distances {
  double least, greatest;
};

// For a symmetric W with rows that sum to 1 (the diagonal is not read). {1, 1} for a single node. nullopt if
// neither an iteration nor a factorization succeeds within its budget.
std::optional<Distances> symmetric_distances(const MixingMatrix& w);

// The spectral radius, on the disagreement space, of W_k ... W_2 W_1, the rounds of a period: the factor by
// which a period reduces a disagreement in the long run. Exactly 0 if a period leaves less than 1e-9 of it.
// The matrices preserve sums (columns sum to 1) or constants (rows sum to 1). nullopt without convergence.
std::optional<double> period_modulus(std::span<const MixingMatrix> rounds);

bool is_symmetric(const MixingMatrix& w);

}  // namespace starling::topologies
