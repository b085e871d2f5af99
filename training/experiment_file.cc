// The experiment file.
#include <algorithm>

#include "base/text.h"
#include "models/spec_text.h"
#include "training/experiment.h"
#include "training/files.h"
#include "training/nearest.h"
#include "training/quantities.h"
#include "training/toml.h"

namespace starling::training {
namespace {

constexpr std::size_t kMostFaults = 10'000;
constexpr const char* kLayersKey = "model.layers";

// Slow is a slowness, poison a name; the others are said to be true. Sets the kind and what belongs to it.
Status read_kind(Fault& fault, const std::string& key, const std::string& value, Fault::Kind kind) {
  fault.kind = kind;
  if (kind == Fault::Kind::slow) {
    const auto factor = Slowness::parse(value);
    if (!factor) return factor.error();
    fault.factor = *factor;
  } else if (kind == Fault::Kind::poison) {
    if (std::find(poisons().begin(), poisons().end(), value) == poisons().end()) {
      std::string names;
      for (const auto& poison : poisons()) names += (names.empty() ? "" : ", ") + poison;
      return Error{"'" + value.substr(0, 80) + "' is no poison; expected one of " + names};
    }
    fault.poison = value;
  } else if (value != "true") {
    return Error{"'" + value.substr(0, 80) + "' is not accepted; write " + key +
                 " = true, or leave the fault out"};
  }
  return Done{};
}

// Of latency, bandwidth and drop.
Status read_link_value(Fault& fault, const std::string& key, const std::string& value) {
  const auto take = [](const auto& parsed, auto& target) -> Status {
    if (!parsed) return parsed.error();
    target = *parsed;
    return Done{};
  };
  fault.kind = Fault::Kind::link;
  if (key == "latency") return take(parse_time(value), fault.link.latency);
  if (key == "bandwidth") return take(parse_rate(value), fault.link.bandwidth);
  if (key == "drop") return take(parse_real(value, {0, 1, false, true}), fault.link.drop);
  return Error{"a link has no '" + key.substr(0, 80) + "'"};
}

// link = { latency = "20ms", bandwidth = "10Mbit/s", drop = 0.01 }, in one line or as a table of its own.
Status read_link(Fault& fault, const toml::node& node, const std::string& path) {
  static const std::vector<std::string> kKeys = {"fault.link.latency", "fault.link.bandwidth",
                                                 "fault.link.drop"};
  fault.kind = Fault::Kind::link;
  const toml::table* table = node.as_table();
  if (table == nullptr || table->empty()) {
    return Error{place(path, node) +
                 ": fault.link: expected a table with some of latency, bandwidth and drop, for example " +
                 "link = { latency = \"20ms\" }"};
  }
  for (const auto& [name_node, entry] : *table) {
    const std::string key = "fault.link." + std::string(name_node.str());
    const std::string where = place(path, entry) + ": ";
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) return Error{where + unknown_key(key, kKeys)};
    const auto value = scalar(entry);
    if (!value) return Error{where + key + ": expected a single value"};
    if (Status taken = read_link_value(fault, std::string(name_node.str()), *value); !taken)
      return Error{where + key + ": " + taken.error().message};
  }
  if (fault.link == Fault::Link{}) {
    return Error{place(path, node) + ": fault.link: this link is like all others; give it a latency, a bandwidth " +
                 "or a drop above 0"};
  }
  return Done{};
}

Result<Fault> read_fault(const toml::table& table, const std::string& path) {
  using enum Fault::Kind;
  static const std::vector<std::string> kKeys = {"fault.peer",  "fault.slow", "fault.pause",  "fault.crash",
                                                 "fault.leave", "fault.join", "fault.poison", "fault.link",
                                                 "fault.from",  "fault.to"};
  Fault fault;
  bool has_peer = false;
  std::vector<std::string> kinds;
  for (const auto& [name_node, node] : table) {
    const std::string key(name_node.str());
    const std::string where = place(path, node) + ": ";
    if (std::find(kKeys.begin(), kKeys.end(), "fault." + key) == kKeys.end()) {
      return Error{where + unknown_key("fault." + key, kKeys)};
    }
    if (key == name(link)) {
      kinds.push_back(key);
      if (Status read = read_link(fault, node, path); !read) return read.error();
      continue;
    }
    const auto value = scalar(node);
    if (!value) return Error{where + "fault." + key + ": expected a single value"};
    has_peer = has_peer || key == "peer";
    if (key != "peer" && key != "from" && key != "to") kinds.push_back(key);
    if (Status set = set_fault(fault, key, *value); !set)
      return Error{where + "fault." + key + ": " + set.error().message};
  }
  const std::string where = place(path, table) + ": ";
  if (!has_peer) return Error{where + "this fault has no 'peer'; peers are numbered from 0"};
  if (kinds.size() != 1) {
    return Error{where + "this fault has " + (kinds.empty() ? "no kind" : "several kinds") +
                 "; expected exactly one of slow = FACTOR, poison = NAME, link = { ... }, pause, crash, leave " +
                 "or join = true"};
  }
  if (fault.to && !lasts(fault.kind)) {
    return Error{where + "fault.to belongs to slow, pause, poison and link alone"};
  }
  if (fault.to && *fault.to <= fault.from) return Error{where + "fault.to must be later than fault.from"};
  return fault;
}

Status read_faults(Experiment& experiment, const toml::node& node, const std::string& path) {
  const toml::array* list = node.as_array();
  if (list == nullptr ||
      !std::all_of(list->begin(), list->end(), [](const auto& e) { return e.is_table(); })) {
    return Error{place(path, node) + ": fault: expected [[fault]] tables, each in double brackets"};
  }
  if (list->size() > kMostFaults) {
    return Error{place(path, node) + ": fault: at most " + std::to_string(kMostFaults) +
                 " faults are accepted"};
  }
  experiment.faults.clear();
  for (const auto& element : *list) {
    auto fault = read_fault(*element.as_table(), path);
    if (!fault) return fault.error();
    experiment.faults.push_back(*fault);
  }
  return Done{};
}

bool is_table_name(const std::string& name) {
  return std::any_of(settings().begin(), settings().end(),
                     [&](const Setting& setting) { return setting.key.starts_with(name + "."); });
}

const Setting* find(const std::string& key) {
  for (const auto& setting : settings()) {
    if (setting.key == key) return &setting;
  }
  return nullptr;
}

// An array of layers, by the document that it stands in, so that a layer's own line can be named.
Status read_layers(Experiment& experiment, const toml::node& node, const std::string& path,
                   const std::string& document) {
  if (!node.is_array()) {
    return Error{place(path, node) + ": " + kLayersKey + ": expected an array of layers, layers = [ ... ]"};
  }
  const auto layers = models::read_layers(document);
  if (!layers) {
    return Error{path + ", line " + std::to_string(layers.error().line) + ": " + kLayersKey + ": " +
                 layers.error().message};
  }
  experiment.layers = models::format_layers(*layers);
  return Done{};
}

std::vector<std::string> keys_of_file() {
  std::vector<std::string> keys;
  for (const auto& setting : settings()) keys.push_back(setting.key);
  keys.emplace_back("fault.peer");
  return keys;
}

// All keys of one table, the top level (prefix "") or a table in it.
Status read_table(Experiment& experiment, const toml::table& table, const std::string& prefix,
                  const std::string& path, const std::string& document) {
  for (const auto& [name_node, node] : table) {
    const std::string name(name_node.str());
    const std::string key = prefix + name;
    Status status = Done{};
    if (key == "sweep") continue;  // training/sweep.h
    if (key == "fault") {
      status = read_faults(experiment, node, path);
    } else if (prefix.empty() && is_table_name(name)) {
      if (!node.is_table()) {
        return Error{place(path, node) + ": " + key + ": expected a table, [" + key + "]"};
      }
      status = read_table(experiment, *node.as_table(), name + ".", path, document);
    } else if (find(key) == nullptr) {
      return Error{place(path, node) + ": " + unknown_key(key, keys_of_file())};
    } else if (const auto value = scalar(node)) {
      status = set_value(experiment, key, *value, place(path, node));
    } else if (key == kLayersKey) {
      status = read_layers(experiment, node, path, document);
    } else {
      return Error{place(path, node) + ": " + key + ": expected a single value"};
    }
    if (!status) return status;
  }
  return Done{};
}

// A TOML basic string.
std::string quote(const std::string& text) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// TOML's whole numbers have 63 bits; a larger seed is written as text.
std::string write_value(const Setting& setting, const std::string& value) {
  if (setting.form == Setting::Form::array)
    return models::format_layers(*models::parse_layers(value), models::Lines::many);
  if (setting.form == Setting::Form::text) return quote(value);
  if (setting.form == Setting::Form::number && !parse_number<std::int64_t>(value) &&
      parse_number<std::uint64_t>(value)) {
    return quote(value);
  }
  return value;
}

}  // namespace

