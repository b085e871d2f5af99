// What an exchange sends of the arena, packed where it lies (kernels/packing.h), so that only that travels to
// the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime.h"
#include "kernels/packing.h"

namespace starling::kernels::cuda {

// Packs n floats, each read once. largest[k] is the largest magnitude among those of the k-th block of
// kInt8Block, where NaN is larger than infinity; `packed` holds bfloat16s, or int8s in steps of
// int8_steps(largest[k]). `seed` and `place`, which the first float has in its parcel: as int8_chance takes
// them. REQUIRES: as many blocks of `largest`; n < 2^31.
void pack(Stream& stream, const float* values, std::size_t n, Packing packing, std::uint32_t seed,
          std::uint32_t place, float* largest, void* packed);

}  // namespace starling::kernels::cuda
