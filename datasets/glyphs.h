// The built-in data set: ten invented glyphs of 28x28 gray pixels, drawn by this code, so that Starling
// trains on a fresh machine without a download. Ring, two lollipops, cross, T, inverted T, two mirrored
// zigzags, H and N have similar strokes in different arrangements. They are rotated, sheared, scaled and
// shifted, with stray strokes and noise, so that a convolutional classifier is much better than a linear one.
// The same seed produces the same images.
#pragma once

#include <cstdint>

#include "datasets/dataset.h"

namespace starling::datasets {

inline constexpr int kGlyphSide = 28;  // pixels
inline constexpr int kGlyphClasses = 10;
inline constexpr std::size_t kGlyphsTrain = 60'000;
inline constexpr std::size_t kGlyphsTest = 10'000;

const char* glyph_name(int label);  // "ring", ... REQUIRES: 0 <= label < kGlyphClasses.

// Classes are equally frequent, the order is shuffled, and the training images define the normalization. The
// pair's name is "glyphs", or "glyphs:seed=N" if the seed is not 1. Takes about a second for the full size.
DataPair make_glyphs(std::uint64_t seed, std::size_t train = kGlyphsTrain, std::size_t test = kGlyphsTest);

}  // namespace starling::datasets
