#include <algorithm>

#include "base/check.h"
#include "models/network.h"

namespace starling::models {

void initialize(const Plan& plan, Random random, std::span<float> out) {
  STARLING_CHECK(out.size() == plan.layout.arena_size());
  std::fill(out.begin(), out.end(), 0.0F);
  std::uint64_t stream = 0;
  for (const Tensor& tensor : plan.layout.tensors()) {
    Random draws = random.split(stream++);
    for (float& value : out.subspan(tensor.offset, tensor.size)) {
      value = static_cast<float>(
          tensor.start == Tensor::Start::uniform ? draws.uniform(-tensor.bound, tensor.bound) : tensor.bound);
    }
  }
}

}  // namespace starling::models
