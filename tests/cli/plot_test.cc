// starling plot: its files, and errors in one line.
#include <filesystem>

#include "tests/catch.h"
#include "tests/cli/program.h"

namespace starling::cli_tests {
namespace {

std::string short_run(const TemporaryFolder& folder, const std::string& rule) {
  const std::string out = folder.file(rule);
  const Outcome outcome = run({"simulate", "--model", "softmax", "--peers", "3", "--steps", "8", "--rule",
                               rule, "--looks", "200", "--out", out});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return out;
}

void check_not_plotted(const Words& words, const std::string& said) {
  Words all = {"plot"};
  all.insert(all.end(), words.begin(), words.end());
  const Outcome outcome = run(all);
  CAPTURE(outcome.err, said);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK(is_one_line(outcome.err));
  CHECK(outcome.err.starts_with("starling plot: " + said));
}

TEST_CASE("plot writes the format that the ending names, and says what it shows") {
  const TemporaryFolder folder;
  const std::string one = short_run(folder, "pairwise"), two = short_run(folder, "d-psgd");
  const std::vector<std::pair<const char*, const char*>> formats = {
      {"a.pdf", "%PDF-"}, {"a.svg", "<?xml"}, {"a.png", "\x89PNG"}};
  for (const auto& [name, begin] : formats) {
    const Outcome outcome = run({"plot", one, two, "--y", "loss", "--out", folder.file(name)});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    CHECK(
        outcome.out ==
        folder.file(name) +
            "\nloss against virtual time (s): one run of each kind. 2 runs with 1 seed, in virtual time.\n");
    CHECK(read_whole(folder.file(name)).starts_with(begin));
  }
  const Outcome ring = run({"plot", "--topology", "ring", "--peers", "16", "--out", folder.file("ring.pdf")});
  CHECK(ring.exit_code == 0);
  CHECK(ring.out == "ring among 16 peers   " + folder.file("ring.pdf") + "\n");
  folder.write("g.txt", "a b\nb c\nc a\n");
  const Outcome file =
      run({"plot", "--topology", "file:" + folder.file("g.txt"), "--out", folder.file("g.svg")});
  CHECK(file.exit_code == 0);
}

TEST_CASE("an error of plot is one line, and leaves no file") {
  const TemporaryFolder folder;
  const std::string good = short_run(folder, "pairwise"), out = folder.file("a.pdf");
  check_not_plotted({good}, "--out is missing");
  check_not_plotted({"--out", out}, "DIR is missing; expected folders of runs, or --topology NAME");
  check_not_plotted({good, "--out", folder.file("a.jpg")},
                    "--out: '" + folder.file("a.jpg") + "' does not end in .svg, .pdf or .png");
  check_not_plotted({folder.file("none"), "--out", out},
                    "the folder " + folder.file("none") + " does not exist");
  check_not_plotted({good, "--out", folder.file("no/folder/a.pdf")}, "--out: ");
  check_not_plotted({good, "--out", out, "--width", "0.2"},
                    "--width: '0.2' is not a number of inches from 1 to 20");
  check_not_plotted({good, "--out", out, "--font", "x"},
                    "--font: 'x' is not a number of points from 3 to 36");
  check_not_plotted({good, "--out", out, "--dpi", "300"}, "--dpi has an effect only on a PNG");
  check_not_plotted({good, "--out", out, "--log", "z"}, "--log: 'z' is unknown; expected x, y, xy or none");
  check_not_plotted({good, "--out", out, "--y", "speed"}, "--y: 'speed' is unknown; expected accuracy, ");
  check_not_plotted({good, "--out", out, "--x", "slow"},
                    "--x: the runs do not differ in 'slow'; they differ in no setting");
  check_not_plotted({good, "--out", out, "--peers", "4"}, "--peers has no effect without --topology");
  check_not_plotted({good, "--out", out, "--topology", "ring", "--peers", "4"},
                    "--topology draws a graph and no runs");
  check_not_plotted({"--out", out, "--topology", "ring"}, "--peers is missing; expected the number of peers");
  check_not_plotted({"--out", out, "--topology", "ring", "--peers", "4", "--y", "loss"},
                    "--y has no effect with --topology");
  check_not_plotted({good, "--out", out, "--height", "0.5"}, "the figure is too small for its text");
  check_not_plotted({good, "--out", out, "--x-label", "a\nb"}, "--x-label: the text is not printable UTF-8");
  CHECK_FALSE(std::filesystem::exists(out));
}

}  // namespace
}  // namespace starling::cli_tests
