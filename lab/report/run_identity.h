// What a run of a report is, apart from its seed: the settings that count, with the values that are used, and
// the contents that they name. Runs that agree in all of it are of one kind.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "lab/report/report.h"

namespace starling::lab {

// Fills settings, used, contents, without_effect and the target from the experiment.toml at `path`.
// REQUIRES: the summary has been read. The Error names the place.
Status take_identity(ReportRun& run, const std::string& path);

// Spells equal things alike: a setting that some runs set has the value that is used in those that do not;
// settings with equal contents have one name, the first, and others of this name have a number:
// "file:g.txt (2)", "my.csv (2)".
void name_alike(std::vector<ReportRun>& runs);

}  // namespace starling::lab
