#include "training/planner/profile.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "base/text.h"

namespace starling::training {
namespace {

constexpr std::size_t kLongestProfile = std::size_t{16} << 20;  // bytes of text
constexpr std::size_t kMostEdges = 20'000;
constexpr std::string_view kSeparator = " -- ";
constexpr std::string_view kTimeField = "forward_compute_time=";

// Text from the file for a message, shortened, without characters that would spoil a terminal.
std::string quoted_text(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  if (!is_printable(text)) return "(text that is not printable)";
  if (text.size() <= kLongest) return "'" + std::string(text) + "'";
  std::size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // whole characters
  return "'" + std::string(text.substr(0, end)) + "...'";
}

// The number that follows "NAME=", or the sum of a list; nullopt if one is not from 0 to kMostOfLayer.
std::optional<double> amount_of(std::string_view field, std::string_view name) {
  if (!field.starts_with(name) || field.substr(name.size(), 1) != "=") return std::nullopt;
  field.remove_prefix(name.size() + 1);
  double sum = 0;
  const bool list = field.size() >= 2 && field.front() == '[' && field.back() == ']';
  if (list) field = field.substr(1, field.size() - 2);
  for (std::string_view part : split(field, list ? ';' : '\n')) {
    if (part.starts_with(' ')) part.remove_prefix(1);
    const auto value = parse_number<double>(part);
    if (!value || *value < 0 || *value > kMostOfLayer) return std::nullopt;
    sum += *value;
  }
  if (sum > kMostOfLayer) return std::nullopt;
  return sum;
}

class ProfileReader {
 public:
  Result<PipelineProfile> read(std::string_view text) {
    if (text.size() > kLongestProfile) return Error{"the profile is longer than 16 MiB."};
    for (std::string_view line : split(text, '\n')) {
      ++line_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.empty()) continue;
      const Status status = line.front() == '\t' ? read_edge(line.substr(1)) : read_layer(line);
      if (!status) return status.error();
    }
    if (const Status checked = check_profile(profile_); !checked) return checked.error();
    drop([&](std::size_t i) { return sources_[i] == 0 && descriptions_[i].starts_with("Input"); });
    drop([&](std::size_t i) {
      return profile_.readers[i].empty() && descriptions_[i].starts_with("__getitem__");
    });
    if (profile_.layers.empty()) return Error{"the profile has no layer that computes anything."};
    return std::move(profile_);
  }

 private:
  Error at_line(const std::string& what) const {
    return Error{"line " + std::to_string(line_) + " of the profile: " + what};
  }

  Status read_layer(std::string_view line) {
    const auto first = line.find(kSeparator);
    const auto fields_at = line.rfind(std::string(kSeparator) + std::string(kTimeField));
    if (first == 0 || first == std::string_view::npos || fields_at == std::string_view::npos ||
        fields_at <= first) {
      return at_line(quoted_text(line) +
                     " is not a layer, which is 'NAME -- DESCRIPTION -- forward_compute_time=..., "
                     "backward_compute_time=..., activation_size=..., parameter_size=...'.");
    }
    std::string_view fields = line.substr(fields_at + kSeparator.size());
    fields = fields.substr(0, fields.find(kSeparator));
    ProfiledLayer layer;
    layer.name = line.substr(0, first);
    if (!is_printable(layer.name)) return at_line("the name of the layer is not printable.");
    if (const Status status = read_amounts(fields, layer); !status) return status;
    if (profile_.layers.size() == kMostProfiledLayers)
      return at_line("a profile has at most " + std::to_string(kMostProfiledLayers) + " layers.");
    if (!by_name_.emplace(layer.name, profile_.layers.size()).second)
      return at_line("the layer " + quoted_text(layer.name) + " is there twice.");
    descriptions_.emplace_back(line.substr(first + kSeparator.size()));
    sources_.push_back(0);
    profile_.layers.push_back(std::move(layer));
    profile_.readers.emplace_back();
    return Done{};
  }

  Status read_amounts(std::string_view fields, ProfiledLayer& layer) const {
    const std::vector<std::pair<std::string_view, double*>> expected = {
        {"forward_compute_time", &layer.forward},
        {"backward_compute_time", &layer.backward},
        {"activation_size", &layer.activations},
        {"parameter_size", &layer.parameters}};
    const auto parts = split(fields, ',');
    if (parts.size() != expected.size())
      return at_line("a layer has 4 amounts, and this one " + std::to_string(parts.size()) + ".");
    for (std::size_t i = 0; i < parts.size(); ++i) {
      std::string_view part = parts[i];
      if (part.starts_with(' ')) part.remove_prefix(1);
      const auto amount = amount_of(part, expected[i].first);
      if (!amount) {
        return at_line(quoted_text(part) + " is not '" + std::string(expected[i].first) +
                       "=' with a number from 0 to 1e+15.");
      }
      *expected[i].second = *amount;
    }
    layer.forward /= 1000;  // from milliseconds
    layer.backward /= 1000;
    return Done{};
  }

