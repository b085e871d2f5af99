// The page of a report.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string_view>

#include "lab/report/report.h"
#include "lab/report/setting_numbers.h"
#include "lab/report/web_files.h"
#include "topologies/xml.h"
#include "training/runs/records/files.h"
#include "training/runs/records/json_fields.h"
#include "wire/rules/payload.h"

namespace starling::lab {
namespace {

using topologies::escape_xml;
using training::Json;

// Five digits: a plot cannot show more.
Json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::strtod(fmt::format("{:.5g}", value).c_str(), nullptr);
}
Json number(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }

std::string count(double value) {
  constexpr std::array<std::pair<double, const char*>, 4> kUnits = {
      {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}}};
  for (const auto& [size, unit] : kUnits)
    if (value >= size) return fmt::format("{:.3g}{}", value / size, unit);
  return fmt::format("{:.3g}", value);
}
std::string bytes(double value) {
  const std::string text = count(value);
  return text + (value >= 1e3 ? "B" : " B");
}
std::string percent(double value) { return fmt::format("{:.2f} %", 100 * value); }

// A part in [0, 1] as one of 36 characters.
char digit(double part) {
  return "0123456789abcdefghijklmnopqrstuvwxyz"[static_cast<std::size_t>(
      std::lround(35 * std::clamp(part, 0.0, 1.0)))];
}
// The number of one of report.js's five colors, from the usual speed to six times slower.
char slow_digit(double slowness) {
  constexpr std::array<double, 4> kFrom = {1.25, 1.75, 3, 6};
  char at = '0';
  for (const double from : kFrom) at = static_cast<char>(at + (slowness >= from ? 1 : 0));
  return at;
}

Json to_json(const ReportRow& row) {
  std::string c, e, w, s, z;
  for (const auto& column : row.columns) {
    c += digit(static_cast<double>(column.computing));
    e += digit(static_cast<double>(column.exchanging));
    w += digit(static_cast<double>(column.waiting));
    s += digit(static_cast<double>(column.stopped));
    z += slow_digit(static_cast<double>(column.slowness));
  }
  Json parts = Json::array();
  for (const double part : row.parts) parts.push_back(number(part));
  return {{"p", row.peer}, {"c", c}, {"e", e}, {"w", w}, {"s", s}, {"z", z}, {"slow", number(row.slowness)},
          {"parts", parts}};
}

// "p0, p2 and 5 more".
std::string some_peers(const std::vector<std::string>& peers) {
  constexpr std::size_t kPeersNamed = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(peers.size(), kPeersNamed); ++i)
    text += (i > 0 ? ", " : "") + peers[i];
  return peers.size() > kPeersNamed ? text + fmt::format(" and {} more", peers.size() - kPeersNamed) : text;
}

constexpr std::size_t kPipelinesDrawn = 6;  // as in web/pipelines.js

Json to_json(const training::PipelineRecord& pipeline, bool is_drawn) {
  training::FieldWriter writer;
  writer("peers", some_peers(pipeline.peers));
  training::visit_pipeline(writer, pipeline);
  if (is_drawn) training::visit_passes(writer, pipeline);
  return writer.take();
}

