#include "training/pipeline/stages/streamed_network.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/aligned.h"
#include "base/check.h"
#include "training/pipeline/machine.h"
#include "training/pipeline/stages/stage_threads.h"

namespace starling::training {
namespace {

using Kind = StageTask::Kind;

// A shape whose parts keep as many micro-batches at a time as those of a stream.
PipelineShape short_shape(const StagedOptions& options) {
  const PipelineShape stream = StreamedNetwork::longest_stream(options);
  const PipelineShape shape = shape_of(options, stream.all_replicas() + 1);
  return shape.batches < stream.batches ? shape : stream;
}

// The most batches that are between their forward and backward passes in the first stage.
std::size_t most_under_way(const PipelineShape& shape) {
  return shape.replicas[0] * (warm_up_passes(shape, 0) + 1);
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
  // A replica of a stage.
  struct PartState {
    std::optional<StageMachine> machine{};
    std::map<std::uint64_t, Version> versions{};
    std::vector<Version> spare{};
    kernels::Buffer sum{};            // gradients since the last update, if there are several
    const float* gradient = nullptr;  // the latest one
    std::uint64_t latest = 0;         // the batch of its latest backward pass
    std::uint64_t summed = 0;         // backward passes since the last update
    std::vector<StageMessage> arrived{};
    std::uint64_t passes = 0;             // backward passes of the stream
    std::atomic<std::uint64_t> left = 0;  // of these, those that an update has followed if it had to
  };
  // What the replicas of a stage share.
  struct Stage {
    std::mutex mutex{};
    std::uint64_t updates = 0;  // of the stream; the replica that comes first makes it
  };

  const models::Plan& plan;
  StagedOptions options;
  PipelineShape shape;
  int batch;
  Apply apply{};
  kernels::Memory& memory;
  StageParts parts;
  StageInboxes inboxes;
  std::vector<PartState> states;
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
        shape(longest_stream(given)),
        batch(samples),
        memory(on.memory()),
        parts(of, on, samples, short_shape(given), given),
        inboxes(shape),
        states(parts.parts()),
        stages(shape.stages()),
        batches(most_under_way(shape) + 1) {
    STARLING_CHECK(check_stages(of, samples, given).ok() && !pipeline_traits(given.schedule).flushes);
    for (Batch& it : batches) {
      it.inputs.resize(static_cast<std::size_t>(samples) * static_cast<std::size_t>(of.spec.input.size()));
      it.labels.resize(static_cast<std::size_t>(samples) * static_cast<std::size_t>(of.labels()));
    }
    for (std::size_t p = 0; p < states.size(); ++p)
      if (sums(p)) states[p].sum = kernels::Buffer(of.layout.arena_size(), memory);
    threads.emplace(
        states.size(), [this](std::size_t p) { work(p); }, [this] { inboxes.stop(); });
  }

  // Whether the part sums gradients: its own, or as the first replica those of all replicas.
  bool sums(std::size_t p) const {
    return options.micro_batches > 1 || (parts.replica_of(p) == 0 && shape.replicas[parts.stage_of(p)] > 1);
  }

  Batch& batch_of(std::uint64_t number) { return batches[number % batches.size()]; }

  // ---- versions of parameters ----

  // The parameters of a version: the newest ones are copied when a pass first needs them.
  const float* version_of(std::size_t p, std::uint64_t version) {
    const auto [place, fresh] = states[p].versions.try_emplace(version);
    if (fresh) place->second = copy_of_newest(p);
    return place->second.values;
  }

  Version copy_of_newest(std::size_t p) {
    PartState& part = states[p];
    Version version;
    if (part.spare.empty()) {
      version.arena = AlignedBytes(plan.layout.arena_size() * sizeof(float));
    } else {
      version = std::move(part.spare.back());
      part.spare.pop_back();
    }
    auto* const floats = reinterpret_cast<float*>(version.arena.bytes().data());
    for (const auto& [begin, end] : parts.reads(p)) arena->read(begin, {floats + begin, end - begin});
    version.values = parts.settle(p, floats, version.copy);
    return version;
  }

  // Drops the versions that no pass will need.
  void drop_versions(std::size_t p) {
    PartState& part = states[p];
    while (!part.versions.empty() && part.versions.begin()->first < part.machine->oldest_version()) {
      part.spare.push_back(std::move(part.versions.begin()->second));
      part.versions.erase(part.versions.begin());
    }
  }

  // ---- a part ----

  // Does the next task, which is ready.
  void do_task(std::size_t p) {
    PartState& part = states[p];
    const StageWork work = part.machine->begin();
    const std::uint64_t number = work.task.number;
    if (work.task.kind == Kind::forward) {
      parts.forward(p, number, draws + number, version_of(p, work.version), batch_of(number).inputs.data());
    } else if (work.task.kind == Kind::backward) {
      Batch& batch_under_way = batch_of(number);
      const double loss = parts.backward(p, number, draws + number, version_of(p, work.version),
                                         batch_under_way.inputs.data(), batch_under_way.labels.data());
      if (parts.is_last(p)) batch_under_way.loss = loss;
      keep_gradient(p, number);
    } else {
      update(p, number);
    }
    for (const StageMessage& message : part.machine->finish()) inboxes.send(message);
    drop_versions(p);
    // With vertical sync a later pass may need this version, which only exists now.
    if (work.task.kind == Kind::update && options.vertical_sync) version_of(p, part.machine->version());
    if (work.task.kind != Kind::forward && parts.stage_of(p) == 0) count_left(p);
  }

  void keep_gradient(std::size_t p, std::uint64_t number) {
    PartState& part = states[p];
    part.latest = number;
    ++part.passes;
    const bool is_first = part.summed++ == 0;
    part.gradient = parts.gradient(p);
    if (part.sum.size() == 0) return;
    float* const to = part.sum.data();
    for (const auto& [begin, end] : parts.ranges(p)) {
      if (is_first) {
        std::copy(part.gradient + begin, part.gradient + end, to + begin);
      } else {
        for (std::size_t i = begin; i < end; ++i) to[i] += part.gradient[i];
      }
    }
    part.gradient = to;
  }

  // All replicas of the stage have said that their gradients are there, and wait for this update.
  void update(std::size_t p, std::uint64_t number) {
    const std::size_t s = parts.stage_of(p);
    Stage& stage = stages[s];
    const std::lock_guard lock(stage.mutex);
    if (stage.updates > number) return;  // another replica has made it
    ++stage.updates;
    const std::size_t first = shape.number_of(s, 0), end = first + states[p].machine->updating(number);
    std::uint64_t latest = 0, count = 0;
    for (std::size_t k = first; k < end; ++k) {
      latest = std::max(latest, states[k].latest);
      count += std::exchange(states[k].summed, 0);
    }
    if (states[first].sum.size() > 0) take_mean(first, end, static_cast<float>(count));
    apply({s, states[first].gradient, batch_of(latest).rate_factor, number});
  }

  // The first part's sum becomes the mean over the parts up to `end`.
  void take_mean(std::size_t first, std::size_t end, float count) {
    float* const sum = states[first].sum.data();
    for (const auto& [begin, beyond] : parts.ranges(first)) {
      for (std::size_t k = first + 1; k < end; ++k)
        for (std::size_t i = begin; i < beyond; ++i) sum[i] += states[k].gradient[i];
      for (std::size_t i = begin; i < beyond; ++i) sum[i] /= count;
    }
  }

  // After a backward pass or an update of the first stage.
  void count_left(std::size_t p) {
    PartState& part = states[p];
    if (!part.machine->is_over() && part.machine->task().kind == Kind::update) return;
    part.left.store(part.passes);
    if (p > 0) inboxes.wake(0);
  }
  // The first stage has updated with the batch, or will after later ones.
  bool has_left(std::uint64_t number) const {
    return states[shape.replica_of(0, number)].left.load() > number / shape.replicas[0];
  }

  // Takes what has arrived, after waiting for something. False if the parts have to stop.
  bool take_messages(std::size_t p) {
    PartState& part = states[p];
    part.arrived.clear();
    if (!inboxes.await(p, part.arrived)) return false;
    for (const StageMessage& message : part.arrived) STARLING_CHECK(part.machine->arrived(message).ok());
    for (const StageMessage& message : part.machine->take_due()) inboxes.send(message);
    return true;
  }

  // The thread of a part but the first.
  void work(std::size_t p) {
    while (!states[p].machine->is_over()) {
      if (states[p].machine->ready()) {
        do_task(p);
      } else if (!take_messages(p)) {
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
    for (Stage& stage : stages) stage.updates = 0;
    for (std::size_t p = 0; p < states.size(); ++p) {
      PartState& part = states[p];
      for (auto& [version, values] : part.versions) part.spare.push_back(std::move(values));
      part.versions.clear();
      part.passes = part.summed = 0;
      part.left.store(0);
      part.machine.emplace(shape, parts.stage_of(p), parts.replica_of(p),
                           StageOptions{options.stash, options.vertical_sync, parts.stage_of(p) == 0});
      if (options.vertical_sync) version_of(p, 0);
    }
    threads->start();
    runs = true;
  }

  void end_stream() {
    ends = true;
    if (fed == shape.all_micro_batches()) return;  // the machines know
    STARLING_CHECK(states[0].machine->end_after(fed).ok());
    for (const StageMessage& message : states[0].machine->take_due()) inboxes.send(message);
    for (std::size_t p = 1; p < states.size(); ++p)
      inboxes.send({StageMessage::Kind::end, fed, 0, parts.stage_of(p), parts.replica_of(p), 0});
  }

  // The first part's next task, or what it waits for.
  void advance() {
    if (states[0].machine->ready()) return do_task(0);
    if (take_messages(0)) return;
    runs = false;
    threads->finish();  // throws
    STARLING_CHECK(false);
  }

  double complete_oldest() {
    const std::uint64_t oldest = landed;
    while (!has_left(oldest)) advance();
    ++landed;
    while (ends && landed == fed && !states[0].machine->is_over()) advance();
    finish_if_over();
    return batch_of(oldest).loss / (static_cast<double>(batch) * plan.labels());
  }

  void finish_if_over() {
    if (landed < fed || !states[0].machine->is_over()) return;
    threads->finish();
    runs = false;
  }

  // The samples of a batch are there.
  void announce(std::uint64_t number) {
    const StageMessage samples{StageMessage::Kind::activations, number, 0, 0, shape.replica_of(0, number), 0};
    if (samples.replica > 0) return inboxes.send(samples);
    STARLING_CHECK(states[0].machine->arrived(samples).ok());
    do_task(0);
  }

  std::optional<double> feed(const models::Arena& to, const float* inputs, const std::int32_t* labels,
                             double rate_factor) {
    STARLING_CHECK(!must_land());
    if (!runs) {
      arena = &to;
      begin_stream();
    }
    Batch& next = batch_of(fed);
    std::copy_n(inputs, next.inputs.size(), next.inputs.data());
    std::copy_n(labels, next.labels.size(), next.labels.data());
    next.rate_factor = rate_factor;
    announce(fed++);
    if (fed == shape.all_micro_batches()) end_stream();
    const bool is_full = fed - landed == most_under_way(shape);
    return is_full || ends ? std::optional(complete_oldest()) : std::nullopt;
  }

  bool must_land() const { return runs && ends; }

  std::optional<double> land() {
    if (runs && !ends) end_stream();
    if (fed > landed) return complete_oldest();
    // All have left, but perhaps there is an update to make with fewer batches than others.
    while (runs && !states[0].machine->is_over()) advance();
    if (runs) finish_if_over();
    return std::nullopt;
  }
};

PipelineShape StreamedNetwork::longest_stream(const StagedOptions& options) {
  const std::uint64_t round = shape_of(options).batches;
  const std::uint64_t rounds = kLongest / options.micro_batches / round;
  return shape_of(options, std::max<std::uint64_t>(1, rounds) * round);
}

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

std::size_t StreamedNetwork::stages() const { return impl_->shape.stages(); }
std::size_t StreamedNetwork::parts() const { return impl_->states.size(); }
std::size_t StreamedNetwork::most_in_flight() const { return most_under_way(impl_->shape) - 1; }
int StreamedNetwork::predictions() const { return impl_->batch * impl_->plan.labels(); }
const std::vector<FloatRange>& StreamedNetwork::ranges(std::size_t stage) const {
  return impl_->parts.ranges(impl_->shape.number_of(stage, 0));
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

StageMemory StreamedNetwork::memory(std::size_t part) const {
  StageMemory memory = impl_->parts.memory(part);
  memory.versions = impl_->parts.places(part) * impl_->parts.read_bytes(part);
  if (!impl_->parts.is_on_device(part)) memory.gradients += impl_->states[part].sum.bytes();
  return memory;
}

}  // namespace starling::training
