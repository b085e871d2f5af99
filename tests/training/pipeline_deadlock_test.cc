// No order of events stops a pipeline: all of them are tried for small ones.
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/seeds.h"
#include "training/planner/machine.h"

namespace starling::training {
namespace {

// All machines of a pipeline, with links as poor as can be: a link holds one message, a replica reads a
// message only when its next task needs it, and begins nothing before all that it sends is in the links.
class PoorPipeline {
 public:
  // `ends_after`: the micro-batches after which the run ends, as each machine is told at some time; the first
  // stage gets no more.
  PoorPipeline(const PipelineShape& shape, StageOptions options,
               std::optional<std::uint64_t> ends_after = std::nullopt)
      : ends_after_(ends_after) {
    for (std::size_t stage = 0; stage < shape.stages(); ++stage) {
      first_.push_back(machines_.size());
      for (std::uint32_t replica = 0; replica < shape.replicas[stage]; ++replica) {
        machines_.emplace_back(shape, stage, replica, options);
        places_.emplace_back(stage, replica);
      }
    }
    unsent_.resize(machines_.size());
    told_.resize(machines_.size(), !ends_after);
  }

  // The pipelines after each thing that can happen next.
  std::vector<PoorPipeline> next() const {
    std::vector<PoorPipeline> all;
    for (std::size_t at = 0; at < machines_.size(); ++at) {
      const StageMachine& machine = machines_[at];
      if (machine.is_busy()) {
        PoorPipeline& after = all.emplace_back(*this);
        for (const StageMessage& message : after.machines_[at].finish()) after.unsent_[at].push_back(message);
      } else if (!unsent_[at].empty()) {
        const Link link = link_of(at, unsent_[at].front());
        if (links_.contains(link)) continue;
        PoorPipeline& after = all.emplace_back(*this);
        after.links_[link] = after.unsent_[at].front();
        after.unsent_[at].pop_front();
      } else if (machine.ready() && !is_beyond_end(machine)) {
        all.emplace_back(*this).machines_[at].begin();
      }
      if (told_[at]) continue;
      PoorPipeline& after = all.emplace_back(*this);
      const auto [stage, replica] = places_[at];
      REQUIRE(
          after.machines_[at].arrived({StageMessage::Kind::end, *ends_after_, 0, stage, replica, 0}).ok());
      for (const StageMessage& message : after.machines_[at].take_due()) after.unsent_[at].push_back(message);
      after.told_[at] = true;
    }
    for (const auto& [link, message] : links_) {
      const auto to = std::get<1>(link);
      if (machines_[to].is_busy() || !unsent_[to].empty() || !needs(machines_[to], message)) continue;
      PoorPipeline& after = all.emplace_back(*this);
      REQUIRE(after.machines_[to].arrived(message).ok());
      after.links_.erase(link);
    }
    return all;
  }

  bool is_over() const {
    for (std::size_t at = 0; at < machines_.size(); ++at)
      if (!machines_[at].is_over() || !unsent_[at].empty()) return false;
    return links_.empty();
  }

  // What distinguishes two of the same shape.
  std::string state() const {
    std::string text;
    const auto add = [&text](std::uint64_t number) { text += static_cast<char>(number); };
    for (std::size_t at = 0; at < machines_.size(); ++at) {
      add(machines_[at].position());
      add(machines_[at].is_busy() ? 1 : 0);
      add(machines_[at].ready() ? 1 : 0);
      add(unsent_[at].size());
      add(told_[at] ? 1 : 0);
    }
    for (const auto& [link, message] : links_) {
      add(std::get<0>(link));
      add(std::get<1>(link));
      add(static_cast<std::uint64_t>(std::get<2>(link)));
      add(message.number);
    }
    return text;
  }

 private:
  using Link = std::tuple<std::size_t, std::size_t, StageMessage::Kind>;  // sender, receiver

  Link link_of(std::size_t from, const StageMessage& message) const {
    return {from, first_[message.stage] + message.replica, message.kind};
  }
  bool is_beyond_end(const StageMachine& machine) const {
    return ends_after_ && machine.task().kind == StageTask::Kind::forward &&
           machine.task().number >= *ends_after_;
  }
  static bool needs(const StageMachine& machine, const StageMessage& message) {
    if (machine.is_over()) return message.kind == StageMessage::Kind::share;  // it makes no such update
    if (machine.task().number != message.number) return false;
    switch (machine.task().kind) {
      case StageTask::Kind::forward:
        return message.kind == StageMessage::Kind::activations;
      case StageTask::Kind::backward:
        return message.kind == StageMessage::Kind::gradient;
      case StageTask::Kind::update:
        break;
    }
    return message.kind == StageMessage::Kind::share;
  }

