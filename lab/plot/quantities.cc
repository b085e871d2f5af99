#include "lab/plot/quantities.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace starling::lab {
namespace {

using Maybe = std::optional<double>;

Maybe epochs_at(const ReportRun& run, const ReportPoint& point) {
  if (!run.end.epochs || *run.end.epochs <= 0 || run.samples <= 0) return std::nullopt;
  return point.samples * *run.end.epochs / run.samples;
}

constexpr std::array kFigureXs = {
    FigureX{"seconds", "time", FigureUnit::seconds,
            [](const ReportRun&, const ReportPoint& p) { return Maybe(p.seconds); }},
    FigureX{"samples", "samples", FigureUnit::count,
            [](const ReportRun&, const ReportPoint& p) { return Maybe(p.samples); }},
    FigureX{"epochs", "epochs", FigureUnit::plain, epochs_at},
    FigureX{"steps", "steps of all peers", FigureUnit::count,
            [](const ReportRun&, const ReportPoint& p) { return Maybe(p.steps); }},
    FigureX{"exchanges", "exchanges of all peers", FigureUnit::count,
            [](const ReportRun&, const ReportPoint& p) { return Maybe(p.exchanges); }},
    FigureX{"bytes", "data sent", FigureUnit::bytes,
            [](const ReportRun&, const ReportPoint& p) { return p.bytes; }},
};

constexpr std::array kFigureYs = {
    FigureY{"accuracy", "accuracy", FigureUnit::percent, false,
            [](const ReportPoint& p) { return p.accuracy; },
            [](const ReportRun& run) { return run.accuracy; }},
    FigureY{"loss", "loss", FigureUnit::plain, false, [](const ReportPoint& p) { return p.loss; },
            [](const ReportRun& run) { return run.loss; }},
    FigureY{"training_loss", "training loss", FigureUnit::plain, false,
            [](const ReportPoint& p) { return p.training_loss; }, nullptr},
    FigureY{"consensus", "consensus distance", FigureUnit::plain, true,
            [](const ReportPoint& p) { return p.consensus; },
            [](const ReportRun& run) { return run.consensus; }},
    FigureY{"seconds_to_target", "time to target", FigureUnit::seconds, true, nullptr,
            [](const ReportRun& run) { return run.seconds_to_target; }},
    FigureY{"seconds", "time", FigureUnit::seconds, false, nullptr,
            [](const ReportRun& run) { return Maybe(run.seconds); }},
    FigureY{"samples_per_second", "samples per second", FigureUnit::count, false, nullptr,
            [](const ReportRun& run) { return Maybe(run.samples_per_second); }},
    FigureY{"exchanges", "exchanges", FigureUnit::count, false, nullptr,
            [](const ReportRun& run) { return Maybe(run.exchanges); }},
    FigureY{"bytes", "data sent", FigureUnit::bytes, false, nullptr,
            [](const ReportRun& run) { return Maybe(run.bytes_sent); }},
};

template <class Table>
auto find_named(const Table& table, std::string_view name) -> decltype(table.data()) {
  std::string wanted(name);
  std::replace(wanted.begin(), wanted.end(), '-', '_');
  for (const auto& row : table)
    if (wanted == row.name) return &row;
  return nullptr;
}

template <class Table>
std::vector<std::string> names_in(const Table& table) {
  std::vector<std::string> names;
  for (const auto& row : table) names.emplace_back(row.name);
  return names;
}

}  // namespace

std::span<const FigureX> figure_xs() { return kFigureXs; }
std::span<const FigureY> figure_ys() { return kFigureYs; }
const FigureX* find_figure_x(std::string_view name) { return find_named(kFigureXs, name); }
const FigureY* find_figure_y(std::string_view name) { return find_named(kFigureYs, name); }
std::vector<std::string> figure_x_names() { return names_in(kFigureXs); }
std::vector<std::string> figure_y_names() { return names_in(kFigureYs); }

FigureScale figure_scale(const std::string& title, FigureUnit unit, double largest) {
  const auto step = [&](std::initializer_list<std::pair<double, const char*>> units) -> FigureScale {
    for (const auto& [size, name] : units)
      if (largest >= 10 * size || size == 1) return {fmt::format("{}{}", title, name), 1 / size};
    return {title, 1};
  };
  switch (unit) {
    case FigureUnit::percent:
      return {title + " (%)", 100};
    case FigureUnit::seconds:
      return {title + " (s)", 1};
    case FigureUnit::count:
      return step({{1e6, " (millions)"}, {1e3, " (thousands)"}, {1, ""}});
    case FigureUnit::bytes:
      return step({{1e9, " (GB)"}, {1e6, " (MB)"}, {1e3, " (kB)"}, {1, " (bytes)"}});
    default:
      return {title, 1};
  }
}

}  // namespace starling::lab
