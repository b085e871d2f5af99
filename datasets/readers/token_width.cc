#include "datasets/readers/token_width.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>
#include <string>
#include <vector>

namespace starling::datasets {
namespace {

template <std::size_t N>
using Counts = std::array<std::uint64_t, N>;

template <std::size_t N>
double sum_of(const Counts<N>& counts) {
  return static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
}

// The total variation distance of both distributions. REQUIRES: no sum is 0.
template <std::size_t N>
double distance(const Counts<N>& a, const Counts<N>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < N; ++i)
    sum += std::abs(static_cast<double>(a[i]) / sum_of(a) - static_cast<double>(b[i]) / sum_of(b));
  return sum / 2;
}

// About how large the distance of two samples of one distribution is, each with `count` values.
template <std::size_t N>
double expected_distance(double count) {
  return std::sqrt(static_cast<double>(N) / (std::numbers::pi * count));
}

template <std::size_t N>
double entropy(const Counts<N>& counts) {
  double sum = 0;
  for (const std::uint64_t count : counts) {
    const double share = static_cast<double>(count) / sum_of(counts);
    if (share > 0) sum -= share * std::log(share);
  }
  return sum;
}

// By its size below 16, else by its upper four bits.
constexpr std::size_t kByteKinds = 20;
std::size_t kind_of(unsigned byte) {
  return byte < 16 ? static_cast<std::size_t>(std::bit_width(byte)) : 4 + (byte >> 4);
}

}  // namespace

bool is_every_second_zero(std::span<const std::uint16_t> numbers) {
  std::array<bool, 2> zero = {true, true};
  for (std::size_t i = 0; i < numbers.size() && (zero[0] || zero[1]); ++i)
    zero[i % 2] = zero[i % 2] && numbers[i] == 0;
  return zero[0] != zero[1];
}

std::string doubt_of_width(std::span<const std::uint16_t> numbers) {
  constexpr std::size_t kLeast = 64;  // fewer numbers say nothing of their distribution
  constexpr double kUnlike = 0.2, kAlike = 0.1, kRounding = 1e-9;
  if (numbers.size() < kLeast)
    return "it has fewer than " + std::to_string(kLeast) + " numbers of 16 bits, too few to show it";
  if (is_every_second_zero(numbers))
    return "every second one of its 16-bit numbers is 0, as in numbers of 32 or 64 bits";
  constexpr std::size_t kNumbers = 1 << 16;
  std::vector<std::uint64_t> counts(2 * kNumbers);  // of each number at even and at odd places
  for (std::size_t i = 0; i < numbers.size(); ++i) ++counts[i % 2 * kNumbers + numbers[i]];
  std::array<Counts<17>, 2> sizes{};  // in bits
  Counts<kByteKinds> lower{}, upper{};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto number = static_cast<unsigned>(i % kNumbers);
    sizes[i / kNumbers][static_cast<std::size_t>(std::bit_width(number))] += counts[i];
    lower[kind_of(number & 0xffU)] += counts[i];
    upper[kind_of(number >> 8)] += counts[i];
  }
  const auto count = static_cast<double>(numbers.size());
  if (distance(sizes[0], sizes[1]) > kUnlike + expected_distance<17>(count / 2))
    return "its 16-bit numbers at even and at odd places differ in size, as the halves of numbers of 32 or "
           "64 bits do";
  if (distance(lower, upper) < kAlike + expected_distance<kByteKinds>(count) && entropy(lower) > 0)
    return "both bytes of its 16-bit numbers are distributed alike, as numbers of 8 bits are";
  if (entropy(upper) > entropy(lower) + kRounding)
    return "the upper bytes of its 16-bit numbers vary more than the lower ones, as in big-endian numbers";
  return "";
}

}  // namespace starling::datasets
