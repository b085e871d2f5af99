#include "training/exchange/rounds.h"

#include <algorithm>
#include <cmath>

#include "training/exchange/near.h"

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
      fragments_(options.fragments),
      phi_(kept_),
      velocity_(arena.size()),
      received_(arena.size()),
      partners_(grid_.count()),
      apart_(grid_.count(), kUnmet) {}

void Noloco::adopt() {
  RoundRule::adopt();
  phi_ = kept_;
  std::fill(velocity_.begin(), velocity_.end(), 0.0F);
  std::fill(received_.begin(), received_.end(), 0.0F);
  std::fill(partners_.begin(), partners_.end(), 0U);
  std::fill(apart_.begin(), apart_.end(), kUnmet);
}

void Noloco::values(std::vector<MutableBytes>& out) {
  RoundRule::values(out);
  for (Floats* floats : {&phi_, &velocity_, &received_, &apart_})
    out.push_back(std::as_writable_bytes(std::span(*floats)));
}

void Noloco::begin_round(std::uint64_t round) {
  sequence_ = round;
  const Cells cells = grid_.part(round % fragments_, fragments_);
  for (std::size_t cell = cells.first; cell < cells.first + cells.count; ++cell) outer_step(cell);
}

void Noloco::outer_step(std::size_t cell) {
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

// A bound of how far a partner's values may be from this peer's: several times the latest difference, and
// several times what this peer has learned since its outer step. Unknown before a cell's first exchange.
float Noloco::reach(Cells cells) const {
  float farthest = 0;
  for (std::size_t cell = cells.first; cell < cells.first + cells.count; ++cell) {
    if (apart_[cell] == kUnmet) return kUnknownReach;
    farthest = std::max(farthest, apart_[cell]);
  }
  const std::size_t begin = grid_.offset(cells.first), end = begin + grid_.floats(cells);
  for (std::size_t i = begin; i < end; ++i) farthest = std::max(farthest, std::fabs(kept_[i] - phi_[i]));
  return kMargin * farthest;
}

void Noloco::encode_values(Cells cells, std::span<const float> values, std::uint64_t seed,
                           MutableBytes out) const {
  if (payload_ != Payload::int8) return RoundRule::encode_values(cells, values, seed, out);
  encode_near(values, reach(cells), seed, out);
}

void Noloco::decode_values(Cells cells, Bytes in, std::span<float> out) const {
  if (payload_ != Payload::int8) return RoundRule::decode_values(cells, in, out);
  decode_near(in, std::span(kept_).subspan(grid_.offset(cells.first), out.size()), out);
}

bool Noloco::take(Cells cells, std::span<const float> theirs, std::span<const float> own, float weight) {
  training::mix(theirs, own, weight / kWeight,
                std::span(received_).subspan(grid_.offset(cells.first), own.size()));
  for (std::size_t cell = cells.first; cell < cells.first + cells.count; ++cell) {
    ++partners_[cell];
    const auto his = grid_.part(theirs, cells, cell), mine = grid_.part(own, cells, cell);
    float apart = apart_[cell] == kUnmet ? 0 : apart_[cell] / 2;
    for (std::size_t i = 0; i < mine.size(); ++i) apart = std::max(apart, std::fabs(his[i] - mine[i]));
    apart_[cell] = apart;
  }
  return false;
}

}  // namespace starling::training
