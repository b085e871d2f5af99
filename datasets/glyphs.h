// The built-in data set: ten invented glyphs of 28x28 gray pixels, drawn by this code, so that Starling
// trains on a fresh machine without a download. Ring, two lollipops, cross, T, inverted T, two mirrored
// zigzags, H and N share their strokes and differ in how they are put together; turned, sheared, scaled,
// shifted, with stray strokes and noise, so that a linear classifier stays well behind a convolutional one.
// The same seed gives the same images.
#pragma once

#include <cstdint>

#include "datasets/dataset.h"

namespace starling::datasets {

inline constexpr int kGlyphSide = 28;  // pixels
inline constexpr int kGlyphClasses = 10;
inline constexpr std::size_t kGlyphsTrain = 60'000;
inline constexpr std::size_t kGlyphsTest = 10'000;

const char* glyph_name(int label);  // "ring", ... REQUIRES: 0 <= label < kGlyphClasses.

// As many samples of each class as divides evenly, in shuffled order, normalised by the training images. The
// pair's name is "glyphs", with the seed behind it where that is not 1. One thread; about a second for the
// full size.
DataPair make_glyphs(std::uint64_t seed, std::size_t train = kGlyphsTrain, std::size_t test = kGlyphsTest);

}  // namespace starling::datasets
