#include "lab/simulate/ensemble.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <future>
#include <utility>

namespace starling::lab {

template <class Compute>
bool Ensemble::compute(Compute loss_of) {
  std::vector<std::future<double>> computing;
  for (std::size_t i = 0; i < workers_.size(); ++i)
    computing.push_back(pool_.submit([&loss_of, i] { return loss_of(i); }));
  bool finite = true;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    losses_[i] = computing[i].get();
    finite = finite && std::isfinite(losses_[i]);
  }
  if (!finite) return false;
  for (std::size_t i = 0; i < workers_.size(); ++i)
    smoothed_[i] = steps_ == 0 ? losses_[i] : 0.95 * smoothed_[i] + 0.05 * losses_[i];
  ++steps_;
  return true;
}

namespace {

// Every step averages the gradients of all workers, and applies the mean.
class SharingEnsemble final : public Ensemble {
 public:
  SharingEnsemble(Workers workers, std::span<const float> first, ThreadPool& pool)
      : Ensemble(std::move(workers), first.size(), pool), arena_(first.size()), mean_(first.size()) {
    arena_.write(0, first);
  }

  bool step(double rate_factor) override {
    if (!compute([this](std::size_t i) { return workers_[i]->compute(arena_.data(), gradients_[i]); }))
      return false;
    average();
    workers_.front()->apply(arena_, mean_.values(), rate_factor);
    return true;
  }
  void meet(bool /*last*/) override {}
  std::vector<std::size_t> parts(bool /*last*/) const override {
    return {sizeof(float) * ((mean_.size() + workers_.size() - 1) / workers_.size())};
  }
  training::Replicas replicas() const override { return {{arena_.data(), arena_.size()}}; }
  std::size_t all_parts(std::size_t /*part_bytes*/) const override { return sizeof(float) * mean_.size(); }

 private:
  static constexpr std::size_t kBlock = 4096;  // floats whose sums fit the cache
  static constexpr std::size_t kParts = 64;    // tasks that compute the mean, at most
  // Each float's mean is summed in the order of the peers, so the number of threads changes nothing.
  void average() {
    const std::size_t part = std::max(kBlock, (mean_.size() + kParts - 1) / kParts);
    std::vector<std::future<void>> averaging;
    for (std::size_t begin = 0; begin < mean_.size(); begin += part) {
      const std::size_t end = std::min(begin + part, mean_.size());
      averaging.push_back(pool_.submit([this, begin, end] { average(begin, end); }));
    }
    for (auto& part_done : averaging) part_done.get();
  }

  void average(std::size_t begin, std::size_t end) {
    std::array<double, kBlock> sums;
    for (std::size_t at = begin; at < end; at += kBlock) {
      const std::size_t count = std::min(kBlock, end - at);
      std::fill_n(sums.begin(), count, 0.0);
      for (const auto& gradient : gradients_) {
        for (std::size_t k = 0; k < count; ++k) sums[k] += static_cast<double>(gradient.data()[at + k]);
      }
      for (std::size_t k = 0; k < count; ++k)
        mean_.data()[at + k] = static_cast<float>(sums[k] / static_cast<double>(gradients_.size()));
    }
  }

  models::Arena arena_;
  kernels::Buffer mean_;  // of the gradients
};

// Every peer steps alone. All have the same outer parameters, so one Diloco serves them.
class OuterEnsemble final : public Ensemble {
 public:
  OuterEnsemble(Workers workers, std::span<const float> first, std::size_t trained,
                const training::MixOptions& options, ThreadPool& pool)
      : Ensemble(std::move(workers), first.size(), pool),
        fragments_(options.fragments),
        diloco_(first, trained, static_cast<std::uint32_t>(workers_.size()), options) {
    for (std::size_t i = 0; i < workers_.size(); ++i)
      arenas_.emplace_back(std::make_unique<models::Arena>(first.size()))->write(0, first);
  }

  bool step(double rate_factor) override {
    return compute([this, rate_factor](std::size_t i) {
      const double loss = workers_[i]->compute(arenas_[i]->data(), gradients_[i]);
      if (std::isfinite(loss)) workers_[i]->apply(*arenas_[i], gradients_[i].values(), rate_factor);
      return loss;
    });
  }

  void meet(bool last) override {
    for (std::uint32_t k = 0; k < (last ? fragments_ : 1); ++k) average(round_++);
  }
  std::vector<std::size_t> parts(bool last) const override {
    std::vector<std::size_t> parts;
    for (std::uint32_t k = 0; k < (last ? fragments_ : 1); ++k)
      parts.push_back(diloco_.part_bytes(round_ + k));
    return parts;
  }
  training::Replicas replicas() const override {
    training::Replicas all;
    for (const auto& arena : arenas_) all.emplace_back(arena->data(), arena->size());
    return all;
  }
  std::size_t all_parts(std::size_t part_bytes) const override { return part_bytes * workers_.size(); }

 private:
  using Buffer = std::vector<std::byte, training::CacheLineAllocator<std::byte>>;

  void average(std::uint64_t round) {
    const std::size_t n = workers_.size(), bytes = diloco_.part_bytes(round);
    std::vector<Buffer> changes(n, Buffer(n * bytes));
    for (std::uint32_t i = 0; i < n; ++i)
      diloco_.encode_changes(round, i, {arenas_[i]->data(), arenas_[i]->size()}, changes[i]);
    Buffer of_owner(n * bytes), means(n * bytes);
    for (std::uint32_t owner = 0; owner < n; ++owner) {
      for (std::size_t i = 0; i < n; ++i)
        std::copy_n(changes[i].begin() + static_cast<std::ptrdiff_t>(owner * bytes), bytes,
                    of_owner.begin() + static_cast<std::ptrdiff_t>(i * bytes));
      diloco_.average(round, owner, of_owner, MutableBytes(means).subspan(owner * bytes, bytes));
    }
    diloco_.step(round, means);
    const auto [offset, floats] = diloco_.fragment(round);
    for (const auto& arena : arenas_) arena->write(offset, diloco_.outer().subspan(offset, floats));
  }

  std::uint32_t fragments_;
  training::Diloco diloco_;
  std::uint64_t round_ = 0;
  std::vector<std::unique_ptr<models::Arena>> arenas_;
};

}  // namespace

std::unique_ptr<Ensemble> make_sharing_ensemble(Ensemble::Workers workers, std::span<const float> first,
                                                ThreadPool& pool) {
  return std::make_unique<SharingEnsemble>(std::move(workers), first, pool);
}

std::unique_ptr<Ensemble> make_outer_ensemble(Ensemble::Workers workers, std::span<const float> first,
                                              std::size_t trained, const training::MixOptions& options,
                                              ThreadPool& pool) {
  return std::make_unique<OuterEnsemble>(std::move(workers), first, trained, options, pool);
}

}  // namespace starling::lab
