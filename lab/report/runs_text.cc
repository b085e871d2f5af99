#include <fmt/format.h>

#include <set>

#include "lab/report/report.h"

namespace starling::lab {

std::string runs_text(const Report& report, const std::vector<std::size_t>& groups) {
  std::set<std::uint64_t> seeds;
  std::size_t runs = 0, counted = 0, simulated = 0;
  for (const std::size_t i : groups) {
    const ReportGroup& group = report.groups[i];
    runs += group.runs.size();
    counted += group.counted.size();
    for (const std::size_t run : group.runs) {
      seeds.insert(report.runs[run].seed);
      simulated += report.runs[run].mode == "simulate" ? 1 : 0;
    }
  }
  std::string text = fmt::format("{} run{} with {} seed{}", runs, runs == 1 ? "" : "s", seeds.size(),
                                 seeds.size() == 1 ? "" : "s");
  if (counted < runs && counted > 0)
    text += fmt::format(", {} of them set aside (interrupted, or a seed again)", runs - counted);
  text += simulated == runs ? ", in virtual time"
          : simulated == 0  ? ", in real time"
                            : ", in virtual and real time";
  return text + (report.from_start ? " from the start of the peers." : ".");
}

}  // namespace starling::lab
