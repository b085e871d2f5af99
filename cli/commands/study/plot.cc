// starling plot: figures for a paper, of runs and of topologies.
#include <fmt/format.h>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/flag_values.h"
#include "cli/commands/named_files.h"
#include "cli/commands/study/paper_format.h"
#include "cli/shell/output.h"
#include "lab/plot/draw.h"
#include "lab/plot/figure.h"
#include "lab/plot/quantities.h"
#include "lab/report/report.h"
#include "training/runs/records/files.h"

namespace starling::cli {
namespace {

constexpr std::uint32_t kMostPeersPlotted = 400;
constexpr double kUsualShape = 0.7;  // height by width

// The flags that only one of the two kinds of figures has.
constexpr std::array kRunFlags = {"--x",   "--y",       "--by",      "--only",   "--label",
                                  "--log", "--x-label", "--y-label", "--target", "--time-from"};

Result<double> read_size(const Arguments& arguments, const std::string& flag, double otherwise, double least,
                         double most, const char* unit) {
  const auto text = arguments.get(flag);
  if (!text) return otherwise;
  const auto number = parse_number<double>(*text);
  if (number && *number >= least && *number <= most) return *number;
  return Error{fmt::format("{}: '{}' is not a number of {} from {} to {}", flag, text->substr(0, 80), unit,
                           format_number(least), format_number(most))};
}

Result<lab::Paper> read_paper(const Arguments& arguments, const std::string& path) {
  lab::Paper paper;
  const auto format = paper_format("--out", path);
  if (!format) return format.error();
  paper.format = *format;
  if (arguments.has("--dpi") && paper.format != lab::PaperFormat::png)
    return Error{"--dpi has an effect only on a PNG; SVG and PDF have no pixels"};
  struct Size {
    const char* flag;
    double* value;
    double least, most;
    const char* unit;
  };
  paper.height = 0;
  for (const Size& size : {Size{"--width", &paper.width, 1, 20, "inches"},
                           {"--height", &paper.height, 0.5, 20, "inches"},
                           {"--font", &paper.font, 3, 36, "points"},
                           {"--dpi", &paper.dpi, 50, 2400, "dots per inch"}}) {
    const auto read = read_size(arguments, size.flag, *size.value, size.least, size.most, size.unit);
    if (!read) return read.error();
    *size.value = *read;
  }
  if (paper.height == 0) paper.height = kUsualShape * paper.width;
  paper.family = arguments.get("--family").value_or(paper.family);
  return paper;
}

Result<lab::FigureRequest> read_figure_request(const Arguments& arguments) {
  lab::FigureRequest request;
  request.x = arguments.get("--x");
  request.y = arguments.get("--y");
  request.by = arguments.all("--by");
  request.only = arguments.all("--only");
  request.labels = arguments.all("--label");
  request.x_title = arguments.get("--x-label");
  request.y_title = arguments.get("--y-label");
  request.log = arguments.get("--log");
  constexpr std::array kLogs = {"x", "y", "xy", "none"};
  if (request.log && std::ranges::find(kLogs, *request.log) == kLogs.end())
    return Error{"--log: '" + request.log->substr(0, 80) + "' is unknown; expected " + one_of(kLogs)};
  for (const char* flag : {"--label", "--x-label", "--y-label"}) {
    for (const std::string& text : arguments.all(flag))
      if (!is_printable(text)) return Error{std::string(flag) + ": the text is not printable UTF-8"};
  }
  return request;
}

int write_figure(const Arguments& arguments, const std::string& path, const Result<std::string>& document,
                 const std::string& told) {
  if (!document) return refuse(arguments, document.error());
  if (const Status written = training::write_text(path, *document); !written)
    return refuse(arguments, "--out: " + written.error().message);
  return print_out(told);
}

int plot_topology(const Arguments& arguments, const std::string& path) {
  if (arguments.has("DIR"))
    return refuse(arguments,
                  "--topology draws a graph and no runs; plot the runs with a command of their own");
  for (const char* flag : kRunFlags)
    if (arguments.has(flag)) return refuse(arguments, std::string(flag) + " has no effect with --topology");
  const std::string name = *arguments.get("--topology");
  const auto topology = read_topology(name);
  if (!topology) return refuse(arguments, topology.error());
  std::uint32_t peers = topology->only_peers().value_or(0);
  if (peers == 0 && !arguments.has("--peers"))
    return refuse(arguments, "--peers is missing; expected the number of peers");
  if (Status read = read_number(arguments, "--peers", 1U, kMostPeersPlotted, peers); !read)
    return refuse(arguments, read.error());
  if (const Status exists = topology->exists(peers); !exists) return refuse(arguments, exists.error());
  tell_graph(topology->name());
  const auto paper = read_paper(arguments, path);
  if (!paper) return refuse(arguments, paper.error());
  const auto document = lab::draw_topology(topology->among(peers), name, *paper, arguments.has("--height"));
  return write_figure(arguments, path, document, fmt::format("{} among {} peers   {}\n", name, peers, path));
}

int plot_runs(const Arguments& arguments, const std::string& path) {
  if (arguments.has("--peers")) return refuse(arguments, "--peers has no effect without --topology");
  const auto paper = read_paper(arguments, path);
  if (!paper) return refuse(arguments, paper.error());
  const auto request = read_figure_request(arguments);
  if (!request) return refuse(arguments, request.error());
  lab::ReportOptions options;
  if (const Status read = read_target(arguments, options.target); !read)
    return refuse(arguments, read.error());
  if (const Status read = read_time_from(arguments, options.from_start); !read)
    return refuse(arguments, read.error());
  const auto report = lab::read_report(arguments.all("DIR"), options);
  if (!report) return refuse(arguments, report.error());
  if (!report->skipped.empty())
    warn(fmt::format("without results, skipped: {}", fmt::join(report->skipped, ", ")));
  for (const std::string& sentence : lab::set_aside(*report)) warn(sentence);
  const auto figure = lab::make_figure(*report, *request);
  if (!figure) return refuse(arguments, figure.error());
  for (const std::string& remark : figure->remarks) warn(remark);
  return write_figure(arguments, path, lab::draw_figure(*figure, *paper),
                      fmt::format("{}\n{}\n", path, figure->caption));
}

int run_plot(const Arguments& arguments) {
  const auto path = arguments.get("--out");
  if (arguments.has("--topology")) return plot_topology(arguments, *path);
  if (!arguments.has("DIR"))
    return refuse(arguments, "DIR is missing; expected folders of runs, or --topology NAME");
  return plot_runs(arguments, *path);
}

}  // namespace

Command plot_command() {
  return {
      "plot",
      "draw a figure for a paper: curves, results by a setting, or a topology",
      {{"DIR", "folders of runs or of a sweep's runs, as of `starling report`", false, true}},
      {{.name = "--out", .placeholder = "FILE", .help = "the figure: .pdf, .svg or .png", .required = true},
       {"--x", "NAME",
        one_of(lab::figure_x_names()) + " (default seconds), or a setting in which the runs differ"},
       {"--y", "NAME",
        one_of(lab::figure_y_names()) + " (default accuracy; by a setting, "
                                        "seconds_to_target)"},
       {"--by", "SETTING", "a setting that makes the kinds of runs; others are pooled (default: all)", true},
       {"--only", "KIND", "a kind of runs to show, such as slow=10,rule=d-psgd (default: all)", true},
       {"--label", "KIND=TEXT", "the text of a kind in the legend", true},
       {"--log", "AXES", "logarithmic axes: x, y, xy or none (default: where the data span decades)"},
       {"--x-label", "TEXT", "the title of the x axis"},
       {"--y-label", "TEXT", "the title of the y axis"},
       {"--target", "ACCURACY", "as of `starling report`"},
       time_from_flag(),
       {"--topology", "NAME", "draw this topology instead of runs"},
       {"--peers", "N", "number of peers of the topology"},
       {"--width", "INCHES", "default 3.3, a column of a paper"},
       {"--height", "INCHES", "default 0.7 times the width; of a topology, as it needs"},
       {"--font", "POINTS", "size of the text (default 8)"},
       {"--family", "NAME", "family of the font (default sans-serif)"},
       {"--dpi", "N", "resolution of a PNG (default 300)"}},
      run_plot,
      "starling plot runs/sweep --x slow --out stragglers.pdf\n"
      "starling plot --topology torus --peers 16 --out torus.svg"};
}

}  // namespace starling::cli
