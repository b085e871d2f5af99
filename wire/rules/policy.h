// Two choices that go with most rules: which neighbor is the next partner (gossip.partners), and how much a
// partner's parameters count (gossip.weights).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "wire/rules/names.h"

namespace starling {

struct PolicyTraits {
  std::string_view name;
};

enum class Partners : std::uint8_t {
  uniform,  // at random, each equally often, or as often as the topology's weights say
  turns,    // one after the other; in a topology that varies in time, round after round
  aware,    // those that are fast, and those that have learned since the last exchange, more often
};
inline constexpr std::array<PolicyTraits, 3> kPartners = {{{"uniform"}, {"turns"}, {"aware"}}};

// How far a side of an exchange moves, compared with its partner.
enum class Shares : std::uint8_t {
  equal,  // as far
  work,   // less far, the fewer samples the partner has consumed
  age,    // less far, the longer the partner's samples have not changed
};
inline constexpr std::array<PolicyTraits, 3> kShares = {{{"equal"}, {"work"}, {"age"}}};

constexpr std::string_view name(Partners partners) {
  return kPartners[static_cast<std::size_t>(partners)].name;
}
constexpr std::string_view name(Shares shares) { return kShares[static_cast<std::size_t>(shares)].name; }

}  // namespace starling