Json to_json(const ReportRun& run) {
  const auto column = [&](const std::function<Json(const ReportPoint&)>& of) {
    Json values = Json::array();
    for (const ReportPoint& point : run.points) values.push_back(of(point));
    return values;
  };
  Json points = {{"t", column([](const auto& p) { return number(p.seconds); })},
                 {"s", column([](const auto& p) { return number(p.samples); })},
                 {"b", column([](const auto& p) { return number(p.bytes); })},
                 {"acc", column([](const auto& p) { return number(p.accuracy); })},
                 {"loss", column([](const auto& p) { return number(p.loss); })},
                 {"train", column([](const auto& p) { return number(p.training_loss); })},
                 {"con", column([](const auto& p) { return number(p.consensus); })},
                 {"pred", column([](const auto& p) { return number(p.predicted); })}};
  points["ended"] = !run.points.empty() && run.points.back().is_end;
  Json staleness = Json::array(), rows = Json::array(), peers = Json::array(), pipelines = Json::array();
  for (const training::PipelineRecord& pipeline : run.pipelines)
    pipelines.push_back(to_json(pipeline, pipelines.size() < kPipelinesDrawn));
  for (const auto& [steps, exchanges] : run.staleness) staleness.push_back(Json::array({steps, exchanges}));
  for (const ReportRow& row : run.rows) rows.push_back(to_json(row));
  constexpr std::size_t kMostPeersListed = 2000;
  for (const ReportPeer& peer : run.per_peer) {
    if (peers.size() == kMostPeersListed) break;
    peers.push_back({{"name", peer.name},
                     {"steps", number(peer.steps)},
                     {"samples", number(peer.samples)},
                     {"accuracy", number(peer.accuracy)},
                     {"exchanges", number(peer.exchanges)},
                     {"slow", number(peer.slow)},
                     {"own", peer.own_data},
                     {"state", peer.state}});
  }
  return {{"label", run.label},
          {"topology", run.topology},
          {"interrupted", run.end.interrupted ? interrupted_at(run) : ""},
          {"points", points},
          {"staleness", staleness},
          {"rows", rows},
          {"rows_to", number(run.rows_to)},
          {"hidden", run.peers_not_shown},
          {"pipelines", std::move(pipelines)},
          {"graph", run.graph},
          {"graph_text", run.graph_text},
          {"prediction", run.prediction},
          {"peers", peers}};
}

Json to_json(const std::optional<Spread>& spread) {
  if (!spread) return nullptr;
  Json json = {{"mean", number(spread->mean)}, {"median", number(spread->median)}};
  if (spread->interval) {
    json["low"] = number(spread->interval->low);
    json["high"] = number(spread->interval->high);
  }
  return json;
}

// {"unit": "Mbit/s", "of": {"1Gbit/s": 1000}}, or null if a value is no number.
Json amounts_of(const Report& report, std::size_t key) {
  std::vector<std::string> values;
  for (const ReportGroup& group : report.groups) values.push_back(group.values[key]);
  std::string unit;
  const auto numbers = numbers_of_setting(values, unit);
  if (!numbers) return {};
  Json of = Json::object();
  for (std::size_t i = 0; i < values.size(); ++i) of[values[i]] = number((*numbers)[i]);
  return {{"unit", unit}, {"of", of}};
}

