#include "training/exchange/top_k.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "base/check.h"
#include "training/exchange/payload.h"

namespace starling::training {
namespace {

std::uint32_t magnitude(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffff;
}

// The bits of the magnitude that `count` values reach and no more than needed exceed: found eleven, ten and ten bits
// at a time, each time among the values that agree so far. `above` is how many values exceed it.
std::uint32_t threshold(std::span<const float> values, std::size_t count, std::size_t* above) {
  std::uint32_t found = 0, known = 0;  // bits, and the mask of those that are settled
  std::size_t wanted = count;
  for (const auto& [shift, bits] : {std::pair<unsigned, unsigned>{20, 11}, {10, 10}, {0, 10}}) {
    std::array<std::uint32_t, 2048> histogram{};
    const std::uint32_t mask = (1U << bits) - 1;
    for (const float value : values) {
      const std::uint32_t m = magnitude(value);
      histogram[(m >> shift) & mask] += (m & known) == found;
    }
    std::uint32_t bin = mask;
    while (histogram[bin] < wanted) wanted -= histogram[bin--];
    found |= bin << shift;
    known |= mask << shift;
  }
  *above = count - wanted;
  return found;
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
  std::size_t above = 0;
  const std::uint32_t least = threshold(values, count, &above);
  std::size_t equals = count - above;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t m = magnitude(values[i]);
    if (m < least) continue;
    if (m == least) {
      if (equals == 0) continue;
      --equals;
    }
    places.push_back(base + static_cast<std::uint32_t>(i));
  }
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
    return MixError{{"the chunk at " + std::to_string(parcel.offset) + " of " + std::to_string(n) + " entries " + why},
                    MixFault::shape};
  };
  if (n == 0 || n > parcel.floats) return refuse("has none, or more than floats");
  const std::size_t bytes = n * (sizeof(float) + (with_places ? sizeof(std::uint32_t) : 0));
  if (parcel.values.size() != bytes) return refuse("is not as long as they are");
  Entries entries{as_floats(parcel.values.first(n * sizeof(float))), {}};
  if (!with_places) return entries;
  entries.places = {reinterpret_cast<const std::uint32_t*>(parcel.values.data() + n * sizeof(float)), n};
  for (std::size_t i = 1; i < n; ++i) {
    if (entries.places[i] <= entries.places[i - 1]) return refuse("has places that do not ascend");
  }
  if (entries.places.back() >= parcel.floats) return refuse("has a place beyond its end");
  return entries;
}

}  // namespace starling::training
