// The greatest eigenvalue of a symmetric operator that is known only by what it does to a vector (Lanczos 1950;
// Paige 1972 on why it works without reorthogonalization when, as here, only an extreme eigenvalue is wanted and
// copies of it do no harm). For the second-moment map of consensus.cc: an iteration that never restarts stays
// among the few dimensions that the graph's symmetries leave to its start, where restarted ones wander off.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace starling::topologies {

// `apply` writes A x to its second argument. `start` must not be orthogonal to the wanted eigenvector; what
// apply keeps out (by projecting) stays out. Stops when the eigenvalue's distance from 1 has settled to nine
// digits or to 1e-12; nullopt where that takes more than `steps_max` multiplications. A zero start yields 0.
std::optional<double> greatest_eigenvalue(
    const std::function<void(std::span<const double>, std::span<double>)>& apply, std::vector<double> start,
    int steps_max);

}  // namespace starling::topologies
