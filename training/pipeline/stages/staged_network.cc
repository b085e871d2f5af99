#include "training/pipeline/stages/staged_network.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/check.h"
#include "kernels/buffer.h"
#include "models/lowering.h"
#include "training/pipeline/machine.h"
#include "training/pipeline/stages/stage_links.h"
#include "training/pipeline/stages/stage_threads.h"
#include "training/pipeline/stages/statistics_pool.h"

namespace starling::training {
namespace {

using Range = std::pair<std::size_t, std::size_t>;  // floats of an arena: [first, second)

// A tensor of an earlier stage that this one computes with too: the embedding's weight in the output layer.
// Its gradient goes to the stage that owns it, which adds its own.
struct SharedTensor {
  Range range;
  std::size_t owner, user;             // stages
  std::vector<kernels::Buffer> places  // by micro-batch
      {};
};

struct StageState {
  std::unique_ptr<kernels::Queue> queue;
  std::vector<models::Section> sections;  // by micro-batch; a single one if forward passes are repeated
  std::optional<std::uint64_t> intact;    // the micro-batch of a single section's latest forward pass
  std::vector<Range> ranges;              // that it trains
  std::vector<StatisticsPool> statistics;
  kernels::Buffer own_gradient{};        // of a micro-batch, if it may not share the others' arena
  float* gradient = nullptr;             // of a micro-batch, an arena
  std::uint64_t passes = 0;              // backward passes of the batch
  std::vector<StageMessage> messages{};  // scratch
};

PipelineShape shape_of(const StagedOptions& options) {
  return {std::vector<std::uint32_t>(options.cuts.size() + 1, 1), options.schedule, options.micro_batches, 1};
}

// The stage of each tensor of the layout that has it first.
std::vector<std::optional<std::size_t>> owners_of(const models::Plan& plan, const std::vector<int>& bounds) {
  std::vector<std::optional<std::size_t>> owner(plan.layout.tensors().size());
  for (std::size_t s = 0; s + 1 < bounds.size(); ++s) {
    for (int layer = bounds[s]; layer < bounds[s + 1]; ++layer)
      for (const std::size_t tensor : plan.layers[static_cast<std::size_t>(layer)].tensors)
        if (!owner[tensor]) owner[tensor] = s;
  }
  return owner;
}

}  // namespace

Status check_stages(const models::Plan& plan, int batch, const StagedOptions& options) {
  if (const Status shape = check_shape(shape_of(options)); !shape) return shape;
  const auto layers = static_cast<int>(plan.layers.size());
  if (options.cuts.size() + 1 > plan.layers.size()) {
    return Error{std::to_string(options.cuts.size() + 1) + " stages are impossible: " + plan.spec.name +
                 " has " + std::to_string(layers) + " layers, so at most as many stages"};
  }
  int before = 0;
  for (const int cut : options.cuts) {
    if (cut <= before || cut >= layers) {
      return Error{"a stage cannot begin with layer " + std::to_string(cut) +
                   ": cuts are ascending, from 1 to " + std::to_string(layers - 1)};
    }
    before = cut;
  }
  if (!pipeline_traits(options.schedule).flushes) {
    return Error{"the schedule " + std::string(pipeline_traits(options.schedule).name) +
                 " updates in the middle of a batch; one with a flush is needed"};
  }
  if (batch % static_cast<int>(options.micro_batches) != 0) {
    return Error{"a batch of " + std::to_string(batch) + " samples cannot be divided into " +
                 std::to_string(options.micro_batches) + " micro-batches of equal size"};
  }
  return Done{};
}

struct StagedNetwork::Impl {
  const models::Plan& plan;
  const kernels::Backend& backend;
  StagedOptions options;
  PipelineShape shape;
  int batch, micro;         // samples
  std::vector<int> bounds;  // the first layer of each stage, and the number of layers
  std::vector<StageState> stages;
  std::vector<Crossing> crossings;  // behind each stage but the last
  std::vector<SharedTensor> shared;
  std::unique_ptr<kernels::Loss> loss;
  kernels::Staged<kernels::LossValue> loss_value;
  kernels::Buffer micro_gradient;  // an arena, of which each stage has its part
  StageInboxes inboxes;

  // The batch under way.
  const float* parameters = nullptr;
  const float* inputs = nullptr;
  const std::int32_t* labels = nullptr;
  float* gradient = nullptr;
  double loss_sum = 0;
  std::uint64_t draws = 0;  // micro-batches before it

