#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include "training/mixing/rules/top_k.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>

#include "base/check.h"
#include "base/processor.h"
#include "kernels/packing.h"
#include "training/mixing/payload.h"
#include "training/mixing/values.h"

namespace starling::training {
namespace {

using kernels::magnitude_bits;

// How many magnitudes are at least as large as these bits.
STARLING_FOR_PROCESSORS std::uint32_t count_reaching(const float* values, std::size_t n, std::int32_t bits) {
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < n; ++i) {
    count += magnitude_bits(values[i]) >= bits;
  }
  return count;
}

}  // namespace

std::size_t entries_of(double fraction, std::size_t floats) {
  const auto wanted = static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(floats)));
  return std::clamp<std::size_t>(wanted, 1, std::max<std::size_t>(1, floats / 2));
}

void select_largest(std::span<const float> values, std::size_t count, std::uint32_t base,
                    std::vector<std::uint32_t>& places) {
  STARLING_CHECK(count <= values.size());
  if (count == 0) return;
  // Lowers the bound from the largest by an octave, two, four, until enough reach it; then bisects until not
  // many more do.
  std::int32_t low = largest_magnitude_bits(values), high = low;
  if (low == 0) {  // nothing but zeros
    for (std::size_t i = 0; i < count; ++i) places.push_back(base + static_cast<std::uint32_t>(i));
    return;
  }
  std::uint32_t reached = 0;
  for (std::int32_t octave = std::int32_t{1} << 23; reached < count; octave = std::min(2 * octave, 1 << 29)) {
    high = low;
    low -= std::min(low, octave);
    reached = count_reaching(values.data(), values.size(), low);
  }
  for (int i = 0; i < 8 && reached > 2 * count; ++i) {
    const std::int32_t middle = low + (high - low) / 2;
    const std::uint32_t above = count_reaching(values.data(), values.size(), middle);
    if (above < count) {
      high = middle;
    } else {
      low = middle;
      reached = above;
    }
  }
  // Candidates are written without a branch.
  const std::size_t before = places.size();
  places.resize(before + reached + 1);
  std::uint32_t* next = places.data() + before;
  constexpr std::size_t kBlock = 64;
  for (std::size_t block = 0; block < values.size(); block += kBlock) {
    const std::size_t end = std::min(values.size(), block + kBlock);
    if (count_reaching(values.data() + block, end - block, low) == 0) continue;
    for (std::size_t i = block; i < end; ++i) {
      *next = base + static_cast<std::uint32_t>(i);
      next += magnitude_bits(values[i]) >= low;
    }
  }
  places.pop_back();
  std::vector<std::int32_t> magnitudes;
  magnitudes.reserve(reached);
  for (std::size_t i = before; i < places.size(); ++i)
    magnitudes.push_back(magnitude_bits(values[places[i] - base]));
  // Of these the largest: all beyond the last one's magnitude, and as many that equal it as there is room
  // for.
  const auto last = magnitudes.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(magnitudes.begin(), last, magnitudes.end(), std::greater<>());
  const std::int32_t least = *last;
  auto equals = std::count(magnitudes.begin(), last + 1, least);
  const auto spare = [&](std::uint32_t place) {
    const std::int32_t m = magnitude_bits(values[place - base]);
    return m < least || (m == least && equals-- <= 0);
  };
  places.erase(std::remove_if(places.begin() + static_cast<std::ptrdiff_t>(before), places.end(), spare),
               places.end());
}

Bytes write_entries(std::span<const float> values, std::span<const std::uint32_t> places, MutableBytes out) {
  STARLING_CHECK(places.empty() || places.size() == values.size());
  STARLING_CHECK(out.size() >= values.size_bytes() + places.size_bytes());
  std::memcpy(out.data(), values.data(), values.size_bytes());
  if (!places.empty()) std::memcpy(out.data() + values.size_bytes(), places.data(), places.size_bytes());
  return out.first(values.size_bytes() + places.size_bytes());
}

MixResult<Entries> read_entries(const Parcel& parcel, bool with_places) {
  const std::size_t n = parcel.entries;
  const auto refuse = [&](const char* why) {
    return MixError{
        {"the chunk at " + std::to_string(parcel.offset) + " of " + std::to_string(n) + " entries " + why},
        MixFault::shape};
  };
  if (n == 0 || n > parcel.floats) return refuse("has no entries, or more entries than floats");
  const std::size_t bytes = n * (sizeof(float) + (with_places ? sizeof(std::uint32_t) : 0));
  if (parcel.values.size() != bytes) return refuse("does not have the length of its entries");
  Entries entries{as_floats(parcel.values.first(n * sizeof(float))), {}};
  if (!with_places) return entries;
  entries.places = {reinterpret_cast<const std::uint32_t*>(parcel.values.data() + n * sizeof(float)), n};
  for (std::size_t i = 1; i < n; ++i) {
    if (entries.places[i] <= entries.places[i - 1])
      return refuse("has places that are not in ascending order");
  }
  if (entries.places.back() >= parcel.floats) return refuse("has a place beyond its end");
  return entries;
}

}  // namespace starling::training