std::vector<std::size_t> all_groups(const Report& report) {
  std::vector<std::size_t> all(report.groups.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

Json to_json(const Report& report) {
  Json groups = Json::array(), runs = Json::array();
  for (const ReportGroup& group : report.groups) {
    const std::size_t seeds = group.counted.size();
    groups.push_back(
        {{"label", group.label},
         {"values", group.values},
         {"runs", group.runs},
         {"counted", group.counted},
         // Half of the width of an interval, in standard errors.
         {"t", seeds < 3 ? Json() : number(student_t_quantile(0.975, static_cast<double>(seeds - 1)))},
         {"time", to_json(group.seconds_to_target)},
         {"accuracy", to_json(group.accuracy)}});
  }
  for (const ReportRun& run : report.runs) runs.push_back(to_json(run));
  Json amounts = Json::array();  // of the keys' values, if they are numbers
  for (std::size_t key = 0; key < report.keys.size(); ++key) amounts.push_back(amounts_of(report, key));
  return {{"title", report.title},
          {"target", number(report.target)},
          {"target_is_loss", report.target_is_loss},
          {"target_text", report.target ? target_text(report) : ""},
          {"keys", report.names},
          {"amounts", amounts},
          {"about", runs_text(report, all_groups(report))},
          {"groups", groups},
          {"runs", runs},
          {"csv", to_csv(report)}};
}

// What all runs share, as cards.
std::string facts(const Report& report) {
  std::string html = "<dl class=\"facts\">\n";
  const auto fact = [&](const char* what, const std::string& value) {
    html += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", what, escape_xml(value));
  };
  const auto shared = [&](const char* what, const std::function<std::string(const ReportRun&)>& of) {
    const std::string value = of(report.runs.front());
    const bool same = std::all_of(report.runs.begin(), report.runs.end(),
                                  [&](const ReportRun& run) { return of(run) == value; });
    if (same && !value.empty()) fact(what, value);
  };
  if (report.runs.size() > 1)
    fact("runs", report.groups.size() > 1
                     ? fmt::format("{} of {} kinds", report.runs.size(), report.groups.size())
                     : fmt::format("{} seeds", report.runs.size()));
  shared("peers", [](const ReportRun& run) {
    return fmt::format("{}, {}", run.peers, run.mode == "swarm" ? "processes" : "simulated");
  });
  shared("model", [](const ReportRun& run) {
    return fmt::format("{}, {} parameters", run.model, count(run.parameters));
  });
  shared("data", [](const ReportRun& run) { return run.data; });
  shared("topology", [](const ReportRun& run) {
    return run.topology.size() > 60 ? run.topology.substr(0, 57) + "..." : run.topology;
  });
  shared("rule", [](const ReportRun& run) {
    return run.payload == traits(Payload::f32).name ? run.rule : run.rule + ", " + run.payload;
  });
  if (report.runs.size() == 1) {
    const ReportRun& run = report.runs.front();
    if (run.end.interrupted) fact("state", interrupted_at(run));
    if (run.accuracy) fact(run.text.tokens ? "next token" : "accuracy", percent(*run.accuracy));
    if (run.loss) fact("loss", fmt::format("{:.4f}", *run.loss));
    if (run.text.perplexity) fact("perplexity", fmt::format("{:.2f}", *run.text.perplexity));
    if (run.text.bits_per_character)
      fact("bits per character", fmt::format("{:.3f}", *run.text.bits_per_character));
    fact("time", fmt::format("{:.4g} s", run.seconds));
    fact("samples", count(run.samples));
    if (run.text.tokens) fact("tokens", count(*run.text.tokens));
    fact("sent", bytes(run.bytes_sent));
    fact("exchanges", fmt::format("{:.0f}", run.exchanges));
  }
  return html + "</dl>";
}

std::string interval(const std::optional<Interval95>& of, int digits) {
  return of ? fmt::format(" <small>[{:.{}g}, {:.{}g}]</small>", of->low, digits, of->high, digits) : "";
}

// The columns of times; fewer where there is nothing to compare.
std::string time_heads(const Report& report) {
  if (report.runs.size() == 1)
    return fmt::format("<th scope=\"col\">seconds to {}</th>", target_text(report));
  return fmt::format(
      "<th scope=\"col\">reached {}</th><th scope=\"col\">seconds to it, median</th>"
      "<th scope=\"col\">geometric mean [95 %]</th>{}",
      target_text(report), report.groups.size() > 1 ? "<th scope=\"col\">speed-up [95 %]</th>" : "");
}

std::string table_head(const Report& report) {
  const bool target = report.target.has_value(), single = report.runs.size() == 1;
  const bool ones =
      std::ranges::all_of(report.groups, [](const auto& group) { return group.counted.size() < 2; });
  std::string html = "<caption>";
  const std::string reached =
      target ? fmt::format("Seconds until the mean model reached {}{}",
                           report.target_is_loss ? "" : "an accuracy of ", target_text(report))
             : "";
  if (single)
    html += "The result of the run.";
  else if (ones)
    html += target ? reached + ". One run of each kind." : "One run of each kind.";
  else if (target)
    html += reached +
            ": medians, and geometric means over seeds with 95 % confidence intervals, by Student's t on the "
            "logarithms.";
  else
    html += "Means over seeds with 95 % confidence intervals, by Student's t.";
  html += "</caption>\n<thead><tr>";
  if (report.keys.empty()) html += "<th scope=\"col\" class=\"text\">run</th>";
  for (const std::string& name : report.names)
    html += fmt::format("<th scope=\"col\" class=\"text\">{}</th>", escape_xml(name));
  if (!single) html += "<th scope=\"col\">runs</th>";
  if (target) html += time_heads(report);
  return html +
         "<th scope=\"col\">accuracy at the end</th><th scope=\"col\">loss</th>"
         "<th scope=\"col\">seconds in all</th><th "
         "scope=\"col\">sent</th></tr></thead>\n";
}

std::string time_cells(const Report& report, const ReportGroup& group, bool is_best) {
  std::string html = fmt::format("<td>{} of {}</td>", group.reached, group.counted.size());
  if (const auto& time = group.seconds_to_target) {
    const std::string range =
        time->count > 1 ? fmt::format(" <small>({:.3g} to {:.3g})</small>", time->least, time->most) : "";
    html += fmt::format("<td{}>{:.3g}{}</td><td>{:.3g}{}</td>", is_best ? " class=\"best\"" : "",
                        time->median, range, time->mean, interval(time->interval, 3));
  } else {
    html += "<td>-</td><td>-</td>";
  }
  if (report.groups.size() == 1) return html;
  return html + (group.speedup ? fmt::format("<td>{:.3g}×{}</td>", group.speedup->factor,
                                             interval(group.speedup->interval, 3))
                               : "<td>-</td>");
}

// " ± 1.20", or " (97.10 to 100.00)" if the interval ends at what the quantity can be.
std::string around(const Spread& spread, double factor, int digits) {
  if (!spread.interval) return "";
  const auto [low, high] = *spread.interval;
  const double up = high - spread.mean, down = spread.mean - low;
  if (std::abs(up - down) > 1e-9 * std::max(up, down))
    return fmt::format(" <small>({:.{}f} to {:.{}f})</small>", factor * low, digits, factor * high, digits);
  return fmt::format(" <small>± {:.{}f}</small>", factor * up, digits);
}

std::string accuracy_cell(const std::optional<Spread>& accuracy) {
  if (!accuracy) return "<td>-</td>";
  return fmt::format("<td>{}{}</td>", percent(accuracy->mean), around(*accuracy, 100, 2));
}

std::string loss_cell(const std::optional<Spread>& loss) {
  if (!loss) return "<td>-</td>";
  return fmt::format("<td>{:.4f}{}</td>", loss->mean, around(*loss, 1, 3));
}

// REQUIRES: all runs of the group reached the target.
std::optional<double> time_of(const ReportGroup& group) {
  if (!group.seconds_to_target || group.reached < group.counted.size()) return std::nullopt;
  return group.seconds_to_target->mean;
}

std::string badge(std::size_t interrupted, std::size_t runs) {
  if (interrupted == 0) return "";
  const std::string of = runs == 1 ? "" : fmt::format("{} of {} ", interrupted, runs);
  return fmt::format(" <span class=\"badge\">{}interrupted</span>", of);
}

std::size_t interrupted_in(const Report& report, const std::vector<std::size_t>& runs) {
  return static_cast<std::size_t>(
      std::ranges::count_if(runs, [&](std::size_t i) { return report.runs[i].end.interrupted; }));
}

// The cells of the results of a report of one run, which need no statistics.
std::string single_cells(const Report& report, const ReportRun& run) {
  std::string html;
  if (report.target)
    html += run.seconds_to_target ? fmt::format("<td>{:.3g}</td>", *run.seconds_to_target)
                                  : std::string("<td>not reached</td>");
  return html + fmt::format("<td>{}</td><td>{}</td><td>{:.3g}</td><td>{}</td></tr>\n",
                            run.accuracy ? percent(*run.accuracy) : "not evaluated",
                            run.loss ? fmt::format("{:.4f}", *run.loss) : "not evaluated", run.seconds,
                            bytes(run.bytes_sent));
}

std::string table(const Report& report) {
  std::string html = "<table>\n" + table_head(report) + "<tbody>\n";
  double quickest = INFINITY;
  for (const ReportGroup& group : report.groups)
    if (const auto time = time_of(group)) quickest = std::min(quickest, *time);
  for (const ReportGroup& group : report.groups) {
    html += "<tr>";
    std::vector<std::string> names;
    if (report.keys.empty()) names.push_back(group.label);
    const ReportRun& run = report.runs[group.runs.front()];
    for (std::size_t k = 0; k < group.values.size(); ++k) {
      const char* nothing = run.without_effect.contains(report.keys[k]) ? "-" : "not set";
      names.push_back(group.values[k].empty() ? nothing : group.values[k]);
    }
    for (std::size_t k = 0; k < names.size(); ++k)
      html += k == 0 ? fmt::format("<th scope=\"row\">{}{}</th>", escape_xml(names[k]),
                                   badge(interrupted_in(report, group.runs), group.runs.size()))
                     : fmt::format("<td class=\"text\">{}</td>", escape_xml(names[k]));
    if (report.runs.size() == 1) {
      html += single_cells(report, run);
      continue;
    }
    html += fmt::format("<td>{}</td>", group.counted.size());
    const bool best = report.groups.size() > 1 && time_of(group) == quickest;
    if (report.target) html += time_cells(report, group, best);
    html += accuracy_cell(group.accuracy) + loss_cell(group.loss);
    html += group.seconds ? fmt::format("<td>{:.3g}</td><td>{}</td></tr>\n", group.seconds->mean,
                                        bytes(group.bytes_sent->mean))
                          : std::string("<td>-</td><td>-</td></tr>\n");
  }
  return html + "</tbody>\n</table>";
}

std::string table_note(const Report& report) {
  std::string note;
  if (report.target) {
    note += fmt::format(
        "Times are interpolated on a line between the first evaluation that reached the target and the one "
        "before it, on {}. ",
        !report.target_from_curves        ? "the whole test set where it is near"
        : report.runs.front().text.tokens ? "the first 20,000 tokens of the test part"
                                          : "the first 1,000 test images");
  }
  if (report.target && report.groups.size() > 1) {
    note += fmt::format(
        "Speed-ups are relative to {}: ratios of geometric means, with intervals on the logarithms: by "
        "Student's t on the ratios of simulations with the same seed, or by Welch's t where seeds differ or "
        "runs "
        "are real. A row has none unless all of its runs reached the target. ",
        report.reference == 0 ? "the first row" : report.groups[report.reference].label);
  }
  for (const std::string& sentence : set_aside(report)) note += sentence + ". ";
  if (const std::string few = few_seeds(report); !few.empty()) note += few + ".";
  return note.empty() ? "" : "<p class=\"note\">" + escape_xml(note) + "</p>";
}

}  // namespace

std::string to_html(const Report& report) {
  std::string data = training::to_text(to_json(report));
  // No character may end the script element.
  std::string safe;
  for (const char c : data) safe += c == '<' ? std::string("\\u003c") : std::string(1, c);

  const std::string title = escape_xml(report.title);
  const auto value_of = [&](std::string_view name) -> std::string {
    if (name == "TITLE") return title;
    if (name == "STYLE") return std::string(report_style());
    if (name == "SCRIPT") return std::string(report_script());
    if (name == "FACTS") return facts(report);
    if (name == "TABLE_TITLE") return report.target ? "Time to " + target_text(report) : "Results";
    if (name == "TABLE") return table(report);
    if (name == "TABLE_NOTE") return table_note(report);
    return safe;  // DATA
  };
  std::string html;
  for (std::string_view rest = report_template(); !rest.empty();) {
    const std::size_t at = rest.find('@');
    html += rest.substr(0, at);
    if (at == std::string_view::npos) break;
    const std::size_t end = rest.find('@', at + 1);
    html += value_of(rest.substr(at + 1, end - at - 1));
    rest.remove_prefix(end + 1);
  }
  return html;
}

Status write_report(const std::string& folder) {
  const auto report = read_report({folder});
  if (!report) return report.error();
  return training::write_text(folder + "/report.html", to_html(*report));
}

}  // namespace starling::lab
