#include "topologies/name.h"

#include <vector>

#include "base/text.h"

namespace starling::topologies {

Result<Name> Name::parse(std::string_view text) {
  Name name;
  name.text_ = text;
  const std::size_t colon = text.find(':');
  name.family_ = text.substr(0, colon);
  if (colon == std::string_view::npos) return name;
  std::string_view rest = text.substr(colon + 1);
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    const std::string_view one = rest.substr(0, comma);
    const std::size_t equals = one.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == one.size())
      return Error{"topology '" + name.text_ + "' has '" + std::string(one) +
                   "' in place of a parameter; expected key=value, separated by commas, as in "
                   "'family:k=4,p=0.1'"};
    if (!name.parameters_.emplace(one.substr(0, equals), one.substr(equals + 1)).second)
      return Error{"topology '" + name.text_ + "' has the parameter '" + std::string(one.substr(0, equals)) +
                   "' twice; expected once"};
    more = comma != std::string_view::npos;
    if (more) rest = rest.substr(comma + 1);
  }
  return name;
}

Result<std::uint64_t> Name::whole(std::string_view key, std::uint64_t otherwise, std::uint64_t least,
                                  std::uint64_t most) {
  known_[std::string(key)] = true;
  const auto found = parameters_.find(std::string(key));
  if (found == parameters_.end()) return otherwise;
  const auto value = parse_number<std::uint64_t>(found->second);
  if (!value || *value < least || *value > most)
    return Error{"topology '" + text_ + "': " + found->first + " is '" + found->second +
                 "'; expected a whole number from " + std::to_string(least) + " to " + std::to_string(most)};
  return *value;
}

Result<double> Name::real(std::string_view key, double otherwise, double least, double most) {
  known_[std::string(key)] = true;
  const auto found = parameters_.find(std::string(key));
  if (found == parameters_.end()) return otherwise;
  const auto value = parse_number<double>(found->second);
  if (!value || *value < least || *value > most)
    return Error{"topology '" + text_ + "': " + found->first + " is '" + found->second +
                 "'; expected a number from " + format_number(least) + " to " + format_number(most)};
  return *value;
}

Status Name::finish() const {
  std::vector<std::string> known;
  for (const auto& [key, yes] : known_) known.push_back(key);
  for (const auto& [key, value] : parameters_)
    if (known_.count(key) == 0)
      return Error{"topology '" + text_ + "' has an unknown parameter '" + key + "'; " + family_ +
                   (known.empty() ? std::string(" takes none") : " takes " + one_of(known))};
  return Done{};
}

}  // namespace starling::topologies
