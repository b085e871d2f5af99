#include "wire/rules/pace.h"

#include "base/text.h"

namespace starling {

Result<Pace> parse_pace(std::string_view text) {
  if (text == "always") return Pace{.kind = Pace::Kind::always};
  std::string_view count = text;
  for (const std::string_view unit : {" steps", " step"}) {
    if (!count.ends_with(unit)) continue;
    count.remove_suffix(unit.size());
    break;
  }
  if (const auto steps = parse_number<std::uint64_t>(count); steps && *steps > 0 && *steps <= kPaceStepsMax)
    return Pace{.steps = *steps};
  constexpr std::string_view kPoisson = "poisson ";
  const bool poisson = text.starts_with(kPoisson);
  const auto time = parse_duration(poisson ? text.substr(kPoisson.size()) : text);
  if (time && *time > Duration{0} && *time <= kPaceTimeMax)
    return Pace{.kind = poisson ? Pace::Kind::poisson : Pace::Kind::time, .time = *time};
  return Error{
      "'" + std::string(text.substr(0, 80)) +
      "' does not say how often; expected a number of steps (8 steps), a time above zero (200ms), random "
      "moments with this mean distance (poisson 200ms), or always"};
}

std::string format_pace(const Pace& pace) {
  switch (pace.kind) {
    case Pace::Kind::steps:
      return std::to_string(pace.steps) + " steps";
    case Pace::Kind::time:
      return format_duration(pace.time);
    case Pace::Kind::poisson:
      return "poisson " + format_duration(pace.time);
    case Pace::Kind::always:
      break;
  }
  return "always";
}

}  // namespace starling
