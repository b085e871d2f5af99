// Asynchronous push-sum gossip, as topologies/spectra/analysis.h describes it: the push clocks, and the
// factor by which an event reduces the disagreement.
#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "topologies/spectra/analysis.h"
#include "topologies/spectra/eigenvalues.h"

namespace starling::topologies {
namespace {

using Eigen::Index;
using Vector = Eigen::VectorXd;

constexpr std::size_t kPushClocksMax = std::size_t{1} << 26;
constexpr Index kStepsMax = 400;
constexpr double kSettled = 1e-7;  // relative change of the rate between two checks

// T: M -> sum_a p_a K_a M K_a' on symmetric matrices [n, n] as vectors: the effect of an event on the second
// moments of y = u (x - mean). K = I + b e_i'/2 with b = e_j - e_i, so K m K' = m + (b v' + v b')/2 + m_ii b
// b'/4 with v = m e_i. As in consensus.cc, half of the change is summed up and its transpose is added at the
// end. Matrices that do not vanish on the vector of ones arise only from rounding (K preserves sums); they
// are projected out, to eigenvalue 0.
class PushMoments {
 public:
  PushMoments(Index n, std::span<const PushClock> clocks) : n_(n), clocks_(clocks), rows_(n, n) {}

  void apply(const Vector& in, Vector& out) {
    const Eigen::Map<const Eigen::MatrixXd> m(in.data(), n_, n_);  // symmetric: rows are columns
    rows_.setZero();
    for (const PushClock& a : clocks_) {
      const Index i = a.from, j = a.to;
      rows_.col(i).noalias() -= a.probability / 2 * m.col(i);
      rows_.col(j).noalias() += a.probability / 2 * m.col(i);
      const double square = a.probability / 8 * m(i, i);  // half of it, for the transpose
      rows_(i, i) += square;
      rows_(j, j) += square;
      rows_(i, j) -= square;
      rows_(j, i) -= square;
    }
    Eigen::Map<Eigen::MatrixXd> result(out.data(), n_, n_);
    result = m + (rows_ + rows_.transpose());
    const Vector means = result.colwise().mean();
    const double mean = means.mean();
    // Exactly symmetric, because T is another map on antisymmetric matrices.
    for (Index a = 0; a < n_; ++a)
      for (Index b = 0; b < n_; ++b) result(b, a) += mean - (means[a] + means[b]);
  }

 private:
  Index n_;
  std::span<const PushClock> clocks_;
  Eigen::MatrixXd rows_;  // scratch
};

std::optional<double> greatest_real_part(const Eigen::MatrixXd& m) {
  const auto values =
      eigenvalues({m.data(), static_cast<std::size_t>(m.size())}, static_cast<std::size_t>(m.rows()));
  if (!values) return std::nullopt;
  const auto by_real_part = [](const auto& a, const auto& b) { return a.real() < b.real(); };
  return std::max_element(values->begin(), values->end(), by_real_part)->real();
}

// 1 - the greatest real part of the eigenvalues of T, by Arnoldi's iteration without restarts (Saad,
// "Numerical methods for large eigenvalue problems", 2011, chapter 6). As in lanczos.h, it stays in the small
// subspace to which the symmetries of the graph confine its start.
std::optional<double> least_rate(PushMoments& moments, Vector start) {
  const Index size = start.size();
  std::vector<Vector> basis = {start / start.norm()};
  Eigen::MatrixXd h = Eigen::MatrixXd::Zero(kStepsMax + 1, kStepsMax);
  Vector next(size);
  std::optional<double> last;
  Index look = 8;
  for (Index k = 0; k < kStepsMax; ++k) {
    moments.apply(basis.back(), next);
    for (int pass = 0; pass < 2; ++pass) {  // one pass is not enough if `next` is small
      for (Index i = 0; i <= k; ++i) {
        const double along = basis[static_cast<std::size_t>(i)].dot(next);
        h(i, k) += along;
        next -= along * basis[static_cast<std::size_t>(i)];
      }
    }
    const double rest = next.norm();
    const bool exhausted = rest <= 1e-13;
    if (exhausted || k + 1 >= look) {
      const auto greatest = greatest_real_part(h.topLeftCorner(k + 1, k + 1));
      if (!greatest) return std::nullopt;
      const double found = 1 - *greatest;
      if (exhausted || (last && std::abs(found - *last) <= kSettled * std::abs(found))) return found;
      last = found;
      look += look / 2;
    }
    h(k + 1, k) = rest;
    basis.push_back(next / rest);
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<PushClock>> push_clocks(const Schedule& schedule) {
  const bool relative = schedule.weights() == Weights::relative;
  std::vector<PushClock> clocks;
  for (std::uint32_t peer = 0; peer < schedule.peers(); ++peer) {
    std::map<std::uint32_t, double> often;
    double rounds = 0;
    for (std::uint64_t round = 0; round < schedule.period(); ++round) {
      const Links links = schedule.links(peer, round);
      if (links.empty()) continue;
      double sum = 0;
      for (const Link& link : links) sum += relative ? link.weight : 1;
      for (const Link& link : links) often[link.peer] += (relative ? link.weight : 1) / sum;
      ++rounds;
    }
    for (const auto& [to, weight] : often) clocks.push_back({peer, to, weight / rounds / schedule.peers()});
    if (clocks.size() > kPushClocksMax)
      return Error{"a schedule among " + std::to_string(schedule.peers()) +
                   " peers has too many links to compute push clocks; expected at most " +
                   std::to_string(kPushClocksMax)};
  }
  return clocks;
}

std::optional<double> push_factor(std::uint32_t nodes, std::span<const PushClock> clocks) {
  if (nodes > kPushNodesMax) return std::nullopt;
  if (nodes <= 1) return 0;
  if (clocks.empty()) return 1;  // no messages
  const Index n = nodes;
  PushMoments moments(n, clocks);
  // The map preserves the cone of positive semidefinite matrices, and the start P = I - 11'/n is inside it,
  // so the greatest eigenvalue is real and the start has a component along its eigenvector.
  Eigen::MatrixXd start = Eigen::MatrixXd::Identity(n, n).array() - 1.0 / static_cast<double>(n);
  const auto rate = least_rate(moments, Eigen::Map<Vector>(start.data(), start.size()));
  if (!rate) return std::nullopt;
  return std::clamp(1 - *rate, 0.0, 1.0);
}

}  // namespace starling::topologies
