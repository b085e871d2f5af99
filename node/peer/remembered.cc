#include "node/peer/remembered.h"

#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "training/runs/records/files.h"

namespace starling::node {
namespace {

Status read_cache(const DaemonOptions& options, Remembered& found) {
  if (options.state.empty()) return Done{};
  auto cache = PeerCache::open(options.state);
  if (!cache) return Error{"--state: " + cache.error().message};
  found.cache = std::move(*cache);
  auto loaded = found.cache->load(options.swarm);
  if (!loaded) return Error{"--state: " + loaded.error().message};
  if (!loaded->warning.empty()) spdlog::warn("{}", loaded->warning);
  if (loaded->swarm) {
    found.manifest = std::move(loaded->swarm->manifest);
    found.members = std::move(loaded->swarm->members);
  }
  return Done{};
}

Status find_checkpoint(const DaemonOptions& options, EventLog& events, Remembered& found) {
  if (options.resume.empty()) return Done{};
  // One command line both begins a peer and resumes it: the first time the folder is empty or missing.
  const bool own_folder = options.checkpoints.folder == options.resume;
  std::error_code ignored;
  if (!own_folder || std::filesystem::exists(options.resume, ignored)) {
    auto resumption = find_resumption(options.resume, options.name);
    if (!resumption) return Error{"--resume: " + resumption.error().message};
    found.resumed = std::move(*resumption);
  }
  if (!found.resumed) {
    if (!own_folder) return Error{"--resume: the folder " + options.resume + " has no checkpoint"};
    spdlog::info("no checkpoint in {} yet: the peer begins without one", options.resume);
    return Done{};
  }
  const Resumption& resumed = *found.resumed;
  if (Status kept = training::check_not_input(options.export_to, resumed.path); !kept)
    return Error{"--export: " + kept.error().message};
  found.earlier = resumed.earlier;
  for (const std::string& warning : resumed.warnings) events.say(spdlog::level::warn, "checkpoint", warning);
  events.say(spdlog::level::info, "checkpoint",
             fmt::format("resumes from {}: {} steps, {} samples", resumed.path, resumed.earlier.steps,
                         resumed.earlier.samples));
  if (!options.join.empty()) return Done{};
  auto experiment = resumed_experiment(resumed, found.experiment, options.given, options.data);
  if (!experiment) return Error{"--resume: " + experiment.error().message};
  found.experiment = std::move(*experiment);
  // The cache is empty: the swarm may still be where it was when the checkpoint was written.
  if (found.cache && found.manifest.model.empty()) {
    found.manifest = resumed.run.manifest;
    found.members = resumed.run.members;
  }
  return Done{};
}

}  // namespace

Result<Remembered> remember(const DaemonOptions& options, EventLog& events) {
  Remembered found{.experiment = options.experiment};
  if (Status read = read_cache(options, found); !read) return read.error();
  if (Status done = find_checkpoint(options, events, found); !done) return done.error();
  return found;
}

}  // namespace starling::node
