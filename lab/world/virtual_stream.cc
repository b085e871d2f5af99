#include "lab/world/virtual_stream.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace starling::lab {

using Kind = training::StageTask::Kind;

bool VirtualStream::awaits_batch() const {
  if (parts_.empty()) return true;
  const training::StageMachine& next = parts_[options().shape.replica_of(0, fed_)].machine;
  return !ends_ && !next.is_busy() && next.task() == Task{Kind::forward, fed_};
}

void VirtualStream::begin() {
  const StreamOptions& its = options();
  for (std::size_t s = 0; s < its.shape.stages(); ++s) {
    for (std::uint32_t replica = 0; replica < its.shape.replicas[s]; ++replica)
      parts_.push_back({s, replica,
                        training::StageMachine(its.shape, s, replica,
                                               {.stash = true, .vertical_sync = its.vertical_sync})});
  }
  transfers_.emplace(its.times);
  ++stream_;
  fed_ = came_out_ = 0;
  ends_ = false;
}

void VirtualStream::feed(std::uint64_t number) {
  STARLING_CHECK(awaits_batch());
  if (parts_.empty()) {
    begin();
    first_ = number;
  }
  const std::uint32_t replica = options().shape.replica_of(0, fed_++);
  if (fed_ == options().shape.all_micro_batches()) ends_ = true;  // the machines know
  advance(replica);
}

void VirtualStream::end() {
  if (parts_.empty() || ends_) return;
  ends_ = true;
  for (Part& part : parts_) STARLING_CHECK(part.machine.end_after(fed_).ok());
  for (Part& part : parts_)
    for (const training::StageMessage& message : part.machine.take_due()) send(part.stage, message);
  for (std::size_t p = 0; p < parts_.size(); ++p) advance(p);
}

void VirtualStream::clear() {
  parts_.clear();
  ++stream_;
  fed_ = came_out_ = 0;
}

bool VirtualStream::is_over() const {
  return std::ranges::all_of(parts_, [](const Part& part) { return part.machine.is_over(); });
}

// Begins what the part can begin.
void VirtualStream::advance(std::size_t p) {
  Part& part = parts_[p];
  const auto work = part.machine.ready();
  // Of the first stage every forward pass is ready, but its batch may not have been fed.
  if (!work || (part.stage == 0 && work->task.kind == Kind::forward && work->task.number >= fed_)) return;
  part.work = part.machine.begin();
  const Task before = std::exchange(part.last, work->task);
  const std::uint64_t batch = first_ + (work->task.kind == Kind::update ? came_out_ : work->task.number);
  const double seconds = training::seconds_of(options().times.stages[part.stage], work->task, before) *
                         machine_.mishaps().slowness_of_step(machine_.now(), batch);
  replica_.learner->begin_work(part.stage, part.work, *replica_.arena);
  later(machine_.now() + from_seconds(seconds), [this, p] { finish(p); });
}

void VirtualStream::finish(std::size_t p) {
  Part& part = parts_[p];
  replica_.learner->end_work(part.stage, part.work, *replica_.arena);
  for (const training::StageMessage& message : part.machine.finish()) send(part.stage, message);
  const bool updates_next = !part.machine.is_over() && part.machine.task().kind == Kind::update;
  const std::uint32_t stream = stream_;
  if (part.stage == 0 && part.work.task.kind != Kind::forward && !updates_next) {
    ++part.left;
    land();
    if (stream != stream_) return;  // the machine stopped, or lost its batches
  }
  if (is_over()) clear();
  if (awaits_batch()) awaits_();
  if (stream == stream_ && !parts_.empty()) advance(p);
}

// Batches come out in their order, although replicas of the first stage may not complete them in it.
void VirtualStream::land() {
  const training::PipelineShape& shape = options().shape;
  const std::uint32_t stream = stream_;
  while (stream == stream_ && came_out_ < fed_ &&
         parts_[shape.replica_of(0, came_out_)].left > came_out_ / shape.replicas[0]) {
    ++came_out_;
    landed_();
  }
}

void VirtualStream::send(std::size_t stage, const training::StageMessage& message) {
  const Instant now = machine_.now();
  const double seconds = to_seconds(now.since_start);
  const Duration takes = from_seconds(transfers_->arrival(seconds, stage, message) - seconds);
  later(now + std::max(Duration{0}, takes), [this, message] {
    const std::size_t to = options().shape.number_of(message.stage, message.replica);
    STARLING_CHECK(parts_[to].machine.arrived(message).ok());
    advance(to);
  });
}

}  // namespace starling::lab
