// The classes of tables whose labels are names.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/dataset.h"

namespace starling::datasets {

// Numbered as they appear, and finally by their order.
class ClassNames {
 public:
  static constexpr int kMost = 255;  // the largest number

  bool are_used() const { return !numbers_.empty(); }
  // nullopt: there are too many.
  std::optional<int> number_of(std::string_view name) {
    const auto found = numbers_.find(name);
    if (found != numbers_.end()) return found->second;
    const auto number = static_cast<int>(numbers_.size());
    if (number > kMost) return std::nullopt;
    numbers_.emplace(name, number);
    return number;
  }
  void put_in_order(Dataset& set) const {
    if (!are_used()) return;
    std::vector<std::uint8_t> places(numbers_.size());
    std::uint8_t place = 0;
    for (const auto& [name, number] : numbers_) places[static_cast<std::size_t>(number)] = place++;
    for (std::uint8_t& label : set.labels) label = places[label];
    set.classes = static_cast<int>(numbers_.size());
  }
  std::vector<std::string> in_order() const {
    std::vector<std::string> names;
    for (const auto& [name, number] : numbers_) names.push_back(name);
    return names;
  }

 private:
  std::map<std::string, int, std::less<>> numbers_;
};

}  // namespace starling::datasets