  std::optional<StageThreads> threads;  // last: they use all others

  Impl(const models::Plan& of, const kernels::Backend& on, int samples, const StagedOptions& given)
      : plan(of),
        backend(on),
        options(given),
        shape(shape_of(given)),
        batch(samples),
        micro(samples / static_cast<int>(given.micro_batches)),
        loss_value(on.staging()),
        micro_gradient(of.layout.arena_size(), on.memory()),
        inboxes(shape.stages()) {
    STARLING_CHECK(check_stages(of, samples, given).ok() && on.memory().on_host());
    bounds = {0};
    bounds.insert(bounds.end(), given.cuts.begin(), given.cuts.end());
    bounds.push_back(static_cast<int>(of.layers.size()));
    build_stages();
    divide_tensors();
    threads.emplace(
        stages.size(), [this](std::size_t s) { compute(s); }, [this] { inboxes.stop(); });
  }

  bool repeats() const { return options.recomputation != Recomputation::never; }
  bool is_last(std::size_t s) const { return s + 1 == stages.size(); }

  // ---- building ----

  void build_stages() {
    const models::Lowered lowered = models::lower(plan, options.seed);
    std::vector<models::Border> borders{models::batch_border(plan, lowered, backend, micro)};
    stages.resize(shape.stages());
    for (std::size_t s = 0; s < stages.size(); ++s) {
      StageState& stage = stages[s];
      stage.queue = backend.make_queue();
      const std::size_t kept = most_in_flight(tasks_of(shape, s, 0));
      for (std::size_t k = 0; k < (repeats() ? 1 : kept); ++k)
        stage.sections.emplace_back(plan, lowered, backend, *stage.queue,
                                    models::SectionOptions{.batch = micro,
                                                           .purpose = models::Purpose::train,
                                                           .recompute = false,
                                                           .begin = bounds[s],
                                                           .end = bounds[s + 1],
                                                           .inputs = borders});
      borders = stage.sections.front().outputs();
      if (!is_last(s)) crossings.emplace_back(borders, kept, backend.memory());
    }
    loss = backend.softmax_cross_entropy(*stages.back().queue, borders.back().activation);
  }

  void divide_tensors() {
    const auto owner = owners_of(plan, bounds);
    std::set<Range> seen;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      StageState& stage = stages[s];
      for (int layer = bounds[s]; layer < bounds[s + 1]; ++layer) {
        const models::LayerInfo& info = plan.layers[static_cast<std::size_t>(layer)];
        for (const std::size_t tensor : info.tensors) give_tensor(s, tensor, *owner[tensor], seen);
        if (models::running_statistics(info)) stage.statistics.emplace_back(plan, info, micro);
      }
      stage.gradient = stage.own_gradient.size() > 0 ? stage.own_gradient.data() : micro_gradient.data();
    }
  }

  void give_tensor(std::size_t s, std::size_t tensor, std::size_t owner, std::set<Range>& seen) {
    const models::Tensor& it = plan.layout.tensors()[tensor];
    const Range range{it.offset, it.offset + it.size};
    if (owner == s) {
      if (seen.insert(range).second) stages[s].ranges.push_back(range);
      return;
    }
    SharedTensor& tied = shared.emplace_back(SharedTensor{range, owner, s});
    for (std::size_t k = most_in_flight(tasks_of(shape, owner, 0)); k > 0; --k)
      tied.places.emplace_back(it.size, backend.memory());
    if (stages[s].own_gradient.size() == 0)
      stages[s].own_gradient = kernels::Buffer(plan.layout.arena_size(), backend.memory());
  }

  // ---- a micro-batch ----

  models::Section& section(std::size_t s, std::uint64_t number) {
    auto& sections = stages[s].sections;
    return sections[number % sections.size()];
  }

  // What the stage reads of a micro-batch. `batch_input` is where the first stage's pointer is kept.
  std::span<const float* const> inputs_of(std::size_t s, std::uint64_t number, const float*& batch_input) {
    if (s > 0) return crossings[s - 1].values(number);
    batch_input = inputs + number * static_cast<std::size_t>(micro * plan.spec.input.size());
    return {&batch_input, 1};
  }

