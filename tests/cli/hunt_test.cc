#include "tests/catch.h"
#include "tests/cli/program.h"

namespace starling::cli_tests {

TEST_CASE("a hunt without a violation prints totals and exits with 0") {
  const Outcome outcome = run({"hunt", "--seeds", "0..4", "--peers", "4", "--threads", "2"});
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.find("4 seeds") != std::string::npos);
  CHECK(outcome.out.find("no violation") != std::string::npos);
  const Outcome json = run({"hunt", "--seeds", "0..2", "--faults", "crash", "--json"});
  CHECK(json.exit_code == 0);
  CHECK(is_one_line(json.out));
  CHECK(json.out.find("\"seeds\":2") != std::string::npos);
  CHECK(json.out.find("\"failure\":null") != std::string::npos);
}

TEST_CASE("the run of one seed can be written as a story") {
  const TemporaryFolder folder;
  const Outcome outcome = run({"hunt", "--seeds", "7..8", "--trace", folder.file("story")});
  CHECK(outcome.exit_code == 0);
  const std::string story = read_whole(folder.file("story"));
  CHECK(story.find("starling hunt --seeds 7..8 --faults all") != std::string::npos);
  CHECK(story.find("What happens:") != std::string::npos);
}

TEST_CASE("wrong flags of hunt give one line with what is expected") {
  struct Case {
    Words arguments;
    Words said;
  };
  for (const Case& bad : std::vector<Case>{
           {{"hunt", "--seeds", "5"}, {"--seeds", "'5'", "FIRST..END"}},
           {{"hunt", "--seeds", "5..5"}, {"--seeds", "'5..5'"}},
           {{"hunt", "--seeds", "a..b"}, {"--seeds", "'a..b'"}},
           {{"hunt", "--faults", "gremlins"}, {"--faults", "'gremlins'", "partition"}},
           {{"hunt", "--peers", "1"}, {"--peers", "'1'", "2 to 64"}},
           {{"hunt", "--rule", "none"}, {"--rule", "'none'", "push-sum"}},
           {{"hunt", "--threads", "0"}, {"--threads", "'0'"}},
           {{"hunt", "--seeds", "0..2", "--trace", "/nowhere/story"}, {"--trace", "one seed"}},
           {{"hunt", "--seeds", "0..1", "--trace", "/nowhere/story"}, {"--trace", "/nowhere/story"}},
           {{"hunt", "now"}, {"unexpected argument 'now'"}},
       }) {
    const Outcome outcome = run(bad.arguments);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(is_one_line(outcome.err));
    for (const std::string& text : bad.said) CHECK(outcome.err.find(text) != std::string::npos);
  }
}

}  // namespace starling::cli_tests
