#include "node/trainer.h"

#include <chrono>
#include <cmath>
#include <utility>

namespace starling::node {

using Clock = std::chrono::steady_clock;

Trainer::Trainer(std::vector<std::unique_ptr<training::Worker>> workers, models::Arena& arena,
                 TrainerOptions options, std::function<void()> stepped)
    : workers_(std::move(workers)),
      arena_(arena),
      options_(std::move(options)),
      stepped_(std::move(stepped)) {}

Trainer::~Trainer() {
  stop();
  for (auto& thread : threads_) thread.join();
}

void Trainer::start() {
  for (auto& worker : workers_) threads_.emplace_back([this, &worker] { work(*worker); });
}

void Trainer::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  wake_.notify_all();
}

std::optional<double> Trainer::loss() const {
  if (steps() == 0) return std::nullopt;
  return loss_.load(std::memory_order_relaxed);
}

double Trainer::slowness(Duration since_start) const {
  double factor = 1;
  for (const auto& slow : options_.slowdowns) {
    if (slow.from <= since_start && (!slow.to || since_start < *slow.to)) factor *= slow.factor;
  }
  return factor;
}

void Trainer::work(training::Worker& worker) {
  const auto start = Clock::now();
  while (!stopped_) {
    const auto step_start = Clock::now();
    const double loss = worker.compute(arena_.data());
    if (stopped_) return;
    worker.apply(arena_);

    const double before = loss_.load(std::memory_order_relaxed);
    loss_.store(steps() == 0 ? loss : 0.95 * before + 0.05 * loss, std::memory_order_relaxed);
    if (!std::isfinite(loss)) non_finite_ = true;
    samples_.fetch_add(worker.batch_size(), std::memory_order_relaxed);
    steps_.fetch_add(1, std::memory_order_relaxed);
    stepped_();

    const auto took = Clock::now() - step_start;
    const auto slowed = std::chrono::duration_cast<Clock::duration>(took * slowness(step_start - start));
    const auto until = step_start + std::max<Clock::duration>(slowed, options_.pace);
    if (until > Clock::now()) {
      std::unique_lock lock(mutex_);
      wake_.wait_until(lock, until, [&] { return stopped_.load(); });
    }
  }
}

}  // namespace starling::node
