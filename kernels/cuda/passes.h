// Passes over arrays of floats in the device's memory that lie side by side: what optimizers and exchanges do
// to the arena, element by element. Like the host's (models/arena.h) they race on purpose with any other pass
// over the same floats, and treat each element by itself; a float is never torn. Each reads and writes what it
// must once, 16 bytes a thread at a time where the arrays' alignment allows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime.h"
#include "kernels/parameters.h"

namespace starling::kernels::cuda {

// out = x + w (theirs - own).
void mix(Stream& stream, float* out, const float* x, const float* theirs, const float* own, float w, std::size_t n);
// x += w (theirs - own), and *measure, on the device, goes on from what it is: one pass for all three.
void mix(Stream& stream, float* x, const float* theirs, const float* own, float w, MixMeasure* measure,
         std::size_t n);
// x += delta; `atomic`: against other such passes nothing is lost.
void add(Stream& stream, float* x, const float* delta, std::size_t n, bool atomic = false);
// mixed[i] = x[places[i]] += delta[i]. REQUIRES: no place occurs twice.
void add_at(Stream& stream, float* x, const std::uint32_t* places, const float* delta, float* mixed,
            std::size_t n);
void sgd(Stream& stream, float* x, const float* gradient, float* velocity, const SgdStep& step, std::size_t n);
void sgd_along(Stream& stream, float* x, const float* gradient, const float* velocity, const SgdStep& step,
               std::size_t n);
// REQUIRES: t > 0.
void adamw(Stream& stream, float* x, const float* gradient, float* mean, float* square, const AdamWStep& step,
           std::uint64_t t, std::size_t n);
// velocity = keep velocity + gain (last - x); last = x.
void follow(Stream& stream, const float* x, float* velocity, float* last, float keep, float gain,
            std::size_t n);

}  // namespace starling::kernels::cuda
