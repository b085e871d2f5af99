// The pipelines of a run.
#include <cmath>
#include <filesystem>

#include "lab/report/lines.h"
#include "lab/report/report.h"
#include "training/runs/records/files.h"
#include "training/runs/records/json.h"

namespace starling::lab {
namespace {

using training::Json;

constexpr std::size_t kLargestPipelines = std::size_t{64} << 20;  // bytes

// A list of objects in `line`; an empty one if it is missing or not a list.
const Json& list_in(const Json& line, const char* key) {
  static const Json kNone = Json::array();
  const auto at = line.find(key);
  return at == line.end() || !at->is_array() ? kNone : *at;
}

bool take_text(const Json& line, const char* key, std::string& text) {
  const auto at = line.find(key);
  if (at == line.end() || !at->is_string()) return false;
  text = at->get<std::string>();
  return true;
}

bool take_figures(const Json& line, std::initializer_list<std::pair<const char*, double*>> fields) {
  for (const auto& [key, to] : fields) {
    const auto value = figure_in(line, key);
    if (!value || !std::isfinite(*value)) return false;
    *to = *value;
  }
  return true;
}

bool take_pass(ReportPipeline& pipeline, const Json& line) {
  ReportPipeline::Pass pass;
  double stage = 0;
  std::string kind;
  if (!line.is_object() || !take_text(line, "pass", kind) ||
      !take_figures(line, {{"stage", &stage},
                           {"micro_batch", &pass.number},
                           {"begin_seconds", &pass.begin},
                           {"end_seconds", &pass.end}}))
    return false;
  if (!(stage >= 1 && stage <= static_cast<double>(pipeline.stages.size())) || !(pass.begin <= pass.end))
    return false;
  pass.stage = static_cast<std::size_t>(stage) - 1;
  pass.forward = kind == "forward";
  pipeline.passes.push_back(pass);
  return true;
}

bool take_pipeline(std::vector<ReportPipeline>& pipelines, const Json& line) {
  ReportPipeline pipeline;
  if (!take_text(line, "schedule", pipeline.schedule) ||
      !take_figures(line, {{"micro_batches", &pipeline.micro_batches},
                           {"step_seconds", &pipeline.seconds},
                           {"bubble", &pipeline.bubble}}))
    return false;
  for (const Json& peer : list_in(line, "peers"))
    if (peer.is_string()) pipeline.peers.push_back(peer.get<std::string>());
  for (const Json& stage : list_in(line, "stages")) {
    ReportPipeline::Stage its;
    if (!stage.is_object() || !take_text(stage, "layers", its.layers) ||
        !take_figures(stage, {{"speed", &its.speed}, {"idle", &its.idle}, {"micro_batches_kept", &its.kept}}))
      return false;
    pipeline.stages.push_back(std::move(its));
  }
  for (const Json& pass : list_in(line, "passes"))
    if (!take_pass(pipeline, pass)) return false;
  if (pipeline.peers.empty() || pipeline.stages.empty()) return false;
  pipelines.push_back(std::move(pipeline));
  return true;
}

}  // namespace

Status read_pipelines(ReportRun& run) {
  const std::string path = run.folder + "/pipelines.jsonl";
  if (!std::filesystem::exists(path)) return Done{};
  const auto text = training::read_text(path, kLargestPipelines);
  if (!text) return text.error();
  return for_each_line(*text, path, "list of pipelines",
                       [&](const Json& line) { return take_pipeline(run.pipelines, line); });
}

}  // namespace starling::lab
