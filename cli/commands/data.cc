// starling data list, starling data info: what there is to learn from.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/commands/commands.h"
#include "cli/commands/experiment_flags.h"
#include "cli/commands/json.h"
#include "cli/shell/output.h"
#include "datasets/catalogue.h"

namespace starling::cli {
namespace {

int list(const Arguments& arguments) {
  if (arguments.has("--json")) {
    std::vector<std::pair<std::string, std::string>> entries;
    for (const datasets::CatalogueEntry& entry : datasets::catalogue())
      entries.emplace_back(entry.name, entry.description);
    std::fputs(list_json("data", entries).c_str(), stdout);
    return kExitDone;
  }
  for (const datasets::CatalogueEntry& entry : datasets::catalogue()) {
    std::fputs(
        fmt::format("{:<13}  {}\n{:<13}  {}\n", entry.name, entry.description, "", entry.found).c_str(),
        stdout);
  }
  std::fputs("\n`starling data fetch NAME` gets all but glyphs. Or the path of one of these, plain or .gz:\n", stdout);
  for (const datasets::Format& form : datasets::formats())
    std::fputs(fmt::format("{}:\n            {}\n", form.what, form.files).c_str(), stdout);
  return kExitDone;
}

std::string range(const std::vector<std::size_t>& counts) {
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  return *least == *most ? fmt::format("{} a class", *least) : fmt::format("{} to {} a class", *least, *most);
}

// "0.1307" for each channel, or from the least to the greatest where they are many.
std::string by_channel(const datasets::Info& info, float datasets::Normalization::*member) {
  constexpr std::size_t kListed = 8;
  std::vector<std::string> texts;
  const auto text = [&](const datasets::Normalization& n) {
    return info.floats ? fmt::format("{:.6g}", n.*member) : fmt::format("{:.4f}", n.*member);
  };
  if (info.normalization.size() > kListed) {
    const auto [least, most] = std::ranges::minmax_element(info.normalization, {}, member);
    return text(*least) + " to " + text(*most);
  }
  for (const datasets::Normalization& n : info.normalization) texts.push_back(text(n));
  return fmt::format("{}", fmt::join(texts, " "));
}

int info(const Arguments& arguments) {
  Result<datasets::DataPair> data = datasets::load(*arguments.get("NAME-OR-PATH"), data_root());
  if (!data) return refuse(arguments, data.error().message);
  const datasets::Info info = datasets::describe(*data);
  if (arguments.has("--json")) {
    std::fputs(data_json(info).c_str(), stdout);
    return kExitDone;
  }
  std::string text;
  auto out = std::back_inserter(text);
  const bool rows = info.shape.height == 1 && (info.shape.width == 1 || info.shape.channels == 1);
  if (rows) {
    fmt::format_to(out, "{}: rows of {} {}, {} classes\n", info.name, info.shape.size(),
                   info.floats ? "numbers" : "bytes", info.classes);
  } else {
    fmt::format_to(out, "{}: {}images of {} x {} x {} (channels, height, width), {} classes\n", info.name,
                   info.floats ? "float " : "", info.shape.channels, info.shape.height, info.shape.width,
                   info.classes);
  }
  fmt::format_to(out, "training  {} samples, {}\n", info.train_samples, range(info.train_per_class));
  fmt::format_to(out, "test      {} samples, {}\n", info.test_samples, range(info.test_per_class));
  fmt::format_to(out, "{}    mean {}, deviation {} ({}over the training {})\n", rows ? "values" : "pixels",
                 by_channel(info, &datasets::Normalization::mean),
                 by_channel(info, &datasets::Normalization::deviation),
                 !info.floats ? "of 0 to 1, "
                 : rows       ? "by column, "
                              : "",
                 rows ? "rows" : "images");
  fmt::format_to(out, "memory    {}\n", format_bytes(static_cast<double>(info.memory_bytes)));
  constexpr int kDrawn = 64;  // pixels, two characters wide each
  constexpr std::size_t kNumbers = 16;
  if (data->train.size() > 0 && rows) {
    fmt::format_to(out, "\nthe first training row, of class {}:\n{}", data->train.labels[0],
                   datasets::list_sample(data->train, 0, kNumbers));
  } else if (data->train.size() > 0 && info.shape.width <= kDrawn) {
    fmt::format_to(out, "\nthe first training image, of class {}:\n{}", data->train.labels[0],
                   datasets::draw_sample(data->train, 0));
  }
  std::fputs(text.c_str(), stdout);
  return kExitDone;
}

}  // namespace

Command data_list_command() {
  return {"data list", "the data sets with a name", {}, {{"--json", "", "print one JSON object"}}, list,
          "starling data list"};
}

Command data_info_command() {
  return {"data info",
          "what a data set holds",
          {{"NAME-OR-PATH", "a name of `data list`, or a folder or file as described there"}},
          {{"--json", "", "print one JSON object"}},
          info,
          "starling data info glyphs\nstarling data info ~/tables/iris.csv:label=species"};
}

}  // namespace starling::cli
