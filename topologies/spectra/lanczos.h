// The greatest eigenvalue of a symmetric operator that is given by its product with a vector (Lanczos 1950;
// Paige 1972 shows why no reorthogonalization is needed if, as here, only an extreme eigenvalue is wanted and
// copies of it are harmless). For the second-moment map of consensus.cc: an iteration without restarts stays
// in the small subspace to which the symmetries of the graph confine its start; restarts leave it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace starling::topologies {

// `apply` writes A x to its second argument; components that it projects out stay out. `start` must not be
// orthogonal to the wanted eigenvector. Stops when the distance of the eigenvalue from 1 has converged to
// nine digits or to 1e-12; nullopt after `steps_max` multiplications. 0 if `start` is zero.
std::optional<double> greatest_eigenvalue(
    const std::function<void(std::span<const double>, std::span<double>)>& apply, std::vector<double> start,
    int steps_max);

}  // namespace starling::topologies
