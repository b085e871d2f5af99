// How the values of a chunk travel: one enumeration for the wire, the arithmetic and the settings. The
// numbers are on the wire (docs/PROTOCOL.md).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "wire/rules/names.h"

namespace starling {

// n: the floats that the chunk covers.
enum class Payload : std::uint8_t {
  f32,    // n floats
  bf16,   // the upper halves of n floats
  int8,   // a float32 scale for every block of wire::kInt8BlockFloats, then n signed bytes
  top_k,  // some entries: their float32 values, then, unless both sides know them, their places in the chunk
          // (u32)
  none,   // no values: the chunk was taken, or nothing of it is to be mixed
};

struct PayloadTraits {
  std::string_view name;  // in gossip.payload
  bool dense = true;      // every float travels
};

// The payloads that a run can set: all but Payload::none, which only replies use.
inline constexpr std::array<PayloadTraits, 4> kPayloads = {{
    {.name = "f32"},
    {.name = "bf16"},
    {.name = "int8"},
    {.name = "top-k", .dense = false},
}};

// REQUIRES: payload != Payload::none.
constexpr const PayloadTraits& traits(Payload payload) {
  return kPayloads[static_cast<std::size_t>(payload)];
}
constexpr std::optional<Payload> payload_named(std::string_view name) {
  return find_named<Payload>(kPayloads, name);
}

}  // namespace starling
