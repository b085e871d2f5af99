#include "cli/commands/plan_published.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/shell/output.h"
#include "training/pipeline/published/figures.h"
#include "training/records/files.h"
#include "training/records/json.h"

namespace starling::cli {
namespace {

using training::Json;
using training::PipelineProfile;
using training::PublishedFigure;

constexpr std::size_t kPublishedBytesMax = std::size_t{16} << 20;  // of a profile

// What the command has no part in if it prints published figures.
constexpr std::array kOfOnePlan = {"MODEL",          "--data",     "--devices",       "--racks",
                                   "--bandwidth",    "--memory",   "--replicas",      "--batch-size",
                                   "--profile",      "--pipeline", "--micro-batches", "--no-overlap",
                                   "--as-published", "--chart"};

// The folder of --profiles or of the variable; nullopt: none is given.
std::optional<std::string> profiles_folder(const Arguments& arguments) {
  if (const auto folder = arguments.get("--profiles")) return folder;
  const char* const text = std::getenv(kProfilesVariable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return text;
}

Result<std::vector<std::optional<PipelineProfile>>> read_profiles(const Arguments& arguments) {
  const auto folder = profiles_folder(arguments);
  const std::string place = arguments.has("--profiles") ? "--profiles" : kProfilesVariable;
  std::vector<std::optional<PipelineProfile>> profiles;
  std::error_code unused;
  if (folder && !std::filesystem::is_directory(*folder, unused))
    return Error{place + ": " + *folder + " is not a folder"};
  for (const std::string& network : training::pipedream_networks()) {
    profiles.emplace_back();
    if (!folder) continue;
    const std::string path = *folder + "/" + network + ".graph.txt";
    if (!std::filesystem::exists(path, unused)) continue;
    const auto text = training::read_text(path, kPublishedBytesMax);
    if (!text) return Error{place + ": " + text.error().message};
    auto profile = training::read_pipedream_profile(*text);
    if (!profile) return Error{place + ": " + path + ": " + profile.error().message};
    profiles.back() = *std::move(profile);
  }
  return profiles;
}

std::string times(const std::optional<double>& value) { return or_dash(value, "{:.3f}x"); }

// The sources, once each, on lines of their own.
std::string published_in(const std::vector<PublishedFigure>& figures) {
  std::vector<std::string> sources;
  for (const PublishedFigure& figure : figures)
    if (std::ranges::find(sources, figure.source) == sources.end()) sources.push_back(figure.source);
  return fmt::format("{}", fmt::join(sources, ";\n  "));
}

std::string published_text(const std::vector<PublishedFigure>& figures) {
  std::vector<std::vector<std::string>> rows = {{"work", "setting", "over", "published", "ours", "  why"}};
  for (const PublishedFigure& figure : figures) {
    rows.push_back({figure.work, figure.setting, figure.baseline, times(figure.published), times(figure.ours),
                    figure.reason});
  }
  // The last column follows numbers, and is aligned left.
  std::size_t widest = 0;
  for (const auto& row : rows) widest = std::max(widest, row.back().size());
  for (auto& row : rows) row.back().resize(widest, ' ');
  std::string text;
  for (std::string line; const char c : aligned(rows, 3)) {
    if (c != '\n') {
      line += c;
      continue;
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    line.clear();
  }
  return text +
         "\nOurs are predictions of the throughput of training; none is measured on this machine.\n"
         "Transformer, AmoebaNet-D: K equal stages, M micro-batches, schedule gpipe, transfers are free.\n"
         "ResNet-101: stages by our planner, times by operations (backward twice forward), recomputation of\n"
         "every micro-batch but the last, 16 GB/s between devices, one device at 95.862 samples per second.\n"
         "PipeDream: its profiles; the published stages, with the cut that our planner chooses; schedule\n"
         "pipedream in virtual time over our formula of data parallelism; each device has a link of that\n"
         "bandwidth. `planner_chooses` of --json has the stages that our planner prefers.\n" +
         "published in: " + published_in(figures) + "\n";
}

std::string published_json(const std::vector<PublishedFigure>& figures) {
  Json list = Json::array();
  for (const PublishedFigure& figure : figures) {
    list.push_back(
        {{"work", figure.work},
         {"setting", figure.setting},
         {"over", figure.baseline},
         {"source", figure.source},
         {"published", figure.published},
         {"ours", training::or_null(figure.ours)},
         {"ours_without_overlap", training::or_null(figure.without_overlap)},
         {"planner_chooses", figure.planner_chooses.empty() ? Json(nullptr) : Json(figure.planner_chooses)},
         {"reason", figure.reason}});
  }
  return training::to_line({{"figures", std::move(list)}});
}

}  // namespace

int print_published(const Arguments& arguments) {
  for (const char* name : kOfOnePlan) {
    if (arguments.has(name))
      return refuse(arguments,
                    fmt::format("{} has no effect with --published, which plans what papers did", name));
  }
  const auto profiles = read_profiles(arguments);
  if (!profiles) return refuse(arguments, profiles.error());
  std::vector<PublishedFigure> figures = training::equal_stage_figures();
  for (auto more : {training::resnet101_figures(), training::pipedream_figures(*profiles)}) {
    if (!more) return refuse(arguments, more.error());
    figures.insert(figures.end(), more->begin(), more->end());
  }
  return print_out(arguments.has("--json") ? published_json(figures) : published_text(figures));
}

}  // namespace starling::cli
