// The units of quantities in experiments. base/text.h parses times and bandwidths, with the same units.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace starling::training {

enum class Dimension : std::uint8_t { seconds, bits_per_second, bytes };
struct Unit {
  std::string_view name;
  Dimension dimension;
  double size;  // in the dimension
};
inline constexpr std::array<Unit, 17> kUnits = {{{"ns", Dimension::seconds, 1e-9},
                                                 {"us", Dimension::seconds, 1e-6},
                                                 {"ms", Dimension::seconds, 1e-3},
                                                 {"s", Dimension::seconds, 1},
                                                 {"m", Dimension::seconds, 60},
                                                 {"h", Dimension::seconds, 3600},
                                                 {"bit/s", Dimension::bits_per_second, 1},
                                                 {"kbit/s", Dimension::bits_per_second, 1e3},
                                                 {"Mbit/s", Dimension::bits_per_second, 1e6},
                                                 {"Gbit/s", Dimension::bits_per_second, 1e9},
                                                 {"B", Dimension::bytes, 1},
                                                 {"kB", Dimension::bytes, 1e3},
                                                 {"KiB", Dimension::bytes, 1024},
                                                 {"MB", Dimension::bytes, 1e6},
                                                 {"MiB", Dimension::bytes, 1048576},
                                                 {"GB", Dimension::bytes, 1e9},
                                                 {"GiB", Dimension::bytes, 1073741824}}};
// Null: unknown.
constexpr const Unit* find_unit(std::string_view name) {
  const auto found = std::ranges::find(kUnits, name, &Unit::name);
  return found == kUnits.end() ? nullptr : &*found;
}

}  // namespace starling::training
