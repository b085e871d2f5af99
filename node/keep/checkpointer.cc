#include "node/keep/checkpointer.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "base/text.h"
#include "training/runs/experiment/check.h"
#include "training/runs/experiment/settings/settings.h"
#include "training/runs/records/checkpoint.h"
#include "training/runs/records/files.h"

namespace starling::node {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEnding = ".safetensors";
constexpr auto kWarnAgain = std::chrono::minutes(1);

// NAME.STEPS.safetensors
struct FileName {
  std::string name;
  std::uint64_t steps = 0;
};
std::optional<FileName> parse_file_name(const std::string& text) {
  if (!text.ends_with(kEnding)) return std::nullopt;
  const std::string stem = text.substr(0, text.size() - std::strlen(kEnding));
  const std::size_t dot = stem.rfind('.');
  if (dot == std::string::npos || dot == 0) return std::nullopt;
  const auto steps = parse_number<std::uint64_t>(stem.substr(dot + 1));
  if (!steps || std::to_string(*steps) != stem.substr(dot + 1)) return std::nullopt;
  return FileName{stem.substr(0, dot), *steps};
}

struct Found {
  std::string path;
  FileName name;
};

// Sorted by steps, the most first.
Result<std::vector<Found>> checkpoints_in(const std::string& folder) {
  std::vector<Found> found;
  std::error_code problem;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    if (auto name = parse_file_name(entry->path().filename().string()))
      found.push_back({entry->path().string(), std::move(*name)});
  }
  if (problem) return Error{"the folder " + folder + " cannot be read: " + problem.message()};
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::pair(b.name.steps, a.path) < std::pair(a.name.steps, b.path);
  });
  return found;
}

// A process that was killed during a write leaves its temporary file.
void remove_leftovers(const std::string& folder, const std::string& name) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string file = entry.path().filename().string();
    const std::size_t dot = file.rfind('.');
    if (dot == std::string::npos || file.size() - dot != 7 || file.ends_with(kEnding)) continue;  // ".XXXXXX"
    const auto written = parse_file_name(file.substr(0, dot));
    if (written && written->name == name) fs::remove(entry.path(), ignored);
  }
}

Result<Resumption> read_resumption(const std::string& path) {
  const auto facts = training::inspect_peer_state(path);
  if (!facts) return facts.error();
  const auto text = [&](const char* key) {
    const auto found = facts->find(key);
    return found == facts->end() ? std::string() : found->second;
  };
  Resumption resumption;
  resumption.path = path;
  auto run = parse_cached_swarm(text("run"));
  if (!run) return Error{path + ": its entry 'run' cannot be used: " + run.error().message};
  resumption.run = std::move(run->swarm);
  if (!run->warning.empty()) resumption.warnings.push_back(path + ": " + run->warning);
  resumption.source = text("source").empty() ? resumption.run.manifest.data : text("source");
  resumption.own_data = text(kOwnDataFact);
  resumption.name = text("name");
  if (!is_plain_name(resumption.name)) return Error{path + ": 'name' is missing or not a peer's name"};
  std::uint64_t elapsed = 0;
  for (const auto& [key, number] :
       {std::pair("steps", &resumption.earlier.steps), std::pair("samples", &resumption.earlier.samples),
        std::pair("swarm_samples", &resumption.earlier.swarm_samples),
        std::pair("elapsed_nanoseconds", &elapsed)}) {
    const auto read = training::number_in(*facts, key, path);
    if (!read) return read.error();
    *number = *read;
  }
  const auto longest =
      static_cast<std::uint64_t>(std::chrono::nanoseconds(std::chrono::hours(24 * 365 * 100)).count());
  if (elapsed > longest) return Error{path + ": 'elapsed_nanoseconds' is more than a hundred years"};
  resumption.earlier.elapsed = Duration{static_cast<Duration::rep>(elapsed)};
  const auto read_id = [&](const char* key, std::uint64_t& out) -> Status {
    const std::string digits = text(key);
    const char* const end = digits.data() + digits.size();
    if (digits.size() == 16 && std::from_chars(digits.data(), end, out, 16).ptr == end) return Done{};
    return Error{path + ": '" + key + "' is missing, or not 16 hexadecimal digits"};
  };
  if (const Status read = read_id("order", resumption.order); !read) return read.error();
  // Older files do not have the samples of the life that wrote the file.
  if (facts->contains("life_samples")) {
    const auto own = training::number_in(*facts, "life_samples", path);
    if (!own) return own.error();
    std::uint64_t id = 0;
    if (const Status read = read_id("id", id); !read) return read.error();
    resumption.earlier.last = {PeerId{id}, *own};
  }
  return resumption;
}

}  // namespace

