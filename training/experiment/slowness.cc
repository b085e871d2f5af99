#include "training/experiment/slowness.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/text.h"
#include "training/experiment/quantities.h"

namespace starling::training {
namespace {

constexpr std::uint64_t kSlownesses = 31;  // of the purposes that chance has (recipe.cc has others)

Error expected(std::string_view text, const std::string& why) {
  return Error{"'" + std::string(text.substr(0, 80)) + "': " + why +
               "; expected a factor from 1 to 1e+06, exponential, log-normal:sigma=S or pareto:alpha=A, " +
               "the last three also with per=peer"};
}

}  // namespace

Result<Slowness> Slowness::parse(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view name = text.substr(0, colon);
  Slowness slowness;
  std::string_view parameter;  // that it must have
  if (name == "exponential") {
    slowness.kind_ = Kind::exponential;
  } else if (name == "log-normal") {
    slowness.kind_ = Kind::log_normal;
    parameter = "sigma";
  } else if (name == "pareto") {
    slowness.kind_ = Kind::pareto;
    parameter = "alpha";
  } else {
    const auto factor = parse_real(text, {1, kMost});
    if (!factor) {
      return Error{factor.error().message +
                   "; by chance it is exponential, log-normal:sigma=S or pareto:alpha=A, also with per=peer"};
    }
    return Slowness(*factor);
  }

  bool given = false, per = false;
  for (std::size_t begin = colon + 1; begin <= text.size() && colon < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view option = text.substr(begin, end - begin);
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
      return expected(
          text, std::string(name) + " has no '" + std::string(key.substr(0, 80)) + "', or it is there twice");
    }
    begin = end + 1;
  }
  if (!parameter.empty() && !given) return expected(text, "there is no " + std::string(parameter));
  return slowness;
}

std::string Slowness::text() const {
  switch (kind_) {
    case Kind::constant:
      return format_number(value_);
    case Kind::exponential:
      return per_peer_ ? "exponential:per=peer" : "exponential";
    case Kind::log_normal:
      return "log-normal:sigma=" + format_number(value_) + (per_peer_ ? ",per=peer" : "");
    case Kind::pareto:
      break;
  }
  return "pareto:alpha=" + format_number(value_) + (per_peer_ ? ",per=peer" : "");
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
