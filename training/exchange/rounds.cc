#include "training/exchange/rounds.h"

#include <algorithm>

namespace starling::training {

RoundRule::RoundRule(models::Arena& arena, const MixOptions& options) : TwoWay(arena, options) {
  exclusive_ = false;
  keep_copy();
}

void RoundRule::begin_round(std::uint64_t round) {
  sequence_ = round;
  target_.read(0, kept_);
}

bool RoundRule::own_values(Cells cells, std::span<float> out) {
  const auto part = std::span(kept_).subspan(grid_.offset(cells.first), out.size());
  std::copy(part.begin(), part.end(), out.begin());
  return all_acceptable(out);
}

Noloco::Noloco(models::Arena& arena, const MixOptions& options)
    : RoundRule(arena, options),
      rate_(static_cast<float>(options.outer_rate)),
      momentum_(static_cast<float>(options.outer_momentum)),
      phi_(kept_),
      velocity_(arena.size()),
      received_(arena.size()),
      partners_(grid_.count()) {}

void Noloco::adopt() {
  RoundRule::adopt();
  phi_ = kept_;
  std::fill(velocity_.begin(), velocity_.end(), 0.0F);
  std::fill(received_.begin(), received_.end(), 0.0F);
  std::fill(partners_.begin(), partners_.end(), 0U);
}

void Noloco::values(std::vector<MutableBytes>& out) {
  RoundRule::values(out);
  for (Floats* floats : {&phi_, &velocity_, &received_})
    out.push_back(std::as_writable_bytes(std::span(*floats)));
}

void Noloco::begin_round(std::uint64_t round) {
  sequence_ = round;
  for (std::size_t cell = 0; cell < grid_.count(); ++cell) {
    const std::size_t offset = grid_.offset(cell);
    const auto part = [&](Floats& all) { return std::span(all).subspan(offset, grid_.floats(cell)); };
    const auto theta = part(kept_), phi = part(phi_), velocity = part(velocity_), received = part(received_);
    const float part_of_each = 1 / static_cast<float>(1 + partners_[cell]);
    change_.resize(theta.size());
    for (std::size_t i = 0; i < theta.size(); ++i) {
      const float mean = theta[i] + part_of_each * received[i];
      velocity[i] = momentum_ * velocity[i] + rate_ * (mean - phi[i]);
      phi[i] += velocity[i];
      change_[i] = phi[i] - theta[i];
      received[i] = 0;
    }
    partners_[cell] = 0;
    target_.add(offset, change_);
    target_.read(offset, theta);
  }
}

bool Noloco::take(Cells cells, std::span<const float> theirs, std::span<const float> own, float weight) {
  training::mix(theirs, own, weight / kWeight,
                std::span(received_).subspan(grid_.offset(cells.first), own.size()));
  for (std::size_t cell = cells.first; cell < cells.first + cells.count; ++cell) ++partners_[cell];
  return false;
}

}  // namespace starling::training