training::Facts to_facts(const CheckpointFacts& facts, const training::PeerState& state) {
  training::Facts all = training::model_metadata(facts.model);
  const std::uint64_t own =
      facts.counted_before + (state.samples - std::min(state.samples, facts.earlier_samples));
  all.insert({{"data", facts.run.manifest.data},
              {"seed", std::to_string(facts.run.manifest.seed)},
              {"source", facts.source},
              {"run", to_json(facts.run)},
              {"name", facts.name},
              {"id", to_string(facts.id)},
              {"life_samples", std::to_string(own)},
              {"incarnation", std::to_string(facts.incarnation)},
              {"order", to_string(PeerId{facts.order})},
              {"swarm_samples", std::to_string(facts.others_samples + own)},
              {"elapsed_nanoseconds", std::to_string(std::max<Duration::rep>(facts.elapsed.count(), 0))}});
  all.insert(facts.data.begin(), facts.data.end());
  return all;
}

Result<std::optional<Resumption>> find_resumption(const std::string& file_or_folder,
                                                  const std::string& name) {
  std::error_code ignored;
  if (!fs::is_directory(file_or_folder, ignored)) {
    auto found = read_resumption(file_or_folder);
    if (!found) return found.error();
    return std::optional(std::move(*found));
  }
  auto files = checkpoints_in(file_or_folder);
  if (!files) return files.error();
  if (!name.empty()) std::erase_if(*files, [&](const Found& file) { return file.name.name != name; });
  if (files->empty()) return std::optional<Resumption>();
  std::set<std::string> names;
  for (const Found& file : *files) names.insert(file.name.name);
  if (names.size() > 1) {
    return Error{"the folder " + file_or_folder + " has checkpoints of several peers (" + one_of(names) +
                 "); select one with --name"};
  }
  std::vector<std::string> passed_over, warnings;
  for (const Found& file : *files) {
    auto found = read_resumption(file.path);
    if (found) {
      found->passed_over = std::move(passed_over);
      found->warnings.insert(found->warnings.begin(), warnings.begin(), warnings.end());
      return std::optional(std::move(*found));
    }
    passed_over.push_back(file.path);
    warnings.push_back("passed over: " + found.error().message);
  }
  return Error{"none of the " + std::to_string(files->size()) + " checkpoints in " + file_or_folder +
               " can be used; the latest: " + warnings.front().substr(std::strlen("passed over: "))};
}

Status read_state(Resumption& resumption, const models::Layout& layout) {
  auto saved = training::read_peer_state(resumption.path, layout);
  if (!saved) return saved.error();
  if (Status finite = training::check_finite(resumption.path, layout, saved->state.parameters); !finite)
    return finite;
  resumption.state = std::move(saved->state);
  return Done{};
}

Result<training::Experiment> resumed_experiment(const Resumption& resumption,
                                                const training::Experiment& mine,
                                                const std::vector<std::string>& given,
                                                const std::optional<std::string>& data) {
  const wire::Manifest& manifest = resumption.run.manifest;
  const auto is_given = [&](const std::string& key) { return std::ranges::count(given, key) > 0; };
  training::Experiment run = mine;
  if (const Status applied = apply_settings(run, manifest); !applied)
    return Error{resumption.path + ": " + applied.error().message};
  run.model.name = manifest.model;
  run.seed = manifest.seed;
  run.data.source = data.value_or(resumption.source);
  if (is_given("model.name") &&
      (mine.model.name != run.model.name || mine.model.layers != run.model.layers)) {
    return Error{resumption.path + " has the model '" + run.model.name + "', not '" + mine.model.name +
                 "' as --model says; leave --model out to resume with it"};
  }
  const std::set<std::string> ends = {"training.epochs", "training.steps", "training.seconds"};
  const bool another_end = std::any_of(ends.begin(), ends.end(), is_given);
  for (const training::Setting& setting : training::settings()) {
    if (!setting.shared || setting.key == "seed" || setting.key == "data.source" ||
        setting.key.starts_with("model."))
      continue;
    const bool wanted = is_given(setting.key);
    if (!wanted && !(another_end && ends.contains(setting.key))) continue;
    const auto value = wanted ? setting.get(mine) : std::nullopt;
    if (!value) {
      setting.reset(run);
    } else if (const Status set = setting.set(run, *value); !set) {
      return Error{setting.key + ": " + set.error().message};
    }
  }
  if (const Status sound = training::check(run); !sound) return sound.error();
  return run;
}

Checkpointer::Checkpointer(CheckpointOptions options, std::string name, int lock)
    : options_(std::move(options)), name_(std::move(name)), lock_(lock), last_(Clock::now()) {}

Checkpointer::~Checkpointer() { ::close(lock_); }

