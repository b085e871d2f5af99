#include "topologies/spectra/eigenvalues.h"

#include <Eigen/Eigenvalues>

namespace starling::topologies {

std::optional<std::vector<std::complex<double>>> eigenvalues(std::span<const double> matrix, std::size_t n) {
  const auto size = static_cast<Eigen::Index>(n);
  const Eigen::MatrixXd dense = Eigen::Map<const Eigen::MatrixXd>(matrix.data(), size, size);
  const Eigen::EigenSolver<Eigen::MatrixXd> solver(dense, /*computeEigenvectors=*/false);
  if (solver.info() != Eigen::Success) return std::nullopt;
  return std::vector<std::complex<double>>(solver.eigenvalues().begin(), solver.eigenvalues().end());
}

}  // namespace starling::topologies
