#include "training/runs/experiment/settings/setting_kinds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/text.h"
#include "models/spec_text.h"

namespace starling::training {

void name_setting(SettingText& setting, const std::string& key, std::string word) {
  if (word.empty()) word = key.substr(key.find('.') + 1);
  setting.key = key;
  setting.flag = "--";
  for (const char c : word) setting.flag += c == '_' ? '-' : c;
  setting.environment = "STARLING_";
  for (const char c : setting.flag.substr(2))
    setting.environment += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
}

Setting setting_of(const Entry& entry, Setting::Form form) {
  static const std::map<std::string, std::string> kOtherFlags = {{"model.name", "model"},
                                                                 {"data.source", "data"},
                                                                 {"network.port", "port-bandwidth"},
                                                                 {"pipeline.schedule", "pipeline"},
                                                                 {"pipeline.bandwidth", "pipeline-bandwidth"},
                                                                 {"pipeline.latency", "pipeline-latency"},
                                                                 {"pipeline.memory", "pipeline-memory"}};
  const auto other = kOtherFlags.find(entry.key);
  Setting setting;
  name_setting(setting, entry.key, other == kOtherFlags.end() ? "" : other->second);
  // STARLING_DATA is the folder of data sets.
  if (entry.key == "data.source") setting.environment = "STARLING_DATA_SOURCE";
  setting.placeholder = entry.placeholder;
  setting.help = entry.help;
  setting.form = form;
  setting.shared = entry.scope == per_run;
  setting.effect = entry.effect;
  return setting;
}

Result<bool> parse_truth(std::string_view text) {
  if (text == "true" || text == "false") return text == "true";
  return Error{in_quotes(text) + " is neither true nor false"};
}

Result<std::string> parse_choice(std::string_view text, const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return std::string(text);
  return Error{in_quotes(text) + " is not available; this version has " + one_of(choices)};
}

Result<std::string> parse_words(std::string_view text, std::size_t longest) {
  const bool printable = std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte != 0x7f;
  });
  if (!text.empty() && text.size() <= longest && printable && is_utf8(text)) return std::string(text);
  return Error{"expected 1 to " + std::to_string(longest) + " printable characters in UTF-8"};
}

Result<std::string> parse_network_layers(std::string_view text) {
  const auto parsed = models::parse_layers(text);
  if (!parsed) return Error{parsed.error().message};
  return models::format_layers(*parsed);
}

namespace {

// Whether `text` is `kind`, such as "cuda:", and a number of at most three digits.
bool is_numbered(std::string_view text, std::string_view kind) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const std::string_view number = text.substr(std::min(text.size(), kind.size()));
  return text.starts_with(kind) && !number.empty() && number.size() <= 3 &&
         std::ranges::all_of(number, is_digit);
}

}  // namespace

Result<std::vector<std::string>> parse_devices(std::string_view text) {
  const std::string_view kind = text.starts_with("cpu:") ? "cpu:" : "cuda:";
  std::vector<std::string> devices;
  for (const std::string_view part : split(text, ',')) {
    if (!is_numbered(part, kind)) {
      return Error{in_quotes(text) +
                   " does not name devices of one kind; expected cuda:0,cuda:1, ... or cpu:0,cpu:1, ..."};
    }
    devices.emplace_back(part);
  }
  return devices;
}

Result<std::vector<int>> parse_cuts(std::string_view text) {
  std::vector<int> cuts;
  for (const std::string_view part : split(text, ',')) {
    const auto cut = parse_number<int>(part);
    if (!cut || *cut <= (cuts.empty() ? 0 : cuts.back())) {
      return Error{in_quotes(text) +
                   " does not list cuts; expected numbers of layers in ascending order, the "
                   "first at least 1, for example 3,7"};
    }
    cuts.push_back(*cut);
  }
  return cuts;
}

Result<std::vector<int>> parse_replicas(std::string_view text) {
  std::vector<int> replicas;
  for (const std::string_view part : split(text, ',')) {
    const auto count = parse_number<int>(part);
    if (!count || *count < 1 || *count > 1000) {
      return Error{in_quotes(text) +
                   " does not list replicas; expected a number from 1 to 1000 for each stage, for example "
                   "2,1,1"};
    }
    replicas.push_back(*count);
  }
  return replicas;
}

std::vector<std::string> texts_of(const std::vector<int>& numbers) {
  std::vector<std::string> texts;
  for (const int number : numbers) texts.push_back(std::to_string(number));
  return texts;
}