  void forward(std::size_t s, std::uint64_t number) {
    const float* batch_input = nullptr;
    const auto read = inputs_of(s, number, batch_input);
    models::Section& it = section(s, number);
    it.set_draws(draws + number);
    it.forward(parameters, read);
    stages[s].intact = number;
    if (!is_last(s)) crossings[s].put(number, it, read);
  }

  void backward(std::size_t s, std::uint64_t number) {
    StageState& stage = stages[s];
    const float* batch_input = nullptr;
    const auto read = inputs_of(s, number, batch_input);
    models::Section& it = section(s, number);
    const bool is_there = stage.intact == number && options.recomputation == Recomputation::except_last;
    if (repeats() && !is_there) {
      it.set_draws(draws + number + 1);  // as after its forward pass
      it.forward_again(parameters, read);
      stage.intact = number;
    }
    if (is_last(s)) {
      const std::size_t first_label = number * static_cast<std::size_t>(micro * plan.labels());
      loss->train(it.output(0, read), labels + first_label, it.output_gradient(0), loss_value.get());
      loss_sum += loss_value->sum;
    } else {
      crossings[s].take_gradients(number, it);
    }
    take_shared(s, number);
    it.backward(parameters, read, stage.gradient);
    if (s > 0) crossings[s - 1].put_gradients(number, it);
    give_shared(s, number);
    add_gradient(s);
  }

  void take_shared(std::size_t s, std::uint64_t number) {
    for (const SharedTensor& tied : shared) {
      if (tied.owner != s) continue;
      const kernels::Buffer& from = tied.places[number % tied.places.size()];
      std::copy_n(from.data(), from.size(), stages[s].gradient + tied.range.first);
    }
  }

  void give_shared(std::size_t s, std::uint64_t number) {
    for (SharedTensor& tied : shared) {
      if (tied.user != s) continue;
      kernels::Buffer& to = tied.places[number % tied.places.size()];
      std::copy_n(stages[s].gradient + tied.range.first, to.size(), to.data());
    }
  }

  void add_gradient(std::size_t s) {
    StageState& stage = stages[s];
    const bool is_first = stage.passes++ == 0;
    for (const auto& [begin, end] : stage.ranges) {
      const float* const from = stage.gradient;
      if (is_first) {
        std::copy(from + begin, from + end, gradient + begin);
      } else {
        for (std::size_t i = begin; i < end; ++i) gradient[i] += from[i];
      }
    }
    if (options.micro_batches == 1) return;
    for (StatisticsPool& pool : stage.statistics) {
      if (is_first) pool.clear();
      pool.add(stage.gradient);
    }
  }

  // The sum becomes the mean.
  void finish(std::size_t s) {
    if (options.micro_batches == 1) return;
    const float part = 1 / static_cast<float>(options.micro_batches);
    for (const auto& [begin, end] : stages[s].ranges)
      for (std::size_t i = begin; i < end; ++i) gradient[i] *= part;
    for (const StatisticsPool& pool : stages[s].statistics)
      pool.write(parameters, options.micro_batches, gradient);
  }

  // ---- a batch ----

  void compute(std::size_t s) {
    StageMachine machine(shape, s, 0);
    StageState& stage = stages[s];
    stage.passes = 0;
    stage.intact.reset();
    while (!machine.is_over()) {
      if (!machine.ready()) {
        stage.messages.clear();
        if (!inboxes.await(s, stage.messages)) return;
        for (const StageMessage& message : stage.messages) STARLING_CHECK(machine.arrived(message).ok());
        continue;
      }
      const StageTask task = machine.begin().task;
      if (task.kind == StageTask::Kind::forward) forward(s, task.number);
      if (task.kind == StageTask::Kind::backward) backward(s, task.number);
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

std::size_t StagedNetwork::stages() const { return impl_->stages.size(); }
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

StageMemory StagedNetwork::memory(std::size_t stage) const {
  StageMemory memory;
  for (const models::Section& section : impl_->stages[stage].sections)
    memory.sections += section.memory().total();
  if (stage + 1 < impl_->stages.size()) memory.crossings = impl_->crossings[stage].bytes();
  const StageState& state = impl_->stages[stage];
  memory.gradients = state.own_gradient.size() * sizeof(float);
  if (memory.gradients == 0) {
    for (const auto& [begin, end] : state.ranges) memory.gradients += (end - begin) * sizeof(float);
  }
  return memory;
}

}  // namespace starling::training
