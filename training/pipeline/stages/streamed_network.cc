#include "training/pipeline/stages/streamed_network.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/aligned.h"
#include "base/check.h"
#include "training/pipeline/machine.h"
#include "training/pipeline/stages/stage_threads.h"

namespace starling::training {
namespace {

using Kind = StageTask::Kind;

PipelineShape stream_shape(const StagedOptions& options) {
  const std::uint64_t updates = StreamedNetwork::kLongest / options.micro_batches;
  return {std::vector<std::uint32_t>(options.cuts.size() + 1, 1), options.schedule, options.micro_batches,
          std::max<std::uint64_t>(1, updates)};
}

// A shape whose stages keep as many micro-batches at a time as those of a stream.
PipelineShape short_shape(const StagedOptions& options) {
  PipelineShape shape = stream_shape(options);
  shape.batches = std::min<std::uint64_t>(shape.batches, options.cuts.size() + 2);
  return shape;
}

}  // namespace

struct StreamedNetwork::Impl {
  // A batch under way, from feed() until the first stage has updated.
  struct Batch {
    std::vector<float> inputs;
    std::vector<std::int32_t> labels;
    double rate_factor = 1, loss = 0;
  };
  struct Version {
    AlignedBytes arena{};    // of which only what the stage reads is written, and so takes memory
    kernels::Buffer copy{};  // of a stage on a device
    const float* values = nullptr;
  };
  struct Stage {
    std::optional<StageMachine> machine{};
    std::map<std::uint64_t, Version> versions{};
    std::vector<Version> spare{};
    kernels::Buffer sum{};     // gradients since the last update, if there are several
    std::uint64_t passes = 0;  // backward passes of the stream
    std::uint64_t summed = 0;  // of these since the last update
    std::vector<StageMessage> arrived{};
  };

  const models::Plan& plan;
  StagedOptions options;
  PipelineShape shape;
  int batch;
  Apply apply{};
  kernels::Memory& memory;
  StageParts parts;
  StageInboxes inboxes;
  std::vector<Stage> stages;
  std::vector<Batch> batches;  // by number, modulo their count

  const models::Arena* arena = nullptr;
  std::uint64_t draws = 0;  // batches before the stream
  std::uint64_t fed = 0, landed = 0;
  bool runs = false, ends = false;

  std::optional<StageThreads> threads;  // last: they use all others

  Impl(const models::Plan& of, const kernels::Backend& on, int samples, const StagedOptions& given)
      : plan(of),
        options(given),
        shape(stream_shape(given)),
        batch(samples),
        memory(on.memory()),
        parts(of, on, samples, short_shape(given), given),
        inboxes(shape.stages()),
        stages(shape.stages()),
        batches(shape.stages() + 1) {
    STARLING_CHECK(check_stages(of, samples, given).ok() && !pipeline_traits(given.schedule).flushes);
    for (Batch& it : batches) {
      it.inputs.resize(static_cast<std::size_t>(samples) * static_cast<std::size_t>(of.spec.input.size()));
      it.labels.resize(static_cast<std::size_t>(samples) * static_cast<std::size_t>(of.labels()));
    }
    if (given.micro_batches > 1)
      for (Stage& stage : stages) stage.sum = kernels::Buffer(of.layout.arena_size(), memory);
    threads.emplace(
        stages.size(), [this](std::size_t s) { work(s); }, [this] { inboxes.stop(); });
  }

  Batch& batch_of(std::uint64_t number) { return batches[number % batches.size()]; }

  // ---- versions of parameters ----

  // The parameters of a version: the newest ones are copied when a pass first needs them.
  const float* version_of(std::size_t s, std::uint64_t version) {
    Stage& stage = stages[s];
    const auto [place, fresh] = stage.versions.try_emplace(version);
    if (fresh) place->second = copy_of_newest(s);
    return place->second.values;
  }

  Version copy_of_newest(std::size_t s) {
    Stage& stage = stages[s];
    Version version;
    if (stage.spare.empty()) {
      version.arena = AlignedBytes(plan.layout.arena_size() * sizeof(float));
    } else {
      version = std::move(stage.spare.back());
      stage.spare.pop_back();
    }
    auto* const floats = reinterpret_cast<float*>(version.arena.bytes().data());
    for (const auto& [begin, end] : parts.reads(s)) arena->read(begin, {floats + begin, end - begin});
    version.values = parts.settle(s, floats, version.copy);
    return version;
  }

