// Passes over arrays of floats in the device's memory: element-by-element operations of optimizers and
// exchanges on the arena. Like the host's (models/arena.h) they intentionally race with other passes over the
// same floats; a float is never torn. Each value is read or written once, 16 bytes per thread if the arrays
// are aligned.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime.h"
#include "kernels/parameters.h"

namespace starling::kernels::cuda {

// out = x + w (theirs - own).
void mix(Stream& stream, float* out, const float* x, const float* theirs, const float* own, float w,
         std::size_t n);
// x += w (theirs - own), and updates *measure on the device, in one pass.
void mix(Stream& stream, float* x, const float* theirs, const float* own, float w, MixMeasure* measure,
         std::size_t n);
// x += delta; with `atomic`, concurrent such passes lose no update.
void add(Stream& stream, float* x, const float* delta, std::size_t n, bool atomic = false);
// mixed[i] = x[places[i]] += delta[i]. REQUIRES: places are distinct.
void add_at(Stream& stream, float* x, const std::uint32_t* places, const float* delta, float* mixed,
            std::size_t n);
void sgd(Stream& stream, float* x, const float* gradient, float* velocity, const SgdStep& step,
         std::size_t n);
void sgd_along(Stream& stream, float* x, const float* gradient, const float* velocity, const SgdStep& step,
               std::size_t n);
// REQUIRES: t > 0.
void adamw(Stream& stream, float* x, const float* gradient, float* mean, float* square, const AdamWStep& step,
           std::uint64_t t, std::size_t n);
// clip->gain = clip_gain(). The order of the additions depends only on n.
void clip(Stream& stream, const float* gradient, std::size_t n, float limit, Clip* clip);
// velocity = keep velocity + gain (last - x); last = x.
void follow(Stream& stream, const float* x, float* velocity, float* last, float keep, float gain,
            std::size_t n);

// Packs n floats, each read once, for an exchange (kernels/packing.h). largest[k] becomes the largest
// magnitude of the k-th block of kInt8Block floats, where NaN is larger than infinity; `packed` receives
// bfloat16s, or int8s in steps of int8_steps(largest[k]). `seed` and `place` (of the first float in its
// parcel) as for int8_chance. REQUIRES: n < 2^31; `largest` has a float for each block.
void pack(Stream& stream, const float* values, std::size_t n, Packing packing, std::uint32_t seed,
          std::uint32_t place, float* largest, void* packed);

}  // namespace starling::kernels::cuda
