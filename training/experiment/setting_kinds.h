// The kinds of settings that the table in settings.cc is made of: numbers, truth values, names from a list,
// text, and the parsers of single settings. Each function combines a row's facts with a field of Experiment,
// a parser and a writer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/text.h"
#include "rules/names.h"
#include "training/experiment/quantities.h"
#include "training/experiment/setting.h"

namespace starling::training {

// Who must agree on a setting. `per_run_if_set` was added to the protocol later: a peer of an older version,
// which does not know the setting, can take part while it has its default.
enum Scope : std::uint8_t { per_peer, per_run, per_run_if_set };

// The facts of a row before its field, parser and writer are known.
struct Entry {
  std::string key;
  std::string flag;
  std::string placeholder;
  std::string help;
  Setting::Form form;
  Scope scope;
};

// All but set, get and reset.
Setting setting_of(const Entry& entry);

template <class T>
struct Optional : std::false_type {};
template <class T>
struct Optional<std::optional<T>> : std::true_type {};

template <class T, class Parse, class Format>
Setting make(const Entry& entry, T Experiment::*member, Parse parse, Format format) {
  Setting setting = setting_of(entry);
  setting.set = [member, parse](Experiment& experiment, std::string_view text) -> Status {
    const auto value = parse(text);
    if (!value.ok()) return value.error();
    if constexpr (Optional<T>::value) {
      experiment.*member = static_cast<typename T::value_type>(*value);
    } else {
      experiment.*member = static_cast<T>(*value);
    }
    return Done{};
  };
  setting.get = [member, format](const Experiment& experiment) -> std::optional<std::string> {
    if constexpr (Optional<T>::value) {
      if (!(experiment.*member)) return std::nullopt;
      return format(*(experiment.*member));
    } else {
      return format(experiment.*member);
    }
  };
  setting.reset = [member](Experiment& experiment) { experiment.*member = Experiment{}.*member; };
  return setting;
}

template <class T>
Setting whole(const Entry& entry, T Experiment::*member, std::uint64_t low, std::uint64_t high) {
  return make(
      entry, member, [low, high](std::string_view text) { return parse_whole(text, low, high); },
      [](std::uint64_t value) { return std::to_string(value); });
}

template <class T>
Setting real(const Entry& entry, T Experiment::*member, Interval interval) {
  return make(
      entry, member, [interval](std::string_view text) { return parse_real(text, interval); }, format_number);
}

Setting truth(const Entry& entry, bool Experiment::*member);

Error unavailable(std::string_view text, const std::vector<std::string>& choices);

// One of the names that this version has.
Setting choice(const Entry& entry, std::string Experiment::*member, std::vector<std::string> names);

// One of the enumerators that `table` names (rules/names.h).
template <class Enum, class Table>
Setting one_named(const Entry& entry, Enum Experiment::*member, const Table& table) {
  Setting setting = make(
      entry, member,
      [&table](std::string_view text) -> Result<Enum> {
        if (const auto found = find_named<Enum>(table, text)) return *found;
        return unavailable(text, names_of(table));
      },
      [&table](Enum value) { return std::string(table[static_cast<std::size_t>(value)].name); });
  setting.choices = names_of(table);
  return setting;
}

inline std::string same(const std::string& text) {
  return text;
}

// Text that another room resolves: 1 to `longest` bytes of printable UTF-8.
Result<std::string> parse_words(std::string_view text, std::size_t longest);

template <class T>
Setting words(const Entry& entry, T Experiment::*member, std::size_t longest) {
  return make(
      entry, member, [longest](std::string_view text) { return parse_words(text, longest); }, same);
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

// ---- settings that have a form of their own ----

Setting network_layers(const Entry& entry);   // canonical text; empty is unset
Setting several_devices(const Entry& entry);  // different GPUs, separated by commas; none is unset

Result<std::string> parse_run_name(std::string_view text);
Result<std::string> parse_device(std::string_view text);
Result<Duration> parse_run_time(std::string_view text);
Result<std::uint64_t> parse_chunk(std::string_view text);
// A rate; infinity is written "unlimited".
Result<double> parse_port(std::string_view text);
std::string format_port(double rate);

}  // namespace starling::training
