#include "lab/report/setting_numbers.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "training/runs/experiment/settings/units.h"

namespace starling::lab {
namespace {

using training::find_unit;
using training::Unit;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "20ms" as a number and its unit.
std::optional<std::pair<double, std::string>> number_with_unit(const std::string& text) {
  const std::size_t end = std::min(text.find_first_not_of("+-.0123456789eE"), text.size());
  for (std::size_t at = end; at > 0; --at) {  // "2e" is 2 of the unit e
    const auto number = parse_number<double>(std::string_view(text).substr(0, at));
    if (!number) continue;
    const std::size_t unit = std::min(text.find_first_not_of(' ', at), text.size());
    return std::pair(*number, text.substr(unit));
  }
  return std::nullopt;
}

// Amounts of one kind, in the largest of their units that is not above all of them.
std::optional<std::vector<double>> in_one_unit(const std::vector<std::pair<double, std::string>>& numbers,
                                               std::string& unit) {
  std::vector<const Unit*> units;
  for (const auto& [number, name] : numbers) {
    const Unit* const found = find_unit(name);
    if (found == nullptr && !(number == 0 && name.empty())) return std::nullopt;
    if (found != nullptr && !units.empty() && found->dimension != units.front()->dimension)
      return std::nullopt;
    if (found != nullptr) units.push_back(found);
  }
  std::ranges::sort(units, {}, &Unit::size);
  std::vector<double> amounts;
  double most = 0;
  for (const auto& [number, name] : numbers) {
    amounts.push_back(name.empty() ? 0 : number * find_unit(name)->size);
    most = std::max(most, amounts.back());
  }
  const Unit* chosen = units.front();
  for (const Unit* its : units)
    if (its->size <= most) chosen = its;
  for (double& amount : amounts) amount /= chosen->size;
  unit = chosen->name;
  return amounts;
}

}  // namespace

std::optional<Amount> leading_amount(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && is_digit(text[end])) ++end;
  if (end == 0) return std::nullopt;
  const auto digits_after = [&](std::size_t at) {
    std::size_t last = at;
    while (last < text.size() && is_digit(text[last])) ++last;
    return last > at ? last : std::string_view::npos;
  };
  if (end < text.size() && text[end] == '.')
    if (const std::size_t last = digits_after(end + 1); last != std::string_view::npos) end = last;
  if (end + 1 < text.size() && text[end] == 'e') {
    const bool sign = text[end + 1] == '-' || text[end + 1] == '+';
    if (const std::size_t last = digits_after(end + (sign ? 2 : 1)); last != std::string_view::npos)
      end = last;
  }
  Amount amount{std::nullopt, parse_number<double>(text.substr(0, end)).value_or(0), end};
  const std::size_t begin = std::min(text.find_first_not_of(' ', end), text.size());
  std::size_t last = begin;
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  while (last < text.size() && letter(text[last])) ++last;
  std::string name(text.substr(begin, last - begin));
  if (name.ends_with("bit") && last + 1 < text.size() && text[last + 1] == 's' &&
      (text[last] == '/' || text[last] == '-')) {
    name += "/s";
    last += 2;
  }
  const Unit* const unit = find_unit(name);
  if (unit == nullptr || (last < text.size() && (letter(text[last]) || is_digit(text[last])))) return amount;
  return Amount{unit->dimension, amount.value * unit->size, last};
}

std::optional<std::vector<double>> numbers_of_setting(const std::vector<std::string>& values,
                                                      std::string& unit) {
  unit.clear();
  std::vector<std::pair<double, std::string>> numbers;
  for (const std::string& value : values) {
    const auto number = number_with_unit(value);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  if (numbers.empty()) return std::vector<double>();
  const std::string& first = numbers.front().second;
  if (!std::ranges::all_of(numbers, [&](const auto& number) { return number.second == first; }))
    return in_one_unit(numbers, unit);
  if (first.find_first_of("0123456789") != std::string::npos) return std::nullopt;
  unit = first;
  std::vector<double> plain;
  for (const auto& [number, name] : numbers) plain.push_back(number);
  return plain;
}

bool in_natural_order(std::string_view a, std::string_view b) {
  std::size_t i = 0, k = 0;
  while (i < a.size() && k < b.size()) {
    const auto x = leading_amount(a.substr(i)), y = leading_amount(b.substr(k));
    if (x && y) {
      if (x->dimension != y->dimension) return x->dimension < y->dimension;
      if (x->value != y->value) return x->value < y->value;
      i += x->length;
      k += y->length;
    } else {
      if (a[i] != b[k]) return a[i] < b[k];
      ++i;
      ++k;
    }
  }
  return a.size() - i < b.size() - k;
}

}  // namespace starling::lab