  // Drops the versions that no pass will need.
  void drop_versions(std::size_t s) {
    Stage& stage = stages[s];
    while (!stage.versions.empty() && stage.versions.begin()->first < stage.machine->oldest_version()) {
      stage.spare.push_back(std::move(stage.versions.begin()->second));
      stage.versions.erase(stage.versions.begin());
    }
  }

  // ---- a stage ----

  // Does the next task, which is ready.
  void do_task(std::size_t s) {
    Stage& stage = stages[s];
    const StageWork work = stage.machine->begin();
    Batch& its = batch_of(work.task.number);
    const std::uint64_t number = work.task.number;
    if (work.task.kind == Kind::forward) {
      parts.forward(s, number, draws + number, version_of(s, work.version), its.inputs.data());
    } else if (work.task.kind == Kind::backward) {
      const double loss = parts.backward(s, number, draws + number, version_of(s, work.version),
                                         its.inputs.data(), its.labels.data());
      if (parts.is_last(s)) its.loss = loss;
      keep_gradient(s);
    } else {
      update(s, number);
    }
    for (const StageMessage& message : stage.machine->finish()) inboxes.send(message);
    drop_versions(s);
    // With vertical sync a later pass may need this version, which only exists now.
    if (work.task.kind == Kind::update && options.vertical_sync) version_of(s, stage.machine->version());
  }

  void keep_gradient(std::size_t s) {
    Stage& stage = stages[s];
    ++stage.passes;
    const bool is_first = stage.summed++ == 0;
    if (stage.sum.size() == 0) return;
    const float* const from = parts.gradient(s);
    float* const to = stage.sum.data();
    for (const auto& [begin, end] : parts.ranges(s)) {
      if (is_first) {
        std::copy(from + begin, from + end, to + begin);
      } else {
        for (std::size_t i = begin; i < end; ++i) to[i] += from[i];
      }
    }
  }

  void update(std::size_t s, std::uint64_t number) {
    Stage& stage = stages[s];
    const auto count = static_cast<float>(std::exchange(stage.summed, 0));
    const float* gradient = parts.gradient(s);
    if (stage.sum.size() > 0) {
      for (const auto& [begin, end] : parts.ranges(s))
        for (std::size_t i = begin; i < end; ++i) stage.sum.data()[i] /= count;
      gradient = stage.sum.data();
    }
    apply({s, gradient, batch_of(stage.passes - 1).rate_factor, number});
  }

  // Takes what has arrived, after waiting for something. False if the stages have to stop.
  bool take_messages(std::size_t s) {
    Stage& stage = stages[s];
    stage.arrived.clear();
    if (!inboxes.await(s, stage.arrived)) return false;
    for (const StageMessage& message : stage.arrived) STARLING_CHECK(stage.machine->arrived(message).ok());
    return true;
  }

  // The thread of a stage but the first.
  void work(std::size_t s) {
    while (!stages[s].machine->is_over()) {
      if (stages[s].machine->ready()) {
        do_task(s);
      } else if (!take_messages(s)) {
        return;
      }
    }
  }

  // ---- the stream ----

  void begin_stream() {
    draws += fed;
    fed = landed = 0;
    ends = false;
    inboxes.clear();
    for (std::size_t s = 0; s < stages.size(); ++s) {
      Stage& stage = stages[s];
      for (auto& [version, values] : stage.versions) stage.spare.push_back(std::move(values));
      stage.versions.clear();
      stage.passes = stage.summed = 0;
      stage.machine.emplace(shape, s, 0, StageOptions{options.stash, options.vertical_sync});
      if (options.vertical_sync) version_of(s, 0);
    }
    threads->start();
    runs = true;
  }

  void end_stream() {
    ends = true;
    if (fed == shape.all_micro_batches()) return;  // the machines know
    STARLING_CHECK(stages[0].machine->end_after(fed).ok());
    for (std::size_t s = 1; s < stages.size(); ++s) inboxes.send({StageMessage::Kind::end, fed, 0, s, 0, 0});
  }

