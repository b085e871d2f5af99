#include <algorithm>

#include "base/check.h"
#include "models/network.h"

namespace starling::models {
namespace {

// Calls write(offset, values) for all tensors, with the gaps after them, in small pieces.
template <class Write>
void initialize_each(const Plan& plan, const Random& random, const Write& write) {
  constexpr std::size_t kPiece = 1 << 14;
  const std::vector<Tensor>& tensors = plan.layout.tensors();
  std::vector<float> values;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    const std::size_t room = plan.layout.room(i);
    Random draws = random.split(i);
    for (std::size_t begin = 0; begin < room; begin += kPiece) {
      values.assign(std::min(kPiece, room - begin), 0.0F);
      const std::size_t here = tensor.size - std::min(begin, tensor.size);
      for (float& value : std::span(values).first(std::min(here, values.size()))) {
        value = static_cast<float>(tensor.start == Tensor::Start::uniform
                                       ? draws.uniform(-tensor.bound, tensor.bound)
                                       : tensor.bound);
      }
      write(tensor.offset + begin, std::span<const float>(values));
    }
  }
}

}  // namespace

void initialize(const Plan& plan, Random random, std::span<float> out) {
  STARLING_CHECK(out.size() == plan.layout.arena_size());
  initialize_each(plan, random, [out](std::size_t offset, std::span<const float> values) {
    std::copy(values.begin(), values.end(), out.begin() + static_cast<std::ptrdiff_t>(offset));
  });
}

void initialize(const Plan& plan, Random random, Arena& arena) {
  STARLING_CHECK(arena.size() == plan.layout.arena_size());
  initialize_each(plan, random, [&arena](std::size_t offset, std::span<const float> values) {
    arena.write(offset, values);
  });
}

}  // namespace starling::models
