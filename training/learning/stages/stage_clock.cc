#include "training/learning/stages/stage_clock.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace starling::training {
namespace {

using Kind = StageTask::Kind;

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Two passes of each batch in each stage, and an update.
std::size_t entries_of(const PipelineShape& shape, std::uint64_t batches) {
  return static_cast<std::size_t>(3 * batches) * shape.stages();
}

}  // namespace

StageClock::StageClock(PipelineShape shape, std::function<double()> now)
    : shape_(std::move(shape)),
      now_(now ? std::move(now) : steady_seconds),
      longest_window_(pipeline_traits(shape_.schedule).flushes
                          ? kMostEntries
                          : std::min(kMostEntries, entries_of(shape_, kBatchesShown))),
      under_way_(shape_.all_replicas()) {
  for (std::size_t stage = 0; stage < shape_.stages(); ++stage)
    for (std::uint32_t replica = 0; replica < shape_.replicas[stage]; ++replica)
      trace_.replicas.push_back({.stage = stage, .replica = replica, .most_versions = 1});
}

void StageClock::start() {
  const double now = now_();
  const std::lock_guard lock(mutex_);
  active_since_ = now;
}

void StageClock::stop() {
  const double now = now_();
  const std::lock_guard lock(mutex_);
  if (active_since_) trace_.seconds += now - *active_since_;
  active_since_.reset();
  const bool flushes = pipeline_traits(shape_.schedule).flushes;
  if (flushes || trace_.entries.empty()) show_window();
  window_.clear();
}

void StageClock::begin(const StageMachine& machine, const StageWork& work) {
  const std::lock_guard lock(mutex_);
  const double now = now_();
  PipelineTrace::Replica& its = trace_.replicas[machine.number()];
  its.most_in_flight = std::max(its.most_in_flight, machine.in_flight());
  its.most_versions = std::max(its.most_versions, machine.versions());
  under_way_[machine.number()] = {its.stage, its.replica, work, now, now};
}

void StageClock::end(const StageMachine& machine) {
  const double now = now_();
  const std::lock_guard lock(mutex_);
  auto& under_way = under_way_[machine.number()];
  if (!under_way) return;
  PipelineTrace::Entry entry = *std::exchange(under_way, std::nullopt);
  entry.end = now;
  trace_.replicas[machine.number()].busy += entry.end - entry.begin;
  if (entry.stage == 0 && entry.work.task.kind == Kind::backward) ++micro_batches_;
  if (window_.size() < longest_window_) window_.push_back(entry);
  const bool flushes = pipeline_traits(shape_.schedule).flushes;
  if (!flushes && window_.size() == longest_window_) show_window();
}

void StageClock::show_window() {
  if (window_.empty()) return;
  const double first = std::ranges::min(window_, {}, &PipelineTrace::Entry::begin).begin;
  for (PipelineTrace::Entry& entry : window_) {
    entry.begin -= first;
    entry.end -= first;
  }
  trace_.entries = std::exchange(window_, {});
}

StageClock::Reading StageClock::read() const {
  const std::lock_guard lock(mutex_);
  const double now = now_();
  Reading reading{trace_, micro_batches_};
  if (active_since_) reading.trace.seconds += now - *active_since_;
  for (std::size_t number = 0; number < under_way_.size(); ++number)
    if (under_way_[number]) reading.trace.replicas[number].busy += now - under_way_[number]->begin;
  if (pipeline_traits(shape_.schedule).flushes) reading.steps /= shape_.micro_batches;
  return reading;
}

}  // namespace starling::training
