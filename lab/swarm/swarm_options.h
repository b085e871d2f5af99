// What run_swarm() takes and returns besides the experiment.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/ids.h"
#include "training/runs/records/record.h"

namespace starling::lab {

struct SwarmOptions {
  std::string program;                            // the executable to start as `PROGRAM peer ...`
  std::string key{};                              // path of the swarm's key file; empty: no key
  std::map<std::string, std::string> contents{};  // of what the experiment names (training::MadeFrom)
  // Where the first peer serves its page; the others serve theirs at any port of this host. Unset: no pages.
  std::optional<Address> http{};
  // Receives a line of progress every few seconds. Without it, progress is drawn on standard error.
  std::function<void(const std::string& line)> tell = {};
};

struct SwarmOutcome {
  // 0: there is a summary; 1: the run failed; 2: bad input; 130: interrupted before the run began.
  int exit_code = 0;
  std::string error;  // one sentence, if exit_code is not 0
  std::optional<training::Summary> summary;
};

}  // namespace starling::lab
