// How much longer a peer's steps take than they would: by a factor, or by chance, for studies of stragglers
// whose every run can be repeated.
//
//   10                   ten times as long, always
//   exponential          mean 1
//   log-normal:sigma=1   exp(sigma z), z standard normal: median 1
//   pareto:alpha=2       at least 1, more than x with probability x^-alpha
//
// Chance is asked for each step, or, with ",per=peer" behind it ("exponential:per=peer"), once for all of
// them.
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

  // The factor, where it is one for all steps; 0 where chance has it.
  double factor() const { return kind_ == Kind::constant ? value_ : 0; }
  // By how much the step with this number takes longer. `chance`: of this peer and this slowness; only its
  // seed counts.
  double of_step(const Random& chance, std::uint64_t step) const;
  // What half of the steps (or of the peers) stay below.
  double median() const;

  friend bool operator==(const Slowness&, const Slowness&) = default;

  static constexpr double kMost = 1e6;  // no step takes longer, whatever chance says

 private:
  enum class Kind : std::uint8_t { constant, exponential, log_normal, pareto };

  Kind kind_ = Kind::constant;
  double value_;  // the factor, sigma or alpha
  bool per_peer_ = false;
};

// The chance of a peer's slownesses, by their place among those of this peer.
Random chance_of_slowness(std::uint64_t seed, std::uint32_t peer, std::size_t place);

}  // namespace starling::training
