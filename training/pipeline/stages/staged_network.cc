#include "training/pipeline/stages/staged_network.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/check.h"
#include "training/pipeline/machine.h"
#include "training/pipeline/stages/stage_links.h"
#include "training/pipeline/stages/stage_threads.h"

namespace starling::training {
namespace {

PipelineShape shape_of(const StagedOptions& options) {
  return {std::vector<std::uint32_t>(options.cuts.size() + 1, 1), options.schedule, options.micro_batches, 1};
}

}  // namespace

struct StagedNetwork::Impl {
  const models::Plan& plan;
  StagedOptions options;
  PipelineShape shape;
  int batch, micro;  // samples
  StageParts parts;
  StageInboxes inboxes;
  std::vector<std::vector<StageMessage>> arrived;  // scratch, by stage

  // The batch under way.
  const float* parameters = nullptr;
  const float* inputs = nullptr;
  const std::int32_t* labels = nullptr;
  float* gradient = nullptr;
  std::vector<const float*> settled;    // the parameters as each stage reads them
  std::vector<kernels::Buffer> copies;  // of the stages on devices
  double loss_sum = 0;
  std::uint64_t draws = 0;  // micro-batches before it

  std::optional<StageThreads> threads;  // last: they use all others

  Impl(const models::Plan& of, const kernels::Backend& on, int samples, const StagedOptions& given)
      : plan(of),
        options(given),
        shape(shape_of(given)),
        batch(samples),
        micro(samples / static_cast<int>(given.micro_batches)),
        parts(of, on, micro, shape, given),
        inboxes(shape.stages()),
        arrived(shape.stages()),
        settled(shape.stages()),
        copies(shape.stages()) {
    STARLING_CHECK(check_stages(of, samples, given).ok() && pipeline_traits(given.schedule).flushes);
    threads.emplace(
        parts.stages(), [this](std::size_t s) { compute(s); }, [this] { inboxes.stop(); });
  }

  const float* inputs_of(std::uint64_t number) const {
    return inputs + number * static_cast<std::size_t>(micro * plan.spec.input.size());
  }
  const std::int32_t* labels_of(std::uint64_t number) const {
    return labels + number * static_cast<std::size_t>(micro * plan.labels());
  }

  void backward(std::size_t s, std::uint64_t number, bool is_first) {
    const double loss =
        parts.backward(s, number, draws + number, settled[s], inputs_of(number), labels_of(number));
    if (parts.is_last(s)) loss_sum += loss;
    pool_statistics(s, is_first);
    parts.sum_gradient(s, is_first, gradient);
  }

  void pool_statistics(std::size_t s, bool is_first) {
    if (options.micro_batches == 1) return;
    const float* const change = parts.statistics_change(s);
    for (StatisticsPool& pool : parts.statistics(s)) {
      if (is_first) pool.clear();
      pool.add(change);
    }
  }

  // The sum becomes the mean.
  void finish(std::size_t s) {
    parts.finish_sum(s, gradient, 1 / static_cast<float>(options.micro_batches));
    if (options.micro_batches == 1) return;
    for (const StatisticsPool& pool : parts.statistics(s))
      pool.write(parameters, options.micro_batches, gradient);
  }

  void compute(std::size_t s) {
    StageMachine machine(shape, s, 0);
    settled[s] = parts.settle(s, parameters, copies[s]);
    bool is_first = true;
    while (!machine.is_over()) {
      if (!machine.ready()) {
        arrived[s].clear();
        if (!inboxes.await(s, arrived[s])) return;
        for (const StageMessage& message : arrived[s]) STARLING_CHECK(machine.arrived(message).ok());
        continue;
      }
      const StageTask task = machine.begin().task;
      if (task.kind == StageTask::Kind::forward)
        parts.forward(s, task.number, draws + task.number, settled[s], inputs_of(task.number));
      if (task.kind == StageTask::Kind::backward) {
        backward(s, task.number, is_first);
        is_first = false;
      }
      if (task.kind == StageTask::Kind::update) finish(s);
      for (const StageMessage& message : machine.finish()) inboxes.send(message);
    }
  }

  double train(const float* x, const float* batch_inputs, const std::int32_t* batch_labels, float* out) {
    parameters = x;
    inputs = batch_inputs;
    labels = batch_labels;
    gradient = out;
    loss_sum = 0;
    inboxes.clear();
    threads->run();
    draws += options.micro_batches;
    return loss_sum / (batch * plan.labels());
  }
};

StagedNetwork::StagedNetwork(const models::Plan& plan, const kernels::Backend& backend, int batch,
                             const StagedOptions& options)
    : impl_(std::make_unique<Impl>(plan, backend, batch, options)) {}
StagedNetwork::~StagedNetwork() = default;

std::size_t StagedNetwork::stages() const { return impl_->parts.stages(); }
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

StageMemory StagedNetwork::memory(std::size_t stage) const { return impl_->parts.memory(stage); }

}  // namespace starling::training
