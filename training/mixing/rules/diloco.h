// DiLoCo (Douillard et al., "DiLoCo: distributed low-communication training of language models", 2023): after
// H steps of each peer by itself, the outer parameters phi, which all peers share, make a step of SGD with
// Nesterov momentum along the mean of the peers' changes, and every replica becomes phi:
//
//   d_i = theta_i - phi,   m <- mu m + mean_i d_i,   phi <- phi + eta (mean_i d_i + mu m),   theta_i <- phi.
//
// The mean is exact: of n peers each owns an n-th of phi. It gets that part of all changes, encoded in the
// payload, and sends the mean of the decoded ones, encoded again, to all. That is 2 (n - 1)/n of the model
// for each peer and round, as in a ring. All peers decode the same bytes, so phi and m are the same bits on
// all of them. Only changes are encoded, never phi: rounding errs in one round's change and nothing
// accumulates.
//
// With fragments (Streaming DiLoCo: Douillard et al., 2025), round r averages only the r-th fragment, modulo
// their number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "training/mixing/make.h"
#include "training/mixing/values.h"

namespace starling::training {

class Diloco {
 public:
  // `first`: the parameters with which all replicas begin. The floats from `trained` on are running
  // statistics, which become the mean of the peers' without momentum: a variance must not overshoot.
  // REQUIRES: options.fragments <= the cells.
  Diloco(std::span<const float> first, std::size_t trained, std::uint32_t peers, const MixOptions& options);

  // What round `round` averages.
  Stretch fragment(std::uint64_t round) const;
  // The bytes of a peer's part of that fragment, encoded; the last parts may be filled up.
  std::size_t part_bytes(std::uint64_t round) const;

  // Encodes the change of a replica (a whole arena) since its last outer step: a part for each peer, in their
  // order. Peers round differently. REQUIRES: the replica is finite; `parts` has peers * part_bytes(round)
  // bytes, aligned to 64.
  void encode_changes(std::uint64_t round, std::uint32_t peer, std::span<const float> replica,
                      MutableBytes parts);
  // The mean of one peer's part from that part of all peers' changes, in their order. REQUIRES: as above;
  // `mean` has part_bytes(round) bytes.
  void average(std::uint64_t round, std::uint32_t peer, Bytes changes, MutableBytes mean);
  // The outer step with the means of all parts, in order.
  void step(std::uint64_t round, Bytes means);

  // phi, a whole arena.
  std::span<const float> outer() const { return phi_; }

 private:
  std::size_t part_floats(std::uint64_t round) const;
  std::uint64_t seed(std::uint64_t round, std::uint32_t peer, bool mean) const;

  std::size_t trained_;
  std::uint32_t peers_;
  MixOptions options_;
  CellGrid grid_;
  Floats phi_, momentum_;
  Floats change_;  // scratch
};

}  // namespace starling::training