  // The first stage's tasks up to the next update that ends the oldest batch, or up to its backward pass if
  // others follow before the update.
  double complete_oldest() {
    StageMachine& machine = *stages[0].machine;
    const std::uint64_t oldest = landed;
    for (bool passed = false; !passed || (!machine.is_over() && machine.task().kind == Kind::update);) {
      if (!machine.ready()) {
        if (take_messages(0)) continue;
        runs = false;
        threads->finish();  // throws
        STARLING_CHECK(false);
      }
      passed = passed || machine.task().kind == Kind::backward;
      do_task(0);
    }
    ++landed;
    finish_if_over();
    return batch_of(oldest).loss / (static_cast<double>(batch) * plan.labels());
  }

  void finish_if_over() {
    if (!stages[0].machine->is_over()) return;
    threads->finish();
    runs = false;
  }

  std::optional<double> feed(const models::Arena& to, const float* inputs, const std::int32_t* labels,
                             double rate_factor) {
    STARLING_CHECK(!must_land());
    if (!runs) {
      arena = &to;
      begin_stream();
    }
    Batch& its = batch_of(fed);
    std::copy_n(inputs, its.inputs.size(), its.inputs.data());
    std::copy_n(labels, its.labels.size(), its.labels.data());
    its.rate_factor = rate_factor;
    ++fed;
    do_task(0);
    if (fed == shape.all_micro_batches()) end_stream();
    const bool is_full = stages[0].machine->task().kind == Kind::backward && !ends;
    return is_full || ends ? std::optional(complete_oldest()) : std::nullopt;
  }

  bool must_land() const { return runs && ends; }

  std::optional<double> land() {
    if (runs && !ends) end_stream();
    if (fed > landed) return complete_oldest();
    // A single stage has nothing under way, but perhaps an update to make with fewer batches than others.
    while (runs && !stages[0].machine->is_over()) do_task(0);
    if (runs) finish_if_over();
    return std::nullopt;
  }
};

StreamedNetwork::StreamedNetwork(const models::Plan& plan, const kernels::Backend& backend, int batch,
                                 const StagedOptions& options)
    : impl_(std::make_unique<Impl>(plan, backend, batch, options)) {}

StreamedNetwork::~StreamedNetwork() {
  if (!impl_->runs) return;
  impl_->inboxes.stop();
  try {
    impl_->threads->finish();
  } catch (...) {  // the caller has seen a stage fail
  }
}

void StreamedNetwork::set_apply(Apply apply) { impl_->apply = std::move(apply); }

std::size_t StreamedNetwork::stages() const { return impl_->parts.stages(); }
int StreamedNetwork::predictions() const { return impl_->batch * impl_->plan.labels(); }
const std::vector<FloatRange>& StreamedNetwork::ranges(std::size_t stage) const {
  return impl_->parts.ranges(stage);
}

std::optional<double> StreamedNetwork::feed(const models::Arena& arena, const float* inputs,
                                            const std::int32_t* labels, double rate_factor) {
  return impl_->feed(arena, inputs, labels, rate_factor);
}

std::optional<double> StreamedNetwork::land() { return impl_->land(); }
bool StreamedNetwork::must_land() const { return impl_->must_land(); }
std::size_t StreamedNetwork::in_flight() const {
  return static_cast<std::size_t>(impl_->fed - impl_->landed);
}

void StreamedNetwork::set_draws(std::uint64_t batches) {
  STARLING_CHECK(in_flight() == 0);
  impl_->draws = batches;
  impl_->fed = impl_->landed = 0;
}

void StreamedNetwork::on_each_thread(const std::function<void(std::size_t)>& settle) {
  impl_->threads->run(settle);
}

StageMemory StreamedNetwork::memory(std::size_t stage) const {
  StageMemory memory = impl_->parts.memory(stage);
  memory.versions = impl_->parts.places(stage) * impl_->parts.read_bytes(stage);
  if (impl_->options.micro_batches > 1) memory.gradients *= 2;
  return memory;
}

}  // namespace starling::training
