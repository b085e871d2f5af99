#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "models/network.h"

namespace starling::models {

void initialize(const Plan& plan, Random random, std::span<float> out) {
  STARLING_CHECK(out.size() == plan.layout.arena_size());
  std::fill(out.begin(), out.end(), 0.0F);
  double bound = 0;
  std::uint64_t stream = 0;
  for (const Tensor& tensor : plan.layout.tensors()) {
    // A bias [out] follows its weight [out, in...] and shares its fan-in.
    if (tensor.shape.size() > 1) {
      bound = 1 / std::sqrt(static_cast<double>(tensor.size) / static_cast<double>(tensor.shape[0]));
    }
    Random draws = random.split(stream++);
    for (float& value : out.subspan(tensor.offset, tensor.size)) {
      value = static_cast<float>(draws.uniform(-bound, bound));
    }
  }
}

}  // namespace starling::models