Result<std::unique_ptr<Checkpointer>> Checkpointer::open(const CheckpointOptions& options,
                                                         const std::string& name, const Resumption* resumed) {
  const auto lock = lock_folder(options.folder, name + ".lock",
                                "another running peer writes checkpoints of " + name + " to " +
                                    options.folder + "; each needs its own name or folder");
  if (!lock) return lock.error();
  std::unique_ptr<Checkpointer> checkpointer(new Checkpointer(options, name, *lock));
  remove_leftovers(options.folder, name);
  const auto files = checkpoints_in(options.folder);
  if (!files) return files.error();
  const std::uint64_t from = resumed == nullptr ? 0 : resumed->earlier.steps;
  for (const Found& file : *files) {
    if (file.name.name != name) continue;
    if (file.name.steps <= from) {
      checkpointer->kept_.insert(checkpointer->kept_.begin(), file.name.steps);
      continue;
    }
    const auto is_this = [&](const fs::path& passed) {
      std::error_code ignored;
      return passed.filename() == fs::path(file.path).filename() &&
             fs::equivalent(passed.has_parent_path() ? passed.parent_path() : ".", options.folder, ignored);
    };
    if (resumed == nullptr || std::ranges::none_of(resumed->passed_over, is_this)) {
      return Error{
          options.folder + " holds checkpoints of " + name + " up to " + std::to_string(file.name.steps) +
          (file.name.steps == 1 ? " step" : " steps") +
          (resumed == nullptr
               ? "; resume from them with --resume " + options.folder + ", or use another folder"
               : ", more than " + resumed->path + "; to continue from that file, use another folder")};
    }
    std::error_code ignored;
    fs::rename(file.path, file.path + ".damaged", ignored);
  }
  // A file above the size limit is then a failed write, not the end of the peer.
  std::signal(SIGXFSZ, SIG_IGN);
  checkpointer->last_steps_ = from;
  return checkpointer;
}

bool Checkpointer::is_due(std::uint64_t steps) const {
  if (under_way_) return false;
  if (options_.every.kind == Pace::Kind::steps)
    return steps / options_.every.steps > last_steps_ / options_.every.steps;
  const Duration every = first_ ? std::min(options_.every.time, kFirstAfter) : options_.every.time;
  return Clock::now() - last_ >= every;
}

void Checkpointer::begins(std::uint64_t steps) {
  under_way_ = true;
  first_ = false;
  last_steps_ = steps;
  last_ = Clock::now();
}

Result<std::string> Checkpointer::write(const models::Layout& layout, const training::PeerState& state,
                                        const CheckpointFacts& facts) {
  const auto path_of = [&](std::uint64_t steps) {
    return options_.folder + "/" + name_ + "." + std::to_string(steps) + kEnding;
  };
  const std::string path = path_of(state.steps);
  if (!std::ranges::all_of(state.parameters, [](float x) { return std::isfinite(x); }))
    return Error{"no checkpoint " + path + ": the parameters are not finite"};
  const auto is_readable = [&](const std::string& temporary) -> Status {
    const auto read = read_resumption(temporary);
    if (read) return Done{};
    std::string why = read.error().message;
    if (const std::size_t at = why.find(temporary); at != std::string::npos)
      why.replace(at, temporary.size(), "what was written");
    return Error{"no checkpoint " + path + ": it could not be read back: " + why};
  };
  if (const Status written =
          training::write_peer_state(path, layout, state, to_facts(facts, state), is_readable);
      !written)
    return written.error();
  if (kept_.empty() || kept_.back() != state.steps) kept_.push_back(state.steps);
  while (kept_.size() > options_.keep) {
    training::remove_files({path_of(kept_.front())});
    kept_.erase(kept_.begin());
  }
  return path;
}

bool Checkpointer::is_news(const std::string& warning) {
  const auto now = Clock::now();
  // What precedes it names the file, another one each time.
  const std::size_t at = warning.rfind(": ");
  const std::string cause = at == std::string::npos ? warning : warning.substr(at);
  if (cause == warned_ && now - warned_at_ < kWarnAgain) return false;
  warned_ = cause;
  warned_at_ = now;
  return true;
}

std::optional<std::string> CheckpointNews::written(const std::string& path, Instant now) {
  return tell(written_, std::exchange(failing_, false), "checkpoint written: " + path, now);
}

std::optional<std::string> CheckpointNews::failed(const std::string& why, Instant now) {
  return tell(failed_, !std::exchange(failing_, true), "no checkpoint, but training continues: " + why, now);
}

// A change between success and failure is an event if the last one of its kind was a minute ago: an
// unreliable disk must not fill the list.
std::optional<std::string> CheckpointNews::tell(Kind& kind, bool changed, std::string sentence, Instant now) {
  const auto gap = changed ? kShortestGap : kind.gap;
  if (kind.reported && now - *kind.reported < gap) {
    ++kind.unreported;
    return std::nullopt;
  }
  if (kind.reported && !changed) kind.gap = std::min(2 * kind.gap, kLongestGap);
  kind.reported = now;
  if (const auto unreported = std::exchange(kind.unreported, 0); unreported > 0)
    sentence += "; " + std::to_string(unreported) + " more since the last such event";
  return sentence;
}

}  // namespace starling::node