Result<std::vector<double>> parse_speeds(std::string_view text) {
  std::vector<double> speeds;
  for (const std::string_view part : split(text, ',')) {
    const auto speed = parse_number<double>(part);
    if (!speed || !(*speed >= 0.001 && *speed <= 1000)) {
      return Error{in_quotes(text) +
                   " does not list speeds; expected numbers from 0.001 to 1000, for example 1,1,0.25"};
    }
    speeds.push_back(*speed);
  }
  return speeds;
}

std::vector<std::string> texts_of(const std::vector<double>& numbers) {
  std::vector<std::string> texts;
  for (const double number : numbers) texts.push_back(format_number(number));
  return texts;
}

Result<Recomputation> parse_recomputation(std::string_view text) {
  if (text == "true") return Recomputation::always;
  if (text == "false") return Recomputation::never;
  if (const auto found = find_named<Recomputation>(kRecomputations, text)) return *found;
  return parse_choice(text, names_of(kRecomputations)).error();
}

Result<std::string> parse_device(std::string_view text) {
  if (text == "auto" || text == "cpu" || is_numbered(text, "cuda:")) return std::string(text);
  return Error{in_quotes(text) + " is not a device; expected auto, cpu, or cuda:0, cuda:1, ..."};
}

// A run's name is a part of its folder's name.
Result<std::string> parse_run_name(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  if (!text.empty() && text.size() <= 100 && text.front() != '.' && text.front() != '-' &&
      std::all_of(text.begin(), text.end(), fits)) {
    return std::string(text);
  }
  return Error{
      in_quotes(text) +
      " cannot name a run; expected 1 to 100 letters, digits, '.', '_' or '-', the first a letter or digit"};
}

Result<double> parse_accuracy(std::string_view text) {
  auto fraction = parse_real(text, {0, 1, true});
  if (fraction.ok()) return fraction;
  const auto percent = parse_number<double>(text.substr(0, text.find_last_not_of(" %") + 1));
  if (!percent || *percent <= 1 || *percent > 100) return fraction;
  return Error{fraction.error().message + "; did you mean " + format_number(*percent / 100) + "?"};
}

Result<Duration> parse_run_time(std::string_view text) {
  auto d = parse_seconds(text);
  if (d.ok() && *d == Duration{0}) return Error{"a run needs more than 0 seconds"};
  return d;
}

Result<std::uint64_t> parse_chunk(std::string_view text) { return parse_size(text, 4 * 1024, 1024 * 1024); }

namespace {

struct WarmupUnit {
  Warmup::Unit unit;
  std::string_view one, many;
  double most;
};
constexpr std::array kWarmupUnits = {WarmupUnit{Warmup::Unit::epochs, " epoch", " epochs", 1e6},
                                     WarmupUnit{Warmup::Unit::steps, " step", " steps", 1e12},
                                     WarmupUnit{Warmup::Unit::tokens, " token", " tokens", 1e18}};

}  // namespace

Result<Warmup> parse_warmup(std::string_view text) {
  const auto* const named = std::find_if(kWarmupUnits.begin(), kWarmupUnits.end(), [text](const auto& unit) {
    return text.ends_with(unit.one) || text.ends_with(unit.many);
  });
  const WarmupUnit& unit = named == kWarmupUnits.end() ? kWarmupUnits.front() : *named;
  std::string_view number = text;
  if (named != kWarmupUnits.end())
    number.remove_suffix((text.ends_with(unit.many) ? unit.many : unit.one).size());
  const auto length = parse_number<double>(number);
  const bool whole = length && (unit.unit == Warmup::Unit::epochs || *length == std::floor(*length));
  if (whole && *length >= 0 && *length <= unit.most) return Warmup{*length, unit.unit};
  return Error{in_quotes(text) +
               " is not the length of a warm-up; expected a number of epochs (0.5), of a peer's steps (100 "
               "steps) or of tokens (1e6 tokens)"};
}

std::string format_warmup(const Warmup& warmup) {
  if (warmup.unit == Warmup::Unit::epochs) return format_number(warmup.length);
  const std::string number = warmup.unit == Warmup::Unit::steps
                                 ? std::to_string(static_cast<std::uint64_t>(warmup.length))
                                 : format_number(warmup.length);
  return number + std::string(kWarmupUnits[static_cast<std::size_t>(warmup.unit)].many);
}

Result<double> parse_port(std::string_view text) {
  if (text == "unlimited") return kUnlimited;
  auto rate = parse_rate(text);
  if (!rate.ok()) return Error{rate.error().message + ", or unlimited"};
  return rate;
}
std::string format_port(double rate) { return rate == kUnlimited ? "unlimited" : format_rate(rate); }

}  // namespace starling::training
