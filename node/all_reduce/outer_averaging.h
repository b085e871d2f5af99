// The outer steps of a diloco run between processes: one peer's side of training/mixing/rules/diloco.h, over
// a collective.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/arena.h"
#include "node/all_reduce/collective.h"
#include "training/mixing/rules/diloco.h"
#include "training/mixing/values.h"

namespace starling::node {

class OuterAveraging {
 public:
  // `arena`: the replica with its first parameters, which are the same on all ranks; it outlives this object.
  // `trained`: as in Diloco.
  OuterAveraging(models::Arena& arena, std::size_t trained, std::uint32_t rank, std::uint32_t size,
                 const training::MixOptions& options);

  // Ends a round. With `last`, it averages every fragment. All ranks call it together. Returns the bytes that
  // this rank sent. An Error as Collective's.
  Result<std::uint64_t> meet(Collective& collective, bool last);

 private:
  using Buffer = std::vector<std::byte, training::CacheLineAllocator<std::byte>>;
  Result<std::uint64_t> average(Collective& collective, std::uint64_t round);

  models::Arena& arena_;
  std::uint32_t rank_, size_;
  std::uint32_t fragments_;
  training::Floats replica_;  // first the parameters with which the run begins, then scratch
  training::Diloco diloco_;
  Buffer changes_, received_, mean_;
  std::uint64_t round_ = 0;
};

}  // namespace starling::node
