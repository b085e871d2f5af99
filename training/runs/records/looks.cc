#include "training/runs/records/looks.h"

#include <algorithm>

#include "training/runs/records/json.h"

namespace starling::training {

namespace {

std::vector<Look> looks_at(const char* key, double factor, std::string_view metrics) {
  std::vector<Look> looks;
  while (!metrics.empty()) {
    const std::string_view text = metrics.substr(0, metrics.find('\n'));
    metrics.remove_prefix(std::min(metrics.size(), text.size() + 1));
    if (text.find(R"("peer":"mean")") == std::string_view::npos) continue;
    const Json line = parse_json(text);
    const auto number = [&](const char* name) {
      return line.is_object() && line.value(name, Json()).is_number();
    };
    if (number("seconds") && number(key))
      looks.push_back({line["seconds"].get<double>(), factor * line[key].get<double>()});
  }
  return looks;
}

}  // namespace

std::vector<Look> looks_in(std::string_view metrics) { return looks_at("accuracy", 1, metrics); }
std::vector<Look> losses_in(std::string_view metrics) { return looks_at("loss", -1, metrics); }

std::optional<double> time_to(std::span<const Look> looks, double target) {
  const auto after =
      std::find_if(looks.begin(), looks.end(), [&](const Look& look) { return look.accuracy >= target; });
  if (after == looks.end()) return std::nullopt;
  if (after == looks.begin()) return after->seconds;
  const Look& before = *(after - 1);  // below the target
  return before.seconds +
         (target - before.accuracy) / (after->accuracy - before.accuracy) * (after->seconds - before.seconds);
}

double time_before(std::span<const Look> looks, double target, double seconds) {
  const auto after =
      std::find_if(looks.begin(), looks.end(), [&](const Look& look) { return look.accuracy >= target; });
  if (after == looks.end()) return seconds;
  const double earlier = seconds - (after->seconds - *time_to(looks, target));
  return earlier > 0 ? earlier : seconds;
}

}  // namespace starling::training
