#include "training/pipeline/machine.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace starling::training {

using TaskKind = StageTask::Kind;
using MessageKind = StageMessage::Kind;

StageMachine::StageMachine(const PipelineShape& shape, std::size_t stage, std::uint32_t replica,
                           StageOptions options)
    : shape_(shape), stage_(stage), replica_(replica), options_(options) {
  STARLING_CHECK(check_shape(shape).ok() && stage < shape.stages() && replica < shape.replicas[stage]);
  STARLING_CHECK(options.stash || !options.vertical_sync);
  tasks_ = tasks_of(shape, stage, replica);
}

Status StageMachine::end_after(std::uint64_t count) {
  STARLING_CHECK(!pipeline_traits(shape_.schedule).flushes &&
                 shape_.replicas == std::vector<std::uint32_t>(shape_.stages(), 1));
  const std::size_t begun = position_ + (is_busy() ? 1 : 0);
  std::uint64_t forwards = 0;
  for (std::size_t i = 0; i < begun; ++i) forwards += tasks_[i].kind == TaskKind::forward ? 1 : 0;
  if (count < forwards || count >= shape_.all_micro_batches()) {
    return Error{"stage " + std::to_string(stage_) + " cannot end after " + std::to_string(count) +
                 " micro-batches: it has begun " + std::to_string(forwards) + " of " +
                 std::to_string(shape_.all_micro_batches())};
  }
  // A schedule without a flush begins alike, however long it is.
  std::vector<StageTask> tasks = open_tasks(shape_, stage_, count);
  STARLING_CHECK(
      tasks.size() >= begun &&
      std::equal(tasks.begin(), tasks.begin() + static_cast<std::ptrdiff_t>(begun), tasks_.begin()));
  tasks_ = std::move(tasks);
  return Done{};
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
    if (is_first() || !awaits(TaskKind::forward)) return refused("has activations that are not awaited");
    if (!activations_.emplace(message.number, message.version).second) return refused("came before");
  } else if (message.kind == MessageKind::gradient) {
    if (is_last() || !awaits(TaskKind::backward)) return refused("has a gradient that is not awaited");
    if (!gradients_.insert(message.number).second) return refused("came before");
  } else {
    const bool another = message.from < shape_.replicas[stage_] && message.from != replica_;
    if (!another || !awaits(TaskKind::update)) return refused("has a share that is not awaited");
    if (!shares_[message.number].insert(message.from).second) return refused("came before");
  }
  return Done{};
}

bool StageMachine::is_fed(const StageTask& task) const {
  switch (task.kind) {
    case TaskKind::forward:
      return is_first() || activations_.contains(task.number);
    case TaskKind::backward:
      return is_last() || gradients_.contains(task.number);
    case TaskKind::update:
      break;
  }
  const auto shares = shares_.find(task.number);
  return (shares == shares_.end() ? 0 : shares->second.size()) + 1 == shape_.replicas[stage_];
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
    // The update that follows needs this replica's gradient at all others.
    if (is_over() || task().kind != TaskKind::update) return out;
    for (std::uint32_t other = 0; other < shape_.replicas[stage_]; ++other) {
      if (other == replica_) continue;
      out.push_back({MessageKind::share, task().number, 0, stage_, other, replica_});
    }
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
