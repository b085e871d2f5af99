#include "training/learning/stages/staged_network.h"

#include "base/check.h"
#include "training/planner/machine.h"

namespace starling::training {

// Computes its micro-batches of a batch on its own thread, in the order of its machine, and sums their
// gradients. The first replica of a stage sums in the batch's gradient, and adds the others' sums at the end.
class StagedNetwork::Replica {
 public:
  // `first`: of the stage; null: this one. All others outlive the replica.
  Replica(StagedNetwork& network, StageReplica& stage, Replica* first);

  // Computes its part of the batch under way; returns early if the inboxes are stopped.
  void compute();
  double loss() const { return loss_; }  // of the batch; a sum, 0 except in the last stage
  StageMemory memory() const;

 private:
  bool is_first() const { return sum_.size() == 0; }
  float* sum() { return is_first() ? network_.under_way_.gradient : sum_.data(); }
  bool pools() const { return network_.options_.micro_batches > 1; }
  void do_task(const StageTask& task);
  void backward(const MicroBatch& micro);
  void pool_statistics();
  // Makes the sums of all replicas of the stage the mean. REQUIRES: the others have finished theirs.
  void finish();
  void add(const Replica& other);

  StagedNetwork& network_;
  StageReplica& stage_;
  std::vector<const Replica*> others_;  // of the stage; for the first one
  const std::uint32_t share_;           // micro-batches of a batch that it computes
  kernels::Buffer copy_;                // of the parameters, on a device
  const float* parameters_ = nullptr;
  kernels::Buffer sum_;       // an arena, unless it is the first replica
  std::uint32_t summed_ = 0;  // micro-batches
  double loss_ = 0;
};

StagedNetwork::Replica::Replica(StagedNetwork& network, StageReplica& stage, Replica* first)
    : network_(network),
      stage_(stage),
      share_(network.options_.micro_batches / network.shape_.replicas[stage.stage()]) {
  if (first == nullptr) return;
  sum_ = kernels::Buffer(network.plan_.layout.arena_size());
  first->others_.push_back(this);
}

void StagedNetwork::Replica::compute() {
  StageMachine machine(network_.shape_, stage_.stage(), stage_.replica());
  parameters_ = stage_.buffers().parameters(network_.under_way_.parameters, copy_);
  loss_ = 0;
  summed_ = 0;
  while (!machine.is_over()) {
    if (machine.ready()) {
      const StageWork work = machine.begin();
      network_.clock_->begin(machine, work);
      do_task(work.task);
      network_.clock_->end(machine);
      network_.inboxes_.send(machine.finish());
    } else if (!network_.inboxes_.deliver(machine)) {
      return;
    }
  }
}

void StagedNetwork::Replica::do_task(const StageTask& task) {
  switch (task.kind) {
    case StageTask::Kind::forward:
      return stage_.forward(network_.micro_batch(task.number), parameters_);
    case StageTask::Kind::backward:
      return backward(network_.micro_batch(task.number));
    case StageTask::Kind::update:
      if (is_first()) finish();
  }
}

void StagedNetwork::Replica::backward(const MicroBatch& micro) {
  loss_ += stage_.backward(micro, parameters_);
  if (pools()) pool_statistics();
  stage_.buffers().sum_gradient(summed_ == 0, sum());
  // The first replica adds this sum after a message.
  if (++summed_ == share_ && !is_first()) stage_.buffers().finish_sum(sum());
}

void StagedNetwork::Replica::pool_statistics() {
  const float* const change = stage_.buffers().gradient(stage_.layers().statistics());
  for (StatisticsPool& pool : stage_.statistics()) {
    if (summed_ == 0) pool.clear();
    pool.add(change);
  }
}

void StagedNetwork::Replica::finish() {
  float* const gradient = sum();
  stage_.buffers().finish_sum(gradient);
  for (const Replica* other : others_) add(*other);
  if (!pools()) return;
  const std::uint32_t count = network_.options_.micro_batches;
  const float factor = 1 / static_cast<float>(count);
  for (const auto& [begin, end] : stage_.layers().ranges)
    for (std::size_t i = begin; i < end; ++i) gradient[i] *= factor;
  for (const StatisticsPool& pool : stage_.statistics())
    pool.write(network_.under_way_.parameters, count, gradient);
}

void StagedNetwork::Replica::add(const Replica& other) {
  sum_ranges(stage_.layers().ranges, false, other.sum_.data(), sum());
  for (std::size_t k = 0; k < stage_.statistics().size(); ++k)
    stage_.statistics()[k].add(other.stage_.statistics()[k]);
}

StageMemory StagedNetwork::Replica::memory() const {
  StageMemory memory = stage_.memory();
  if (stage_.backend().memory().on_host()) memory.gradients += sum_.bytes();
  return memory;
}

// ---- the network ----

StagedNetwork::StagedNetwork(const models::Plan& plan, const kernels::Backend& backend, int batch,
                             const StagedOptions& options)
    : plan_(plan),
      options_(options),
      shape_(shape_of(options)),
      batch_(batch),
      stages_(plan, backend, batch / static_cast<int>(options.micro_batches), shape_, options),
      clock_(std::make_shared<StageClock>(shape_)),
      inboxes_(shape_) {
  STARLING_CHECK(check_stages(plan, batch, options).ok() && pipeline_traits(options.schedule).flushes);
  replicas_.reserve(stages_.replicas().size());
  Replica* first = nullptr;
  for (StageReplica& stage : stages_.replicas()) {
    if (stage.replica() == 0) first = nullptr;
    Replica& replica = replicas_.emplace_back(*this, stage, first);
    if (first == nullptr) first = &replica;
  }
  threads_.emplace(
      replicas_.size(), [this](std::size_t k) { replicas_[k].compute(); }, [this] { inboxes_.stop(); });
}

StagedNetwork::~StagedNetwork() = default;

std::size_t StagedNetwork::parts() const { return replicas_.size(); }
int StagedNetwork::predictions() const { return batch_ * plan_.labels(); }

MicroBatch StagedNetwork::micro_batch(std::uint64_t number) const {
  const int samples = batch_ / static_cast<int>(options_.micro_batches);
  return {.number = number,
          .draw = draws_ + number,
          .inputs = under_way_.inputs + number * static_cast<std::size_t>(samples * plan_.spec.input.size()),
          .labels = under_way_.labels + number * static_cast<std::size_t>(samples * plan_.labels())};
}

double StagedNetwork::train(const float* parameters, const float* inputs, const std::int32_t* labels,
                            float* gradient) {
  under_way_ = {parameters, inputs, labels, gradient};
  inboxes_.clear();
  clock_->start();
  threads_->run();
  clock_->stop();
  draws_ += options_.micro_batches;
  double loss = 0;
  for (const Replica& replica : replicas_) loss += replica.loss();
  return loss / predictions();
}

void StagedNetwork::set_draws(std::uint64_t batches) { draws_ = batches * options_.micro_batches; }

void StagedNetwork::on_each_thread(const std::function<void(std::size_t)>& settle) { threads_->run(settle); }

StageMemory StagedNetwork::memory(std::size_t part) const { return replicas_[part].memory(); }

}  // namespace starling::training
