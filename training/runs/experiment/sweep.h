// Many experiments in one file: an experiment file with a table of lists.
//
//   [sweep]
//   gossip.rule = ["pairwise", "push-sum"]
//   fault.1.slow = [1, 2, 10, 100]     # of the first [[fault]]
//   peer.2.workers = [1, 4]            # of the second [[peer]]
//   seed = [1, 2, 3, 4, 5]
//   case = [{ gossip.rule = "noloco", gossip.payload = "int8" }, { gossip.rule = "none", peers = 1 }]
//
// stands for every combination of one value of each list. A case sets several keys together.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "training/runs/experiment/experiment.h"

namespace starling::training {

struct SweepAxis {
  std::string key;
  std::vector<std::string> values;
  std::vector<std::string> places{};  // of the values in the file, for messages
  using Sets = std::vector<std::pair<std::string, std::string>>;
  std::vector<Sets> cases{};  // of the list of cases: the keys and values of each
};

struct SweepPoint {
  std::vector<std::string> values;  // one per axis
  std::string name;                 // "slow=10,rule=pairwise,seed=1": unique; the name of its folder
  Experiment experiment;
};

struct Sweep {
  std::vector<SweepAxis> axes;  // seed last, the others in the order of their keys
  std::vector<SweepPoint> points;
};

// What the lists are called in names of folders and columns: short_names() of their keys (kinds.h).
std::vector<std::string> axis_names(const std::vector<SweepAxis>& axes);

inline constexpr std::size_t kMostPoints = 100'000;

// Reads a file with a [sweep]. The environment (as in read_environment()) and then `sets`, pairs of a key and
// a value, override the file, and the lists override both; the sets of a key that has a list are its values
// instead. Setting a key that a case sets is an Error. Each experiment passes check(). Errors name file, line
// and key.
Result<Sweep> read_sweep(const std::string& path, const std::function<const char*(const char*)>& lookup,
                         const std::vector<std::pair<std::string, std::string>>& sets);

}  // namespace starling::training
