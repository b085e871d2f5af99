#include "lab/simulate/stream_learner.h"

#include <algorithm>
#include <span>

#include "base/check.h"

namespace starling::lab {
namespace {

using Kind = training::StageTask::Kind;
using Range = training::FloatRange;
using training::StageFloats;

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
  std::vector<std::vector<Range>> tensors(cuts.size() + 1);
  std::vector<bool> given(plan.layout.tensors().size());
  for (std::size_t layer = 0; layer < plan.layers.size(); ++layer) {
    const auto stage = static_cast<std::size_t>(std::ranges::upper_bound(cuts, layer) - cuts.begin());
    for (const std::size_t number : plan.layers[layer].tensors) {
      if (given[number]) continue;  // to an earlier layer that uses it too
      given[number] = true;
      const models::Tensor& tensor = plan.layout.tensors()[number];
      tensors[stage].emplace_back(tensor.offset, tensor.offset + tensor.size);
    }
  }
  std::vector<StageFloats> stages;
  for (auto& own : tensors)
    stages.push_back(training::stage_floats(std::move(own), plan.layout.trained_size()));
  return stages;
}

StreamLearner::StreamLearner(std::unique_ptr<VirtualWorker> worker, Stream stream, const models::Plan& plan,
                             const LearningRate& rate, ThreadPool& pool, const bool& rehearsing)
    : RestorableLearner(rate, rehearsing, worker->batch_size()),
      worker_(std::move(worker)),
      stream_(std::move(stream)),
      pool_(pool),
      floats_(plan.layout.arena_size()),
      stages_(stream_.stages.size()) {}

void StreamLearner::begin_stream(const models::Arena& arena) {
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    stages_[s].versions.clear();
    stages_[s].summed = stages_[s].updates = stages_[s].latest = 0;
    if (stream_.vertical_sync && !rehearsing()) version_of(s, 0, arena);
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
    batch.factor = next_factor();
  }
  if (rehearsing()) return;
  Batch& batch = batch_of(work.task.number);
  if (batch.vector.size() == 0 && !spare_.empty()) {
    batch.vector = std::move(spare_.back());
    spare_.pop_back();
  } else if (batch.vector.size() == 0) {
    batch.vector = kernels::Buffer(floats_);
  }
  read_version(stage, work.version, arena, batch);
  if (stage + 1 < stages_.size()) return;
  for (Batch& other : batches_) wait(other);  // another replica's
  batch.computing = pool_.submit([this, &batch] { return worker_->compute(batch.vector); });
}

// Until the batch's gradient is computed.
void StreamLearner::wait(Batch& batch) {
  if (batch.computing.valid()) batch.loss = batch.computing.get();
}

void StreamLearner::end_work(std::size_t stage, const training::StageWork& work, models::Arena& arena) {
  if (work.task.kind == Kind::update) {
    if (stages_[stage].updates > work.task.number) return;  // another replica has made it
    ++stages_[stage].updates;
    if (stage == 0) updates_ = work.task.number + 1;
    if (rehearsing()) {
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
  if (rehearsing()) {
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
  add_update(stream_.stages[stage], arena, gradient_of, its.factor, number, worker_->optimizer());
  if (stage == 0) count_update(its.factor);
}

std::uint64_t StreamLearner::end_step(std::uint32_t /*worker*/, models::Arena& /*arena*/) {
  STARLING_CHECK(!batches_.empty());
  if (!rehearsing()) count_step(batches_.front().loss);
  drop_oldest();
  return batch_size_;
}

void StreamLearner::discard_step(std::uint32_t /*worker*/) {
  if (batches_.empty()) return;  // training is over
  wait(batches_.front());
  drop_oldest();
}

// The optimizer counts the updates of a stream at its end, when all stages have made as many.
void StreamLearner::drop_oldest() {
  if (batches_.front().vector.size() > 0) spare_.push_back(std::move(batches_.front().vector));
  batches_.pop_front();
  if (batches_.empty()) worker_->optimizer().count_updates(std::exchange(updates_, 0));
}

void StreamLearner::drop_batches() {
  while (!batches_.empty()) discard_step(0);
}

void StreamLearner::renew() {
  renewed_ = true;
  if (!rehearsing()) worker_->renew();
}

void StreamLearner::over() {
  drop_batches();
  worker_.reset();
  spare_.clear();
}

void StreamLearner::save(StateWriter& out, const models::Arena& arena) {
  save_counts(out);
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
  save_worker(out, worker_->save(arena));
}

Status StreamLearner::load(StateReader& in, const models::Arena& arena) {
  load_counts(in);
  if (in.value<bool>() != (worker_ != nullptr)) return of_another_experiment();
  if (!worker_) return Done{};
  for (Batch& batch : batches_) {
    batch.factor = in.value<double>();
    batch.loss = in.value<double>();
    const auto values = in.values<float>();
    if (values.size() != floats_) return of_another_experiment();
    batch.vector = kernels::Buffer(floats_);
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
  if (renewed_) worker_->renew();  // the saved state has no warm-up
  return worker_->restore(state, arena);
}

}  // namespace starling::lab
