// starling data fetch: a well-known data set, from where it is published.
#include <fmt/format.h>
#include <signal.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/experiment_flags.h"
#include "cli/commands/json.h"
#include "cli/shell/log.h"
#include "cli/shell/output.h"
#include "datasets/download.h"
#include "datasets/fetch.h"

namespace starling::cli {
namespace {

// A line on a terminal that is redrawn; elsewhere nothing, but for the sentence at the end.
class Progress {
 public:
  void show(const datasets::PublishedFile& file, std::uint64_t bytes) {
    if (!terminal_ || file.size == 0) return;
    const int per_mille = static_cast<int>(bytes * 1000 / file.size);
    if (per_mille == shown_ && name_ == file.name) return;
    shown_ = per_mille;
    name_ = file.name;
    fmt::print(stderr, "\r\033[K{}  {} of {}, {} %", file.name, format_bytes(static_cast<double>(bytes)),
               format_bytes(static_cast<double>(file.size)), per_mille / 10);
  }
  void clear() const {
    if (shown_ >= 0) std::fputs("\r\033[K", stderr);
  }

 private:
  bool terminal_ = may_redraw();
  int shown_ = -1;
  std::string name_;
};

std::string names_text() {
  std::vector<std::string> names;
  for (const auto& set : datasets::published_sets()) names.push_back(set.name);
  return one_of(names);
}

// The files of a mirror that has others under the names: --sums.
Status take_sums(datasets::PublishedSet& set, const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return Error{"--sums: '" + path + "' cannot be read"};
  auto files = datasets::parse_file_list(text.str());
  if (!files) return Error{"--sums: '" + path + "': " + files.error().message};
  set.files = std::move(*files);
  return Done{};
}

int run(const Arguments& arguments) {
  const std::string name = *arguments.get("NAME");
  if (name == "glyphs") return refuse(arguments, "glyphs is built in: there is nothing to fetch");
  const datasets::PublishedSet* known = datasets::find_published(name);
  if (known == nullptr)
    return refuse(arguments, "'" + name.substr(0, 80) + "' is no data set that can be fetched; there are " +
                                 names_text());
  datasets::PublishedSet set = *known;
  if (const auto path = arguments.get("--sums"))
    if (Status taken = take_sums(set, *path); !taken) return refuse(arguments, taken.error().message);

  datasets::FetchOptions options;
  options.base = arguments.get("--from").value_or("");
  if (arguments.has("--from"))
    if (Status sound = datasets::check_url(options.base); !sound)
      return refuse(arguments, "--from: " + sound.error().message);
  const std::string into = arguments.get("--into").value_or(data_root());
  if (into.empty())
    return refuse(arguments,
                  "--into is missing, and STARLING_DATA, which it is by default, is not set: the folder of "
                  "the data sets");
  options.into = into + "/" + set.name;
  Progress progress;
  options.progress = [&progress](const datasets::PublishedFile& file, std::uint64_t bytes) {
    progress.show(file, bytes);
  };
  // A disk that may take no longer file says so in a sentence instead.
  signal(SIGXFSZ, SIG_IGN);
  const auto fetched = datasets::fetch(set, options);
  progress.clear();
  if (!fetched) return fail(arguments, fetched.error().message);
  const std::string came =
      fetched->already_there == fetched->files
          ? "was there already"
          : format_bytes(static_cast<double>(fetched->bytes)) + " fetched, all checksums right";
  std::string text = fmt::format("{}: {}\n{}\n", set.name, came, options.into);
  if (into != data_root())
    text += fmt::format("use it with --data {}, or with STARLING_DATA={}\n", options.into, into);
  if (arguments.has("--json")) text = fetched_json(set.name, options.into, *fetched);
  std::fputs(text.c_str(), stdout);
  return kExitDone;
}

}  // namespace

Command data_fetch_command() {
  return {"data fetch",
          "get a well-known data set from where it is published; goes on where it was broken off",
          {{"NAME", names_text()}},
          {{"--into", "DIR", "the folder of the data sets (default $STARLING_DATA); the set is DIR/NAME"},
           {"--from", "URL", "a mirror: a folder's address, behind which its files' names are put"},
           {"--sums", "FILE", "lines SHA256 SIZE NAME: a mirror's own files", false, true},
           {"--json", "", "print one JSON object"}},
          run,
          "starling data fetch mnist --into ~/data"};
}

}  // namespace starling::cli
