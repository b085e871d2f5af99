#include "lab/plot/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.h"
#include "lab/plot/mean_curve.h"
#include "lab/plot/quantities.h"
#include "lab/report/setting_numbers.h"

namespace starling::lab {
namespace {

constexpr double kLogSpan = 30;   // about one and a half decades
constexpr double kEndsSpan = 10;  // the shortest curve would take less than a tenth of a linear axis

// The groups of a line, and their runs.
struct FigureKind {
  std::string label;
  std::vector<std::size_t> groups;
};

// ---- settings and kinds ----

// The place of a setting in Report::keys.
std::optional<std::size_t> key_place(const Report& report, const std::string& name) {
  for (std::size_t i = 0; i < report.keys.size(); ++i)
    if (name == report.keys[i] || name == report.names[i]) return i;
  for (std::size_t i = 0; i < report.keys.size(); ++i)
    if (report.keys[i].ends_with("." + name)) return i;
  return std::nullopt;
}

Error unknown_setting(const Report& report, const std::string& flag, const std::string& name) {
  const std::string differ =
      report.keys.empty() ? "they differ in no setting" : "they differ in " + one_of(report.names);
  return Error{flag + ": the runs do not differ in '" + name.substr(0, 80) + "'; " + differ};
}

Result<std::vector<std::size_t>> chosen_groups(const Report& report, const FigureRequest& request) {
  std::vector<bool> chosen(report.groups.size(), request.only.empty());
  for (const std::string& kind : request.only) {
    const auto found = find_groups(report, kind);
    if (!found) return Error{"--only: " + found.error().message};
    for (const std::size_t group : *found) chosen[group] = true;
  }
  std::vector<std::size_t> groups;
  for (std::size_t i = 0; i < chosen.size(); ++i)
    if (chosen[i]) groups.push_back(i);
  return groups;
}

// The places of the settings that make kinds.
Result<std::vector<std::size_t>> kind_keys(const Report& report, const FigureRequest& request,
                                           std::optional<std::size_t> factor) {
  std::vector<std::size_t> keys;
  for (const std::string& name : request.by) {
    const auto place = key_place(report, name);
    if (!place) return unknown_setting(report, "--by", name);
    if (place == factor) return Error{"--by: '" + name + "' is the x axis already"};
    keys.push_back(*place);
  }
  for (std::size_t i = 0; request.by.empty() && i < report.keys.size(); ++i)
    if (i != factor) keys.push_back(i);
  return keys;
}

// "slow=10, d-psgd": numbers with the names of their settings. Settings in which the kinds do not differ are
// left out.
std::string legend_label(const Report& report, const std::vector<std::size_t>& keys,
                         const std::vector<std::string>& values) {
  std::string text;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::string& value = values[i];
    if (value.empty()) continue;
    const bool word = (value[0] >= 'a' && value[0] <= 'z') && value != "true" && value != "false";
    text += (text.empty() ? "" : ", ") + (word ? value : report.names[keys[i]] + "=" + value);
  }
  return text;
}

std::vector<FigureKind> kinds_among(const Report& report, const std::vector<std::size_t>& groups,
                                    std::vector<std::size_t> keys) {
  std::erase_if(keys, [&](std::size_t key) {
    return std::ranges::all_of(groups, [&](std::size_t group) {
      return report.groups[group].values[key] == report.groups[groups.front()].values[key];
    });
  });
  std::vector<FigureKind> kinds;
  std::map<std::vector<std::string>, std::size_t> places;
  for (const std::size_t i : groups) {
    const ReportGroup& group = report.groups[i];
    std::vector<std::string> values;
    for (const std::size_t key : keys) values.push_back(group.values[key]);
    if (report.keys.empty()) values.push_back(std::to_string(i));  // runs without an experiment.toml
    const auto [found, fresh] = places.try_emplace(values, kinds.size());
    if (fresh) kinds.push_back({legend_label(report, keys, values), {}});
    if (kinds[found->second].label.empty()) kinds[found->second].label = group.label;
    kinds[found->second].groups.push_back(i);
  }
  return kinds;
}

// --label KIND=TEXT. KIND may contain '=': the longest one that is a kind is meant.
Status apply_label(const Report& report, const std::string& text, std::vector<FigureKind>& kinds) {
  for (std::size_t at = text.rfind('='); at != std::string::npos && at > 0; at = text.rfind('=', at - 1)) {
    const std::string name = text.substr(0, at);
    auto found = std::ranges::find(kinds, name, &FigureKind::label);
    if (const auto groups = find_groups(report, name); found == kinds.end() && groups) {
      const auto named = [&](std::size_t group) {
        return std::ranges::find(*groups, group) != groups->end();
      };
      const auto fits = [&](const FigureKind& kind) { return std::ranges::all_of(kind.groups, named); };
      if (std::ranges::count_if(kinds, fits) == 1) found = std::ranges::find_if(kinds, fits);
    }
    if (found == kinds.end()) continue;
    found->label = text.substr(at + 1);
    return Done{};
  }
  std::vector<std::string> labels;
  for (const FigureKind& kind : kinds) labels.push_back(kind.label);
  return Error{"--label: '" + text.substr(0, 80) + "' names no kind of the figure; expected KIND=TEXT with " +
               one_of(labels)};
}

// ---- values ----

// The runs in statistics; if there are none, all.
std::vector<std::size_t> runs_of(const Report& report, const std::vector<std::size_t>& groups) {
  std::vector<std::size_t> counted, all;
  for (const std::size_t i : groups) {
    const ReportGroup& group = report.groups[i];
    counted.insert(counted.end(), group.counted.begin(), group.counted.end());
    all.insert(all.end(), group.runs.begin(), group.runs.end());
  }
  return counted.empty() ? all : counted;
}

struct Extent {
  double least = INFINITY, most = -INFINITY;
  void take(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  bool spans(double factor) const { return least > 0 && most > factor * least; }
};

bool is_log(const FigureRequest& request, char axis, bool otherwise) {
  return request.log ? *request.log != "none" && request.log->find(axis) != std::string::npos : otherwise;
}

Status check_log(const FigureAxis& axis, const char* name, const Extent& extent) {
  if (!axis.log || extent.least > 0) return Done{};
  return Error{fmt::format("--log: the {} axis begins at {}, which has no logarithm", name,
                           format_number(extent.least))};
}

// "virtual time" if all runs of the groups are simulated: `title` begins with "time" or names a second.
std::string title_of_time(const Report& report, const std::vector<std::size_t>& groups, std::string title) {
  for (const std::size_t group : groups)
    for (const std::size_t run : report.groups[group].runs)
      if (report.runs[run].mode != "simulate") return title;
  if (title.starts_with("time")) return "virtual " + title;
  const std::size_t second = title.find("second");
  return second == std::string::npos ? title : title.insert(second, "virtual ");
}

void set_scales(PaperFigure& figure, const FigureRequest& request, const FigureScale& x,
                const FigureScale& y) {
  for (FigureLine& line : figure.lines) {
    for (FigurePoint& point : line.points) {
      point.x *= x.factor;
      point.y *= y.factor;
      if (point.spread)
        point.spread = Interval95{point.spread->low * y.factor, point.spread->high * y.factor};
    }
    for (auto& [at, value] : line.predicted) {
      at *= x.factor;
      value *= y.factor;
    }
  }
  figure.x.title = request.x_title.value_or(x.title);
  figure.y.title = request.y_title.value_or(y.title);
}

// "3 seeds", "2 to 5 seeds".
std::string seeds_text(const std::vector<std::size_t>& counts) {
  const auto [least, most] = std::ranges::minmax_element(counts);
  return *least == *most ? fmt::format("{} runs", *most) : fmt::format("{} to {} runs", *least, *most);
}

// How the numbers of runs are summed up: "means of 3 runs with 95 % confidence intervals".
std::string statistics_text(const std::vector<std::size_t>& counts, bool log, const char* shown_as) {
  const auto [least, most] = std::ranges::minmax_element(counts);
  if (*most <= 1) return "one run of each kind";
  std::string text = log ? "geometric means of " : "means of ";
  text += seeds_text(counts) + " of each kind; " + shown_as;
  if (*most == 2) return text + " from the lesser to the greater value";
  text += log ? " are 95 % confidence intervals by Student's t on the logarithms"
              : " are 95 % confidence intervals by Student's t";
  return *least == 2 ? text + " (of two runs: both values)" : text;
}

// ---- curves ----

struct Curves {
  std::vector<CurvePoints> runs;
  CurvePoints predicted;  // of the first run that has a prediction
};

Result<CurvePoints> curve_of_run(const ReportRun& run, const FigureX& x, const FigureY& y) {
  const auto points = read_points(run.folder, run);
  if (!points) return points.error();
  CurvePoints curve;
  for (const ReportPoint& point : *points) {
    if (point.is_end) continue;  // evaluated on other images
    const auto at = x.of(run, point), value = y.of_point(point);
    if (at && value && (curve.empty() || *at > curve.back().first)) curve.emplace_back(*at, *value);
  }
  return curve;
}

CurvePoints prediction_of(const ReportRun& run, const FigureX& x) {
  CurvePoints curve;
  for (const ReportPoint& point : run.points)
    if (const auto at = x.of(run, point); at && point.predicted) curve.emplace_back(*at, *point.predicted);
  return curve;
}

Result<std::vector<Curves>> read_curves(const Report& report, const std::vector<FigureKind>& kinds,
                                        const FigureX& x, const FigureY& y) {
  std::vector<Curves> all;
  for (const FigureKind& kind : kinds) {
    Curves& curves = all.emplace_back();
    for (const std::size_t i : runs_of(report, kind.groups)) {
      const ReportRun& run = report.runs[i];
      auto curve = curve_of_run(run, x, y);
      if (!curve) return curve.error();
      if (curve->size() >= 2) curves.runs.push_back(std::move(*curve));
      // That of pooled kinds would be the prediction for one of them.
      if (std::string_view(y.name) == "consensus" && kind.groups.size() == 1 && curves.predicted.empty())
        curves.predicted = prediction_of(run, x);
    }
  }
  return all;
}

// Points without a logarithm are left out: the start of a run, and a distance of zero.
void drop_without_log(std::vector<Curves>& all, const PaperFigure& figure) {
  const auto bad = [&](const auto& point) {
    return (figure.x.log && !(point.first > 0)) || (figure.y.log && !(point.second > 0));
  };
  for (Curves& curves : all) {
    for (CurvePoints& curve : curves.runs) std::erase_if(curve, bad);
    std::erase_if(curves.runs, [](const CurvePoints& curve) { return curve.size() < 2; });
    std::erase_if(curves.predicted, bad);
  }
}

void choose_curve_axes(PaperFigure& figure, const std::vector<Curves>& all, const FigureRequest& request,
                       const FigureY& y) {
  Extent ends, values;
  bool positive = true;
  for (const Curves& curves : all) {
    for (const CurvePoints& curve : curves.runs) {
      ends.take(curve.back().first);
      for (const auto& [at, value] : curve) {
        if (value > 0) values.take(value);
        positive = positive && value >= 0;
      }
    }
  }
  figure.x.log = is_log(request, 'x', ends.spans(kEndsSpan));
  const bool percent = y.unit == FigureUnit::percent;
  figure.y.log = is_log(request, 'y', positive && !percent && (y.log || values.spans(kLogSpan)));
}

Result<PaperFigure> curves_figure(const Report& report, const std::vector<FigureKind>& kinds,
                                  const FigureRequest& request, const FigureX& x, const FigureY& y) {
  auto all = read_curves(report, kinds, x, y);
  if (!all) return all.error();
  PaperFigure figure;
  choose_curve_axes(figure, *all, request, y);
  drop_without_log(*all, figure);
  Extent xs, ys;
  std::vector<std::size_t> counts;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const Curves& curves = (*all)[k];
    if (curves.runs.empty()) {
      figure.remarks.push_back(fmt::format("{}: no curve of {} against {}", kinds[k].label, y.name, x.name));
      continue;
    }
    FigureLine& line = figure.lines.emplace_back(FigureLine{kinds[k].label, {}, curves.predicted});
    for (const MeanPoint& point : mean_curve(curves.runs, figure.x.log, figure.y.log, y.limits())) {
      line.points.push_back({point.x, point.mean, point.band, false});
      xs.take(point.x);
      ys.take(point.mean);
    }
    counts.push_back(curves.runs.size());
  }
  if (figure.lines.empty())
    return Error{fmt::format(
        "no run has a curve of {} against {}; runs with --looks are evaluated on the way", y.name, x.name)};
  std::vector<std::size_t> groups;
  for (const FigureKind& kind : kinds) groups.insert(groups.end(), kind.groups.begin(), kind.groups.end());
  set_scales(figure, request, figure_scale(title_of_time(report, groups, x.title), x.unit, xs.most),
             figure_scale(y.title, y.unit, ys.most));
  figure.caption = fmt::format("{} against {}: {}.", figure.y.title, figure.x.title,
                               statistics_text(counts, figure.y.log, "bands"));
  if (std::ranges::any_of(figure.lines, [](const FigureLine& line) { return !line.predicted.empty(); }))
    figure.caption += " Dashed: predicted from the topology, with a fitted level.";
  figure.caption += " " + runs_text(report, groups);
  return figure;
}

// ---- results by a setting ----

struct Factor {
  std::vector<std::string> values;  // distinct, in their order on the axis
  std::vector<double> places;       // their x
  bool numeric = false;
  std::string unit;
};

Factor factor_of(const Report& report, const std::vector<std::size_t>& groups, std::size_t key) {
  Factor factor;
  for (const std::size_t group : groups) {
    const std::string& value = report.groups[group].values[key];
    if (!value.empty() && std::ranges::find(factor.values, value) == factor.values.end())
      factor.values.push_back(value);
  }
  if (factor.values.empty()) return factor;
  const auto numbers = numbers_of_setting(factor.values, factor.unit);
  factor.numeric = numbers.has_value();
  for (std::size_t i = 0; i < factor.values.size(); ++i)
    factor.places.push_back(numbers ? (*numbers)[i] : static_cast<double>(i));
  return factor;
}

// The point of some runs at a value of the setting; nothing if none has the result.
std::optional<FigurePoint> result_point(const Report& report, const std::vector<std::size_t>& runs, double x,
                                        const FigureY& y, bool log, std::size_t& count) {
  std::vector<double> values;
  for (const std::size_t i : runs)
    if (const auto value = y.of_run(report.runs[i]); value && (!log || *value > 0)) values.push_back(*value);
  if (values.empty()) return std::nullopt;
  count = values.size();
  const MeanAndBand middle = mean_and_band(values, y.log || log, y.limits());
  FigurePoint point{x, middle.mean, middle.band, values.size() < runs.size()};
  if (point.partial) point.spread.reset();  // a spread of only these runs would flatter the kind
  return point;
}

// Results of runs by the values of a setting.
struct ResultsBy {
  const Report& report;
  const FigureY& y;
  std::size_t key;
  Factor factor;
  bool single;  // there is one kind, which needs no name
};

FigureLine result_line(const ResultsBy& by, const FigureKind& kind, PaperFigure& figure,
                       std::vector<std::size_t>& counts) {
  FigureLine line{kind.label, {}};
  for (std::size_t v = 0; v < by.factor.values.size(); ++v) {
    std::vector<std::size_t> groups;
    for (const std::size_t group : kind.groups)
      if (by.report.groups[group].values[by.key] == by.factor.values[v]) groups.push_back(group);
    if (groups.empty()) continue;
    const auto runs = runs_of(by.report, groups);
    std::size_t count = 0;
    const auto point = result_point(by.report, runs, by.factor.places[v], by.y, figure.y.log, count);
    const std::string where = (by.single ? "" : kind.label + ", ") +
                              fmt::format("{}={}", by.report.names[by.key], by.factor.values[v]);
    if (!point) {
      figure.remarks.push_back(fmt::format("{}: no run has {}", where, by.y.name));
      continue;
    }
    if (point->partial)
      figure.remarks.push_back(fmt::format("{}: {} of {} runs have {}; the hollow point is their mean", where,
                                           count, runs.size(), by.y.name));
    counts.push_back(count);
    line.points.push_back(*point);
  }
  std::ranges::sort(line.points, {}, &FigurePoint::x);
  return line;
}

std::string y_title_of(const Report& report, const std::vector<std::size_t>& groups, const FigureY& y) {
  const bool to_target = std::string_view(y.name) == "seconds_to_target" && report.target;
  return title_of_time(report, groups, to_target ? "time to " + target_text(report) : y.title);
}

// The name of a setting in words: "learning rate".
std::string title_of_setting(std::string name) {
  if (name == "slow") return "slow-down";
  std::ranges::replace(name, '_', ' ');
  return name;
}

Result<PaperFigure> factor_figure(const Report& report, const std::vector<std::size_t>& groups,
                                  const std::vector<FigureKind>& kinds, const FigureRequest& request,
                                  std::size_t key, const FigureY& y) {
  const ResultsBy by{report, y, key, factor_of(report, groups, key), kinds.size() == 1};
  const Factor& factor = by.factor;
  PaperFigure figure;
  figure.curves = false;
  Extent xs, ys;
  for (const double place : factor.places) xs.take(place);
  if (!factor.numeric) figure.x.categories = factor.values;
  figure.x.log = factor.numeric && is_log(request, 'x', xs.spans(kLogSpan));
  for (const std::size_t group : groups)
    for (const std::size_t i : runs_of(report, {group}))
      if (const auto value = y.of_run(report.runs[i])) ys.take(*value);
  const bool percent = y.unit == FigureUnit::percent;
  figure.y.log = is_log(request, 'y', !percent && ys.least > 0 && (y.log || ys.spans(kLogSpan)));
  for (const Status& fine : {check_log(figure.x, "x", xs), check_log(figure.y, "y", ys)})
    if (!fine) return fine.error();
  std::vector<std::size_t> counts;
  for (const FigureKind& kind : kinds) {
    FigureLine line = result_line(by, kind, figure, counts);
    if (!line.points.empty()) figure.lines.push_back(std::move(line));
  }
  if (figure.lines.empty()) {
    return Error{fmt::format("no run has {}{}", y.name,
                             std::string_view(y.name) == "seconds_to_target"
                                 ? "; --target sets an accuracy that the runs reached"
                                 : "")};
  }
  const std::string unit = factor.unit.empty() ? "" : " (" + factor.unit + ")";
  set_scales(figure, request, {title_of_setting(report.names[key]) + unit, 1},
             figure_scale(y_title_of(report, groups, y), y.unit, ys.most));
  figure.caption = fmt::format("{} by {}: {}.", figure.y.title, figure.x.title,
                               statistics_text(counts, y.log || figure.y.log, "bars")) +
                   " " + runs_text(report, groups);
  return figure;
}

// ---- together ----

// The setting on the x axis if it is not named: the first one with numbers that makes no kinds, else the
// first one.
Result<std::size_t> usual_factor(const Report& report, const std::vector<std::size_t>& groups,
                                 const FigureRequest& request, const FigureY& y) {
  std::optional<std::size_t> first;
  for (std::size_t key = 0; key < report.keys.size(); ++key) {
    const bool taken = std::ranges::any_of(
        request.by, [&](const std::string& name) { return key_place(report, name) == key; });
    const Factor factor = factor_of(report, groups, key);
    if (taken || factor.values.size() < 2) continue;
    if (factor.numeric) return key;
    if (!first) first = key;
  }
  if (first) return *first;
  return Error{
      fmt::format("--y: {} is one number of a run, and the runs differ in no setting to show it by", y.name)};
}

struct FigureChoice {
  const FigureX* x = nullptr;  // null: by the setting `factor`
  const FigureY* y = nullptr;
  std::optional<std::size_t> factor;
};

Result<FigureChoice> choose_quantities(const Report& report, const std::vector<std::size_t>& groups,
                                       const FigureRequest& request) {
  FigureChoice choice;
  if (request.y) {
    choice.y = find_figure_y(*request.y);
    if (choice.y == nullptr)
      return Error{"--y: '" + request.y->substr(0, 80) + "' is unknown; expected " +
                   one_of(figure_y_names())};
  }
  if (request.x) {
    choice.x = find_figure_x(*request.x);
    if (choice.x == nullptr) choice.factor = key_place(report, *request.x);
    if (choice.x == nullptr && !choice.factor) {
      const Error error = unknown_setting(report, "--x", *request.x);
      return Error{error.message + "; expected " + (report.keys.empty() ? "" : "one of these or ") +
                   one_of(figure_x_names())};
    }
  } else if (choice.y != nullptr && choice.y->of_point == nullptr) {
    const auto factor = usual_factor(report, groups, request, *choice.y);
    if (!factor) return factor.error();
    choice.factor = *factor;
  } else {
    choice.x = find_figure_x("seconds");
  }
  const bool any_time = report.target && std::ranges::any_of(groups, [&](std::size_t i) {
                          return report.groups[i].reached > 0;
                        });
  if (choice.y == nullptr)
    choice.y = find_figure_y(choice.factor && any_time ? "seconds_to_target" : "accuracy");
  if (choice.x != nullptr && choice.y->of_point == nullptr)
    return Error{fmt::format("--y: {} is one number of a run and has no curve; name a setting as --x",
                             choice.y->name)};
  if (choice.factor && choice.y->of_run == nullptr)
    return Error{fmt::format("--y: {} has only a curve; choose --x from {}", choice.y->name,
                             one_of(figure_x_names()))};
  return choice;
}

}  // namespace

Result<PaperFigure> make_figure(const Report& report, const FigureRequest& request) {
  const auto groups = chosen_groups(report, request);
  if (!groups) return groups.error();
  const auto choice = choose_quantities(report, *groups, request);
  if (!choice) return choice.error();
  const auto keys = kind_keys(report, request, choice->factor);
  if (!keys) return keys.error();
  auto kinds = kinds_among(report, *groups, *keys);
  if (kinds.size() > kMostFigureLines)
    return Error{
        fmt::format("the figure would have {} kinds of runs, and print keeps {} apart; pool them with --by "
                    "SETTING or choose "
                    "some with --only KIND",
                    kinds.size(), kMostFigureLines)};
  for (const std::string& label : request.labels)
    if (const Status applied = apply_label(report, label, kinds); !applied) return applied.error();
  return choice->factor ? factor_figure(report, *groups, kinds, request, *choice->factor, *choice->y)
                        : curves_figure(report, kinds, request, *choice->x, *choice->y);
}

}  // namespace starling::lab
