#include "training/runs/records/record.h"

#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <concepts>
#include <cstring>
#include <filesystem>
#include <numbers>

#include "training/runs/records/files.h"
#include "training/runs/records/json_fields.h"

namespace starling::training {
namespace {

namespace fs = std::filesystem;

constexpr std::array kResults = {"summary.json", "metrics.jsonl"};
constexpr std::array kOfTheEnd = {"summary.json", "timeline.jsonl", "pipelines.jsonl", "report.html",
                                  "model.safetensors"};

template <class Visitor, class Peer>
requires std::same_as<std::remove_const_t<Peer>, PeerRecord>
void visit_fields(Visitor& visit, Peer& peer) {
  visit("name", peer.name);
  visit_figures(visit, peer, figure::device, figure::precision, figure::steps, figure::samples,
                figure::accuracy);
  visit("exchanges", peer.exchanges);
  visit("slow", peer.slow);
  visit_sharing(visit, peer, false);
  visit("state", peer.state);
  visit("own_data", peer.own_data);
}

// Without the fields whose form differs between reading and writing.
template <class Visitor, class Run>
requires std::same_as<std::remove_const_t<Run>, Summary>
void visit_fields(Visitor& visit, Run& summary) {
  visit("name", summary.name);
  visit("mode", summary.mode);
  visit("interrupted", summary.interrupted);
  visit("epochs", summary.epochs);
  visit("epochs_asked", summary.epochs_asked);
  visit("seed", summary.seed);
  visit("model", summary.model);
  visit("parameters", summary.parameters);
  visit("data", summary.data);
  visit("peers", summary.peers);
  visit("topology", summary.topology);
  visit("spectral_gap", summary.spectral_gap);
  visit("rule", summary.rule);
  visit("payload", summary.payload);
  visit.object("made_from", [&](auto& inner) {
    inner("program", summary.made_from.program);
    inner("processor", summary.made_from.processor);
    inner("contents", summary.made_from.contents);
  });
  visit("start_seconds", summary.start_seconds);
  visit("seconds", summary.seconds);
  visit("wall_seconds", summary.wall_seconds);
  visit("wall_training_seconds", summary.wall_training_seconds);
  visit("samples", summary.samples);
  visit("samples_per_second", summary.samples_per_second);
  visit("tokens", summary.tokens);
  visit("perplexity", summary.perplexity);
  visit("bits_per_token", summary.bits_per_token);
  visit("bits_per_character", summary.bits_per_character);
  visit("accuracy", summary.accuracy);
  visit("loss", summary.loss);
  visit("accuracy_min", summary.accuracy_min);
  visit("accuracy_max", summary.accuracy_max);
  visit("consensus_distance", summary.consensus_distance);
  visit("consensus_distance_before_settling", summary.consensus_distance_before_settling);
  visit("seconds_to_target", summary.seconds_to_target);
  visit.object("exchanges", [&](auto& inner) { visit_counts(inner, summary.exchanges); });
  visit("bytes_sent", summary.bytes_sent);
}

}  // namespace

ExchangeTotals& ExchangeTotals::operator+=(const ExchangeTotals& other) {
  completed += other.completed;
  aborted += other.aborted;
  rejected += other.rejected;
  half_applied_chunks += other.half_applied_chunks;
  for (const auto& [reason, count] : other.refused_chunks) refused_chunks[reason] += count;
  return *this;
}

void add_text_figures(Summary& summary, std::uint64_t context, std::optional<double> characters) {
  if (context == 0) return;
  summary.tokens = summary.samples * context;
  if (!summary.loss) return;
  summary.perplexity = std::exp(*summary.loss);
  summary.bits_per_token = *summary.loss / std::numbers::ln2;
  if (characters) summary.bits_per_character = *summary.bits_per_token / *characters;
}

std::string maker_of(const MadeFrom& made) {
  if (made.program.empty()) return "";
  return "starling " + made.program + (made.processor.empty() ? "" : " on " + made.processor);
}

std::string to_json(const Summary& summary) {
  FieldWriter write;
  visit_fields(write, summary);
  write.object("staleness", [&](auto& inner) {
    for (std::size_t i = 0; i < summary.staleness.used(); ++i)
      inner(Staleness::label(i).c_str(), summary.staleness.counts()[i]);
  });
  if (summary.trace_hash) write("trace_hash", *summary.trace_hash);
  Json peers = Json::array();
  for (const auto& peer : summary.per_peer) {
    FieldWriter of_peer;
    visit_fields(of_peer, peer);
    peers.push_back(of_peer.take());
  }
  write("per_peer", peers);
  if (!summary.data_description.empty()) write("data_description", parse_json(summary.data_description));
  return to_text(write.take());
}

Result<Summary> parse_summary(const std::string& text) {
  const Json object = parse_json(text);
  if (!object.is_object()) return Error{"the summary of a run is not a JSON object"};
  Summary summary;
  FieldReader read(object, "the summary's");
  visit_fields(read, summary);
  read.object("staleness", [&](auto& inner) {
    for (std::size_t i = 0; i < Staleness::kBuckets; ++i)
      inner(Staleness::label(i).c_str(), summary.staleness.counts()[i]);
  });
  read("trace_hash", summary.trace_hash);
  if (!read.error().empty()) return Error{read.error()};
  if (const auto data = object.find("data_description"); data != object.end())
    summary.data_description = to_text(*data);
  const auto peers = object.find("per_peer");
  if (peers == object.end() || !peers->is_array()) return Error{"the summary's \"per_peer\" is not a list"};
  for (const Json& peer : *peers) {
    if (!peer.is_object()) return Error{"the summary's \"per_peer\" is not a list of objects"};
    FieldReader of_peer(peer, "a peer's");
    visit_fields(of_peer, summary.per_peer.emplace_back());
    if (!of_peer.error().empty()) return Error{of_peer.error()};
  }
  return summary;
}

std::string to_json(const MetricsLine& line) {
  FieldWriter write;
  write("seconds", line.seconds);
  write("peer", line.peer);
  visit_figures(write, line, figure::steps, figure::samples);
  write("exchanges", line.exchanges);
  visit_figures(write, line, figure::bytes_sent, figure::loss, figure::accuracy);
  write("consensus_distance", line.consensus_distance);
  visit_figures(write, line, figure::learning_rate);
  return to_text(write.take());
}

Replicas views_of(const std::vector<std::vector<float>>& replicas) {
  return {replicas.begin(), replicas.end()};
}

double consensus(const Replicas& replicas, std::vector<float>& mean) {
  STARLING_CHECK(!replicas.empty());
  const std::size_t size = replicas.front().size();
  const double n = static_cast<double>(replicas.size());
  for (const auto& replica : replicas) STARLING_CHECK(replica.size() == size);

  // In blocks, so that each replica is read in order.
  constexpr std::size_t kBlock = 1024;
  std::vector<float> result(size);
  std::vector<double> sums(kBlock);
  double squares = 0, mean_squares = 0;
  for (std::size_t start = 0; start < size; start += kBlock) {
    const std::size_t count = std::min(kBlock, size - start);
    std::fill(sums.begin(), sums.end(), 0.0);
    for (const auto& replica : replicas) {
      for (std::size_t i = 0; i < count; ++i) sums[i] += static_cast<double>(replica[start + i]);
    }
    for (std::size_t i = 0; i < count; ++i) {
      sums[i] /= n;
      mean_squares += sums[i] * sums[i];
      result[start + i] = static_cast<float>(sums[i]);
    }
    for (const auto& replica : replicas) {
      for (std::size_t i = 0; i < count; ++i) {
        const double difference = static_cast<double>(replica[start + i]) - sums[i];
        squares += difference * difference;
      }
    }
  }
  mean = std::move(result);
  if (squares == 0) return 0;
  return std::sqrt(squares / n) / std::sqrt(mean_squares);
}

Result<RunFolder> RunFolder::create(const std::string& path, bool force) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_directory(status)) {
    return Error{"cannot make the folder " + path + ": a file has that name"};
  }
  fs::create_directories(path, error);
  if (error) return Error{"cannot make the folder " + path + ": " + error.message()};
  if (::access(path.c_str(), W_OK | X_OK) != 0) {
    return Error{"cannot write to the folder " + path + ": " + std::strerror(errno)};
  }
  RunFolder folder;
  folder.path_ = path;
  for (const char* name : kResults) {
    const std::string result = folder.file(name);
    if (!fs::exists(result, error)) continue;
    if (!force) {
      return Error{"the folder " + path + " already holds results (" + name +
                   "); choose another with --out, or overwrite them with --force"};
    }
    // If this run crashes, the results of the previous one must not remain.
    fs::remove(result, error);
    if (error) return Error{"cannot remove " + result + ": " + error.message()};
  }
  for (const char* name : {"timeline.jsonl", "pipelines.jsonl", "report.html"})
    fs::remove(folder.file(name), error);
  return folder;
}

bool RunFolder::holds_results(const std::string& path) {
  std::error_code error;
  return std::ranges::any_of(kResults,
                             [&](const char* name) { return fs::exists(path + "/" + name, error); });
}

Result<RunFolder> RunFolder::resume(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error))
    return Error{"cannot resume in the folder " + path + ": it does not exist"};
  if (::access(path.c_str(), W_OK | X_OK) != 0)
    return Error{"cannot write to the folder " + path + ": " + std::strerror(errno)};
  RunFolder folder;
  folder.path_ = path;
  return folder;
}

void RunFolder::remove_end() const {
  std::error_code ignored;
  for (const char* name : {"summary.json", "timeline.jsonl", "report.html"}) fs::remove(file(name), ignored);
}

Status RunFolder::check_inputs() const {
  for (const char* name : kOfTheEnd)
    if (Status accepted = check_target(file(name)); !accepted) return accepted;
  return Done{};
}

Status RunFolder::write(const std::string& name, const std::string& text) const {
  // The experiment that is read may be the folder's own.
  const auto before = read_own_text(file(name), text.size());
  if (before && *before == text) return Done{};
  return write_text(file(name), text);
}

}  // namespace starling::training