Status set_fault(Fault& fault, const std::string& key, const std::string& value) {
  using enum Fault::Kind;
  if (key == "peer") {
    const auto peer = parse_fault_peer(value);
    if (!peer) return peer.error();
    fault.peer = *peer;
    return Done{};
  }
  if (key == "from" || key == "to") {
    const auto time = parse_seconds(value);
    if (!time) return time.error();
    (key == "from" ? fault.from : fault.to.emplace()) = *time;
    return Done{};
  }
  for (const auto kind : {slow, pause, crash, leave, join, poison})
    if (key == name(kind)) return read_kind(fault, key, value, kind);
  const std::string link_key = "link.";
  if (key.starts_with(link_key)) return read_link_value(fault, key.substr(link_key.size()), value);
  return Error{"a fault has no '" + key.substr(0, 80) + "'"};
}

Status read_file(Experiment& experiment, const std::string& path, Sweeps sweeps) {
  const auto text = read_text(path, kLargestExperimentFile);
  if (!text) return text.error();
  try {
    const toml::table table = toml::parse(*text, path);
    if (const toml::node* sweep = table.get("sweep"); sweep != nullptr && sweeps == Sweeps::refused)
      return Error{place(path, *sweep) + ": [sweep] stands for many experiments: starling sweep " + path};
    Experiment read = experiment;
    if (Status status = read_table(read, table, "", path, *text); !status) return status;
    const toml::node_view model = table["model"];
    if (Status status =
            settle_model(read, static_cast<bool>(model["name"]), static_cast<bool>(model["layers"]));
        !status) {
      return Error{place(path, model["name"] ? *model["name"].node() : table) + ": " +
                   status.error().message};
    }
    experiment = std::move(read);
    return Done{};
  } catch (const toml::parse_error& error) {
    return Error{path + ", line " + std::to_string(error.source().begin.line) + ": " +
                 std::string(error.description())};
  }
}

