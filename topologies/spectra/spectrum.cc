#include "topologies/spectra/spectrum.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuse-after-free"  // a false positive of GCC 12 for a vector inside Spectra
#endif

#include <Spectra/GenEigsSolver.h>
#include <Spectra/SymEigsShiftSolver.h>
#include <Spectra/SymEigsSolver.h>
#include <Eigen/Eigenvalues>
#include <Eigen/SparseCholesky>

#include <algorithm>
#include <cmath>
#include <exception>
#include <vector>

#include "base/random.h"
#include "topologies/spectra/eigenvalues.h"

namespace starling::topologies {
namespace {

using Eigen::Index;
using Vector = Eigen::VectorXd;
using Map = Eigen::Map<const Vector>;

constexpr Index kDenseSymmetricMax = 512, kDenseGeneralMax = 300;
constexpr double kMultiplicationsMax = 2e9;  // of an iteration
constexpr double kFactorFlopsMax = 3e9;      // of a sparse factorization
constexpr double kTolerance = 1e-11;         // of shift-invert and Arnoldi, relative
constexpr double kLanczosTolerance = 1e-9;   // of the residual; the error of the eigenvalue is its square
constexpr double kExact = 1e-9;              // the rounding error of an exact average
constexpr double kShift = 1e-9;              // distance of the shifts from the spectrum

Vector random_disagreement(Index n) {
  Random random(1);
  Vector x(n);
  for (double& v : x) v = random.normal();
  x.array() -= x.mean();
  return x;
}

// L = (I - W) / scale, whose eigenvalues lie in [0, 2]; `scale` is the greatest diagonal entry of I - W.
class Laplacian {
 public:
  explicit Laplacian(const MixingMatrix& w) : w_(w), diagonal_(w.nodes()) {
    for (std::uint32_t i = 0; i < w.nodes(); ++i) {
      double taken = 0;
      for (std::size_t k = w.begin[i]; k < w.begin[i + 1]; ++k)
        if (w.from[k] != i) taken += w.weight[k];
      diagonal_[i] = taken;
    }
    scale_ = diagonal_.maxCoeff();
    if (scale_ > 0) diagonal_ /= scale_;
  }

  double scale() const { return scale_; }
  std::size_t entries() const { return w_.from.size(); }

  // The operator for Lanczos: y = (I - L) x, with the eigenvalue of the vector of ones moved from 1 to 0.
  using Scalar = double;
  Index rows() const { return diagonal_.size(); }
  Index cols() const { return rows(); }
  void perform_op(const double* x, double* y) const {
    const double mean = Map(x, rows()).mean();
    for (std::uint32_t i = 0; i < w_.nodes(); ++i) {
      double sum = 0;
      for (std::size_t k = w_.begin[i]; k < w_.begin[i + 1]; ++k)
        if (w_.from[k] != i) sum += w_.weight[k] * x[w_.from[k]];
      y[i] = (1 - diagonal_[i]) * x[i] + sum / scale_ - mean;
    }
  }

  Eigen::MatrixXd dense() const {
    Eigen::MatrixXd m = diagonal_.asDiagonal();
    for_each_below([&](Index i, Index j, double value) { m(i, j) = m(j, i) = value; });
    return m;
  }
  Eigen::SparseMatrix<double> lower_triangle() const {
    std::vector<Eigen::Triplet<double>> entries;
    for (Index i = 0; i < rows(); ++i) entries.emplace_back(i, i, diagonal_[i]);
    for_each_below([&](Index i, Index j, double value) { entries.emplace_back(i, j, value); });
    Eigen::SparseMatrix<double> m(rows(), rows());
    m.setFromTriplets(entries.begin(), entries.end());
    return m;
  }

 private:
  template <class F>
  void for_each_below(F f) const {
    for (std::uint32_t i = 0; i < w_.nodes(); ++i)
      for (std::size_t k = w_.begin[i]; k < w_.begin[i + 1] && w_.from[k] < i; ++k)
        f(Index{i}, Index{w_.from[k]}, -w_.weight[k] / scale_);
  }

