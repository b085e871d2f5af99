#include "training/runs/experiment/experiment_file.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "models/spec_text.h"
#include "training/runs/experiment/settings/quantities.h"
#include "training/runs/experiment/settings/settings.h"
#include "training/runs/experiment/settings/toml.h"
#include "training/runs/experiment/settings/toml_text.h"

namespace starling::training {
namespace {

constexpr std::size_t kMostTables = 10'000;  // [[fault]]s, and as many [[peer]]s
constexpr const char* kLayersKey = "model.layers";

// Sets the kind and its value: slow is a slowness, poison a name; the other kinds take only "true".
Status read_kind(Fault& fault, const std::string& value, Fault::Kind kind) {
  fault.kind = kind;
  if (kind == Fault::Kind::slow) return take(Slowness::parse(value), fault.factor);
  if (kind == Fault::Kind::poison) {
    if (std::find(poisons().begin(), poisons().end(), value) == poisons().end())
      return Error{in_quotes(value) + " is not a poison; expected one of " + joined(poisons(), ", ")};
    fault.poison = value;
  } else if (value != "true") {
    return Error{in_quotes(value) + " is not accepted; write " + name(kind) +
                 " = true, or leave the fault out"};
  }
  return Done{};
}

// A kind of fault whose value is a table, inline or with a header of its own.
struct KindTable {
  Fault::Kind kind;
  const char* example;
  std::array<const char*, 3> keys;
};
constexpr std::array<KindTable, 2> kKindTables = {
    {{Fault::Kind::link, R"(link = { latency = "20ms" })", {"latency", "bandwidth", "drop"}},
     {Fault::Kind::churn,
      R"(churn = { crashes_per_minute = 0.5, back_after = "20s" })",
      {"crashes_per_minute", "leaves_per_minute", "back_after"}}}};

Status set_link(LinkChange& link, const std::string& key, const std::string& value) {
  if (key == "latency") return take(parse_time(value), link.latency);
  if (key == "bandwidth") return take(parse_rate(value), link.bandwidth);
  if (key == "drop") return take(parse_real(value, {0, 1, false, true}), link.drop);
  return Error{"link has no " + in_quotes(key)};
}

Status set_churn(Fault::Churn& churn, const std::string& key, const std::string& value) {
  constexpr Interval kRates{0, 1000};
  if (key == "crashes_per_minute") return take(parse_real(value, kRates), churn.crashes_per_minute);
  if (key == "leaves_per_minute") return take(parse_real(value, kRates), churn.leaves_per_minute);
  if (key == "back_after") return take(parse_seconds(value), churn.back_after);
  return Error{"churn has no " + in_quotes(key)};
}

// The times of a fault besides `from`.
constexpr std::array<std::pair<const char*, std::optional<Duration> Fault::*>, 4> kTimes = {
    {{"to", &Fault::to},
     {"every", &Fault::every},
     {"length", &Fault::length},
     {"back_after", &Fault::back_after}}};

Status read_kind_table(Fault& fault, const KindTable& of, const toml::node& node, const std::string& path) {
  const std::string kind = name(of.kind), prefix = "fault." + kind;
  std::vector<std::string> names, known;
  for (const std::string key : of.keys) {
    names.push_back(key);
    known.push_back(prefix + "." + key);
  }
  const toml::table* table = node.as_table();
  if (table == nullptr || table->empty()) {
    return Error{place(path, node) + ": " + prefix + ": expected a table with some of " + and_list(names) +
                 ", for example " + of.example};
  }
  for (const auto& [name_node, entry] : *table) {
    const std::string key = kind + "." + std::string(name_node.str());
    const std::string where = place(path, entry) + ": ";
    if (std::find(known.begin(), known.end(), "fault." + key) == known.end())
      return Error{where + unknown_key("fault." + key, known)};
    const auto value = scalar(entry);
    if (!value) return Error{where + "fault." + key + ": expected a single value"};
    if (Status set = set_fault(fault, key, *value); !set)
      return Error{where + "fault." + key + ": " + set.error().message};
  }
  if (of.kind == Fault::Kind::link && fault.link == LinkChange{}) {
    return Error{place(path, node) +
                 ": fault.link: this link is like all others; set latency, bandwidth or a drop above 0"};
  }
  return Done{};
}

// Peers, as a flag would give them; an array becomes a list with commas.
std::optional<std::string> peers_text(const toml::node& node) {
  const toml::array* list = node.as_array();
  if (list == nullptr) return scalar(node);
  std::vector<std::string> parts;
  for (const toml::node& entry : *list) {
    const auto one = scalar(entry);
    if (!one) return std::nullopt;
    parts.push_back(*one);
  }
  return joined(parts, ",");
}

Result<Fault> read_fault(const toml::table& table, const std::string& path) {
  static const std::vector<std::string> kKeys = [] {
    std::vector<std::string> keys;
    for (const char* kind : kFaultKinds) keys.push_back("fault." + std::string(kind));
    for (const char* key : {"peer", "from", "to", "other", "every", "length", "back_after"})
      keys.push_back("fault." + std::string(key));
    return keys;
  }();
  Fault fault;
  bool has_peer = false;
  std::size_t kinds = 0;
  for (const auto& [name_node, node] : table) {
    const std::string key(name_node.str());
    const std::string where = place(path, node) + ": ";
    if (std::find(kKeys.begin(), kKeys.end(), "fault." + key) == kKeys.end()) {
      return Error{where + unknown_key("fault." + key, kKeys)};
    }
    if (std::find(kFaultKinds.begin(), kFaultKinds.end(), key) != kFaultKinds.end()) ++kinds;
    const auto of = std::find_if(kKindTables.begin(), kKindTables.end(),
                                 [&](const KindTable& it) { return key == name(it.kind); });
    if (of != kKindTables.end()) {
      if (Status read = read_kind_table(fault, *of, node, path); !read) return read.error();
      continue;
    }
    const bool peers = key == "peer" || key == "other";
    const auto value = peers ? peers_text(node) : scalar(node);
    if (!value) {
      return Error{
          where + "fault." + key +
          (peers ? ": expected a number, an array of numbers, or \"all\"" : ": expected a single value")};
    }
    has_peer = has_peer || key == "peer";
    if (Status set = set_fault(fault, key, *value); !set)
      return Error{where + "fault." + key + ": " + set.error().message};
  }
  const std::string where = place(path, table) + ": ";
  if (!has_peer) return Error{where + "this fault has no 'peer'; peers are numbered from 0"};
  if (kinds != 1) {
    return Error{
        where + "this fault has " + (kinds == 0 ? "no kind" : "several kinds") +
        "; expected exactly one of slow = FACTOR, poison = NAME, link = { ... }, churn = { ... }, pause, " +
        "crash, leave or join = true"};
  }
  if (fault.to && !lasts(fault.kind)) {
    return Error{where + "only slow, pause, poison, link and churn have fault.to"};
  }
  if (fault.to && *fault.to <= fault.from) return Error{where + "fault.to must be later than fault.from"};
  // The number of peers may come later in the file or from a flag.
  if (Status fine = check_fault(fault, PeerSet::kMost + 1); !fine)
    return Error{where + "fault: " + fine.error().message};
  return fault;
}

// Replaces `tables` by the elements of an array of tables: [[fault]] or [[peer]].
template <class Table>
Status read_tables(std::vector<Table>& tables, const std::string& key, const toml::node& node,
                   const std::string& path, Result<Table> (*read)(const toml::table&, const std::string&)) {
  const std::string where = place(path, node) + ": " + key + ": ", brackets = "[[" + key + "]]";
  const toml::array* list = node.as_array();
  if (list == nullptr ||
      !std::all_of(list->begin(), list->end(), [](const auto& e) { return e.is_table(); })) {
    return Error{where + "expected " + brackets + " tables, each in double brackets"};
  }
  if (list->size() > kMostTables)
    return Error{where + "at most " + std::to_string(kMostTables) + " " + brackets + " tables are accepted"};
  tables.clear();
  for (const auto& element : *list) {
    auto table = read(*element.as_table(), path);
    if (!table) return table.error();
    tables.push_back(std::move(*table));
  }
  return Done{};
}

// A [[peer]].
Result<OwnSettings> read_own(const toml::table& table, const std::string& path) {
  OwnSettings own;
  bool has_number = false;
  for (const auto& [name_node, node] : table) {
    const std::string key(name_node.str());
    const std::string where = place(path, node) + ": ";
    has_number = has_number || key == "number";
    const auto value = key == "number" ? peers_text(node) : scalar(node);
    if (!value && key == "number")
      return Error{where + "peer.number: expected a number, an array of numbers, or \"all\""};
    if (!value) {
      return Error{where + "peer." + key + ": expected a single value" +
                   (node.is_array() ? "; to sweep over it in the first [[peer]], write in [sweep]: peer.1." +
                                          key + " = [ ... ]"
                                    : "")};
    }
    if (Status taken = set_own(own, key, *value); !taken) return Error{where + taken.error().message};
  }
  const std::string where = place(path, table) + ": ";
  if (!has_number) return Error{where + "this [[peer]] has no 'number'; peers are numbered from 0"};
  if (own.values.empty())
    return Error{where + "this [[peer]] sets nothing; it can set " + own_setting_names()};
  return own;
}

Error syntax_error(const std::string& path, const toml::parse_error& error) {
  return Error{path + ", line " + std::to_string(error.source().begin.line) + ": " +
               std::string(error.description())};
}

bool is_table_name(const std::string& name) {
  return std::any_of(settings().begin(), settings().end(),
                     [&](const Setting& setting) { return setting.key.starts_with(name + "."); });
}

// The names of the settings in the table [model], without that.
std::vector<std::string> model_keys() {
  const std::string table = "model.";
  std::vector<std::string> keys;
  for (const Setting& setting : settings()) {
    if (setting.key.starts_with(table) && setting.key != kLayersKey)
      keys.push_back(setting.key.substr(table.size()));
  }
  return keys;
}

// An array of layers, or the type of a whole network. It is read from the whole document, so that an Error
// can name a layer's line.
Status read_layers(Experiment& experiment, const toml::node& node, const std::string& path,
                   const std::string& document) {
  if (!node.is_array() && !node.is_string()) {
    return Error{place(path, node) + ": " + kLayersKey + ": expected an array of layers, layers = [ ... ]"};
  }
  const auto layers = models::read_layers(document, model_keys());
  if (!layers) {
    return Error{path + ", line " + std::to_string(layers.error().line) + ": " + kLayersKey + ": " +
                 layers.error().message};
  }
  experiment.model.layers = models::format_layers(*layers);
  return Done{};
}

std::vector<std::string> keys_of_file() {
  std::vector<std::string> keys;
  for (const auto& setting : settings()) keys.push_back(setting.key);
  keys.emplace_back("fault.peer");
  keys.emplace_back("peer.number");
  return keys;
}

// [contents]: hashes by names.
Status read_contents(Experiment& experiment, const toml::node& node, const std::string& path) {
  const toml::table* const table = node.as_table();
  if (table == nullptr) return Error{place(path, node) + ": contents: expected a table, [contents]"};
  experiment.contents.clear();
  for (const auto& [name, hash] : *table) {
    if (!hash.is_string())
      return Error{place(path, hash) + ": contents: expected a text, the hash of " + std::string(name.str())};
    experiment.contents[std::string(name.str())] = *hash.value<std::string>();
  }
  return Done{};
}

// All keys of one table, the top level (prefix "") or a table in it.
Status read_table(Experiment& experiment, const toml::table& table, const std::string& prefix,
                  const std::string& path, const std::string& document) {
  for (const auto& [name_node, node] : table) {
    const std::string name(name_node.str());
    const std::string key = prefix + name;
    Status status = Done{};
    if (key == "sweep" || key == "daemon") continue;  // sweep.h, read_daemon_table()
    if (key == "contents") {
      if (Status known = read_contents(experiment, node, path); !known) return known;
      continue;
    }
    const bool of_network = prefix == "model." && table.contains("type");
    if (key == "fault") {
      status = read_tables(experiment.faults, key, node, path, read_fault);
    } else if (key == "peer") {
      status = read_tables(experiment.own, key, node, path, read_own);
    } else if (prefix.empty() && is_table_name(name)) {
      if (!node.is_table()) {
        return Error{place(path, node) + ": " + key + ": expected a table, [" + key + "]"};
      }
      status = read_table(experiment, *node.as_table(), name + ".", path, document);
    } else if (of_network && (key == kLayersKey || find_setting(key) == nullptr)) {
      if (name == "type") status = read_layers(experiment, node, path, document);  // and all of these keys
    } else if (find_setting(key) == nullptr) {
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

std::string write_kind(const Fault& fault) {
  if (fault.kind == Fault::Kind::slow)
    return fault.factor.factor() > 0 ? fault.factor.text() : quote(fault.factor.text());
  if (fault.kind == Fault::Kind::poison) return quote(fault.poison);
  std::string parts;
  const auto add = [&parts](const std::string& part) { parts += (parts.empty() ? "" : ", ") + part; };
  if (fault.kind == Fault::Kind::link) {
    if (fault.link.latency) add("latency = " + quote(format_duration(*fault.link.latency)));
    if (fault.link.bandwidth) add("bandwidth = " + quote(format_rate(*fault.link.bandwidth)));
    if (fault.link.drop > 0) add("drop = " + format_number(fault.link.drop));
  } else if (fault.kind == Fault::Kind::churn) {
    const Fault::Churn& churn = fault.churn;
    if (churn.crashes_per_minute > 0) add("crashes_per_minute = " + format_number(churn.crashes_per_minute));
    if (churn.leaves_per_minute > 0) add("leaves_per_minute = " + format_number(churn.leaves_per_minute));
    if (churn.back_after) add("back_after = " + quote(format_duration(*churn.back_after)));
  } else {
    return "true";
  }
  return "{ " + parts + " }";
}

std::string write_peers(const PeerSet& peers) { return peers.is_one() ? peers.text() : quote(peers.text()); }

std::string write_fault(const Fault& fault) {
  std::string text = "\n[[fault]]\npeer = " + write_peers(fault.peer) + "\n";
  if (fault.other) text += "other = " + write_peers(*fault.other) + "\n";
  text += std::string(name(fault.kind)) + " = " + write_kind(fault) + "\n";
  const auto add = [&text](const char* key, const std::optional<Duration>& time) {
    if (time) text += std::string(key) + " = " + quote(format_duration(*time)) + "\n";
  };
  add("from", fault.from);
  for (const auto& [key, member] : kTimes) add(key, fault.*member);
  return text;
}

std::string write_own(const OwnSettings& own) {
  std::string text = "\n[[peer]]\nnumber = " + write_peers(own.peers) + "\n";
  for (const auto& [key, value] : own.values)
    text += key.substr(key.find('.') + 1) + " = " + write_value(*find_setting(key), value) + "\n";
  return text;
}

}  // namespace

Status set_fault(Fault& fault, const std::string& key, const std::string& value) {
  using enum Fault::Kind;
  if (key == "peer") return take(PeerSet::parse(value), fault.peer);
  if (key == "other") return take(PeerSet::parse(value), fault.other);
  if (key == "from") return take(parse_seconds(value), fault.from);
  for (const auto& [time, member] : kTimes)
    if (key == time) return take(parse_seconds(value), fault.*member);
  for (const auto kind : {slow, pause, crash, leave, join, poison})
    if (key == name(kind)) return read_kind(fault, value, kind);
  for (const KindTable& table : kKindTables) {
    const std::string kind = name(table.kind);
    if (!key.starts_with(kind + ".")) continue;
    fault.kind = table.kind;
    const std::string field = key.substr(kind.size() + 1);
    return table.kind == link ? set_link(fault.link, field, value) : set_churn(fault.churn, field, value);
  }
  return Error{"a fault has no " + in_quotes(key)};
}

Status read_file(Experiment& experiment, const std::string& path, Sweeps sweeps, DaemonTable daemon) {
  const auto text = read_toml(path);
  if (!text) return text.error();
  try {
    const toml::table table = toml::parse(*text, path);
    if (const toml::node* sweep = table.get("sweep"); sweep != nullptr && sweeps == Sweeps::refused)
      return Error{place(path, *sweep) +
                   ": [sweep] describes many experiments; run it with: starling sweep " + path};
    if (const toml::node* own = table.get("daemon"); own != nullptr && daemon == DaemonTable::refused)
      return Error{place(path, *own) +
                   ": [daemon] configures one peer; run it with: starling peer --config " + path};
    Experiment read = experiment;
    if (Status status = read_table(read, table, "", path, *text); !status) return status;
    const toml::node_view model = table["model"];
    if (Status status =
            settle_model(read, static_cast<bool>(model["name"]), model["layers"] || model["type"]);
        !status) {
      return Error{place(path, model["name"] ? *model["name"].node() : table) + ": " +
                   status.error().message};
    }
    experiment = std::move(read);
    return Done{};
  } catch (const toml::parse_error& error) {
    return syntax_error(path, error);
  }
}

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
  for (const auto& own : experiment.own) text += write_own(own);
  for (const auto& fault : experiment.faults) text += write_fault(fault);
  return text;
}

namespace {

constexpr const char* kContentsHeader = "\n[contents]\n";

}  // namespace

std::string to_toml(const Experiment& experiment, const std::map<std::string, std::string>& contents) {
  std::string text = to_toml(experiment) + (contents.empty() ? "" : kContentsHeader);
  for (const auto& [name, hash] : contents) text += quote(name) + " = " + quote(hash) + "\n";
  return text;
}

std::string without_contents(const std::string& text) { return text.substr(0, text.rfind(kContentsHeader)); }

namespace {

// As TOML, on one line.
std::string one_line(const toml::node& node) {
  std::string text;
  if (const toml::array* list = node.as_array()) {
    for (const toml::node& entry : *list) text += (text.empty() ? "" : ", ") + one_line(entry);
    return "[" + text + "]";
  }
  if (const toml::table* table = node.as_table()) {
    for (const auto& [key, entry] : *table)
      text += (text.empty() ? "" : ", ") + std::string(key.str()) + " = " + one_line(entry);
    return "{ " + text + " }";
  }
  const auto value = scalar(node);
  return node.is_string() ? "\"" + *value + "\"" : value.value_or("");
}

void add_values(const std::string& prefix, const toml::table& table,
                std::map<std::string, std::string>& values) {
  for (const auto& [name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    if (key == "contents") continue;
    const toml::array* const list = node.as_array();
    if (const auto one = peers_text(node)) {
      values[key] = *one;
    } else if (list != nullptr && !list->empty() && list->is_homogeneous(toml::node_type::table)) {
      std::size_t number = 0;
      for (const toml::node& entry : *list)
        add_values(key + "." + std::to_string(++number) + ".", *entry.as_table(), values);
    } else if (node.is_table() && prefix.empty()) {
      add_values(key + ".", *node.as_table(), values);
    } else {
      values[key] = one_line(node);
    }
  }
}

}  // namespace

Result<std::map<std::string, std::string>> values_in(const std::string& path) {
  const auto text = read_toml(path);
  if (!text) return text.error();
  std::map<std::string, std::string> values;
  try {
    add_values("", toml::parse(*text, path), values);
  } catch (const toml::parse_error& error) {
    return syntax_error(path, error);
  }
  return values;
}

Result<std::vector<DaemonEntry>> read_daemon_table(const std::string& path) {
  const auto text = read_toml(path);
  if (!text) return text.error();
  toml::table file;
  try {
    file = toml::parse(*text, path);
  } catch (const toml::parse_error& error) {
    return syntax_error(path, error);
  }
  std::vector<DaemonEntry> entries;
  const toml::node* const node = file.get("daemon");
  if (node == nullptr) return entries;
  if (!node->is_table()) return Error{place(path, *node) + ": daemon: expected a table, [daemon]"};
  for (const auto& [name, value] : *node->as_table()) {
    DaemonEntry entry{std::string(name.str()), {}, place(path, value)};
    const std::string where = entry.place + ": daemon." + entry.key + ": ";
    if (const toml::array* list = value.as_array()) {
      for (const toml::node& element : *list) {
        const auto one = scalar(element);
        if (!one) return Error{where + "expected a list of single values"};
        entry.values.push_back(*one);
      }
      if (list->empty()) return Error{where + "the list is empty"};
    } else if (const auto one = scalar(value)) {
      entry.values.push_back(*one);
    } else {
      return Error{where + "expected a single value"};
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace starling::training
