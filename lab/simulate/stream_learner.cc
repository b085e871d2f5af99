#include "lab/simulate/stream_learner.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "training/runs/experiment/schedule.h"

namespace starling::lab {
namespace {

using Kind = training::StageTask::Kind;
using Range = StageFloats::Range;

// Calls visit(range) for all floats of a stage.
template <class Visit>
void for_each_range(const StageFloats& stage, Visit visit) {
  for (const auto* ranges : {&stage.trained, &stage.statistics})
    for (const Range& range : *ranges) visit(range);
}

// The floats of a stage, one range after another.
std::size_t count_of(const StageFloats& stage) {
  std::size_t count = 0;
  for_each_range(stage, [&](const Range& range) { count += range.second - range.first; });
  return count;
}

}  // namespace

std::vector<StageFloats> floats_of_stages(const models::Plan& plan, const std::vector<std::size_t>& cuts) {
  constexpr std::size_t kBlock = kernels::kDecayBlock;
  std::vector<StageFloats> stages(cuts.size() + 1);
  std::vector<bool> given(plan.layout.tensors().size());
  for (std::size_t layer = 0; layer < plan.layers.size(); ++layer) {
    StageFloats& stage =
        stages[static_cast<std::size_t>(std::ranges::upper_bound(cuts, layer) - cuts.begin())];
    for (const std::size_t number : plan.layers[layer].tensors) {
      if (given[number]) continue;  // to an earlier layer that uses it too
      given[number] = true;
      const models::Tensor& tensor = plan.layout.tensors()[number];
      const std::size_t end = tensor.offset + tensor.size;
      if (tensor.trained) {
        stage.trained.emplace_back(tensor.offset, (end + kBlock - 1) / kBlock * kBlock);
      } else {
        stage.statistics.emplace_back(tensor.offset, end);
      }
    }
  }
  for (StageFloats& stage : stages) {
    std::ranges::sort(stage.trained);
    std::vector<Range> joined;
    for (const Range& range : stage.trained) {
      if (!joined.empty() && joined.back().second == range.first) {
        joined.back().second = range.second;
      } else {
        joined.push_back(range);
      }
    }
    stage.trained = std::move(joined);
  }
  return stages;
}

StreamLearner::StreamLearner(std::unique_ptr<training::Worker> worker, Stream stream,
                             const models::Plan& plan, const kernels::Backend& backend,
                             const LearningRate& rate, ThreadPool& pool, const bool& rehearsing)
    : worker_(std::move(worker)),
      stream_(std::move(stream)),
      queue_(backend.make_queue()),
      optimizer_(stream_.optimizer, plan.layout, 0, backend.memory(), *queue_),
      rate_(rate),
      pool_(pool),
      rehearsing_(rehearsing),
      floats_(plan.layout.arena_size()),
      memory_(backend.memory()),
      batch_size_(worker_->batch_size()),
      stages_(stream_.stages.size()) {
  worker_->give_back();  // batches have vectors of their own
}

void StreamLearner::begin_stream(const models::Arena& arena) {
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    stages_[s].versions.clear();
    stages_[s].summed = stages_[s].updates = stages_[s].latest = 0;
    if (stream_.vertical_sync && !rehearsing_) version_of(s, 0, arena);
  }
}

// The arena's values when they are first needed.
const std::vector<float>& StreamLearner::version_of(std::size_t stage, std::uint64_t version,
                                                    const models::Arena& arena) {
  const auto [place, fresh] = stages_[stage].versions.try_emplace(version);
  if (!fresh) return place->second;
  place->second.resize(count_of(stream_.stages[stage]));
  std::span<float> to(place->second);
  for_each_range(stream_.stages[stage], [&](const Range& range) {
    const std::size_t count = range.second - range.first;
    arena.read(range.first, to.first(count));
    to = to.subspan(count);
  });
  return place->second;
}