  const MixingMatrix& w_;
  Vector diagonal_;
  double scale_ = 0;
};

enum class End { least, greatest };

// The number of restarts of `steps` multiplications each within the budget.
Index restarts(double work_per_step, Index steps) {
  return static_cast<Index>(
      std::clamp(kMultiplicationsMax / (work_per_step * static_cast<double>(steps)), 3.0, 1000.0));
}

Distances by_dense_solver(const Laplacian& laplacian) {
  Eigen::MatrixXd m = laplacian.dense();
  m.array() += 3.0 / static_cast<double>(m.rows());  // moves the vector of ones to 3, above all others
  const Vector values =
      Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(m, Eigen::EigenvaluesOnly).eigenvalues();
  return Distances{values[0], values[values.size() - 2]};
}

// One end of the spectrum of L on the disagreement space, by Lanczos with restarts. Fast if it is isolated.
std::optional<double> by_lanczos(Laplacian& laplacian, End end) {
  const Index n = laplacian.rows(), steps = 40;
  const Vector start = random_disagreement(n);
  Vector image(n);
  laplacian.perform_op(start.data(), image.data());
  const double middle = start.dot(image) / start.squaredNorm();
  if ((image - middle * start).norm() < kTolerance * start.norm())
    return 1 - middle;  // all eigenvalues are equal: a complete graph
  Spectra::SymEigsSolver<Laplacian> solver(laplacian, 1, steps);
  solver.init(start.data());
  const double work = static_cast<double>(laplacian.entries()) + 2.0 * static_cast<double>(steps * n);
  const auto rule =
      end == End::least ? Spectra::SortRule::LargestAlge : Spectra::SortRule::SmallestAlge;  // of I - L
  if (solver.compute(rule, restarts(work, steps), kLanczosTolerance) < 1) return std::nullopt;
  return 1 - solver.eigenvalues()[0];
}

// (L - shift)^-1, for shifts outside the spectrum: the matrix is definite, so the factorization is stable.
class Inverse {
 public:
  using Scalar = double;

  explicit Inverse(const Laplacian& laplacian) : lower_(laplacian.lower_triangle()) {
    factor_.analyzePattern(lower_);
  }
  double flops() const { return factor_.flops(); }  // of a factorization
  Index rows() const { return lower_.rows(); }
  Index cols() const { return rows(); }
  void set_shift(double shift) {
    factor_.setShift(-shift);
    factor_.factorize(lower_);
  }
  void perform_op(const double* x, double* y) const {
    Eigen::Map<Vector>(y, rows()) = factor_.solve(Map(x, rows()));
  }

 private:
  struct Factor : Eigen::SimplicialLDLT<Eigen::SparseMatrix<double>> {
    double flops() const {
      double sum = 0;
      for (Index k = 0; k < m_nonZerosPerCol.size(); ++k) sum += std::pow(m_nonZerosPerCol[k], 2);
      return sum;
    }
  };
  Eigen::SparseMatrix<double> lower_;
  Factor factor_;
};

// The same by shift-invert, for graphs that mix slowly: their spectrum is dense near 0. The factorization is
// cheap for them, because they are long, planar or trees.
std::optional<double> by_factorization(const Laplacian& laplacian, End end) {
  Inverse inverse(laplacian);
  if (inverse.flops() > kFactorFlopsMax) return std::nullopt;
  // The eigenvalue nearest to -shift is 0, of the vector of ones; the next one is the result.
  const Index count = end == End::least ? 2 : 1;
  Spectra::SymEigsShiftSolver<Inverse> solver(inverse, count, 24, end == End::least ? -kShift : 2 + kShift);
  solver.init(Vector(random_disagreement(laplacian.rows()).array() + 1).data());
  if (solver.compute(Spectra::SortRule::LargestMagn, 100, kTolerance) < count) return std::nullopt;
  return solver.eigenvalues().maxCoeff();
}

template <class F>
auto unless_thrown(F solve) -> decltype(solve()) {
  try {
    return solve();
  } catch (const std::exception&) {  // the library throws if an iteration breaks down
    return std::nullopt;
  }
}

// x -> P W_k ... W_1 x with P = I - 11'/n.
class Period {
 public:
  using Scalar = double;

