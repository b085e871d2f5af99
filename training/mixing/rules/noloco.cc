#include "training/mixing/rules/noloco.h"

#include <algorithm>
#include <cmath>

#include "training/mixing/near.h"

namespace starling::training {

Noloco::Noloco(models::Arena& arena, const MixOptions& options)
    : Pairwise(arena, options),
      rate_(static_cast<float>(options.outer_rate)),
      momentum_(static_cast<float>(options.outer_momentum)),
      phi_(arena.size()),
      velocity_(arena.size()),
      apart_(grid_.count(), kUnmet) {
  target_.read(0, phi_);
}

void Noloco::adopt() {
  Pairwise::adopt();
  target_.read(0, phi_);
  std::fill(velocity_.begin(), velocity_.end(), 0.0F);
  std::fill(apart_.begin(), apart_.end(), kUnmet);
}

void Noloco::values(std::vector<MutableBytes>& out) {
  Pairwise::values(out);
  for (Floats* floats : {&phi_, &velocity_, &apart_})
    out.push_back(std::as_writable_bytes(std::span(*floats)));
}

// A bound of how far a partner's values may be from this peer's: several times the latest difference, and
// several times what this peer has learned since its outer step. Unknown before a cell's first exchange.
float Noloco::reach(Cells cells, std::span<const float> values) const {
  float farthest = 0;
  for (std::size_t cell = cells.first; cell < cells.first + cells.count; ++cell) {
    if (apart_[cell] == kUnmet) return kUnknownReach;
    farthest = std::max(farthest, apart_[cell]);
  }
  const auto phi = std::span(phi_).subspan(grid_.offset(cells.first), values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    farthest = std::max(farthest, std::fabs(values[i] - phi[i]));
  return kMargin * farthest;
}

void Noloco::encode_values(Cells cells, std::span<const float> values, std::uint64_t seed,
                           MutableBytes out) const {
  if (payload_ != Payload::int8) return Pairwise::encode_values(cells, values, seed, out);
  encode_near(values, reach(cells, values), seed, out);
}

void Noloco::decode_values(Bytes in, Cells sent, Cells cells, std::span<float> out) const {
  if (payload_ != Payload::int8) return Pairwise::decode_values(in, sent, cells, out);
  near_values_.resize(out.size());
  target_.read(grid_.offset(cells.first), near_values_);
  decode_near(in, grid_.floats(sent), grid_.offset(cells.first) - grid_.offset(sent.first), near_values_,
              out);
}

bool Noloco::take(Cells cells, std::span<const float> theirs, std::span<const float> own, float weight) {
  const std::size_t offset = grid_.offset(cells.first);
  const auto phi = std::span(phi_).subspan(offset, own.size());
  const auto velocity = std::span(velocity_).subspan(offset, own.size());
  change_.resize(own.size());
  target_.read(offset, change_);
  for (std::size_t i = 0; i < own.size(); ++i) {
    const float x = change_[i];
    const float mean = x + weight * (theirs[i] - own[i]);
    velocity[i] = momentum_ * velocity[i] + rate_ * (mean - phi[i]);
    phi[i] += velocity[i];
    change_[i] = phi[i] - x;
  }
  target_.add(offset, change_);
  for (std::size_t cell = cells.first; cell < cells.first + cells.count; ++cell) {
    const auto his = grid_.part(theirs, cells, cell), mine = grid_.part(own, cells, cell);
    float apart = apart_[cell] == kUnmet ? 0 : apart_[cell] / 2;
    for (std::size_t i = 0; i < mine.size(); ++i) apart = std::max(apart, std::fabs(his[i] - mine[i]));
    apart_[cell] = apart;
  }
  return false;
}

}  // namespace starling::training
