// starling data list, starling data info: what there is to learn from.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/commands.h"
#include "cli/experiment_flags.h"
#include "cli/json.h"
#include "cli/output.h"
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
        fmt::format("{:<10}  {}\n{:<10}  {}\n", entry.name, entry.description, "", entry.found).c_str(),
        stdout);
  }
  return kExitDone;
}

std::string range(const std::vector<std::size_t>& counts) {
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  return *least == *most ? fmt::format("{} a class", *least) : fmt::format("{} to {} a class", *least, *most);
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
  fmt::format_to(out, "{}: images of {} x {} x {} (channels, height, width), {} classes\n", info.name,
                 info.shape.channels, info.shape.height, info.shape.width, info.classes);
  fmt::format_to(out, "training  {} samples, {}\n", info.train_samples, range(info.train_per_class));
  fmt::format_to(out, "test      {} samples, {}\n", info.test_samples, range(info.test_per_class));
  std::vector<std::string> means, deviations;  // by channel
  for (const datasets::Normalization& n : info.normalization) {
    means.push_back(fmt::format("{:.4f}", n.mean));
    deviations.push_back(fmt::format("{:.4f}", n.deviation));
  }
  fmt::format_to(out, "pixels    mean {}, deviation {} (of 0 to 1, over the training images)\n",
                 fmt::join(means, " "), fmt::join(deviations, " "));
  fmt::format_to(out, "memory    {}\n", format_bytes(static_cast<double>(info.memory_bytes)));
  if (data->train.size() > 0) {
    fmt::format_to(out, "\nthe first training image, of class {}:\n{}", data->train.labels[0],
                   datasets::draw_sample(data->train, 0));
  }
  std::fputs(text.c_str(), stdout);
  return kExitDone;
}

}  // namespace

Command data_list_command() {
  return {"data list", "the data sets with a name", {}, {{"--json", "", "print one JSON object"}}, list};
}

Command data_info_command() {
  return {"data info",
          "what a data set holds",
          {{"NAME-OR-PATH", "a name of `data list`, or a folder of IDX or CIFAR files"}},
          {{"--json", "", "print one JSON object"}},
          info};
}

}  // namespace starling::cli