// Copies a stage's parameters to the vector of a batch.
void StreamLearner::read_version(std::size_t stage, std::uint64_t version, const models::Arena& arena,
                                 Batch& batch) {
  const float* from = version_of(stage, version, arena).data();
  for_each_range(stream_.stages[stage], [&](const Range& range) {
    const std::size_t count = range.second - range.first;
    std::copy_n(from, count, batch.vector.data() + range.first);
    from += count;
  });
  // Later passes read this version or newer ones.
  auto& versions = stages_[stage].versions;
  versions.erase(versions.begin(), versions.lower_bound(version));
}

void StreamLearner::begin_work(std::size_t stage, const training::StageWork& work,
                               const models::Arena& arena) {
  if (work.task.kind != Kind::forward) return;
  if (stage == 0) {
    if (work.task.number == 0) begin_stream(arena);
    Batch& batch = batches_.emplace_back();
    batch.number = work.task.number;
    batch.factor = training::step_rate_factor(rate_.schedule, swarm_samples_, batch_size_,
                                              rate_.epoch_samples, steps_ + 1);
  }
  if (rehearsing_) return;
  Batch& batch = batch_of(work.task.number);
  if (batch.vector.size() == 0 && !spare_.empty()) {
    batch.vector = std::move(spare_.back());
    spare_.pop_back();
  } else if (batch.vector.size() == 0) {
    batch.vector = kernels::Buffer(floats_, memory_);
  }
  read_version(stage, work.version, arena, batch);
  if (stage + 1 < stages_.size()) return;
  for (Batch& other : batches_) wait(other);  // another replica's
  worker_->lend(std::move(batch.vector));
  batch.computing = pool_.submit([this] { return worker_->compute_taken(); });
}

// Until the batch's gradient is computed.
void StreamLearner::wait(Batch& batch) {
  if (!batch.computing.valid()) return;
  batch.loss = batch.computing.get();
  batch.vector = worker_->give_back();
}

void StreamLearner::end_work(std::size_t stage, const training::StageWork& work, models::Arena& arena) {
  if (work.task.kind == Kind::update) {
    if (stages_[stage].updates > work.task.number) return;  // another replica has made it
    ++stages_[stage].updates;
    if (stage == 0) updates_ = work.task.number + 1;
    if (rehearsing_) {
      stages_[stage].summed = 0;
      return;
    }
    update(stage, work.task.number, arena);
    // A later pass may need this version, which only exists now.
    if (stream_.vertical_sync) version_of(stage, work.task.number + 1, arena);
    return;
  }
  if (work.task.kind == Kind::forward) return;
  stages_[stage].latest = std::max(stages_[stage].latest, work.task.number);
  if (rehearsing_) {
    ++stages_[stage].summed;
    return;
  }
  Batch& batch = batch_of(work.task.number);
  if (stage + 1 == stages_.size()) wait(batch);
  add_gradient(stage, batch);
}

void StreamLearner::add_gradient(std::size_t stage, const Batch& batch) {
  Stage& its = stages_[stage];
  const bool is_first = its.summed++ == 0;
  if (batch.number == its.latest) its.factor = batch.factor;
  if (!sums(stage)) return;
  if (is_first) its.sum.assign(count_of(stream_.stages[stage]), 0);
  float* to = its.sum.data();
  for_each_range(stream_.stages[stage], [&](const Range& range) {
    for (std::size_t i = range.first; i < range.second; ++i) *to++ += batch.vector.data()[i];
  });
}

void StreamLearner::update(std::size_t stage, std::uint64_t number, models::Arena& arena) {
  Stage& its = stages_[stage];
  const auto count = static_cast<float>(std::exchange(its.summed, 0));
  for (float& sum : its.sum) sum /= count;
  const float* summed = its.sum.data();
  const auto gradient_of = [&](const Range& range) {
    const std::size_t floats = range.second - range.first;
    if (!sums(stage)) return std::span<const float>(batch_of(its.latest).vector.data() + range.first, floats);
    return std::span<const float>(std::exchange(summed, summed + floats), floats);
  };
  // In the order of for_each_range().
  for (const Range& range : stream_.stages[stage].trained) {
    optimizer_.apply_part(arena, range.first, gradient_of(range), its.factor,
                          optimizer_.updates() + number + 1);
  }
  for (const Range& range : stream_.stages[stage].statistics) arena.add(range.first, gradient_of(range));
  if (stage == 0) learning_rate_ = rate_.base * its.factor;
}