  std::vector<StageMachine> machines_;
  std::vector<std::size_t> first_;
  std::vector<std::pair<std::size_t, std::uint32_t>> places_;  // stage and replica
  std::vector<std::deque<StageMessage>> unsent_;
  std::map<Link, StageMessage> links_;
  std::optional<std::uint64_t> ends_after_;
  std::vector<bool> told_;
};

// Tries all orders of events. Returns the number of states, or 0 if some order ends before the run is over.
std::size_t states_of(const PipelineShape& shape, StageOptions options,
                      std::optional<std::uint64_t> ends_after = std::nullopt) {
  std::set<std::string> seen;
  std::vector<PoorPipeline> open{PoorPipeline(shape, options, ends_after)};
  seen.insert(open.back().state());
  while (!open.empty()) {
    const PoorPipeline pipeline = std::move(open.back());
    open.pop_back();
    auto all = pipeline.next();
    if (all.empty() && !pipeline.is_over()) return 0;
    for (PoorPipeline& after : all)
      if (seen.insert(after.state()).second) open.push_back(std::move(after));
  }
  return seen.size();
}

}  // namespace

TEST_CASE("no order of events stops a straight pipeline, with links that hold one message") {
  for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b,
                              PipelineSchedule::layer_wise, PipelineSchedule::pipedream}) {
    for (std::size_t stages = 1; stages <= 4; ++stages) {
      for (std::uint32_t micro_batches = 1; micro_batches <= 4; ++micro_batches) {
        if (!pipeline_traits(schedule).splits && micro_batches > 1) continue;
        const PipelineShape shape{std::vector<std::uint32_t>(stages, 1), schedule, micro_batches, 2};
        INFO(pipeline_traits(schedule).name << ", " << stages << " stages, " << micro_batches
                                            << " micro-batches");
        REQUIRE(states_of(shape, {}) > 0);
      }
    }
  }
}

TEST_CASE("no order of events stops a pipeline whose stages have replicas") {
  for (const std::vector<std::uint32_t>& replicas :
       {std::vector<std::uint32_t>{2, 1}, {1, 2}, {2, 2}, {2, 1, 1}, {1, 2, 1}, {3, 1}}) {
    std::uint32_t round = 1;
    for (const std::uint32_t r : replicas) round = std::max(round, r);
    for (const auto schedule :
         {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b, PipelineSchedule::pipedream}) {
      const bool flushes = pipeline_traits(schedule).flushes;
      const PipelineShape shape{replicas, schedule, flushes ? round : 1, flushes ? 1U : 2 * round};
      INFO(pipeline_traits(schedule).name << ", " << replicas.size() << " stages, " << replicas[0]
                                          << " replicas first");
      REQUIRE(states_of(shape, {.stash = true, .vertical_sync = !flushes}) > 0);
    }
  }
}

TEST_CASE("no order of events stops a pipeline whose end is told in the middle") {
  for (std::size_t stages = 1; stages <= 3; ++stages) {
    for (std::uint64_t count = 1; count <= 4; ++count) {
      for (const std::uint32_t updates_after : {1U, 2U}) {
        const PipelineShape shape{std::vector<std::uint32_t>(stages, 1), PipelineSchedule::pipedream,
                                  updates_after, 6};
        INFO(stages << " stages, " << count << " micro-batches, an update for " << updates_after);
        REQUIRE(states_of(shape, {}, count) > 0);
        REQUIRE(states_of(shape, {.stash = true, .vertical_sync = true}, count) > 0);
      }
    }
  }
}

TEST_CASE("no order of events stops a pipeline with replicas whose end is told in the middle") {
  for (const std::vector<std::uint32_t>& replicas :
       {std::vector<std::uint32_t>{2, 1}, {1, 2}, {3, 1}, {2, 2}, {2, 1, 1}}) {
    const bool has_four = replicas.size() == 3 || replicas == std::vector<std::uint32_t>{2, 2};
    if (has_four && kSanitized) continue;  // many states
    for (std::uint64_t count = 1; count <= (has_four ? 3U : 4U); ++count) {
      for (const std::uint32_t updates_after : {1U, 2U}) {
        const PipelineShape shape{replicas, PipelineSchedule::pipedream, updates_after, 6};
        INFO(replicas.size() << " stages, " << replicas[0] << " replicas first, " << count
                             << " micro-batches, an update for " << updates_after);
        REQUIRE(states_of(shape, {}, count) > 0);
      }
    }
  }
}

TEST_CASE("a run cannot end before what has begun, nor later than planned") {
  const PipelineShape shape{{1, 1}, PipelineSchedule::pipedream, 1, 4};
  StageMachine first(shape, 0, 0);
  for (int i = 0; i < 2; ++i) {
    first.begin();
    CHECK(first.finish().size() == 1);
  }
  CHECK(first.end_after(1).error().message ==
        "stage 0 cannot end after 1 micro-batches: it has begun 2 of 4");
  CHECK_FALSE(first.end_after(4).ok());
  CHECK(first.end_after(2).ok());
  CHECK(first.task().kind == StageTask::Kind::backward);
  CHECK_FALSE(first.arrived({StageMessage::Kind::gradient, 2, 0, 0, 0, 0}).ok());
}

}  // namespace starling::training
