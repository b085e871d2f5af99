// Eigenvalues of small dense matrices. Eigen's solver for general matrices takes seconds to compile, so only
// this function instantiates it.
#pragma once

#include <complex>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace starling::topologies {

// Of a real matrix [n, n] in column-major order. nullopt if the iteration does not converge.
std::optional<std::vector<std::complex<double>>> eigenvalues(std::span<const double> matrix, std::size_t n);

}  // namespace starling::topologies
