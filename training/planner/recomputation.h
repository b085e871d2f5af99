// Which forward passes a stage of a pipeline repeats before the backward pass instead of keeping their
// activations (Huang et al., "GPipe", NeurIPS 2019, section 2.3; the modes are torchgpipe's).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace starling::training {

enum class Recomputation : std::uint8_t {
  never,
  except_last,  // not if the activations are still there: nothing came after the forward pass
  always,
};

struct RecomputationTraits {
  std::string_view name;
};
inline constexpr std::array<RecomputationTraits, 3> kRecomputations = {
    {{"never"}, {"except-last"}, {"always"}}};

}  // namespace starling::training
