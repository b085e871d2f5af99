#include "training/runs/experiment/sweep.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "base/text.h"
#include "training/runs/experiment/check.h"
#include "training/runs/experiment/experiment_file.h"
#include "training/runs/experiment/kinds.h"
#include "training/runs/experiment/settings/presets.h"
#include "training/runs/experiment/settings/settings.h"
#include "training/runs/experiment/settings/toml.h"
#include "training/runs/experiment/settings/toml_text.h"

namespace starling::training {
namespace {

constexpr std::size_t kLongestName = 150;

constexpr std::string_view kFault = "fault.", kPeer = "peer.";
constexpr std::string_view kCase = "case";  // the list whose values are tables

// K and FIELD of "fault.K.FIELD", where `table` is "fault."; nullopt for any other key.
std::optional<std::pair<std::size_t, std::string>> numbered_key(const std::string& key,
                                                                std::string_view table) {
  if (!key.starts_with(table)) return std::nullopt;
  const std::size_t dot = key.find('.', table.size());
  if (dot == std::string::npos) return std::nullopt;
  const auto number =
      parse_number<std::size_t>(std::string_view(key).substr(table.size(), dot - table.size()));
  if (!number) return std::nullopt;
  return std::pair(*number, key.substr(dot + 1));
}

// A value as its setting writes it: "0.02s" is "20ms".
std::string written(const std::string& key, const std::string& value) {
  const Setting* const setting = find_setting(key);
  Experiment experiment;
  if (setting == nullptr || !setting->set(experiment, value)) return value;
  return setting->get(experiment).value_or(value);
}

Status read_list(std::vector<SweepAxis>& axes, const std::string& key, const toml::array& list,
                 const std::string& path) {
  const std::string where = place(path, list) + ": sweep." + key + ": ";
  if (list.empty()) return Error{where + "the list is empty"};
  SweepAxis axis;
  axis.key = key;
  std::map<std::string, std::string> first_as;
  for (const toml::node& node : list) {
    const auto value = scalar(node);
    if (!value) return Error{where + "expected a list of single values"};
    const auto [same, is_new] = first_as.emplace(written(key, *value), *value);
    if (!is_new) {
      const std::string& first = same->second;
      return Error{where + *value + " occurs twice" + (first == *value ? "" : ", first as " + first)};
    }
    axis.values.push_back(*value);
    axis.places.push_back(place(path, node) + ": sweep");
  }
  axes.push_back(std::move(axis));
  return Done{};
}

bool is_known(const std::string& key) {
  return find_setting(key) != nullptr || numbered_key(key, kFault) || numbered_key(key, kPeer);
}

Error unknown(const std::string& key) {
  std::vector<std::string> keys{"fault.1.slow", "peer.1.workers", std::string(kCase)};
  for (const Setting& setting : settings()) keys.push_back(setting.key);
  return Error{unknown_key(key, keys)};
}

// The keys of one case, and of the tables inside it.
Status read_case(SweepAxis::Sets& sets, const toml::table& table, const std::string& prefix) {
  for (const auto& [name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    if (const auto* inner = node.as_table()) {
      if (Status read = read_case(sets, *inner, key + "."); !read) return read;
      continue;
    }
    if (!is_known(key)) return unknown(key);
    const auto value = scalar(node);
    if (!value) return Error{key + ": expected a single value"};
    sets.emplace_back(key, *value);
  }
  return Done{};
}

// A case is named by what it sets.
Status read_cases(std::vector<SweepAxis>& axes, const toml::array& list, const std::string& path) {
  SweepAxis axis;
  axis.key = kCase;
  for (const toml::node& node : list) {
    const std::string where = place(path, node) + ": sweep";
    SweepAxis::Sets sets;
    if (const auto* table = node.as_table()) {
      if (Status read = read_case(sets, *table, ""); !read)
        return Error{where + ".case: " + read.error().message};
    }
    if (sets.empty())
      return Error{where + R"(.case: expected a table of settings, { peers = 2, training.steps = 100 })"};
    std::vector<std::string> keys, values;
    for (const auto& [key, value] : sets) {
      keys.push_back(key);
      values.push_back(value);
    }
    const std::string name = kind_text(short_names(keys), values);
    if (std::find(axis.values.begin(), axis.values.end(), name) != axis.values.end())
      return Error{where + ".case: " + name + " occurs twice"};
    axis.values.push_back(name);
    axis.places.push_back(where);
    axis.cases.push_back(std::move(sets));
  }
  if (axis.values.empty()) return Error{place(path, list) + ": sweep.case: the list is empty"};
  axes.push_back(std::move(axis));
  return Done{};
}

// The lists of a table and of the tables inside it, whose names are prefixes of their keys.
Status read_lists(std::vector<SweepAxis>& axes, const toml::table& table, const std::string& prefix,
                  const std::string& path) {
  for (const auto& [name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    Status status = Done{};
    if (const auto* inner = node.as_table()) {
      status = read_lists(axes, *inner, key + ".", path);
    } else if (const auto* list = node.as_array()) {
      if (key != kCase && !is_known(key))
        return Error{place(path, node) + ": sweep: " + unknown(key).message};
      status = key == kCase ? read_cases(axes, *list, path) : read_list(axes, key, *list, path);
    } else {
      return Error{place(path, node) + ": sweep." + key + ": expected a list, " + key + " = [ ... ]"};
    }
    if (!status) return status;
  }
  return Done{};
}

// Sets one key of one of the tables [[fault]] or [[peer]]; `what`: "fault", "[[peer]]".
template <class Table>
Status apply_numbered(std::vector<Table>& tables, const std::pair<std::size_t, std::string>& key,
                      const std::string& value, const std::string& what, const std::string& tables_name,
                      Status (*set)(Table&, const std::string&, const std::string&)) {
  const auto& [number, field] = key;
  if (number < 1 || number > tables.size()) {
    return Error{what + " " + std::to_string(number) + " does not exist; the file has " +
                 std::to_string(tables.size()) + " " + tables_name + "s, numbered from 1"};
  }
  return set(tables[number - 1], field, value);
}

Status apply(Experiment& experiment, const std::string& key, const std::string& value,
             const std::string& where) {
  Status done = Done{};
  if (const auto own = numbered_key(key, kPeer)) {
    done = apply_numbered(experiment.own, *own, value, "[[peer]]", "[[peer]]", set_own);
  } else if (const auto fault = numbered_key(key, kFault)) {
    done = apply_numbered(experiment.faults, *fault, value, "fault", "[[fault]]", set_fault);
  } else {
    return set_value(experiment, key, value, where);
  }
  return done ? done : Error{where + "." + key + ": " + done.error().message};
}

std::string name_of(const std::vector<SweepAxis>& axes, std::vector<std::string> values,
                    std::set<std::string>& taken) {
  for (std::string& value : values) value = file_name_of(value);
  std::string name = kind_text(axis_names(axes), values);
  name.resize(std::min(name.size(), kLongestName));
  std::string free = name;
  for (int again = 2; !taken.insert(free).second; ++again) free = name + "~" + std::to_string(again);
  return free;
}

bool is_axis(const std::vector<SweepAxis>& axes, const std::string& key) {
  return std::any_of(axes.begin(), axes.end(), [&](const SweepAxis& axis) {
    return axis.key == key || std::ranges::any_of(axis.cases, [&](const SweepAxis::Sets& sets) {
             return std::ranges::any_of(sets, [&](const auto& set) { return set.first == key; });
           });
  });
}

// The lists of a file's [sweep], seed last. `where` becomes the table's place.
Result<std::vector<SweepAxis>> read_axes(const std::string& path, std::string& where) {
  const auto text = read_toml(path);
  if (!text) return text.error();
  toml::table file;
  try {
    file = toml::parse(*text, path);
  } catch (const toml::parse_error&) {
    return Error{path + ": the file changed while it was read; try again"};
  }
  const auto* const table = file["sweep"].as_table();
  if (table == nullptr) return Error{path + ": it has no [sweep], a table of lists such as seed = [1, 2, 3]"};
  where = place(path, *table) + ": ";
  std::vector<SweepAxis> axes;
  if (Status read = read_lists(axes, *table, "", path); !read) return read.error();
  if (axes.empty()) return Error{where + "[sweep] has no lists; add some, such as seed = [1, 2, 3]"};
  for (const SweepAxis& axis : axes) {
    const std::vector<SweepAxis> one{axis};
    for (const SweepAxis& other : axes) {
      if (&other != &axis && is_axis(one, other.key))
        return Error{where + "sweep: " + other.key + " is set by a list and by a case; choose one"};
    }
  }
  std::sort(axes.begin(), axes.end(), [](const SweepAxis& a, const SweepAxis& b) {
    return std::pair(a.key == "seed", a.key) < std::pair(b.key == "seed", b.key);
  });
  return axes;
}

using Sets = SweepAxis::Sets;

// Replaces the list of a key by the values that `sets` has for it.
Status shorten(std::vector<SweepAxis>& axes, const Sets& sets) {
  for (SweepAxis& axis : axes) {
    Sets own;
    std::ranges::copy_if(sets, std::back_inserter(own),
                         [&](const auto& set) { return set.first == axis.key; });
    if (own.empty() || !axis.cases.empty()) continue;
    axis.values.clear();
    for (const auto& [key, value] : own) {
      if (std::ranges::find(axis.values, value) != axis.values.end())
        return Error{"--set: " + key + ": " + value + " occurs twice"};
      axis.values.push_back(value);
    }
    axis.places.assign(own.size(), "--set");
  }
  return Done{};
}

// Reads the environment and --set over the experiment that all points share.
Status read_overrides(Experiment& base, const std::vector<SweepAxis>& axes, const std::string& path,
                      const std::function<const char*(const char*)>& lookup, const Sets& sets) {
  const auto lookup_others = [&](const char* variable) -> const char* {
    for (const Setting& setting : settings())
      if (setting.environment == variable && is_axis(axes, setting.key)) return nullptr;
    return lookup(variable);
  };
  if (Status read = read_environment(base, lookup_others); !read) return read;
  for (const auto& [key, value] : sets) {
    if (std::ranges::find(axes, key, &SweepAxis::key) != axes.end()) continue;  // see shorten()
    if (is_axis(axes, key)) return Error{"--set: " + key + " is set by a case of the [sweep] in " + path};
    if (Status set = set_value(base, key, value, "--set"); !set) return set;
  }
  return Done{};
}

// The point with this number among `points`: the last list varies fastest.
Result<SweepPoint> make_point(const Experiment& base, const std::vector<SweepAxis>& axes, std::size_t number,
                              std::size_t points, const std::string& where, std::set<std::string>& taken) {
  SweepPoint point;
  point.experiment = base;
  for (const SweepAxis& axis : axes) {
    points /= axis.values.size();
    const std::size_t choice = number / points;
    number %= points;
    const std::string& value = axis.values[choice];
    const SweepAxis::Sets sets = axis.cases.empty() ? SweepAxis::Sets{{axis.key, value}} : axis.cases[choice];
    for (const auto& [key, set_to] : sets) {
      if (Status set = apply(point.experiment, key, set_to, axis.places[choice]); !set) return set.error();
    }
    point.values.push_back(value);
  }
  if (Status settled = settle_model(point.experiment, is_axis(axes, "model.name"), false); !settled)
    return Error{where + "sweep: " + settled.error().message};
  point.name = name_of(axes, point.values, taken);
  if (Status sound = check(point.experiment); !sound)
    return Error{where + "sweep: " + point.name + ": " + sound.error().message};
  return point;
}

}  // namespace

std::vector<std::string> axis_names(const std::vector<SweepAxis>& axes) {
  std::vector<std::string> keys;
  for (const SweepAxis& axis : axes) keys.push_back(axis.key);
  return short_names(keys);
}

Result<Sweep> read_sweep(const std::string& path, const std::function<const char*(const char*)>& lookup,
                         const std::vector<std::pair<std::string, std::string>>& sets) {
  std::string where;
  Experiment base, probe;
  probe.optimizer.name.clear();
  if (Status read = read_file(probe, path, Sweeps::accepted); !read) return read.error();
  auto axes = read_axes(path, where);
  if (!axes) return axes.error();
  if (Status shorter = shorten(*axes, sets); !shorter) return shorter.error();
  if (Status read = read_overrides(probe, *axes, path, lookup, sets); !read) return read.error();
  if (!is_axis(*axes, "training.optimizer") && !is_axis(*axes, "model.name"))
    set_preset(preset_for(probe, false), base);
  if (Status read = read_file(base, path, Sweeps::accepted); !read) return read.error();
  if (Status read = read_overrides(base, *axes, path, lookup, sets); !read) return read.error();

  Sweep sweep;
  std::size_t points = 1;
  for (const SweepAxis& axis : *axes) {
    sweep.axes.push_back(axis);
    points *= axis.values.size();
    if (points > kMostPoints)
      return Error{where + "sweep: these are more than " + std::to_string(kMostPoints) + " experiments"};
  }
  std::set<std::string> taken;
  for (std::size_t number = 0; number < points; ++number) {
    auto point = make_point(base, *axes, number, points, where, taken);
    if (!point) return point.error();
    sweep.points.push_back(std::move(*point));
  }
  return sweep;
}

}  // namespace starling::training
