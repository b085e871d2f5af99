// The two ends of the spectrum of a symmetric operator that is known only by what it does to a vector
// (Lanczos 1950; Paige 1972 on why it works without reorthogonalisation when, as here, only extreme
// eigenvalues are wanted and copies of them do no harm). For the graphs and second-moment maps that are too
// large for a dense solver.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace starling::topologies {

struct Extremes {
  double least, greatest;
};

// `apply` writes A x to its second argument. `start` must not be orthogonal to the wanted eigenvectors; what
// apply keeps out (by projecting) stays out. Stops when 1 - |end| of both ends has settled to six digits;
// nullopt where that takes more than `steps_max` multiplications. A zero start yields {0, 0}.
std::optional<Extremes> extreme_eigenvalues(
    const std::function<void(std::span<const double>, std::span<double>)>& apply, std::vector<double> start,
    int steps_max);

}  // namespace starling::topologies