  Status read_edge(std::string_view line) {
    const auto at = line.find(kSeparator);
    if (at == std::string_view::npos)
      return at_line(quoted_text(line) + " is not an edge, which is 'NAME -- NAME' after a tab.");
    const auto from = by_name_.find(line.substr(0, at));
    const auto to = by_name_.find(line.substr(at + kSeparator.size()));
    if (from == by_name_.end() || to == by_name_.end()) {
      const auto name = from == by_name_.end() ? line.substr(0, at) : line.substr(at + kSeparator.size());
      return at_line("the edge names the layer " + quoted_text(name) +
                     ", which no line before it describes.");
    }
    auto& readers = profile_.readers[from->second];
    if (std::find(readers.begin(), readers.end(), to->second) != readers.end())
      return at_line("the edge " + quoted_text(line) + " is there twice.");
    if (++edges_ > kMostEdges)
      return at_line("a profile has at most " + std::to_string(kMostEdges) + " edges.");
    readers.push_back(to->second);
    ++sources_[to->second];
    return Done{};
  }

  // Removes the layers for which `unwanted` is true now, with their edges.
  void drop(const std::function<bool(std::size_t)>& unwanted) {
    const std::size_t n = profile_.layers.size();
    std::vector<std::optional<std::size_t>> place(n);
    PipelineProfile kept;
    std::vector<std::string> descriptions;
    for (std::size_t i = 0; i < n; ++i) {
      if (unwanted(i)) continue;
      place[i] = kept.layers.size();
      kept.layers.push_back(std::move(profile_.layers[i]));
      descriptions.push_back(std::move(descriptions_[i]));
    }
    kept.readers.resize(kept.layers.size());
    sources_.assign(kept.layers.size(), 0);
    for (std::size_t i = 0; i < n; ++i) {
      if (!place[i]) continue;
      for (const std::size_t reader : profile_.readers[i]) {
        if (!place[reader]) continue;
        kept.readers[*place[i]].push_back(*place[reader]);
        ++sources_[*place[reader]];
      }
    }
    profile_ = std::move(kept);
    descriptions_ = std::move(descriptions);
  }

  std::size_t line_ = 0;
  std::size_t edges_ = 0;
  PipelineProfile profile_;
  std::vector<std::string> descriptions_;
  std::vector<std::size_t> sources_;  // number of layers whose output each reads
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

// A layer on a cycle; nullopt if there is none.
std::optional<std::size_t> layer_on_cycle(const PipelineProfile& profile) {
  const std::size_t n = profile.layers.size();
  std::vector<std::size_t> missing(n, 0);
  for (const auto& readers : profile.readers)
    for (const std::size_t reader : readers) ++missing[reader];
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < n; ++i)
    if (missing[i] == 0) ready.push_back(i);
  for (std::size_t done = 0; done < ready.size(); ++done)
    for (const std::size_t reader : profile.readers[ready[done]])
      if (--missing[reader] == 0) ready.push_back(reader);
  if (ready.size() == n) return std::nullopt;
  const auto stuck = std::find_if(missing.begin(), missing.end(), [](std::size_t m) { return m > 0; });
  return static_cast<std::size_t>(stuck - missing.begin());
}

}  // namespace

PipelineProfile chain_profile(std::vector<ProfiledLayer> layers) {
  PipelineProfile profile;
  profile.readers.resize(layers.size());
  for (std::size_t i = 0; i + 1 < layers.size(); ++i) profile.readers[i] = {i + 1};
  profile.layers = std::move(layers);
  return profile;
}

Result<PipelineProfile> read_pipedream_profile(std::string_view text) { return ProfileReader().read(text); }

Status check_profile(const PipelineProfile& profile) {
  const std::size_t n = profile.layers.size();
  if (n == 0) return Error{"the profile has no layers."};
  if (n > kMostProfiledLayers) {
    return Error{"the profile has " + std::to_string(n) + " layers, and at most " +
                 std::to_string(kMostProfiledLayers) + " are possible."};
  }
  if (profile.readers.size() != n) return Error{"the profile has no list of readers for some layers."};
  for (std::size_t i = 0; i < n; ++i) {
    const ProfiledLayer& layer = profile.layers[i];
    for (const double amount :
         {layer.forward, layer.backward, layer.activations, layer.parameters, layer.kept}) {
      if (!(amount >= 0 && amount <= kMostOfLayer)) {
        return Error{"the layer " + quoted_text(layer.name) + " has the amount " + format_number(amount) +
                     ", and times and bytes are from 0 to 1e+15."};
      }
    }
    for (const std::size_t reader : profile.readers[i]) {
      if (reader >= n)
        return Error{"a reader of the layer " + quoted_text(layer.name) + " is not in the profile."};
    }
  }
  if (const auto stuck = layer_on_cycle(profile)) {
    return Error{"the layer " + quoted_text(profile.layers[*stuck].name) +
                 " needs its own output, directly or through others: a profile has no cycles."};
  }
  return Done{};
}

}  // namespace starling::training
