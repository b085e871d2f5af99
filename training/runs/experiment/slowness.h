// How much longer than usual a peer's steps take: by a factor, or by a random factor that a seed repeats.
//
//   10                   ten times as long, always
//   exponential          mean 1
//   log-normal:sigma=1   exp(sigma z), z standard normal: median 1
//   pareto:alpha=2       at least 1, more than x with probability x^-alpha
//
// The factor is drawn for each step, or with per=peer ("exponential:per=peer") once for all steps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/random.h"
#include "base/result.h"

namespace starling::training {

class Slowness {
 public:
  Slowness() : Slowness(1) {}
  Slowness(double factor) : value_(factor) {}  // NOLINT: a number is one

  static Result<Slowness> parse(std::string_view text);
  std::string text() const;  // its inverse

  // The factor if it is constant; 0 if it is random.
  double factor() const { return kind_ == Kind::constant ? value_ : 0; }
  // The factor of the step with this number. `chance`: this peer's for this slowness; only its seed counts.
  double of_step(const Random& chance, std::uint64_t step) const;
  // The median of the steps (with per=peer, of the peers).
  double median() const;

  friend bool operator==(const Slowness&, const Slowness&) = default;

  static constexpr double kMost = 1e6;  // the largest factor

 private:
  enum class Kind : std::uint8_t { constant, exponential, log_normal, pareto };

  Kind kind_ = Kind::constant;
  double value_;  // the factor, sigma or alpha
  bool per_peer_ = false;
};

// The random numbers of a peer's slowness, by its place among the peer's slownesses.
Random chance_of_slowness(std::uint64_t seed, std::uint32_t peer, std::size_t place);

}  // namespace starling::training
