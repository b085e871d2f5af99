// starling data list, info, fetch: the data sets that peers can train on.
#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

#include "base/ids.h"
#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/json.h"
#include "cli/commands/model/description_text.h"
#include "cli/commands/run/experiment_flags.h"
#include "cli/shell/output.h"
#include "datasets/catalogue.h"
#include "datasets/download.h"
#include "datasets/fetch.h"
#include "training/runs/records/files.h"

namespace starling::cli {
namespace {

int list_datasets(const Arguments& arguments) {
  std::vector<Described> entries;
  for (const datasets::CatalogueEntry& entry : datasets::catalogue())
    entries.push_back({entry.name, entry.description, entry.found});
  print_list(arguments, "data", entries);
  if (arguments.has("--json")) return kExitDone;
  std::string text =
      "\n`starling data fetch NAME` downloads all but glyphs and wikitext-2. A data set can also be the path "
      "of "
      "one of these, plain or .gz:\n";
  for (const datasets::DataFormat& form : datasets::formats())
    text += fmt::format("{}:\n            {}\n", form.what, form.files);
  return print_out(text);
}

std::string range(const std::vector<std::size_t>& counts) {
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  return *least == *most ? fmt::format("{} per class", *least)
                         : fmt::format("{} to {} per class", *least, *most);
}

// "0.1307" for each channel, or the range if there are many.
std::string by_channel(const datasets::Description& info, const std::vector<double>& values) {
  constexpr std::size_t kListed = 8;
  std::vector<std::string> texts;
  const auto text = [&](double value) {
    if (!info.floats) return fmt::format("{:.4f}", value);
    return std::abs(value) < 1e5 ? fmt::format("{:.6g}", value) : fmt::format("{:.10g}", value);
  };
  if (values.size() > kListed) {
    const auto [least, most] = std::ranges::minmax_element(values);
    return text(*least) + " to " + text(*most);
  }
  for (const double value : values) texts.push_back(text(value));
  return fmt::format("{}", fmt::join(texts, " "));
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 12;
  std::vector<std::string> shown;
  for (const std::string& name : std::span(names).first(std::min(kMost, names.size())))
    shown.push_back(is_printable(name) ? name : "?");
  return fmt::format("{}{}", fmt::join(shown, ", "), names.size() > kMost ? " and so on" : "");
}

}  // namespace

std::string origin_text(const datasets::Description& data) {
  std::string text;
  const auto add = [&text](const char* what, const std::string& value) {
    if (!value.empty()) text += fmt::format("{:<12}{}\n", what, value);
  };
  add("source", data.source);
  add("features", listed(data.columns));
  add("labels", data.label);
  add("classes", listed(data.class_names));
  for (const std::string& decision : data.decisions) add("decided", decision);
  for (const std::string& note : data.notes) add("note", note);
  add("fingerprint", to_string(PeerId{data.fingerprint}));
  return text;
}

std::string normalization_text(const datasets::Description& data) {
  return fmt::format("mean {}, deviation {}", by_channel(data, datasets::means_of(data)),
                     by_channel(data, datasets::deviations_of(data)));
}

namespace {

// The rows of a drawing that fit below this many lines on the terminal.
std::size_t rows_below(std::size_t lines) {
  constexpr std::size_t kUsual = 24, kLeast = 8;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return kUsual;
  return size.ws_row > lines + kLeast ? size.ws_row - lines - 1 : kLeast;  // a line for the next prompt
}

// The values of `data info` for a text.
std::string text_text(const datasets::Info& info) {
  const datasets::TextInfo& text = *info.text;
  const auto part = [](const datasets::TextInfo::Part& its) {
    const std::string characters = its.characters ? fmt::format("{} characters, ", *its.characters) : "";
    return fmt::format("{}{} tokens, {} document{}", characters, its.tokens, its.documents,
                       its.documents == 1 ? "" : "s");
  };
  const std::string tokenizer = text.tokenizer.empty() ? "of GPT-2; its tokenizer is not beside the data"
                                                       : "of the tokenizer '" + text.tokenizer + "'";
  std::string printed = fmt::format("{}: a text\n{}training    {}\ntest        {}\n", info.name,
                                    origin_text(info), part(text.train), part(text.test));
  printed += fmt::format("vocabulary  {} tokens {}\nmemory      {}\n", info.classes, tokenizer,
                         format_bytes(info.memory_bytes));
  if (!text.first_line.empty())
    printed += fmt::format("\nthe first line of the training text:\n{}\n", text.first_line);
  return printed;
}

int info(const Arguments& arguments) {
  Result<datasets::DataPair> data = datasets::load(*arguments.get("NAME-OR-PATH"), data_root());
  if (!data) return refuse(arguments, data.error());
  const datasets::Info info = datasets::info_of(*data);
  if (arguments.has("--json")) return print_out(data_json(info));
  if (info.text) return print_out(text_text(info));
  std::string text;
  auto out = std::back_inserter(text);
  const bool rows = info.shape.height == 1 && (info.shape.width == 1 || info.shape.channels == 1);
  fmt::format_to(out, "{}: {}\n{}", info.name, datasets::sample_kind(info), origin_text(info));
  fmt::format_to(out, "training    {} samples, {}\n", info.train_samples, range(info.train_per_class));
  fmt::format_to(out, "test        {} samples, {}\n", info.test_samples, range(info.test_per_class));
  fmt::format_to(out, "{}      {} ({}over the training {})\n", rows ? "values" : "pixels",
                 normalization_text(info),
                 !info.floats ? "of 0 to 1, "
                 : rows       ? "by column, "
                              : "",
                 rows ? "rows" : "images");
  fmt::format_to(out, "memory      {}\n", format_bytes(info.memory_bytes));
  constexpr int kDrawn = 64;  // pixels, two characters wide each
  constexpr std::size_t kNumbers = 16;
  if (data->train.size() > 0 && rows) {
    fmt::format_to(out, "\nthe first training row, of class {}:\n{}", data->train.labels[0],
                   datasets::list_sample(data->train, 0, kNumbers));
  } else if (data->train.size() > 0 && info.shape.width <= kDrawn) {
    fmt::format_to(out, "\nthe first training image, of class {}:\n{}", data->train.labels[0],
                   datasets::draw_sample(
                       data->train, 0,
                       rows_below(2 + static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')))));
  }
  return print_out(text);
}

std::vector<std::string> published_names() {
  std::vector<std::string> names;
  for (const auto& set : datasets::published_sets()) names.push_back(set.name);
  return names;
}

// --sums: the files of a mirror that differ from the published ones.
Status read_sums(datasets::PublishedSet& set, const std::string& path) {
  constexpr std::size_t kSumsBytesMax = std::size_t{1} << 20;
  const auto text = training::read_text(path, kSumsBytesMax);
  if (!text) return Error{"--sums: " + text.error().message};
  auto files = datasets::parse_file_list(*text);
  if (!files) return Error{"--sums: '" + path + "': " + files.error().message};
  set.files = std::move(*files);
  return Done{};
}

int fetch(const Arguments& arguments) {
  const std::string name = *arguments.get("NAME");
  if (name == "glyphs") return refuse(arguments, "glyphs is built in and needs no download");
  const datasets::PublishedSet* known = datasets::find_published(name);
  if (name == "wikitext-2")
    return refuse(arguments, "wikitext-2 has no download here; `starling data list` says where it is found");
  if (known == nullptr) {
    return refuse(arguments,
                  "unknown data set '" + name.substr(0, 80) + "'; expected " + one_of(published_names()));
  }
  datasets::PublishedSet set = *known;
  if (const auto path = arguments.get("--sums"))
    if (Status read = read_sums(set, *path); !read) return refuse(arguments, read.error());

  datasets::FetchOptions options;
  options.base = arguments.get("--from").value_or("");
  if (arguments.has("--from"))
    if (Status sound = datasets::check_url(options.base); !sound)
      return refuse(arguments, "--from: " + sound.error().message);
  const std::string into = arguments.get("--into").value_or(data_root());
  if (into.empty()) {
    return refuse(
        arguments,
        "--into is missing, and STARLING_DATA, its default, is not set: give the folder of the data "
        "sets");
  }
  options.into = into + "/" + set.name;
  ProgressLine progress;
  options.progress = [&progress](const datasets::PublishedFile& file, std::uint64_t bytes) {
    if (file.size == 0) return;
    progress.show(fmt::format("{}  {} of {}, {} %", file.name, format_bytes(bytes), format_bytes(file.size),
                              bytes * 100 / file.size));
  };
  // A write beyond the limit for files then fails with an error instead of ending the program.
  signal(SIGXFSZ, SIG_IGN);
  const auto fetched = datasets::fetch(set, options);
  progress.clear();
  if (!fetched) return fail(arguments, fetched.error());
  if (arguments.has("--json")) return print_out(fetched_json(set.name, options.into, *fetched));
  const std::string came = fetched->already_there == fetched->files
                               ? "already complete"
                               : format_bytes(fetched->bytes) + " downloaded, all checksums match";
  std::string text = fmt::format("{}: {}\n{}\n", set.name, came, options.into);
  if (into != data_root())
    text += fmt::format("use it with --data {}, or with STARLING_DATA={}\n", options.into, into);
  return print_out(text);
}

}  // namespace

std::vector<Command> data_commands() {
  return {list_command("data", "list the data sets with a name", list_datasets),
          {"data info",
           "describe a data set",
           {{"NAME-OR-PATH", "a name of `data list`, or a folder or file as described there"}},
           {kJsonFlag},
           info,
           "starling data info ~/tables/iris.csv:label=species\nstarling data info "
           "~/texts/book.txt:tokens=bytes"},
          {"data fetch",
           "download a published data set; resumes interrupted downloads",
           {{"NAME", one_of(published_names())}},
           {{"--into", "DIR", "the folder of the data sets (default $STARLING_DATA); the set is DIR/NAME"},
            {"--from", "URL", "a mirror: the address of the folder with the files"},
            {"--sums", "FILE", "lines SHA256 SIZE NAME: a mirror's own files", false, true},
            kJsonFlag},
           fetch,
           "starling data fetch mnist --into ~/data"}};
}

}  // namespace starling::cli
