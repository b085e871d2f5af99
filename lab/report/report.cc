#include "lab/report/report.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <future>
#include <map>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "base/text.h"
#include "lab/report/lines.h"
#include "lab/report/setting_numbers.h"
#include "lab/thread_pool.h"
#include "training/runs/records/files.h"
#include "training/runs/records/json.h"
#include "training/runs/records/record.h"
#include "wire/rules/rule.h"

namespace starling::lab {
namespace {

namespace fs = std::filesystem;
using training::Json;

constexpr std::size_t kLargestFile = std::size_t{1} << 30;
constexpr std::size_t kMostRuns = 20'000;
constexpr std::size_t kMostPoints = 400;  // of a curve; fewer if there are many curves
constexpr std::size_t kMostPointsInAll = 60'000, kFewestPoints = 20;
constexpr std::size_t kRunsWithDetails = 16;  // more runs have no time lines and graphs

// The fields of a summary. problem() names the first that is missing or has another type.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  std::string text(const char* key) { return take<std::string>(key, &Json::is_string, "a text"); }
  double number(const char* key) { return take<double>(key, &Json::is_number, "a number"); }
  std::uint64_t whole(const char* key) {
    return take<std::uint64_t>(key, &Json::is_number_unsigned, "a whole number");
  }
  std::optional<double> maybe(const char* key) {
    const Json* field = find(key);
    if (field == nullptr || field->is_null()) return std::nullopt;
    if (field->is_number()) return field->get<double>();
    return refuse(key, "a number or null"), std::nullopt;
  }
  bool flag(const char* key) {  // older runs have fewer; absent: false
    const Json* field = find(key);
    return field != nullptr && take<bool>(key, &Json::is_boolean, "true or false");
  }
  const Json& part(const char* key, bool list) {
    static const Json kNothing = Json::object();
    const Json* field = find(key);
    if (field != nullptr && (list ? field->is_array() : field->is_object())) return *field;
    return refuse(key, list ? "a list" : "an object"), kNothing;
  }
  bool has(const char* key) const { return object_.contains(key); }
  const std::string& problem() const { return problem_; }

 private:
  template <class T>
  T take(const char* key, bool (Json::*is_wanted)() const, const char* wanted) {
    const Json* field = find(key);
    if (field != nullptr && (field->*is_wanted)()) return field->get<T>();
    return refuse(key, wanted), T{};
  }
  const Json* find(const char* key) const {
    const auto at = object_.find(key);
    return at == object_.end() ? nullptr : &*at;
  }
  void refuse(const char* key, const char* wanted) {
    if (problem_.empty()) problem_ = "its \"" + std::string(key) + "\" is not " + wanted;
  }