namespace {

std::string write_kind(const Fault& fault) {
  if (fault.kind == Fault::Kind::slow)
    return fault.factor.factor() > 0 ? fault.factor.text() : quote(fault.factor.text());
  if (fault.kind == Fault::Kind::poison) return quote(fault.poison);
  if (fault.kind != Fault::Kind::link) return "true";
  std::string parts;
  const auto add = [&parts](const std::string& part) { parts += (parts.empty() ? "" : ", ") + part; };
  if (fault.link.latency) add("latency = " + quote(format_duration(*fault.link.latency)));
  if (fault.link.bandwidth) add("bandwidth = " + quote(format_rate(*fault.link.bandwidth)));
  if (fault.link.drop > 0) add("drop = " + format_number(fault.link.drop));
  return "{ " + parts + " }";
}

}  // namespace

std::string to_toml(const Experiment& experiment) {
  std::string text, table;
  for (const auto& setting : settings()) {
    const auto value = setting.get(experiment);
    if (!value) continue;
    const auto dot = setting.key.find('.');
    const std::string its_table = dot == std::string::npos ? "" : setting.key.substr(0, dot);
    if (its_table != table) {
      text += "\n[" + its_table + "]\n";
      table = its_table;
    }
    text += (dot == std::string::npos ? setting.key : setting.key.substr(dot + 1)) + " = " +
            write_value(setting, *value) + "\n";
  }
  for (const auto& fault : experiment.faults) {
    text += "\n[[fault]]\npeer = " + (fault.peer == Fault::kAll ? quote("all") : std::to_string(fault.peer)) + "\n" + name(fault.kind) + " = " +
            write_kind(fault) + "\nfrom = " + quote(format_duration(fault.from)) + "\n";
    if (fault.to) text += "to = " + quote(format_duration(*fault.to)) + "\n";
  }
  return text;
}

}  // namespace starling::training
