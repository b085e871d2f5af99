// The kinds of settings: numbers, truth values, names from a list, text. Each function combines an entry of
// the table in settings.cc with a field of Experiment, a parser and a writer. The names, the parsers and
// setter() serve other tables of settings too.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/text.h"
#include "training/planner/recomputation.h"
#include "training/runs/experiment/settings/quantities.h"
#include "training/runs/experiment/settings/setting.h"
#include "wire/rules/names.h"

namespace starling::training {

// Who must agree on a setting.
enum Scope : std::uint8_t { per_peer, per_run };

// What a row says beside its field, parser and writer.
struct Entry {
  std::string key;          // the flag is its last part, --batch-size, unless setting_of() has another one
  std::string placeholder;  // of the flag's value; empty: a switch
  std::string help;
  Scope scope;
  Effect effect{};
};

// Sets key, flag and variable: "token_file" of the table "daemon" is daemon.token_file, --token-file and
// STARLING_TOKEN_FILE. `word`: the flag's without dashes if it is not the key's last part.
void name_setting(SettingText& setting, const std::string& key, std::string word = "");

// All but set, get and reset.
Setting setting_of(const Entry& entry, Setting::Form form);

template <class T>
struct Optional : std::false_type {};
template <class T>
struct Optional<std::optional<T>> : std::true_type {};

// Parses a text and stores the value. `field`: a pointer to a member of Options, or a function from the
// options to their field.
template <class Options, class Field, class Parse>
std::function<Status(Options&, std::string_view)> setter(Field field, Parse parse) {
  using T = std::remove_cvref_t<std::invoke_result_t<Field, Options&>>;
  return [field, parse](Options& options, std::string_view text) -> Status {
    auto value = parse(text);
    if (!value.ok()) return value.error();
    std::invoke(field, options) = static_cast<T>(std::move(*value));
    return Done{};
  };
}

template <class Field, class Parse, class Format>
Setting make(const Entry& entry, Field field, Parse parse, Format format,
             Setting::Form form = Setting::Form::text) {
  using T = std::remove_cvref_t<std::invoke_result_t<Field, Experiment&>>;
  Setting setting = setting_of(entry, form);
  setting.set = setter<Experiment>(field, parse);
  setting.get = [field, format](const Experiment& experiment) -> std::optional<std::string> {
    const T& value = std::invoke(field, experiment);
    if constexpr (Optional<T>::value) {
      if (!value) return std::nullopt;
      return format(*value);
    } else {
      return format(value);
    }
  };
  setting.reset = [field](Experiment& experiment) {
    const Experiment defaults;
    std::invoke(field, experiment) = std::invoke(field, defaults);
  };
  return setting;
}

template <class Field>
Setting whole(const Entry& entry, Field field, std::uint64_t low, std::uint64_t high) {
  return make(
      entry, field, [low, high](std::string_view text) { return parse_whole(text, low, high); },
      [](std::uint64_t value) { return std::to_string(value); }, Setting::Form::number);
}

template <class Field>
Setting real(const Entry& entry, Field field, Interval interval) {
  return make(
      entry, field, [interval](std::string_view text) { return parse_real(text, interval); }, format_number,
      Setting::Form::number);
}

Result<bool> parse_truth(std::string_view text);
template <class Field>
Setting truth(const Entry& entry, Field field) {
  return make(
      entry, field, parse_truth, [](bool value) { return std::string(value ? "true" : "false"); },
      Setting::Form::boolean);
}

// A switch that was extended: true and false stand for always and never.
Result<Recomputation> parse_recomputation(std::string_view text);
template <class Field>
Setting recomputation(const Entry& entry, Field field) {
  Setting setting = make(entry, field, parse_recomputation, [](Recomputation value) {
    return std::string(kRecomputations[static_cast<std::size_t>(value)].name);
  });
  setting.choices = names_of(kRecomputations);
  setting.alone = "always";
  return setting;
}

inline std::string same(const std::string& text) { return text; }

// One of `choices`, or the Error that lists them.
Result<std::string> parse_choice(std::string_view text, const std::vector<std::string>& choices);

// One of the names that this version has.
template <class Field>
Setting choice(const Entry& entry, Field field, const std::vector<std::string>& names) {
  Setting setting = make(
      entry, field, [names](std::string_view text) { return parse_choice(text, names); }, same);
  setting.choices = names;
  return setting;
}

// One of the enumerators that `table` names (wire/rules/names.h).
template <class Field, class Table>
Setting one_named(const Entry& entry, Field field, const Table& table) {
  using Enum = std::remove_cvref_t<std::invoke_result_t<Field, Experiment&>>;
  Setting setting = make(
      entry, field,
      [&table](std::string_view text) -> Result<Enum> {
        if (const auto found = find_named<Enum>(table, text)) return *found;
        return parse_choice(text, names_of(table)).error();
      },
      [&table](Enum value) { return std::string(table[static_cast<std::size_t>(value)].name); });
  setting.choices = names_of(table);
  return setting;
}

// Text that another room interprets: 1 to `longest` bytes of printable UTF-8.
Result<std::string> parse_words(std::string_view text, std::size_t longest);

template <class Field>
Setting words(const Entry& entry, Field field, std::size_t longest) {
  return make(
      entry, field, [longest](std::string_view text) { return parse_words(text, longest); }, same);
}

// A number whose 0 is written "auto".
template <class Parse>
auto automatic(Parse parse) {
  return [parse](std::string_view text) -> Result<std::uint64_t> {
    if (text == "auto") return std::uint64_t{0};
    auto value = parse(text);
    if (!value.ok()) return Error{value.error().message + ", or auto"};
    return value;
  };
}
template <class Format>
auto automatic_text(Format format) {
  return [format](std::uint64_t value) { return value == 0 ? std::string("auto") : format(value); };
}

// Parsers of single settings.
Result<std::string> parse_network_layers(std::string_view text);  // canonical text
// GPUs, or groups of processors (cpu:0), separated by commas; each may occur several times (check.h).
Result<std::vector<std::string>> parse_devices(std::string_view text);
Result<std::vector<int>> parse_replicas(std::string_view text);  // at least 1, separated by commas
Result<std::vector<int>> parse_cuts(std::string_view text);      // ascending, at least 1, separated by commas
std::vector<std::string> texts_of(const std::vector<int>& numbers);
// From 0.001 to 1000, separated by commas.
Result<std::vector<double>> parse_speeds(std::string_view text);
std::vector<std::string> texts_of(const std::vector<double>& numbers);
Result<std::string> parse_run_name(std::string_view text);
Result<std::string> parse_device(std::string_view text);
Result<double> parse_accuracy(std::string_view text);  // a fraction
Result<Duration> parse_run_time(std::string_view text);
Result<std::uint64_t> parse_chunk(std::string_view text);
// "0.5" or "0.5 epochs", "100 steps", "1e6 tokens". Epochs are written as a bare number.
Result<Warmup> parse_warmup(std::string_view text);
std::string format_warmup(const Warmup& warmup);
// A rate; infinity is written "unlimited".
Result<double> parse_port(std::string_view text);
std::string format_port(double rate);

}  // namespace starling::training
