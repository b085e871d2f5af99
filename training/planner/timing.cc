#include "training/planner/timing.h"

#include <algorithm>
#include <map>
#include <queue>

#include "base/check.h"

namespace starling::training {
namespace {

// The machines of all replicas, and what is going to happen.
class VirtualPipeline {
 public:
  VirtualPipeline(const PipelineShape& shape, const PipelineTimes& times, StageOptions options)
      : times_(times), transfers_(times) {
    STARLING_CHECK(times.stages.size() == shape.stages());
    STARLING_CHECK(times.links.empty() || times.links.size() + 1 == shape.stages());
    for (std::size_t stage = 0; stage < shape.stages(); ++stage) {
      first_.push_back(machines_.size());
      for (std::uint32_t replica = 0; replica < shape.replicas[stage]; ++replica) {
        machines_.emplace_back(shape, stage, replica, options);
        trace_.replicas.push_back({stage, replica});
        last_.push_back({StageTask::Kind::update, 0});
      }
    }
  }

  PipelineTrace run() {
    for (std::size_t at = 0; at < machines_.size(); ++at) begin(at);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      if (event.ends) {
        end(event.at);
      } else {
        STARLING_CHECK(machines_[event.at].arrived(event.message).ok());
      }
      begin(event.at);
    }
    for (const StageMachine& machine : machines_) STARLING_CHECK(machine.is_over());
    trace_.seconds = trace_.entries.empty() ? 0 : trace_.entries.back().end;
    return std::move(trace_);
  }

 private:
  struct Event {
    double time;
    std::uint64_t order;  // of events at the same time
    std::size_t at;       // the machine
    bool ends;            // its work; else a message arrives
    StageMessage message{};
    bool operator<(const Event& other) const {  // for a queue whose top is the earliest
      return std::tie(other.time, other.order) < std::tie(time, order);
    }
  };

  void begin(std::size_t at) {
    StageMachine& machine = machines_[at];
    if (!machine.ready()) return;
    PipelineTrace::Replica& replica = trace_.replicas[at];
    PipelineTrace::Entry entry{replica.stage, replica.replica, machine.begin(), now_, now_};
    entry.end = now_ + seconds_of(times_.stages[entry.stage], entry.work.task, last_[at]);
    last_[at] = entry.work.task;
    replica.busy += entry.end - entry.begin;
    replica.most_in_flight = std::max(replica.most_in_flight, machine.in_flight());
    replica.most_versions = std::max(replica.most_versions, machine.versions());
    under_way_[at] = entry;
    events_.push({entry.end, order_++, at, true});
  }

  void end(std::size_t at) {
    trace_.entries.push_back(under_way_.at(at));
    for (const StageMessage& message : machines_[at].finish()) {
      const std::size_t to = first_[message.stage] + message.replica;
      const double arrival = transfers_.arrival(now_, trace_.replicas[at].stage, message);
      events_.push({arrival, order_++, to, false, message});
    }
  }

  const PipelineTimes& times_;
  StageTransfers transfers_;
  std::vector<StageMachine> machines_;
  std::vector<std::size_t> first_;  // by stage: the index of its first replica
  std::vector<StageTask> last_;     // that each machine began
  std::map<std::size_t, PipelineTrace::Entry> under_way_;
  std::priority_queue<Event> events_;
  std::uint64_t order_ = 0;
  double now_ = 0;
  PipelineTrace trace_;
};

}  // namespace

double seconds_of(const StageTimes& times, const StageTask& task, const StageTask& before) {
  switch (task.kind) {
    case StageTask::Kind::forward:
      return times.forward;
    case StageTask::Kind::backward:
      return times.backward +
             (before == StageTask{StageTask::Kind::forward, task.number} ? 0 : times.recomputation);
    case StageTask::Kind::update:
      break;
  }
  return times.update;
}

double StageTransfers::arrival(double now, std::size_t stage, const StageMessage& message) {
  if (message.kind == StageMessage::Kind::share) return now + times_.stages[stage].share;
  if (times_.links.empty()) return now;
  const StageLink& link = times_.links[std::min(stage, message.stage)];
  double& free = free_[{stage, message.from, message.stage, message.replica}];
  free = std::max(free, now) + link.bytes / link.bandwidth;
  return free + link.latency;
}

double PipelineTrace::bubble() const {
  double busy = 0;
  for (const Replica& replica : replicas) busy += replica.busy;
  return seconds > 0 ? 1 - busy / (seconds * static_cast<double>(replicas.size())) : 0;
}

PipelineTrace time_pipeline(const PipelineShape& shape, const PipelineTimes& times, StageOptions options) {
  return VirtualPipeline(shape, times, options).run();
}

}  // namespace starling::training
