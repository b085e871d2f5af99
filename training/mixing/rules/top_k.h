// Payload top_k: the few entries of every cell that matter most, with their values and places in the chunk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "training/mixing/mixer.h"

namespace starling::training {

// How many of a cell's floats travel: the fraction, rounded up, at most as many as plain floats would need.
std::size_t entries_of(double fraction, std::size_t floats);

// Appends the places, counted from `base`, of the `count` values of largest magnitude, in ascending order;
// the first of equal ones. Linear in the number of values. REQUIRES: count <= values.size(); no value is NaN.
void select_largest(std::span<const float> values, std::size_t count, std::uint32_t base,
                    std::vector<std::uint32_t>& places);

// The entries of a parcel, as views of its bytes.
struct Entries {
  std::span<const float> values;
  std::span<const std::uint32_t> places;  // ascending, in the chunk; empty where only values travelled
};

// Writes the values, then the places if there are any; returns the bytes used.
// REQUIRES: out has room, aligned to 4 bytes.
Bytes write_entries(std::span<const float> values, std::span<const std::uint32_t> places, MutableBytes out);

// Reads a parcel from outside. MixFault::shape if its length is wrong, it has more entries than floats, or
// the places are not ascending places of the chunk. The values themselves are not judged.
MixResult<Entries> read_entries(const Parcel& parcel, bool with_places);

}  // namespace starling::training
