#include "training/learning/stages/streamed_network.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "training/learning/stages/stage_versions.h"
#include "training/planner/machine.h"

namespace starling::training {
namespace {

using Kind = StageTask::Kind;

// A shape whose replicas keep as many micro-batches at a time as those of a stream.
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

// A batch under way, from feed() until the first stage has updated.
struct StreamedNetwork::Batch {
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;
  double rate_factor = 1, loss = 0;  // a sum
};

struct StreamedNetwork::Group {
  std::vector<Replica*> replicas{};
  std::mutex mutex{};
  std::uint64_t updates = 0;  // of the stream; the replica that comes first makes it
};

// Computes its batches on its own thread, in the order of its machine, with parameters of several versions.
class StreamedNetwork::Replica {
 public:
  // All outlive the replica.
  Replica(StreamedNetwork& network, Group& group, StageReplica& stage);

  const StageLayers& layers() const { return stage_.layers(); }
  StageMemory memory() const;
  StageMachine& machine() { return *machine_; }

  // Begins a stream. REQUIRES: none runs.
  void begin();
  // Does the next task, or takes the messages that it waits for. Returns false if the inboxes were stopped.
  bool advance();
  // advance() to the end of the stream.
  void work();

  // `turn` counts the batches of the replica, which is of the first stage, from 0. Whether the stage has
  // updated with this one, or will after later ones. Any thread may call.
  bool has_left(std::uint64_t turn) const { return left_.load() > turn; }
  StageMessage message(StageMessage::Kind kind, std::uint64_t number) const {
    return {kind, number, 0, layers().stage, stage_.replica(), 0};
  }

 private:
  MicroBatch micro_batch(std::uint64_t number) const;
  void do_task();
  void backward(std::uint64_t number, const float* parameters);
  // Makes the update, unless another replica has. REQUIRES: the `count` first replicas of the stage, which
  // have micro-batches for it, wait for it.
  void update(std::uint64_t number, std::size_t count);
  // After a backward pass or an update of the first stage.
  void count_left();

