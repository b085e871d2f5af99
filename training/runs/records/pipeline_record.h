// The stages of a peer and how they use their time: measured in a real peer
// (training/learning/stages/stage_clock.h), computed for a simulated one. The status, the metrics, the pages,
// the summary and the report of a run show this value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace starling::training {

struct PipelineRecord {
  // A stage, or one of its replicas: what one device computes.
  struct Stage {
    std::string name{};    // "1"; "1.2" is the second replica of the first stage
    std::string layers{};  // "conv1 to pool1"; "fc1, replica 2"
    std::string device{};  // "cpu:0"; empty if it is simulated
    double speed = 1;      // of a simulated device
    // While batches were in the stages: it computed a pass or an update, or it did not. Of this time the part
    // in which it did not.
    double busy_seconds = 0, waiting_seconds = 0, idle = 0;
    std::uint64_t micro_batches_kept = 0;  // whose activations it keeps, at most
    std::uint64_t versions = 1;            // of its parameters, the newest included, at most
  };
  struct Pass {
    std::uint64_t stage = 1;  // its place in the list, from 1
    std::string pass{};       // forward, backward, update
    std::uint64_t micro_batch = 0;
    double begin_seconds = 0, end_seconds = 0;
  };

  std::vector<std::string> peers{};  // with this pipeline
  std::string schedule{};
  std::uint32_t micro_batches = 1;
  bool measured = false;    // in a real run
  std::uint64_t steps = 0;  // batches in the times below
  double step_seconds = 0;  // of a batch, or without a flush from one batch to the next
  double bubble = 0;        // the mean of the stages' idle parts
  std::vector<Stage> stages{};
  std::vector<Pass> passes{};  // of a recent batch, or without a flush of some; by their ends
};

// How the devices of a peer share its training.
struct DeviceSharing {
  std::optional<std::string> split{};  // what they divide, and with `auto` why; none: it has one device
  std::optional<PipelineRecord> pipeline{};
};

// Visits all fields but the peers and the passes.
template <class Visitor, class Record>
void visit_pipeline(Visitor& visit, Record& record) {
  visit.required("schedule", record.schedule);
  visit("micro_batches", record.micro_batches);
  visit("measured", record.measured);
  visit("steps", record.steps);
  visit.required("step_seconds", record.step_seconds);
  visit("bubble", record.bubble);
  visit.list("stages", record.stages, [](auto& inner, auto& stage) {
    inner("name", stage.name);
    inner("layers", stage.layers);
    inner("device", stage.device);
    inner("speed", stage.speed);
    inner("busy_seconds", stage.busy_seconds);
    inner("waiting_seconds", stage.waiting_seconds);
    inner("idle", stage.idle);
    inner("micro_batches_kept", stage.micro_batches_kept);
    inner("versions", stage.versions);
  });
}
template <class Visitor, class Record>
void visit_passes(Visitor& visit, Record& record) {
  visit.list("passes", record.passes, [](auto& inner, auto& pass) {
    inner("stage", pass.stage);
    inner("pass", pass.pass);
    inner("micro_batch", pass.micro_batch);
    inner("begin_seconds", pass.begin_seconds);
    inner("end_seconds", pass.end_seconds);
  });
}
// Visits the split and the pipeline, with its passes if `passes`.
template <class Visitor, class Holder>
void visit_sharing(Visitor& visit, Holder& holder, bool passes) {
  visit("split", holder.split);
  visit.object("pipeline", holder.pipeline, [passes](auto& inner, auto& pipeline) {
    visit_pipeline(inner, pipeline);
    if (passes) visit_passes(inner, pipeline);
  });
}

// Visits all fields, as in a line of pipelines.jsonl (docs/RESULTS.md).
template <class Visitor, class Record>
void visit_pipeline_line(Visitor& visit, Record& record) {
  visit("peers", record.peers);
  visit_pipeline(visit, record);
  visit_passes(visit, record);
}
std::string to_json(const PipelineRecord& record);  // without its newline

}  // namespace starling::training
