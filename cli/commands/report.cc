// starling report: a page about one or more runs.
#include "lab/report/report.h"

#include <fmt/format.h>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "training/records/files.h"

namespace starling::cli {
namespace {

int run_report(const Arguments& arguments) {
  const std::vector<std::string>& folders = arguments.all("DIR");
  lab::ReportOptions options;
  if (const auto text = arguments.get("--target")) {
    const auto target = parse_number<double>(*text);
    if (!target || *target <= 0 || *target > 1)
      return refuse(arguments, "--target: '" + *text + "' is not an accuracy above 0 and at most 1");
    options.target = *target;
  }
  options.against = arguments.get("--against");
  for (const char* flag : {"--out", "--csv"}) {
    if (arguments.has(flag) && arguments.get(flag)->empty())
      return refuse(arguments, std::string(flag) + ": the path is empty");
  }
  const auto report = lab::read_report(folders, options);
  if (!report) return refuse(arguments, report.error());
  const std::string page = arguments.get("--out").value_or(folders.front() + "/report.html");
  if (const Status written = training::write_text(page, lab::to_html(*report)); !written)
    return refuse(arguments, written.error());
  if (const auto csv = arguments.get("--csv")) {
    if (const Status written = training::write_text(*csv, lab::to_csv(*report)); !written)
      return refuse(arguments, "--csv: " + written.error().message);
  }
  return print_out(
      fmt::format("{} {}   {}\n", report->runs.size(), report->runs.size() == 1 ? "run" : "runs", page));
}

}  // namespace

Command report_command() {
  return {
      "report",
      "write a page about one or more runs: curves, time lines, a table over seeds",
      {{"DIR", "folder of a run, or of a sweep's runs", true, true}},
      {{"--out", "FILE", "the page (default: report.html in the first folder)"},
       {"--csv", "FILE", "also write the table to this file"},
       {"--against", "NAME",
        "the kind of run, by its name in the table, that speed-ups are relative to (default: the first)"},
       {"--target", "ACCURACY",
        "the accuracy for times to accuracy (default: the runs' own target, or one that all of them reach)"}},
      run_report,
      "starling report runs/ring-1 runs/exponential-1 --out compared.html"};
}

}  // namespace starling::cli
