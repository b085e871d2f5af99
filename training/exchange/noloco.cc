#include "training/exchange/noloco.h"

#include <algorithm>

namespace starling::training {

Noloco::Noloco(models::Arena& arena, const MixOptions& options)
    : TwoWay(arena, options),
      rate_(static_cast<float>(options.outer_rate)),
      momentum_(static_cast<float>(options.outer_momentum)),
      theta_(arena.size()),
      phi_(arena.size()),
      velocity_(arena.size()),
      received_(arena.size()),
      partners_(grid_.count()) {
  adopt();
}

void Noloco::adopt() {
  TwoWay::adopt();
  target_.read(0, theta_);
  phi_ = theta_;
  std::fill(velocity_.begin(), velocity_.end(), 0.0F);
  std::fill(received_.begin(), received_.end(), 0.0F);
  std::fill(partners_.begin(), partners_.end(), 0U);
}

void Noloco::values(std::vector<MutableBytes>& out) {
  TwoWay::values(out);
  for (Floats* floats : {&theta_, &phi_, &velocity_, &received_})
    out.push_back(std::as_writable_bytes(std::span(*floats)));
}

std::span<float> Noloco::part(Floats& values, std::size_t cell) const {
  return std::span(values).subspan(grid_.offset(cell), grid_.floats(cell));
}

void Noloco::begin_round(std::uint64_t round) {
  round_ = round;
  for (std::size_t cell = 0; cell < grid_.count(); ++cell) {
    const auto theta = part(theta_, cell), phi = part(phi_, cell), velocity = part(velocity_, cell),
               received = part(received_, cell);
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
    target_.add(grid_.offset(cell), change_);
    target_.read(grid_.offset(cell), theta);
  }
}

bool Noloco::own_values(Cells cells, std::span<float> out) {
  std::copy_n(theta_.begin() + static_cast<std::ptrdiff_t>(grid_.offset(cells.first)), out.size(),
              out.begin());
  return all_acceptable(out);
}

bool Noloco::take(Cells cells, std::span<const float> theirs, std::span<const float> own, float weight) {
  training::mix(theirs, own, weight / kWeight,
                std::span(received_).subspan(grid_.offset(cells.first), own.size()));
  for (std::size_t cell = cells.first; cell < cells.first + cells.count; ++cell) ++partners_[cell];
  return false;
}

}  // namespace starling::training
