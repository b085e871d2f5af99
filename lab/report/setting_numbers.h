// Values of a setting as numbers: counts, durations, data rates and sizes, with their units. Tables, pages
// and figures order and place the values by them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "training/runs/experiment/settings/units.h"

namespace starling::lab {

// The number at the beginning of a text.
struct Amount {
  // None of a plain number, and of one with another unit, such as "8 steps".
  std::optional<training::Dimension> dimension{};
  double value = 0;        // in the dimension
  std::size_t length = 0;  // of the number and its unit, in the text
};
// Nothing if the text does not begin with a digit. Also of names of files, where '-' stands for '/'.
std::optional<Amount> leading_amount(std::string_view text);

// The values as numbers: plain numbers, numbers with the same unit, or several units of durations, data rates
// or sizes, in one of them. nullopt if one of the values is something else. `unit` becomes the unit, mostly
// empty.
std::optional<std::vector<double>> numbers_of_setting(const std::vector<std::string>& values,
                                                      std::string& unit);

// Natural order: "slow=4" is before "slow=16", and "100Mbit/s" before "1Gbit/s".
bool in_natural_order(std::string_view a, std::string_view b);

}  // namespace starling::lab
