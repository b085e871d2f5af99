// starling report, as it is typed: what it makes of folders, and what it says of those that hold nothing.
#include <sys/stat.h>

#include <filesystem>

#include "tests/catch.h"
#include "tests/cli/program.h"

namespace starling::cli_tests {
namespace {

namespace fs = std::filesystem;

// A tiny run in virtual time.
std::string run_in(const TemporaryFolder& folder, const std::string& name, const std::string& topology) {
  const std::string out = folder.file(name);
  const Outcome outcome = run({"simulate", "--model", "softmax", "--peers", "3", "--steps", "4", "--topology",
                               topology, "--looks", "4", "--out", out});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return out;
}

void check_refused(const Words& words, const std::string& said) {
  const Outcome outcome = run(words);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK(is_one_line(outcome.err));
  CHECK(outcome.err.find("starling report: " + said) == 0);
}

TEST_CASE("a folder that is not there, holds no results, or damaged ones, is one sentence and no page") {
  const TemporaryFolder folder;
  const std::string nowhere = folder.file("nowhere"), empty = folder.file("empty"),
                    half = folder.file("half"), other = folder.file("other");
  for (const std::string& path : {empty, half, other}) fs::create_directory(path);
  folder.write("file", "text");
  folder.write("other/notes.txt", "no result");
  folder.write("half/summary.json", "{\"name\": \"half-writ");
  check_refused({"report"}, "DIR is missing");
  check_refused({"report", nowhere}, "there is no folder " + nowhere);
  check_refused({"report", folder.file("file")}, folder.file("file") + " is a file, not the folder of a run");
  for (const std::string& path : {empty, other})
    check_refused({"report", path},
                  path + " holds no results: there is neither a summary.json nor runs of a sweep in it");
  const std::string damaged =
      half + "/summary.json is damaged: it is not one JSON object; run it again, or leave this folder out";
  check_refused({"report", half}, damaged);
  for (const std::string& path : {empty, half, other}) CHECK_FALSE(fs::exists(path + "/report.html"));

  // One that is damaged spoils the whole, and leaves the page of the others as it was.
  const std::string good = run_in(folder, "good", "ring");
  const std::string page = read_whole(good + "/report.html");
  check_refused({"report", good, half}, damaged);
  CHECK(read_whole(good + "/report.html") == page);
}

TEST_CASE("a page or a table that cannot be written is one sentence that names the file") {
  const TemporaryFolder folder;
  const std::string good = run_in(folder, "good", "ring");
  folder.write("file", "text");
  for (const std::string& path :
       {folder.file("no/such/folder/page.html"), folder.file("file/page.html"), good}) {
    for (const char* flag : {"--out", "--csv"}) {
      CAPTURE(path, flag);
      const Outcome outcome = run({"report", good, flag, path});
      INFO(outcome.err);
      CHECK(outcome.exit_code == 2);
      CHECK(is_one_line(outcome.err));
      CHECK(outcome.err.find("starling report: ") == 0);
      CHECK(outcome.err.find(path) != std::string::npos);
    }
  }
  check_refused({"report", good, "--out", ""}, "--out: the path of a file is missing");
  check_refused({"report", good, "--csv", ""}, "--csv: the path of a file is missing");
  check_refused({"report", good, "--target", "2"}, "--target: '2' is not an accuracy above 0 and up to 1");
  CHECK(read_whole(folder.file("file")) == "text");
}

TEST_CASE(
    "which kind of run the others are compared against may be said, and one that there is none is told") {
  const TemporaryFolder folder;
  const std::string ring = run_in(folder, "a", "ring"), complete = run_in(folder, "b", "complete");
  const std::string page = folder.file("page.html");
  const auto told = [&](const std::string& name) {
    const Outcome outcome =
        run({"report", ring, complete, "--target", "0.01", "--against", name, "--out", page});
    INFO(outcome.err);
    CHECK(outcome.exit_code == 0);
    return read_whole(page);
  };
  for (const char* name : {"complete", "topology=complete"})
    CHECK(told(name).find("Speed-ups are relative to topology=complete") != std::string::npos);
  CHECK(told("ring").find("Speed-ups are relative to the first row") != std::string::npos);
  check_refused(
      {"report", ring, complete, "--against", "star"},
      "no kind of run is called 'star', to compare against; there are: topology=ring; topology=complete");
}

}  // namespace
}  // namespace starling::cli_tests
