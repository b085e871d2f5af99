#include "training/runs/records/pipeline_record.h"

#include "training/runs/records/json_fields.h"

namespace starling::training {

std::string to_json(const PipelineRecord& record) {
  FieldWriter write;
  visit_pipeline_line(write, record);
  return to_text(write.take());
}

}  // namespace starling::training
