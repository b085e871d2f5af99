// starling report: a page about one or more runs.
#include "lab/report/report.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/commands/commands.h"
#include "cli/commands/flag_values.h"
#include "cli/shell/output.h"
#include "training/runs/records/files.h"

namespace starling::cli {
namespace {

constexpr std::size_t kPathsListed = 3;  // in a warning

std::string one_after_other(const std::vector<std::string>& paths) {
  std::string text;
  for (std::size_t i = 0; i < std::min(paths.size(), kPathsListed); ++i)
    text += (i > 0 ? ", " : "") + paths[i];
  if (paths.size() > kPathsListed) text += fmt::format(" and {} more", paths.size() - kPathsListed);
  return text;
}

// The first folder that has results.
std::string first_used(const std::vector<std::string>& folders, const lab::Report& report) {
  const auto& skipped = report.skipped;
  return *std::find_if(folders.begin(), folders.end(), [&](const std::string& folder) {
    return std::find(skipped.begin(), skipped.end(), folder) == skipped.end();
  });
}

int run_report(const Arguments& arguments) {
  const std::vector<std::string>& folders = arguments.all("DIR");
  lab::ReportOptions options;
  if (const Status read = read_target(arguments, options.target); !read)
    return refuse(arguments, read.error());
  if (const Status read = read_time_from(arguments, options.from_start); !read)
    return refuse(arguments, read.error());
  options.against = arguments.get("--against");
  for (const char* flag : {"--out", "--csv", "--curves"}) {
    if (arguments.has(flag) && arguments.get(flag)->empty())
      return refuse(arguments, std::string(flag) + ": the path is empty");
  }
  const auto report = lab::read_report(folders, options);
  if (!report) return refuse(arguments, report.error());
  if (!report->skipped.empty()) warn("without results, skipped: " + one_after_other(report->skipped));
  for (const std::string& sentence : lab::set_aside(*report)) warn(sentence);
  const std::string page = arguments.get("--out").value_or(first_used(folders, *report) + "/report.html");
  if (const Status written = training::write_text(page, lab::to_html(*report)); !written)
    return refuse(arguments, written.error());
  if (const auto csv = arguments.get("--csv")) {
    if (const Status written = training::write_text(*csv, lab::to_csv(*report)); !written)
      return refuse(arguments, "--csv: " + written.error().message);
  }
  if (const auto file = arguments.get("--curves")) {
    const auto curves = lab::curves_csv(*report);
    if (!curves) return refuse(arguments, curves.error());
    if (const Status written = training::write_text(*file, *curves); !written)
      return refuse(arguments, "--curves: " + written.error().message);
  }
  const std::string few = lab::few_seeds(*report);
  return print_out(fmt::format("{} {}   {}\n{}", report->runs.size(),
                               report->runs.size() == 1 ? "run" : "runs", page,
                               few.empty() ? "" : few + "\n"));
}

}  // namespace

Command report_command() {
  return {
      "report",
      "write a page about one or more runs: curves, time lines, a table over seeds",
      {{"DIR", "folder of a run, or of a sweep's runs; other files are skipped", true, true}},
      {{"--out", "FILE", "the page (default: report.html in the first folder)"},
       {"--csv", "FILE", "also write the table to this file"},
       {"--curves", "FILE", "also write all curves to this file, as one long CSV"},
       {"--against", "NAME",
        "the kind of run that speed-ups are relative to, such as slow=10,rule=d-psgd (default: the first)"},
       {"--target", "ACCURACY",
        "the accuracy for times to accuracy (default: the runs' own target, or one that all of them reach)"},
       time_from_flag()},
      run_report,
      "starling report runs/ring-1 runs/exponential-1 --out compared.html"};
}

}  // namespace starling::cli
