#include "lab/world/virtual_stream.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace starling::lab {

using Kind = training::StageTask::Kind;

bool VirtualStream::awaits_batch() const {
  if (stages_.empty()) return true;
  const training::StageMachine& first = stages_.front().machine;
  return !ends_ && !first.is_busy() && first.task().kind == Kind::forward;
}

void VirtualStream::begin() {
  const StreamOptions& its = options();
  for (std::size_t s = 0; s < its.shape.stages(); ++s)
    stages_.push_back(
        {training::StageMachine(its.shape, s, 0, {.stash = true, .vertical_sync = its.vertical_sync})});
  transfers_.emplace(its.times);
  ++stream_;
  fed_ = came_out_ = 0;
  ends_ = false;
}

void VirtualStream::feed(std::uint64_t number) {
  STARLING_CHECK(awaits_batch());
  if (stages_.empty()) {
    begin();
    first_ = number;
  }
  ++fed_;
  if (fed_ == options().shape.all_micro_batches()) ends_ = true;  // the machines know
  advance(0);
}

void VirtualStream::end() {
  if (stages_.empty() || ends_) return;
  ends_ = true;
  for (Stage& stage : stages_) STARLING_CHECK(stage.machine.end_after(fed_).ok());
  for (std::size_t s = 0; s < stages_.size(); ++s) advance(s);
}

void VirtualStream::drop() {
  if (stages_.empty()) return;
  clear();
  replica_.learner->drop_batches();
}

void VirtualStream::clear() {
  stages_.clear();
  ++stream_;
  fed_ = came_out_ = 0;
}

bool VirtualStream::is_over() const {
  return std::ranges::all_of(stages_, [](const Stage& stage) { return stage.machine.is_over(); });
}

// Begins what the stage can begin.
void VirtualStream::advance(std::size_t s) {
  Stage& stage = stages_[s];
  const auto work = stage.machine.ready();
  // Of the first stage every forward pass is ready, but its batch may not have been fed.
  if (!work || (s == 0 && work->task.kind == Kind::forward && work->task.number >= fed_)) return;
  stage.work = stage.machine.begin();
  const Task before = std::exchange(stage.last, work->task);
  const std::uint64_t batch = first_ + (work->task.kind == Kind::update ? came_out_ : work->task.number);
  const double seconds = training::seconds_of(options().times.stages[s], work->task, before) *
                         machine_.mishaps().slowness_of_step(machine_.now(), batch);
  replica_.learner->begin_work(s, stage.work, *replica_.arena);
  later(machine_.now() + from_seconds(seconds), [this, s] { finish(s); });
}

void VirtualStream::finish(std::size_t s) {
  Stage& stage = stages_[s];
  replica_.learner->end_work(s, stage.work, *replica_.arena);
  for (const training::StageMessage& message : stage.machine.finish()) send(s, message);
  const bool updates_next = !stage.machine.is_over() && stage.machine.task().kind == Kind::update;
  const std::uint32_t stream = stream_;
  if (s == 0 && stage.work.task.kind != Kind::forward && !updates_next) {
    ++came_out_;
    landed_();
    if (stream != stream_) return;  // the machine stopped, or lost its batches
  }
  if (is_over()) clear();
  if (awaits_batch()) awaits_();
  if (stream == stream_ && !stages_.empty()) advance(s);
}

void VirtualStream::send(std::size_t s, const training::StageMessage& message) {
  const Instant now = machine_.now();
  const double seconds = to_seconds(now.since_start);
  const Duration takes = from_seconds(transfers_->arrival(seconds, s, message) - seconds);
  later(now + std::max(Duration{0}, takes), [this, message] {
    STARLING_CHECK(stages_[message.stage].machine.arrived(message).ok());
    advance(message.stage);
  });
}

}  // namespace starling::lab
