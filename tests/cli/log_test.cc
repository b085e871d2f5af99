// JSON logs: each line of standard error is an object, whatever text it contains.
#include <regex>
#include <sstream>

#include "tests/catch.h"
#include "tests/cli/json.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

// Parses all lines. REQUIREs the fields that all of them have.
std::vector<json> lines_of(const std::string& text) {
  static const std::regex kTime(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)");
  std::vector<json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    CAPTURE(line);
    json object = json::parse(line, nullptr, false);
    REQUIRE(object.is_object());
    CHECK(std::regex_match(object.at("time").get<std::string>(), kTime));
    CHECK(object.at("message").is_string());
    CHECK(object.at("level").is_string());
    lines.push_back(std::move(object));
  }
  REQUIRE(!text.empty());
  CHECK(text.back() == '\n');
  return lines;
}

TEST_CASE("an error message is one JSON object, whatever text it contains") {
  for (const std::string& nasty :
       {std::string("\"quoted\" \\ back"), std::string("two\nlines\ttab\r"),
        std::string("caf\xc3\xa9 \xe2\x82\xac"), std::string("broken \xff\xfe\x80 \xc3"),
        std::string("\x01\x1f\x7f"), std::string("{\"level\": \"info\"}")}) {
    CAPTURE(nasty);
    const Outcome outcome = run({"model", "show", nasty, "--log-format", "json"});
    CHECK(outcome.exit_code == 2);
    const auto lines = lines_of(outcome.err);
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].at("level") == "error");
    CHECK(lines[0].at("message").get<std::string>().starts_with("starling model show: "));
    CHECK_FALSE(lines[0].contains("peer"));
  }
  // Also before the command line is parsed.
  const auto unknown = lines_of(run({"fly", "--log-format=json"}).err);
  CHECK(unknown.at(0).at("message").get<std::string>().find("unknown command 'fly'") != std::string::npos);
}

TEST_CASE("a line's time has its offset from UTC") {
  const Words peer = {"peer",    "--listen", "127.0.0.1:0", "--name", "north",
                      "--model", "softmax",  "--steps",     "3"};
  const Outcome outcome = run(peer, {{"TZ", "XST-5:30"}});  // 5:30 h east of Greenwich
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.err.find("+05:30 info north: training begins: ") != std::string::npos);
}

TEST_CASE("a peer's JSON log has its name and the requested level") {
  const Words peer = {"peer",    "--listen", "127.0.0.1:0", "--name",  "north", "--model",
                      "softmax", "--data",   "glyphs",      "--steps", "3"};
  const Outcome outcome = run(peer, {{"STARLING_LOG_FORMAT", "json"}});
  CHECK(outcome.exit_code == 0);
  bool begins = false;
  for (const json& line : lines_of(outcome.err)) {
    CHECK(line.at("peer") == "north");
    begins |= line.at("message").get<std::string>().starts_with("training begins: ");
  }
  CHECK(begins);

  Words quiet = peer;
  quiet.insert(quiet.end(), {"--log-level", "error"});
  const Outcome silent = run(quiet, {{"STARLING_LOG_LEVEL", "trace"}});
  CHECK(silent.exit_code == 0);
  CHECK(silent.err.empty());
}

TEST_CASE("a swarm's peers use its log format") {
  const TemporaryFolder folder;
  const Outcome outcome = run({"swarm", "--peers", "2", "--model", "softmax", "--steps", "20", "--out",
                               folder.file("run"), "--log-format", "json", "--json"});
  CHECK(outcome.exit_code == 0);
  CHECK(json::parse(outcome.out, nullptr, false).is_object());
  if (!outcome.err.empty()) lines_of(outcome.err);
  for (const std::string name : {"p0", "p1"}) {
    const auto lines = lines_of(read_whole(folder.file("run/" + name + ".log")));
    CHECK(lines.back().at("peer") == name);
  }
}

TEST_CASE("an unknown log format or level is rejected") {
  struct Case {
    Words flags;
    Environment environment;
    std::string said;
  };
  for (const Case& bad : std::vector<Case>{
           {{"--log-format", "xml"}, {}, "--log-format: 'xml' is unknown; expected text or json"},
           {{"--log-level", "loud"},
            {},
            "--log-level: 'loud' is unknown; expected trace, debug, info, warning or error"},
           {{},
            {{"STARLING_LOG_FORMAT", "xml"}},
            "STARLING_LOG_FORMAT: 'xml' is unknown; expected text or json"},
           {{}, {{"STARLING_LOG_LEVEL", "loud"}}, "STARLING_LOG_LEVEL: 'loud' is unknown"},
       }) {
    CAPTURE(bad.said);
    Words words = {"model", "list"};
    words.insert(words.end(), bad.flags.begin(), bad.flags.end());
    const Outcome outcome = run(words, bad.environment);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(is_one_line(outcome.err));
    CHECK(outcome.err.find("starling model list: " + bad.said) == 0);
  }
}

}  // namespace
}  // namespace starling::cli_tests
