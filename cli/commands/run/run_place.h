// Where the results of `simulate` and `swarm` go, and what is there already.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/shell/arguments.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/records/record.h"

namespace starling::cli {

struct RunPlace {
  std::string path;
  // The results of the same run, which is complete: nothing needs to be done. Else `folder` is set.
  std::optional<training::Summary> done;
  std::optional<training::RunFolder> folder;
};

// The folder is --out, or runs/NAME-SEED. If it holds the complete results of this experiment by this `mode`
// ("simulate" or "swarm"), they are read. If it holds results of another experiment, or of a run that cannot
// continue, the folder becomes runs/NAME-SEED-2 and so on; with --out that is an Error. With --force it is
// used as it is. An interrupted run that has `checkpoint`, a file in its folder, is an Error that says how to
// resume it, unless --resume is given: then it is the place, with its files.
//
// Results of other data, first parameters or own data, which `contents` hashes now (training::MadeFrom), are
// of another experiment; it is called if the folder has results of this one.
using ContentsNow = std::function<Result<std::map<std::string, std::string>>()>;
Result<RunPlace> place_of_run(const training::Experiment& experiment, const Arguments& arguments,
                              const std::string& mode, const std::string& checkpoint,
                              const ContentsNow& contents);

}  // namespace starling::cli
