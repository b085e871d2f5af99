#include "lab/plot/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "base/text.h"

namespace starling::lab {
namespace {

constexpr const char* kMinus = "\u2212";

std::string with_minus(const std::string& text) {
  return text.starts_with("-") ? kMinus + text.substr(1) : text;
}

// The multiples of `step` in the scale.
std::vector<double> multiples(const AxisScale& scale, double step) {
  std::vector<double> values;
  for (double k = std::ceil(scale.low / step - 1e-9); k * step <= scale.high + 1e-9 * step; ++k)
    values.push_back(k == 0 ? 0 : k * step);
  return values;
}

std::vector<AxisTick> linear_ticks(const AxisScale& scale, std::size_t most) {
  const double power = std::pow(10, std::floor(std::log10((scale.high - scale.low) / 100)));
  for (double decade = power;; decade *= 10) {
    for (const double mantissa : {1.0, 2.0, 5.0}) {
      const double step = mantissa * decade;
      const auto values = multiples(scale, step);
      if (values.size() > most) continue;
      const int digits = std::max(0, -static_cast<int>(std::floor(std::log10(step) + 1e-9)));
      std::vector<AxisTick> ticks;
      for (const double value : values)
        ticks.push_back({value, with_minus(fmt::format("{:.{}f}", value, digits)), ""});
      return ticks;
    }
  }
}

// "1000" or, if `powers`, "10" with the exponent "3".
AxisTick log_tick(int mantissa, int exponent, bool powers) {
  const double value = mantissa * std::pow(10, exponent);
  if (!powers) return {value, format_number(std::stod(fmt::format("{:.6g}", value))), ""};
  const std::string head = mantissa == 1 ? "10" : std::to_string(mantissa) + "\u00b710";
  return {value, head, with_minus(std::to_string(exponent))};
}

struct Decades {
  int first, last;
};

bool within(const AxisScale& scale, double value) {
  return value >= scale.low * (1 - 1e-9) && value <= scale.high * (1 + 1e-9);
}

// Labels at these multiples of every `stride`-th power of ten, and ticks without labels between them.
std::vector<AxisTick> ticks_at(const AxisScale& scale, Decades decades, std::initializer_list<int> mantissas,
                               int stride) {
  std::vector<AxisTick> ticks;
  const bool powers = decades.first < -3 || decades.last > 4;
  for (int k = decades.first; k <= decades.last; ++k) {
    for (int mantissa = 1; mantissa <= 9; ++mantissa) {
      if (!within(scale, mantissa * std::pow(10, k))) continue;
      const bool labeled = k % stride == 0 && std::ranges::find(mantissas, mantissa) != mantissas.end();
      AxisTick tick = log_tick(mantissa, k, powers);
      if (!labeled) tick.label = tick.exponent = "";
      if (labeled || mantissa == 1 || decades.last - decades.first <= 5) ticks.push_back(std::move(tick));
    }
  }
  return ticks;
}

std::size_t labels_among(const std::vector<AxisTick>& ticks) {
  return static_cast<std::size_t>(
      std::ranges::count_if(ticks, [](const AxisTick& tick) { return !tick.label.empty(); }));
}

std::vector<AxisTick> log_ticks(const AxisScale& scale, std::size_t most) {
  const Decades decades{static_cast<int>(std::floor(std::log10(scale.low))),
                        static_cast<int>(std::ceil(std::log10(scale.high)))};
  auto fine = ticks_at(scale, decades, {1, 2, 5}, 1);
  if (labels_among(fine) < 3) return linear_ticks(scale, most);
  if (labels_among(fine) <= most) return fine;
  for (int stride = 1;; ++stride) {
    auto coarse = ticks_at(scale, decades, {1}, stride);
    if (labels_among(coarse) > most) continue;
    return labels_among(coarse) < 2 ? linear_ticks(scale, most) : coarse;
  }
}

}  // namespace

double AxisScale::place(double value) const {
  if (!log) return (value - low) / (high - low);
  return std::log(value / low) / std::log(high / low);
}

std::vector<AxisTick> axis_ticks(const AxisScale& scale, std::size_t most) {
  STARLING_CHECK(scale.low < scale.high && (!scale.log || scale.low > 0) && most >= 2);
  return scale.log ? log_ticks(scale, most) : linear_ticks(scale, most);
}

}  // namespace starling::lab