  const Json& object_;
  std::string problem_;
};

std::string take_peers(ReportRun& run, const Json& per_peer) {
  for (const Json& entry : per_peer) {
    if (!entry.is_object()) return "its \"per_peer\" is not a list of objects";
    Fields of_peer(entry);
    ReportPeer peer;
    peer.name = of_peer.text("name");
    peer.state = of_peer.text("state");
    peer.steps = of_peer.number("steps");
    peer.samples = of_peer.number("samples");
    peer.exchanges = of_peer.number("exchanges");
    peer.slow = of_peer.maybe("slow").value_or(1);
    peer.accuracy = of_peer.maybe("accuracy");
    if (of_peer.has("precision")) peer.precision = of_peer.text("precision");
    if (entry.contains("own_data") && !entry["own_data"].is_null()) peer.own_data = of_peer.text("own_data");
    if (!of_peer.problem().empty()) return "in a peer's entry, " + of_peer.problem();
    run.per_peer.push_back(std::move(peer));
  }
  return "";
}

// Who made the run, and from what; older runs say neither.
void take_makers(ReportRun& run, const Json& made) {
  const auto text = [&made](const char* key) {
    const auto found = made.find(key);
    return found != made.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  run.program = training::maker_of({text("program"), text("processor"), {}});
  const auto contents = made.find("contents");
  if (contents == made.end() || !contents->is_object()) return;
  for (const auto& [key, hash] : contents->items())
    if (hash.is_string()) run.contents[key] = hash.get<std::string>();
}

// Returns the first problem, or nothing.
std::string take_summary(ReportRun& run, const Json& json) {
  Fields fields(json);
  run.name = fields.text("name");
  run.mode = fields.text("mode");
  run.end.interrupted = fields.flag("interrupted");
  run.end.epochs = fields.maybe("epochs");
  run.end.epochs_asked = fields.maybe("epochs_asked");
  run.seed = fields.whole("seed");
  run.model = fields.text("model");
  run.parameters = fields.number("parameters");
  run.data = fields.text("data");
  run.peers = static_cast<std::uint32_t>(std::min<std::uint64_t>(fields.whole("peers"), UINT32_MAX));
  run.topology = fields.text("topology");
  run.spectral_gap = fields.maybe("spectral_gap");
  run.rule = fields.text("rule");
  run.payload = fields.text("payload");
  run.seconds = fields.number("seconds");
  run.samples = fields.number("samples");
  run.samples_per_second = fields.maybe("samples_per_second").value_or(0);
  run.accuracy = fields.maybe("accuracy");
  run.loss = fields.maybe("loss");
  run.text = {fields.maybe("tokens"), fields.maybe("perplexity"), fields.maybe("bits_per_character")};
  run.accuracy_min = fields.maybe("accuracy_min");
  run.accuracy_max = fields.maybe("accuracy_max");
  // As in the curves, settling excluded; replicas that are averaged at once do not settle.
  const auto rule = rule_named(run.rule);
  run.consensus = fields.maybe(rule && traits(*rule).all_at_once() ? "consensus_distance"
                                                                   : "consensus_distance_before_settling");
  run.seconds_to_target = fields.maybe("seconds_to_target");
  run.bytes_sent = fields.number("bytes_sent");
  Fields exchanges(fields.part("exchanges", false));
  if (fields.problem().empty()) run.exchanges = exchanges.number("completed");
  if (fields.has("staleness")) {  // older runs have none
    for (const auto& [steps, count] : fields.part("staleness", false).items())
      if (count.is_number()) run.staleness.emplace_back(steps, count.get<double>());
  }
  if (fields.has("trace_hash")) run.trace_hash = fields.text("trace_hash");
  if (fields.has("made_from")) take_makers(run, fields.part("made_from", false));
  if (const std::string problem = take_peers(run, fields.part("per_peer", true)); !problem.empty())
    return problem;
  return fields.problem().empty() ? exchanges.problem() : fields.problem();
}

// Adds a line of timeline.jsonl, in which the lines of a peer follow each other.
bool take_cell(std::vector<PeerCells>& peers, const FlatLine& line) {
  const auto peer = line.text("peer");
  if (!peer) return false;
  training::Timeline::Cell cell;
  const std::pair<const char*, double*> fields[] = {{"from", &cell.from},
                                                    {"to", &cell.to},
                                                    {"computing", &cell.activity.computing},
                                                    {"exchanging", &cell.activity.exchanging},
                                                    {"waiting", &cell.activity.waiting},
                                                    {"stopped", &cell.activity.stopped},
                                                    {"steps", &cell.steps}};
  for (const auto& [key, to] : fields) {
    const auto value = line.figure(key);
    if (!value) return false;
    *to = *value;
  }
  if (!(cell.from < cell.to)) return false;
  if (peers.empty() || peers.back().peer != *peer) peers.push_back({std::string(*peer), {}});
  peers.back().cells.push_back(cell);
  return true;
}

// A time series counts from the start of a simulation, and from the first step of a swarm of processes; a
// summary's times count from the first step.
void set_begin(ReportRun& run, double start, bool from_start) {
  run.shift = run.mode == "simulate" ? -start : 0;
  if (!from_start) return;
  run.shift += start;
  run.seconds += start;
  if (run.seconds_to_target) *run.seconds_to_target += start;
}

Result<ReportRun> read_run(const std::string& folder, std::size_t most_points, bool from_start) {
  ReportRun run;
  run.folder = folder;
  const std::string summary_path = folder + "/summary.json";
  const auto summary = training::read_text(summary_path, kLargestFile);
  if (!summary) return summary.error();
  const Json json = training::parse_json(*summary);
  if (!json.is_object()) return damaged(summary_path, "it is not one JSON object");
  if (const std::string problem = take_summary(run, json); !problem.empty())
    return damaged(summary_path, problem);
  set_begin(run, json.value("start_seconds", Json()).is_number() ? json["start_seconds"].get<double>() : 0,
            from_start);

  if (const std::string path = folder + "/experiment.toml"; fs::exists(path)) {
    if (Status taken = take_identity(run, path); !taken) return taken.error();
  }
  auto points = read_points(folder, run);
  if (!points) return points.error();
  for (const ReportPoint& point : *points) {
    if (point.accuracy) run.looks.push_back({point.seconds, *point.accuracy});
    if (point.loss) run.losses.push_back({point.seconds, -*point.loss});
  }
  run.points = thinned(std::move(*points), most_points);
  return run;
}

// What the page shows of one run at a time.
Status add_details(ReportRun& run) {
  add_theory(run);
  if (const Status read = read_pipelines(run); !read) return read;
  const std::string path = run.folder + "/timeline.jsonl";
  if (!fs::exists(path)) return Done{};
  const auto text = training::read_text(path, kLargestFile);
  if (!text) return text.error();
  std::vector<PeerCells> peers;
  const Status read = for_each_flat_line(*text, path, "time line",
                                         [&](const FlatLine& line) { return take_cell(peers, line); });
  if (read) make_rows(run, peers);
  return read;
}

// The runs that get details: the first of each group, then others.
std::vector<std::size_t> with_details(const Report& report) {
  std::vector<std::size_t> first, others;
  for (const ReportGroup& group : report.groups) {
    first.push_back(group.runs.front());
    others.insert(others.end(), group.runs.begin() + 1, group.runs.end());
  }
  first.insert(first.end(), others.begin(), others.end());
  first.resize(std::min(first.size(), kRunsWithDetails));
  return first;
}

using Values = std::map<std::string, std::string>;

struct PlaceInSweep {
  std::size_t place = 0;
  Values values;  // of the lists
};

// The runs of a sweep, by the names of their folders; none if the folder is no sweep's.
std::map<std::string, PlaceInSweep> places_in_sweep(const std::string& folder) {
  constexpr std::size_t kLargest = std::size_t{1} << 30;
  std::map<std::string, PlaceInSweep> places;
  const auto text = training::read_text(folder + "/results.json", kLargest);
  const Json results = text ? training::parse_json(*text) : Json();
  if (!results.is_object() || !results.contains("runs")) return places;
  for (const Json& run : results.at("runs")) {
    if (!run.is_object() || !run.contains("folder") || !run.at("folder").is_string()) continue;
    PlaceInSweep place{places.size(), {}};
    if (const auto values = run.find("values"); values != run.end() && values->is_object())
      for (const auto& [key, value] : values->items())
        if (value.is_string()) place.values.emplace(key, value.get<std::string>());
    places.emplace(run.at("folder").get<std::string>(), std::move(place));
  }
  return places;
}

// The folders of runs: the folder itself, or those in it, in the order of the sweep's file, with the values
// there.
Result<std::vector<std::pair<std::string, Values>>> runs_in(const std::string& folder) {
  std::error_code problem;
  if (!fs::exists(folder, problem)) return Error{"the folder " + folder + " does not exist"};
  if (!fs::is_directory(folder, problem)) return Error{folder + " is a file, not the folder of a run"};
  if (fs::exists(folder + "/summary.json", problem)) return std::vector{std::pair(folder, Values())};
  std::vector<std::string> runs;
  for (const auto& entry : fs::directory_iterator(folder, problem)) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".part") && fs::exists(path + "/summary.json", problem)) runs.push_back(path);
  }
  if (problem) return Error{"cannot read the folder " + folder + ": " + problem.message()};
  if (runs.empty()) return Error{folder + " contains no results: neither a summary.json nor runs of a sweep"};
  const auto places = places_in_sweep(folder);
  std::vector<std::pair<std::string, PlaceInSweep>> placed;
  for (std::string& run : runs) {
    const auto known = places.find(fs::path(run).filename().string());
    placed.emplace_back(std::move(run),
                        known == places.end() ? PlaceInSweep{places.size(), {}} : known->second);
  }
  std::ranges::sort(placed, [](const auto& a, const auto& b) {
    const std::size_t x = a.second.place, y = b.second.place;
    return x != y ? x < y : in_natural_order(a.first, b.first);
  });
  std::vector<std::pair<std::string, Values>> found;
  for (auto& [run, place] : placed) found.emplace_back(std::move(run), std::move(place.values));
  return found;
}

