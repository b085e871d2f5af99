#include "training/pipeline/stages/staged_network.h"

#include <numeric>
#include <optional>
#include <vector>

#include "base/check.h"
#include "training/pipeline/machine.h"
#include "training/pipeline/stages/stage_links.h"
#include "training/pipeline/stages/stage_threads.h"

namespace starling::training {

struct StagedNetwork::Impl {
  const models::Plan& plan;
  StagedOptions options;
  PipelineShape shape;
  int batch, micro;  // samples
  StageParts parts;
  StageInboxes inboxes;
  std::vector<std::vector<StageMessage>> arrived;  // scratch, by part

  // The batch under way.
  const float* parameters = nullptr;
  const float* inputs = nullptr;
  const std::int32_t* labels = nullptr;
  float* gradient = nullptr;
  std::vector<const float*> settled;    // the parameters as each part reads them
  std::vector<kernels::Buffer> copies;  // of the parts on devices
  std::vector<kernels::Buffer> sums;    // of all replicas but the first
  std::vector<double> losses;           // sums, by part
  std::uint64_t draws = 0;              // micro-batches before it

  std::optional<StageThreads> threads;  // last: they use all others

  Impl(const models::Plan& of, const kernels::Backend& on, int samples, const StagedOptions& given)
      : plan(of),
        options(given),
        shape(shape_of(given)),
        batch(samples),
        micro(samples / static_cast<int>(given.micro_batches)),
        parts(of, on, micro, shape, given),
        inboxes(shape),
        arrived(parts.parts()),
        settled(parts.parts()),
        copies(parts.parts()),
        sums(parts.parts()),
        losses(parts.parts()) {
    STARLING_CHECK(check_stages(of, samples, given).ok() && pipeline_traits(given.schedule).flushes);
    for (std::size_t p = 0; p < parts.parts(); ++p)
      if (parts.replica_of(p) > 0) sums[p] = kernels::Buffer(of.layout.arena_size());
    threads.emplace(
        parts.parts(), [this](std::size_t p) { compute(p); }, [this] { inboxes.stop(); });
  }

  const float* inputs_of(std::uint64_t number) const {
    return inputs + number * static_cast<std::size_t>(micro * plan.spec.input.size());
  }
  const std::int32_t* labels_of(std::uint64_t number) const {
    return labels + number * static_cast<std::size_t>(micro * plan.labels());
  }

  // The arena of a part's sum.
  float* sum_of(std::size_t p) { return sums[p].size() > 0 ? sums[p].data() : gradient; }
  // The micro-batches of a part.
  std::uint32_t share_of(std::size_t p) const {
    return options.micro_batches / shape.replicas[parts.stage_of(p)];
  }

  // `before`: backward passes of the part in this batch.
  void backward(std::size_t p, std::uint64_t number, std::uint32_t before) {
    losses[p] += parts.backward(p, number, draws + number, settled[p], inputs_of(number), labels_of(number));
    pool_statistics(p, before == 0);
    parts.sum_gradient(p, before == 0, sum_of(p));
    // The first replica adds this sum after a message.
    if (parts.replica_of(p) > 0 && before + 1 == share_of(p)) parts.finish_sum(p, sum_of(p));
  }

  void pool_statistics(std::size_t p, bool is_first) {
    if (options.micro_batches == 1) return;
    const float* const change = parts.statistics_change(p);
    for (StatisticsPool& pool : parts.statistics(p)) {
      if (is_first) pool.clear();
      pool.add(change);
    }
  }

  // The sums of all replicas of a stage become the mean. The first replica does it.
  void finish(std::size_t p) {
    if (parts.replica_of(p) > 0) return;
    parts.finish_sum(p, gradient);
    const std::size_t replicas = shape.replicas[parts.stage_of(p)];
    for (std::size_t other = p + 1; other < p + replicas; ++other) add_replica(p, other);
    parts.scale_sum(p, gradient, 1 / static_cast<float>(options.micro_batches));
    if (options.micro_batches == 1) return;
    for (const StatisticsPool& pool : parts.statistics(p))
      pool.write(parameters, options.micro_batches, gradient);
  }

  void add_replica(std::size_t p, std::size_t other) {
    const float* const sum = sums[other].data();
    for (const auto& [begin, end] : parts.ranges(p))
      for (std::size_t i = begin; i < end; ++i) gradient[i] += sum[i];
    for (std::size_t k = 0; k < parts.statistics(p).size(); ++k)
      parts.statistics(p)[k].add(parts.statistics(other)[k]);
  }

  void compute(std::size_t p) {
    StageMachine machine(shape, parts.stage_of(p), parts.replica_of(p));
    settled[p] = parts.settle(p, parameters, copies[p]);
    losses[p] = 0;
    std::uint32_t passes = 0;  // backward
    while (!machine.is_over()) {
      if (!machine.ready()) {
        arrived[p].clear();
        if (!inboxes.await(p, arrived[p])) return;
        for (const StageMessage& message : arrived[p]) STARLING_CHECK(machine.arrived(message).ok());
        continue;
      }
      const StageTask task = machine.begin().task;
      if (task.kind == StageTask::Kind::forward)
        parts.forward(p, task.number, draws + task.number, settled[p], inputs_of(task.number));
      if (task.kind == StageTask::Kind::backward) backward(p, task.number, passes++);
      if (task.kind == StageTask::Kind::update) finish(p);
      for (const StageMessage& message : machine.finish()) inboxes.send(message);
    }
  }

  double train(const float* x, const float* batch_inputs, const std::int32_t* batch_labels, float* out) {
    parameters = x;
    inputs = batch_inputs;
    labels = batch_labels;
    gradient = out;
    inboxes.clear();
    threads->run();
    draws += options.micro_batches;
    return std::accumulate(losses.begin(), losses.end(), 0.0) / (batch * plan.labels());
  }
};

StagedNetwork::StagedNetwork(const models::Plan& plan, const kernels::Backend& backend, int batch,
                             const StagedOptions& options)
    : impl_(std::make_unique<Impl>(plan, backend, batch, options)) {}
StagedNetwork::~StagedNetwork() = default;

std::size_t StagedNetwork::parts() const { return impl_->parts.parts(); }
int StagedNetwork::predictions() const { return impl_->batch * impl_->plan.labels(); }

double StagedNetwork::train(const float* parameters, const float* inputs, const std::int32_t* labels,
                            float* gradient) {
  return impl_->train(parameters, inputs, labels, gradient);
}

void StagedNetwork::set_draws(std::uint64_t batches) {
  impl_->draws = batches * impl_->options.micro_batches;
}

void StagedNetwork::on_each_thread(const std::function<void(std::size_t)>& settle) {
  impl_->threads->run(settle);
}

StageMemory StagedNetwork::memory(std::size_t part) const {
  StageMemory memory = impl_->parts.memory(part);
  if (!impl_->parts.is_on_device(part)) memory.gradients += impl_->sums[part].bytes();
  return memory;
}

}  // namespace starling::training
