// The seeds of randomized tests, and the number of repetitions. By default a loop takes a tenth of its seeds,
// and all with STARLING_SEEDS=all. Sanitizers look for memory and threading errors, which a tenth of the
// repetitions finds as well, and run ten times slower: under them a loop takes a tenth in both cases.
//
// STARLING_FIRST_SEED is the first seed of the loops whose statements hold for every seed (default 0):
// another one gives fresh worlds. A failure prints the variable that replays its seed.
//
// Tests with the tag [figures] only check numbers (mixing or learning speed) and run code that other tests
// cover; scripts/test skips them under sanitizers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace starling {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// Whether loops take all of their seeds, and tests of figures their large cases.
inline bool all_seeds() {
  const char* const text = std::getenv("STARLING_SEEDS");
  return text != nullptr && std::string_view(text) == "all" && !kSanitized;
}

// How many of `all` seeds or repetitions to run, but at least `least` of them.
inline std::uint64_t seeds(std::uint64_t all, std::uint64_t least = 1) {
  return all_seeds() ? all : std::max(all / 10, std::min(least, all));
}

// The first seed of a loop whose statements hold for every seed.
inline std::uint64_t first_seed() {
  const char* const text = std::getenv("STARLING_FIRST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 0;
}

// Whether case `number` of `all` similar, slow cases runs: all do with STARLING_SEEDS=all, else `count` of
// them, which depend on first_seed(), so that other commits run other ones.
inline bool is_turn_of(std::uint64_t number, std::uint64_t all, std::uint64_t count = 1) {
  return all_seeds() || (number + all - first_seed() % all) % all < count;
}

// Those of the values whose turn it is.
template <class T>
std::vector<T> some_of(std::initializer_list<T> values, std::uint64_t count = 1) {
  std::vector<T> taken;
  std::uint64_t number = 0;
  for (const T& value : values)
    if (is_turn_of(number++, values.size(), count)) taken.push_back(value);
  return taken;
}

// The seeds first_seed(), first_seed() + 1, ...: seeds(all, least) of them.
class FreshSeeds {
 public:
  explicit FreshSeeds(std::uint64_t all, std::uint64_t least = 1)
      : begin_{first_seed()}, end_{begin_.seed + seeds(all, least)} {}

  struct Place {
    std::uint64_t seed;
    std::uint64_t operator*() const { return seed; }
    Place& operator++() {
      ++seed;
      return *this;
    }
    bool operator!=(const Place& other) const { return seed != other.seed; }
  };
  Place begin() const { return begin_; }
  Place end() const { return end_; }
  std::uint64_t count() const { return end_.seed - begin_.seed; }

 private:
  Place begin_, end_;
};

// For INFO: how to run a seed of a loop over FreshSeeds again.
inline std::string replay_of(std::uint64_t seed) {
  return "to replay: STARLING_FIRST_SEED=" + std::to_string(seed);
}

}  // namespace starling
