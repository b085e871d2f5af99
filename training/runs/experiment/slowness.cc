#include "training/runs/experiment/slowness.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/text.h"
#include "training/runs/experiment/settings/quantities.h"

namespace starling::training {
namespace {

// By Slowness::Kind, without constant.
struct Chance {
  std::string_view name, parameter;  // the parameter that it must have; empty: none
};
constexpr std::array<Chance, 3> kKinds = {
    {{"exponential", ""}, {"log-normal", "sigma"}, {"pareto", "alpha"}}};

constexpr std::uint64_t kSlownesses = 31;  // of the purposes that chance has (recipe.cc has others)

Error expected(std::string_view text, const std::string& why) {
  return Error{in_quotes(text) + ": " + why +
               "; expected a factor from 1 to 1e+06, exponential, log-normal:sigma=S or pareto:alpha=A, " +
               "the last three also with per=peer"};
}

}  // namespace

Result<Slowness> Slowness::parse(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view name = text.substr(0, colon);
  const auto known =
      std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& it) { return it.name == name; });
  if (known == kKinds.end()) {
    const auto factor = parse_real(text, {1, kMost});
    if (factor) return Slowness(*factor);
    return Error{
        factor.error().message +
        "; a random factor is exponential, log-normal:sigma=S or pareto:alpha=A, also with per=peer"};
  }
  Slowness slowness;
  slowness.kind_ = static_cast<Kind>(1 + (known - kKinds.begin()));
  const std::string_view parameter = known->parameter;

  bool given = false, per = false;
  for (const std::string_view option : split(text.substr(std::min(colon + 1, text.size())), ',')) {
    if (colon == text.size()) break;  // no options
    const std::size_t equals = std::min(option.find('='), option.size());
    const std::string_view key = option.substr(0, equals),
                           value = option.substr(std::min(equals + 1, option.size()));
    if (key == "per" && !per) {
      if (value != "peer" && value != "step") return expected(text, "per is step or peer");
      slowness.per_peer_ = value == "peer";
      per = true;
    } else if (key == parameter && !parameter.empty() && !given) {
      const auto number = parse_real(value, {0.01, 100});
      if (!number) return expected(text, std::string(parameter) + " " + number.error().message);
      slowness.value_ = *number;
      given = true;
    } else {
      return expected(text, std::string(name) + " has no " + in_quotes(key) + ", or it is there twice");
    }
  }
  if (!parameter.empty() && !given) return expected(text, std::string(parameter) + " is missing");
  return slowness;
}

std::string Slowness::text() const {
  if (kind_ == Kind::constant) return format_number(value_);
  const auto& [name, parameter] = kKinds[static_cast<std::size_t>(kind_) - 1];
  std::string options;
  if (!parameter.empty()) options = std::string(parameter) + "=" + format_number(value_);
  if (per_peer_) options += (options.empty() ? "" : ",") + std::string("per=peer");
  return std::string(name) + (options.empty() ? "" : ":") + options;
}

double Slowness::of_step(const Random& chance, std::uint64_t step) const {
  if (kind_ == Kind::constant) return value_;
  Random random = chance.split(per_peer_ ? 0 : 1 + step);
  double factor = 1;
  if (kind_ == Kind::exponential) factor = random.exponential();
  if (kind_ == Kind::log_normal) factor = std::exp(value_ * random.normal());
  if (kind_ == Kind::pareto) factor = std::exp(random.exponential() / value_);
  return std::min(factor, kMost);
}

double Slowness::median() const {
  if (kind_ == Kind::exponential) return std::numbers::ln2;
  if (kind_ == Kind::log_normal) return 1;
  if (kind_ == Kind::pareto) return std::exp2(1 / value_);
  return value_;
}

Random chance_of_slowness(std::uint64_t seed, std::uint32_t peer, std::size_t place) {
  return Random(seed).split(kSlownesses).split(peer).split(place);
}

}  // namespace starling::training