  StreamedNetwork& network_;
  Group& group_;
  StageReplica& stage_;
  StageVersions versions_;
  std::optional<StageMachine> machine_{};
  kernels::Buffer sum_{};                // gradients since the last update, if there are several
  const float* gradient_ = nullptr;      // that sum, or the latest gradient
  std::uint64_t latest_ = 0;             // the batch of its latest backward pass
  std::uint64_t summed_ = 0;             // backward passes since the last update
  std::uint64_t passes_ = 0;             // backward passes of the stream
  std::atomic<std::uint64_t> left_ = 0;  // of these, those that an update has followed if it had to
};

StreamedNetwork::Replica::Replica(StreamedNetwork& network, Group& group, StageReplica& stage)
    : network_(network), group_(group), stage_(stage), versions_(stage) {
  group.replicas.push_back(this);
  // As the first of several replicas it adds the others' gradients.
  const bool adds = stage.replica() == 0 && network.shape_.replicas[layers().stage] > 1;
  if (network.options_.micro_batches > 1 || adds) sum_ = kernels::Buffer(network.plan_.layout.arena_size());
}

StageMemory StreamedNetwork::Replica::memory() const {
  StageMemory memory = stage_.memory();
  memory.versions = stage_.places() * stage_.buffers().read_bytes();
  if (stage_.backend().memory().on_host()) memory.gradients += sum_.bytes();
  return memory;
}

void StreamedNetwork::Replica::begin() {
  versions_.begin(*network_.arena_);
  passes_ = summed_ = 0;
  left_.store(0);
  const StagedOptions& options = network_.options_;
  machine_.emplace(network_.shape_, layers().stage, stage_.replica(),
                   StageOptions{options.stash, options.vertical_sync, layers().is_first()});
  if (options.vertical_sync) versions_.at(0);
}

void StreamedNetwork::Replica::work() {
  while (!machine_->is_over())
    if (!advance()) return;
}

bool StreamedNetwork::Replica::advance() {
  if (!machine_->ready()) return network_.inboxes_.deliver(*machine_);
  do_task();
  return true;
}

void StreamedNetwork::Replica::do_task() {
  const StageWork work = machine_->begin();
  const auto [task, version] = work;
  network_.clock_->begin(*machine_, work);
  if (task.kind == Kind::forward) {
    stage_.forward(micro_batch(task.number), versions_.at(version));
  } else if (task.kind == Kind::backward) {
    backward(task.number, versions_.at(version));
  } else {
    update(task.number, machine_->updating(task.number));
  }
  network_.clock_->end(*machine_);
  network_.inboxes_.send(machine_->finish());
  versions_.drop_before(machine_->oldest_version());
  // With vertical sync a later pass may need this version, which only exists now.
  if (task.kind == Kind::update && network_.options_.vertical_sync) versions_.at(machine_->version());
  if (task.kind != Kind::forward && layers().is_first()) count_left();
}

MicroBatch StreamedNetwork::Replica::micro_batch(std::uint64_t number) const {
  const Batch& batch = network_.batch_of(number);
  return {number, network_.draws_ + number, batch.inputs.data(), batch.labels.data()};
}

void StreamedNetwork::Replica::backward(std::uint64_t number, const float* parameters) {
  const double loss = stage_.backward(micro_batch(number), parameters);
  if (layers().is_last()) network_.batch_of(number).loss = loss;
  latest_ = number;
  ++passes_;
  const bool is_first = summed_++ == 0;
  gradient_ = stage_.buffers().gradient(layers().ranges);
  if (sum_.size() == 0) return;
  sum_ranges(layers().ranges, is_first, gradient_, sum_.data());
  gradient_ = sum_.data();
}

void StreamedNetwork::Replica::update(std::uint64_t number, std::size_t count) {
  const std::lock_guard lock(group_.mutex);
  if (group_.updates > number) return;
  ++group_.updates;
  Replica& first = *group_.replicas.front();
  std::uint64_t latest = 0, summed = 0;
  for (std::size_t k = 0; k < count; ++k) {
    Replica& it = *group_.replicas[k];
    latest = std::max(latest, it.latest_);
    summed += std::exchange(it.summed_, 0);
    if (k > 0) sum_ranges(layers().ranges, false, it.gradient_, first.sum_.data());
  }
  float* const sum = first.sum_.data();
  if (sum != nullptr)
    for (const auto& [begin, end] : layers().ranges)
      for (std::size_t i = begin; i < end; ++i) sum[i] /= static_cast<float>(summed);
  network_.apply_({layers().stage, first.gradient_, network_.batch_of(latest).rate_factor, number});
}

void StreamedNetwork::Replica::count_left() {
  if (!machine_->is_over() && machine_->task().kind == Kind::update) return;
  left_.store(passes_);
  if (stage_.replica() > 0) network_.inboxes_.wake(0);
}

// ---- the stream ----

PipelineShape StreamedNetwork::longest_stream(const StagedOptions& options) {
  const std::uint64_t round = shape_of(options).batches;
  const std::uint64_t rounds = kLongest / options.micro_batches / round;
  return shape_of(options, std::max<std::uint64_t>(1, rounds) * round);
}

StreamedNetwork::StreamedNetwork(const models::Plan& plan, const kernels::Backend& backend, int batch,
                                 const StagedOptions& options)
    : plan_(plan),
      options_(options),
      shape_(longest_stream(options)),
      samples_(batch),
      stages_(plan, backend, batch, short_shape(options), options),
      clock_(std::make_shared<StageClock>(shape_)),
      inboxes_(shape_),
      batches_(most_under_way(shape_) + 1) {
  STARLING_CHECK(check_stages(plan, batch, options).ok() && !pipeline_traits(options.schedule).flushes);
  for (Batch& it : batches_) {
    it.inputs.resize(static_cast<std::size_t>(batch) * static_cast<std::size_t>(plan.spec.input.size()));
    it.labels.resize(static_cast<std::size_t>(predictions()));
  }
  for (StageReplica& stage : stages_.replicas()) {
    if (stage.replica() == 0) groups_.push_back(std::make_unique<Group>());
    replicas_.push_back(std::make_unique<Replica>(*this, *groups_.back(), stage));
  }
  threads_.emplace(
      parts(), [this](std::size_t k) { replicas_[k]->work(); }, [this] { inboxes_.stop(); });
}

StreamedNetwork::~StreamedNetwork() {
  if (!runs_) return;
  inboxes_.stop();
  try {
    threads_->finish();
  } catch (...) {  // the caller has seen a stage fail
  }
}

void StreamedNetwork::set_apply(Apply apply) { apply_ = std::move(apply); }

std::size_t StreamedNetwork::stages() const { return groups_.size(); }
std::size_t StreamedNetwork::parts() const { return replicas_.size(); }
int StreamedNetwork::predictions() const { return samples_ * plan_.labels(); }
const std::vector<FloatRange>& StreamedNetwork::ranges(std::size_t stage) const {
  return groups_[stage]->replicas.front()->layers().ranges;
}
std::size_t StreamedNetwork::most_in_flight() const { return most_under_way(shape_) - 1; }
std::size_t StreamedNetwork::in_flight() const { return static_cast<std::size_t>(fed_ - landed_); }
bool StreamedNetwork::must_land() const { return runs_ && ends_; }
StageMemory StreamedNetwork::memory(std::size_t part) const { return replicas_[part]->memory(); }

StreamedNetwork::Batch& StreamedNetwork::batch_of(std::uint64_t number) {
  return batches_[number % batches_.size()];
}

void StreamedNetwork::set_draws(std::uint64_t batches) {
  STARLING_CHECK(in_flight() == 0);
  draws_ = batches;
  fed_ = landed_ = 0;
}

void StreamedNetwork::on_each_thread(const std::function<void(std::size_t)>& settle) {
  threads_->run(settle);
}

void StreamedNetwork::begin_stream(const models::Arena& arena) {
  arena_ = &arena;
  draws_ += fed_;
  fed_ = landed_ = 0;
  ends_ = false;
  inboxes_.clear();
  for (const auto& group : groups_) group->updates = 0;
  clock_->start();
  for (const auto& replica : replicas_) replica->begin();
  threads_->start();
  runs_ = true;
}

void StreamedNetwork::end_stream() {
  ends_ = true;
  if (fed_ == shape_.all_micro_batches()) return;  // the machines know
  STARLING_CHECK(first().machine().end_after(fed_).ok());
  inboxes_.send(first().machine().take_due());
  for (const auto& replica : replicas_)
    if (replica.get() != &first()) inboxes_.send(replica->message(StageMessage::Kind::end, fed_));
}

void StreamedNetwork::advance() {
  if (first().advance()) return;
  runs_ = false;
  threads_->finish();  // throws
  STARLING_CHECK(false);
}

double StreamedNetwork::complete_oldest() {
  const std::uint64_t oldest = landed_;
  const Replica& replica = *replicas_[shape_.replica_of(0, oldest)];
  while (!replica.has_left(oldest / shape_.replicas[0])) advance();
  ++landed_;
  while (ends_ && landed_ == fed_ && !first().machine().is_over()) advance();
  finish_if_over();
  return batch_of(oldest).loss / predictions();
}

void StreamedNetwork::finish_if_over() {
  if (landed_ < fed_ || !first().machine().is_over()) return;
  threads_->finish();
  runs_ = false;
  clock_->stop();
}

void StreamedNetwork::announce(std::uint64_t number) {
  const Replica& replica = *replicas_[shape_.replica_of(0, number)];
  const StageMessage samples = replica.message(StageMessage::Kind::activations, number);
  if (&replica != &first()) return inboxes_.send(samples);
  STARLING_CHECK(first().machine().arrived(samples).ok());
  advance();
}

std::optional<double> StreamedNetwork::feed(const models::Arena& arena, const float* inputs,
                                            const std::int32_t* labels, double rate_factor) {
  STARLING_CHECK(!must_land());
  if (!runs_) begin_stream(arena);
  Batch& next = batch_of(fed_);
  std::copy_n(inputs, next.inputs.size(), next.inputs.data());
  std::copy_n(labels, next.labels.size(), next.labels.data());
  next.rate_factor = rate_factor;
  announce(fed_++);
  if (fed_ == shape_.all_micro_batches()) end_stream();
  const bool is_full = fed_ - landed_ == most_under_way(shape_);
  return is_full || ends_ ? std::optional(complete_oldest()) : std::nullopt;
}

std::optional<double> StreamedNetwork::land() {
  if (runs_ && !ends_) end_stream();
  if (fed_ > landed_) return complete_oldest();
  // All have left, but perhaps there is an update to make with fewer batches than others.
  while (runs_ && !first().machine().is_over()) advance();
  if (runs_) finish_if_over();
  return std::nullopt;
}

}  // namespace starling::training