// All threads read. The Error is of the first run, in this order, that has one.
Status read_runs(const std::vector<std::pair<std::string, Values>>& paths, std::size_t most_points,
                 Report& report) {
  std::atomic<bool> stopped = false;
  const auto threads = std::min<std::size_t>(std::max(1U, std::thread::hardware_concurrency()), paths.size());
  ThreadPool pool(static_cast<unsigned>(threads));
  std::vector<std::future<Result<ReportRun>>> reading;
  for (const auto& [path, values] : paths)
    reading.push_back(pool.submit([&, &path = path]() -> Result<ReportRun> {
      if (stopped) return Error{""};  // of a run before it
      return read_run(path, most_points, report.from_start);
    }));
  for (std::size_t i = 0; i < paths.size(); ++i) {
    auto run = reading[i].get();
    if (!run) {
      stopped = true;
      return run.error();
    }
    run->spelled = paths[i].second;
    if (run->contents.contains("gossip.topology"))
      run->spelled.erase("gossip.topology");  // it has the name of its graph
    report.runs.push_back(std::move(*run));
  }
  return Done{};
}

std::string without_slashes(std::string folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return folder;
}

}  // namespace

Result<Report> read_report(const std::vector<std::string>& folders, const ReportOptions& options) {
  Report report;
  report.from_start = options.from_start;
  std::vector<std::pair<std::string, Values>> paths;
  std::set<std::string> seen;
  std::optional<Error> first;  // of a path without results
  for (const std::string& folder : folders) {
    const auto runs = runs_in(without_slashes(folder));
    if (!runs) {
      std::error_code ignored;
      if (!fs::exists(folder, ignored)) return runs.error();
      if (!first) first = runs.error();
      report.skipped.push_back(folder);
      continue;
    }
    for (const auto& run : *runs) {
      std::error_code ignored;
      if (seen.insert(fs::weakly_canonical(run.first, ignored).string()).second) paths.push_back(run);
    }
  }
  if (paths.empty() && first) return *first;
  if (paths.size() > kMostRuns)
    return Error{"the folders contain " + std::to_string(paths.size()) + " runs; a report may have " +
                 std::to_string(kMostRuns) + " at most"};
  const std::size_t most_points = std::clamp(kMostPointsInAll / paths.size(), kFewestPoints, kMostPoints);
  if (Status read = read_runs(paths, most_points, report); !read) return read.error();
  name_alike(report.runs);
  if (const Status made = tabulate(report, options); !made) return made.error();
  for (const std::size_t i : with_details(report))
    if (const Status added = add_details(report.runs[i]); !added) return added.error();
  return report;
}

}  // namespace starling::lab