  explicit Period(std::span<const MixingMatrix> rounds) : rounds_(rounds), scratch_(rounds[0].nodes()) {}
  Index rows() const { return scratch_.size(); }
  Index cols() const { return rows(); }
  double work() const {
    double sum = 0;
    for (const MixingMatrix& w : rounds_) sum += static_cast<double>(w.from.size());
    return sum;
  }
  void perform_op(const double* x, double* y) const {
    Eigen::Map<Vector> out(y, rows());
    scratch_ = Map(x, rows());
    for (const MixingMatrix& w : rounds_) {
      const auto size = static_cast<std::size_t>(rows());
      multiply(w, std::span<const double>(scratch_.data(), size), std::span<double>(y, size));
      scratch_ = out;
    }
    out.array() -= out.mean();
  }

 private:
  std::span<const MixingMatrix> rounds_;
  mutable Vector scratch_;
};

}  // namespace

std::optional<Distances> symmetric_distances(const MixingMatrix& w) {
  if (w.nodes() <= 1) return Distances{1, 1};
  Laplacian laplacian(w);
  if (laplacian.scale() <= 0) return Distances{0, 0};  // W is the identity
  const auto unscaled = [&](double least, double greatest) {
    return Distances{std::max(0.0, least * laplacian.scale()), greatest * laplacian.scale()};
  };
  if (laplacian.rows() <= kDenseSymmetricMax) {
    const Distances found = by_dense_solver(laplacian);
    return unscaled(found.least, found.greatest);
  }
  const auto find = [&](End end) {
    const auto quick = unless_thrown([&] { return by_lanczos(laplacian, end); });
    return quick ? quick : unless_thrown([&] { return by_factorization(laplacian, end); });
  };
  const auto least = find(End::least);
  if (!least) return std::nullopt;
  // No eigenvalue of L is above 2 (Gershgorin); usually this bound is enough for the other end.
  if (2 / laplacian.scale() - 2 >= *least) return unscaled(*least, 2);
  const auto greatest = find(End::greatest);
  if (!greatest) return std::nullopt;
  return unscaled(*least, *greatest);
}

std::optional<double> period_modulus(std::span<const MixingMatrix> rounds) {
  const Index n = rounds.front().nodes(), steps = 40;
  if (n <= 1) return 0;
  Period period(rounds);
  const Vector start = random_disagreement(n);
  Vector left(n);
  period.perform_op(start.data(), left.data());
  if (left.norm() < kExact * start.norm()) return 0;
  if (n <= kDenseGeneralMax) {
    Eigen::MatrixXd product(n, n);
    for (Index i = 0; i < n; ++i) {
      const Vector unit = Vector::Unit(n, i);
      period.perform_op(unit.data(), product.col(i).data());
    }
    const auto values =
        eigenvalues({product.data(), static_cast<std::size_t>(product.size())}, static_cast<std::size_t>(n));
    if (!values) return std::nullopt;
    double greatest = 0;
    for (const auto& value : *values) greatest = std::max(greatest, std::abs(value));
    return greatest;
  }
  return unless_thrown([&]() -> std::optional<double> {
    Spectra::GenEigsSolver<Period> solver(period, 2, steps);
    solver.init(start.data());
    const double work = period.work() + 2.0 * static_cast<double>(steps * n);
    if (solver.compute(Spectra::SortRule::LargestMagn, restarts(work, steps), kTolerance) < 1)
      return std::nullopt;
    return solver.eigenvalues().cwiseAbs().maxCoeff();
  });
}

bool is_symmetric(const MixingMatrix& w) {
  for (std::uint32_t i = 0; i < w.nodes(); ++i) {
    for (std::size_t k = w.begin[i]; k < w.begin[i + 1]; ++k) {
      const auto row =
          std::span(w.from).subspan(w.begin[w.from[k]], w.begin[w.from[k] + 1] - w.begin[w.from[k]]);
      const auto back = std::lower_bound(row.begin(), row.end(), i);
      if (back == row.end() || *back != i) return false;
      const double other = w.weight[w.begin[w.from[k]] + static_cast<std::size_t>(back - row.begin())];
      if (std::abs(other - w.weight[k]) > 1e-12) return false;
    }
  }
  return true;
}

}  // namespace starling::topologies
