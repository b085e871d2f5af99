// The pipelines of a run.
#include <algorithm>
#include <filesystem>

#include "lab/report/lines.h"
#include "lab/report/report.h"
#include "training/runs/records/files.h"
#include "training/runs/records/json_fields.h"

namespace starling::lab {
namespace {

using training::PipelineRecord;

constexpr std::size_t kLargestPipelines = std::size_t{64} << 20;  // bytes

bool is_drawable(const PipelineRecord& record) {
  return !record.peers.empty() && !record.stages.empty() &&
         std::ranges::all_of(record.passes, [&](const PipelineRecord::Pass& pass) {
           return pass.stage >= 1 && pass.stage <= record.stages.size() &&
                  pass.begin_seconds <= pass.end_seconds;
         });
}

}  // namespace

Status read_pipelines(ReportRun& run) {
  const std::string path = run.folder + "/pipelines.jsonl";
  if (!std::filesystem::exists(path)) return Done{};
  const auto text = training::read_text(path, kLargestPipelines);
  if (!text) return text.error();
  return for_each_line(*text, path, "list of pipelines", [&](const training::Json& line) {
    training::FieldReader read(line, "a pipeline's");
    PipelineRecord& record = run.pipelines.emplace_back();
    training::visit_pipeline_line(read, record);
    return read.error().empty() && is_drawable(record);
  });
}

}  // namespace starling::lab
