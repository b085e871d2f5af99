#include "training/planner/machine.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace starling::training {

using TaskKind = StageTask::Kind;
using MessageKind = StageMessage::Kind;

StageMachine::StageMachine(const PipelineShape& shape, std::size_t stage, std::uint32_t replica,
                           StageOptions options)
    : shape_(shape),
      stage_(stage),
      replica_(replica),
      options_(options),
      micro_batches_(shape.all_micro_batches()) {
  STARLING_CHECK(check_shape(shape).ok() && stage < shape.stages() && replica < shape.replicas[stage]);
  STARLING_CHECK(options.stash || !options.vertical_sync);
  tasks_ = tasks_of(shape, stage, replica);
}

Status StageMachine::end_after(std::uint64_t count) {
  STARLING_CHECK(!pipeline_traits(shape_.schedule).flushes);
  const std::size_t begun = position_ + (is_busy() ? 1 : 0);
  std::uint64_t least = 0;  // micro-batches up to the last one that has begun
  for (std::size_t i = 0; i < begun; ++i)
    if (tasks_[i].kind == TaskKind::forward) least = tasks_[i].number + 1;
  if (count < least || count >= micro_batches_) {
    return Error{"stage " + std::to_string(stage_) + " cannot end after " + std::to_string(count) +
                 " micro-batches: it has begun " + std::to_string(least) + " of " +
                 std::to_string(micro_batches_)};
  }
  // A schedule without a flush begins alike, however long it is.
  std::vector<StageTask> tasks = open_tasks(shape_, stage_, replica_, count);
  STARLING_CHECK(
      tasks.size() >= begun &&
      std::equal(tasks.begin(), tasks.begin() + static_cast<std::ptrdiff_t>(begun), tasks_.begin()));
  const bool updates = !is_over() && task().kind == TaskKind::update;
  tasks_ = std::move(tasks);
  micro_batches_ = count;
  if (!updates && !is_busy()) add_shares(due_);
  return Done{};
}

std::uint32_t StageMachine::updating(std::uint64_t update) const {
  const std::uint32_t replicas = shape_.replicas[stage_];
  const std::uint64_t before =
      update * shape_.micro_batches * (pipeline_traits(shape_.schedule).flushes ? 1 : replicas);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(replicas, micro_batches_ - before));
}

Status StageMachine::arrived(const StageMessage& message) {
  const auto refused = [&](const char* why) {
    return Error{"stage " + std::to_string(stage_) + ": message " + std::to_string(message.number) + " " +
                 why};
  };
  if (message.stage != stage_ || message.replica != replica_) return refused("is for another replica");
  const auto awaits = [&](TaskKind kind) {
    return std::find(tasks_.begin() + static_cast<std::ptrdiff_t>(position_), tasks_.end(),
                     StageTask{kind, message.number}) != tasks_.end();
  };
  if (message.kind == MessageKind::end) return end_after(message.number);
  if (message.kind == MessageKind::activations) {
    if ((is_first() && !options_.awaits_samples) || !awaits(TaskKind::forward))
      return refused("has activations that are not awaited");
    if (!activations_.emplace(message.number, message.version).second) return refused("came before");
  } else if (message.kind == MessageKind::gradient) {
    if (is_last() || !awaits(TaskKind::backward)) return refused("has a gradient that is not awaited");
    if (!gradients_.insert(message.number).second) return refused("came before");
  } else {
    const bool another = message.from < shape_.replicas[stage_] && message.from != replica_;
    const bool ended = micro_batches_ < shape_.all_micro_batches() && is_beyond_end(message.number);
    if (another && ended) return Done{};  // its sender did not know that the run has ended here
    if (!another || !awaits(TaskKind::update)) return refused("has a share that is not awaited");
    if (!shares_[message.number].insert(message.from).second) return refused("came before");
  }
  return Done{};
}

bool StageMachine::is_beyond_end(std::uint64_t update) const {
  return std::ranges::none_of(tasks_, [update](const StageTask& task) {
    return task.kind == TaskKind::update && task.number >= update;
  });
}

bool StageMachine::is_fed(const StageTask& task) const {
  switch (task.kind) {
    case TaskKind::forward:
      return (is_first() && !options_.awaits_samples) || activations_.contains(task.number);
    case TaskKind::backward:
      return is_last() || gradients_.contains(task.number);
    case TaskKind::update:
      break;
  }
  const auto shares = shares_.find(task.number);
  return (shares == shares_.end() ? 0 : shares->second.size()) + 1 == updating(task.number);
}

std::uint64_t StageMachine::version_for(const StageTask& task) const {
  if (task.kind == TaskKind::backward && options_.stash) return used_.at(task.number);
  if (task.kind == TaskKind::forward && options_.vertical_sync && !is_first())
    return activations_.at(task.number);
  return version_;
}

std::optional<StageWork> StageMachine::ready() const {
  if (is_over() || is_busy() || !is_fed(task())) return std::nullopt;
  return StageWork{task(), version_for(task())};
}

StageWork StageMachine::begin() {
  under_way_ = ready();
  STARLING_CHECK(under_way_.has_value());
  const StageTask& task = under_way_->task;
  if (task.kind == TaskKind::forward) {
    used_[task.number] = under_way_->version;
    latest_stamp_ = std::max(latest_stamp_, stamp_of(*under_way_));
  }
  return *under_way_;
}

std::uint64_t StageMachine::stamp_of(const StageWork& forward) const {
  return is_first() ? forward.version : activations_.at(forward.task.number);
}

StageMessage StageMachine::to(std::size_t stage, MessageKind kind, std::uint64_t number) const {
  return {kind, number, 0, stage, shape_.replica_of(stage, number), replica_};
}

void StageMachine::add_shares(std::vector<StageMessage>& out) const {
  if (is_over() || task().kind != TaskKind::update) return;
  for (std::uint32_t other = 0; other < updating(task().number); ++other) {
    if (other == replica_) continue;
    out.push_back({MessageKind::share, task().number, 0, stage_, other, replica_});
  }
}

std::vector<StageMessage> StageMachine::finish() {
  STARLING_CHECK(is_busy());
  const StageWork work = *under_way_;
  under_way_.reset();
  ++position_;
  std::vector<StageMessage> out;
  const std::uint64_t number = work.task.number;
  if (work.task.kind == TaskKind::forward) {
    const std::uint64_t stamp = stamp_of(work);
    activations_.erase(number);
    if (is_last()) return out;
    out.push_back(to(stage_ + 1, MessageKind::activations, number));
    out.back().version = stamp;
  } else if (work.task.kind == TaskKind::backward) {
    used_.erase(number);
    gradients_.erase(number);
    if (!is_first()) out.push_back(to(stage_ - 1, MessageKind::gradient, number));
    add_shares(out);
  } else {
    shares_.erase(number);
    ++version_;
  }
  return out;
}

std::size_t StageMachine::versions() const {
  std::set<std::uint64_t> kept{version_};
  if (!options_.stash) return kept.size();
  for (const auto& [number, version] : used_) kept.insert(version);
  // Activations with later stamps are yet to come.
  if (options_.vertical_sync && !is_first())
    for (std::uint64_t v = latest_stamp_; v < version_; ++v) kept.insert(v);
  return kept.size();
}

std::uint64_t StageMachine::oldest_version() const {
  std::uint64_t oldest = version_;
  if (!options_.stash) return oldest;
  for (const auto& [number, version] : used_) oldest = std::min(oldest, version);
  return options_.vertical_sync && !is_first() ? std::min(oldest, latest_stamp_) : oldest;
}

}  // namespace starling::training
