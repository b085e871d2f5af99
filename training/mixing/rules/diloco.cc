#include "training/mixing/rules/diloco.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "training/mixing/payload.h"

namespace starling::training {

Diloco::Diloco(std::span<const float> first, std::size_t trained, std::uint32_t peers,
               const MixOptions& options)
    : trained_(trained),
      peers_(peers),
      options_(options),
      grid_{first.size(), options.cell_floats},
      phi_(first.begin(), first.end()),
      momentum_(first.size()) {
  STARLING_CHECK(options.fragments <= grid_.count());
}

Stretch Diloco::fragment(std::uint64_t round) const {
  const Cells cells = grid_.part(round % options_.fragments, options_.fragments);
  return {grid_.offset(cells.first), grid_.floats(cells)};
}

// A multiple of 16 floats, so that every part is aligned with every payload.
std::size_t Diloco::part_floats(std::uint64_t round) const {
  const std::size_t each = (fragment(round).floats + peers_ - 1) / peers_;
  return (each + 15) / 16 * 16;
}

std::size_t Diloco::part_bytes(std::uint64_t round) const {
  return encoded_bytes(options_.payload, part_floats(round));
}

std::uint64_t Diloco::seed(std::uint64_t round, std::uint32_t peer, bool mean) const {
  const std::array<std::uint64_t, 3> of{round, peer, mean};
  return hash64(std::as_bytes(std::span(of)), options_.seed);
}

void Diloco::encode_changes(std::uint64_t round, std::uint32_t peer, std::span<const float> replica,
                            MutableBytes parts) {
  const auto [offset, floats] = fragment(round);
  const std::size_t part = part_floats(round), bytes = part_bytes(round);
  change_.assign(part * peers_, 0.0F);
  for (std::size_t k = 0; k < floats; ++k) change_[k] = replica[offset + k] - phi_[offset + k];
  for (std::size_t owner = 0; owner < peers_; ++owner) {
    encode(options_.payload, std::span<const float>(change_).subspan(owner * part, part),
           seed(round, peer, false) + owner, parts.subspan(owner * bytes, bytes));
  }
}

void Diloco::average(std::uint64_t round, std::uint32_t peer, Bytes changes, MutableBytes mean) {
  const std::size_t part = part_floats(round), bytes = part_bytes(round);
  std::vector<double> sums(part);
  change_.resize(part);
  for (std::size_t from = 0; from < peers_; ++from) {
    decode(options_.payload, changes.subspan(from * bytes, bytes), part, 0, change_);
    for (std::size_t k = 0; k < part; ++k) sums[k] += static_cast<double>(change_[k]);
  }
  for (std::size_t k = 0; k < part; ++k) change_[k] = static_cast<float>(sums[k] / peers_);
  encode(options_.payload, change_, seed(round, peer, true), mean);
}

void Diloco::step(std::uint64_t round, Bytes means) {
  const auto [offset, floats] = fragment(round);
  const std::size_t part = part_floats(round), bytes = part_bytes(round);
  const auto rate = static_cast<float>(options_.outer_rate);
  const auto mu = static_cast<float>(options_.outer_momentum);
  change_.resize(part);
  for (std::size_t owner = 0; owner * part < floats; ++owner) {
    decode(options_.payload, means.subspan(owner * bytes, bytes), part, 0, change_);
    const std::size_t begin = offset + owner * part, count = std::min(part, floats - owner * part);
    const std::size_t stepped = std::min(count, trained_ - std::min(trained_, begin));
    for (std::size_t k = 0; k < stepped; ++k) {
      float& m = momentum_[begin + k];
      m = mu * m + change_[k];
      phi_[begin + k] += rate * (change_[k] + mu * m);
    }
    for (std::size_t k = stepped; k < count; ++k) phi_[begin + k] += change_[k];
  }
}

}  // namespace starling::training