void StreamLearner::release(Batch& batch) {
  if (batch.vector.size() > 0) spare_.push_back(std::move(batch.vector));
}

std::uint64_t StreamLearner::land() {
  STARLING_CHECK(!batches_.empty());
  if (!rehearsing_) {
    const double loss = batches_.front().loss;
    smoothed_loss_ = steps_ == 0 ? loss : 0.95 * smoothed_loss_ + 0.05 * loss;
    release(batches_.front());
  }
  ++steps_;
  batches_.pop_front();
  // The optimizer counts the updates of a stream at its end, when all stages have made as many.
  if (batches_.empty()) optimizer_.count_updates(std::exchange(updates_, 0));
  return batch_size_;
}

void StreamLearner::drop_batches() {
  for (Batch& batch : batches_) {
    wait(batch);
    release(batch);
  }
  batches_.clear();
  optimizer_.count_updates(std::exchange(updates_, 0));
}

void StreamLearner::renew() {
  renewed_ = true;
  if (!rehearsing_) optimizer_.renew(*queue_, stream_.warm_up);
}

void StreamLearner::join(std::uint64_t swarm_samples) {
  if (training::needs_warm_up(rate_.schedule, swarm_samples, batch_size_)) renew();
}

void StreamLearner::over() {
  drop_batches();
  worker_.reset();
  spare_.clear();
}

void StreamLearner::save(StateWriter& out, const models::Arena& arena) {
  out.value(smoothed_loss_);
  out.value(learning_rate_.has_value());
  out.value(learning_rate_.value_or(0));
  out.value(worker_ != nullptr);
  if (!worker_) return;  // training has ended
  for (Batch& batch : batches_) {
    wait(batch);
    out.value(batch.factor);
    out.value(batch.loss);
    out.values(batch.vector.values());
  }
  for (const Stage& stage : stages_) {
    out.value(static_cast<std::uint64_t>(stage.versions.size()));
    for (const auto& [version, values] : stage.versions) {
      out.value(version);
      out.values(values);
    }
    out.values(stage.sum);
    out.value(stage.factor);
  }
  training::WorkerState state = worker_->save_midway(arena);
  optimizer_.save(state, arena, *queue_);
  save_worker(out, state);
}

Status StreamLearner::load(StateReader& in, const models::Arena& arena) {
  smoothed_loss_ = in.value<double>();
  const bool has_rate = in.value<bool>();
  const auto rate = in.value<double>();
  if (has_rate) learning_rate_ = rate;
  if (in.value<bool>() != (worker_ != nullptr)) return of_another_experiment();
  if (!worker_) return Done{};
  for (Batch& batch : batches_) {
    batch.factor = in.value<double>();
    batch.loss = in.value<double>();
    const auto values = in.values<float>();
    if (values.size() != floats_) return of_another_experiment();
    batch.vector = kernels::Buffer(floats_, memory_);
    std::ranges::copy(values, batch.vector.data());
  }
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    for (auto count = in.value<std::uint64_t>(); count > 0 && in.fits(); --count) {
      const auto version = in.value<std::uint64_t>();
      auto values = in.values<float>();
      if (values.size() != count_of(stream_.stages[s])) return of_another_experiment();
      stages_[s].versions[version] = std::move(values);
    }
    stages_[s].sum = in.values<float>();
    if (!stages_[s].sum.empty() && stages_[s].sum.size() != count_of(stream_.stages[s]))
      return of_another_experiment();
    stages_[s].factor = in.value<double>();
  }
  const training::WorkerState state = load_worker(in);
  if (!in.fits()) return of_another_experiment();
  if (renewed_) optimizer_.renew(*queue_, stream_.warm_up);  // the saved state has no warm-up
  if (Status restored = worker_->restore_cursor(state); !restored) return restored;
  return optimizer_.restore(state, arena, *queue_);
}

}  // namespace starling::lab
