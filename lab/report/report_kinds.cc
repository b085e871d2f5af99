// Finding a kind of run by what a user calls it.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/text.h"
#include "lab/report/report.h"
#include "training/runs/experiment/kinds.h"

namespace starling::lab {
namespace {

constexpr std::size_t kLabelsListed = 12;  // in an error

std::string without_spaces(std::string_view text) {
  const std::size_t from = text.find_first_not_of(' '), to = text.find_last_not_of(' ');
  return from == std::string_view::npos ? "" : std::string(text.substr(from, to - from + 1));
}

// A part of a kind's name: "slow=10".
struct Part {
  std::vector<std::string> keys;  // that `slow` may mean
  std::string value;
};

// The keys that a name means: whole keys, names in the table, or last parts, of the settings that differ if
// one of them has it, else of all.
std::vector<std::string> keys_named(const Report& report, const std::string& name) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < report.keys.size(); ++i)
    if (name == report.keys[i] || name == report.names[i] || report.keys[i].ends_with("." + name))
      found.push_back(report.keys[i]);
  if (!found.empty()) return found;
  const auto add = [&](const std::string& key) {
    const bool fits = key == name || key.ends_with("." + name);
    if (fits && std::find(found.begin(), found.end(), key) == found.end()) found.push_back(key);
  };
  for (const ReportRun& run : report.runs) {
    for (const auto& [key, value] : run.settings) add(key);
    for (const std::string& key : run.without_effect) add(key);
  }
  return found;
}

// "slow=10, topology=random-regular:k=4,seed=1" as its parts: a comma ends a part only if the name of a
// setting and '=' follow. Empty if it does not begin with a part. The seed of a run is left out.
std::vector<Part> parts_of(const Report& report, const std::string& text) {
  std::vector<Part> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string piece = text.substr(at, end - at);
    const std::size_t equals = piece.find('=');
    auto keys = equals == std::string::npos ? std::vector<std::string>()
                                            : keys_named(report, without_spaces(piece.substr(0, equals)));
    if (!keys.empty()) {
      parts.push_back({std::move(keys), without_spaces(piece.substr(equals + 1))});
    } else if (!parts.empty()) {
      parts.back().value += "," + piece;
    } else {
      return {};
    }
    at = end + 1;
  }
  std::erase_if(parts, [](const Part& part) { return part.keys.front() == "seed"; });
  return parts;
}

// Whether a value is meant by this text, which may come from a folder's name.
bool means(const std::string& text, const std::string& value) {
  if (text == value || text == training::file_name_of(value) || (value.empty() && text == "not set"))
    return true;
  const auto number = parse_number<double>(text);
  return number && number == parse_number<double>(value);
}

bool has_part(const ReportRun& run, const Part& part) {
  return std::any_of(part.keys.begin(), part.keys.end(), [&](const std::string& key) {
    if (run.without_effect.contains(key)) return true;
    const auto found = run.settings.find(key), spelled = run.spelled.find(key);
    return means(part.value, found == run.settings.end() ? "" : found->second) ||
           (spelled != run.spelled.end() && means(part.value, spelled->second));
  });
}

std::vector<std::size_t> groups_that(const Report& report,
                                     const std::function<bool(const ReportGroup&)>& fit) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < report.groups.size(); ++i)
    if (fit(report.groups[i])) found.push_back(i);
  return found;
}

std::string labels_of(const Report& report) {
  std::string labels;
  for (std::size_t i = 0; i < std::min(report.groups.size(), kLabelsListed); ++i)
    labels += (i > 0 ? "; " : "") + report.groups[i].label;
  if (report.groups.size() > kLabelsListed)
    labels += fmt::format("; and {} more", report.groups.size() - kLabelsListed);
  return labels;
}

// Those with this label, with all of these parts, and with this value.
std::vector<std::vector<std::size_t>> groups_called(const Report& report, const std::string& name) {
  const std::string wanted = without_spaces(name);
  const std::vector<Part> parts = parts_of(report, wanted);
  return {
      groups_that(report, [&](const ReportGroup& group) { return group.label == wanted; }),
      groups_that(report,
                  [&](const ReportGroup& group) {
                    const ReportRun& run = report.runs[group.runs.front()];
                    return !parts.empty() && std::all_of(parts.begin(), parts.end(), [&](const Part& part) {
                      return has_part(run, part);
                    });
                  }),
      groups_that(report, [&](const ReportGroup& group) {
        return !wanted.empty() && std::any_of(group.values.begin(), group.values.end(),
                                              [&](const std::string& value) { return means(wanted, value); });
      })};
}

}  // namespace

Result<std::vector<std::size_t>> find_groups(const Report& report, const std::string& name) {
  for (const auto& found : groups_called(report, name))
    if (!found.empty()) return found;
  return Error{fmt::format("no kind of run is called '{}'; there {}: {}", name.substr(0, 80),
                           report.groups.size() == 1 ? "is" : "are", labels_of(report))};
}

Result<std::size_t> find_group(const Report& report, const std::string& name) {
  const auto tries = groups_called(report, name);
  for (const auto& found : tries)
    if (found.size() == 1) return found.front();
  const bool several =
      std::any_of(tries.begin(), tries.end(), [](const auto& found) { return found.size() > 1; });
  return Error{fmt::format("{} '{}', to compare against; there {}: {}",
                           several ? "several kinds of run have" : "no kind of run is called",
                           name.substr(0, 80), report.groups.size() == 1 ? "is" : "are", labels_of(report))};
}

}  // namespace starling::lab
