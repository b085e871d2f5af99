// starling report: pages of folders, and errors for folders without results.
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

TEST_CASE("a folder without usable results is an error and gives no page") {
  const TemporaryFolder folder;
  const std::string nowhere = folder.file("nowhere"), empty = folder.file("empty"),
                    half = folder.file("half"), other = folder.file("other");
  for (const std::string& path : {empty, half, other}) fs::create_directory(path);
  folder.write("file", "text");
  folder.write("other/notes.txt", "no result");
  folder.write("half/summary.json", "{\"name\": \"half-writ");
  check_refused({"report"}, "DIR is missing");
  check_refused({"report", nowhere}, "the folder " + nowhere + " does not exist");
  check_refused({"report", folder.file("file")}, folder.file("file") + " is a file, not the folder of a run");
  for (const std::string& path : {empty, other})
    check_refused({"report", path},
                  path + " contains no results: neither a summary.json nor runs of a sweep");
  const std::string damaged =
      half + "/summary.json is damaged: it is not one JSON object; run it again, or leave this folder out";
  check_refused({"report", half}, damaged);
  for (const std::string& path : {empty, half, other}) CHECK_FALSE(fs::exists(path + "/report.html"));

  // A damaged folder is an error, and an existing page stays unchanged.
  const std::string good = run_in(folder, "good", "ring");
  const std::string page = read_whole(good + "/report.html");
  check_refused({"report", good, half}, damaged);
  CHECK(read_whole(good + "/report.html") == page);
}

TEST_CASE("a page or table that cannot be written is an error that names the file") {
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
  check_refused({"report", good, "--out", ""}, "--out: the path is empty");
  check_refused({"report", good, "--csv", ""}, "--csv: the path is empty");
  check_refused({"report", good, "--target", "2"}, "--target: '2' is not an accuracy above 0 and at most 1");
  CHECK(read_whole(folder.file("file")) == "text");
}

TEST_CASE("--against selects the reference run, and an unknown one is rejected") {
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
