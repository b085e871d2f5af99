#include "training/records/looks.h"

#include <algorithm>

#include "training/records/json.h"

namespace starling::training {

std::vector<Look> looks_in(std::string_view metrics) {
  std::vector<Look> looks;
  while (!metrics.empty()) {
    const std::string_view text = metrics.substr(0, metrics.find('\n'));
    metrics.remove_prefix(std::min(metrics.size(), text.size() + 1));
    if (text.find(R"("peer":"mean")") == std::string_view::npos) continue;
    const Json line = parse_json(text);
    const auto number = [&](const char* key) {
      return line.is_object() && line.value(key, Json()).is_number();
    };
    if (number("seconds") && number("accuracy"))
      looks.push_back({line["seconds"].get<double>(), line["accuracy"].get<double>()});
  }
  return looks;
}

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
