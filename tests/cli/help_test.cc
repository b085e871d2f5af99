// The help texts of all commands, and the suggestions for misspelled commands and flags.
#include <algorithm>
#include <sstream>

#include "tests/cli/json.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

constexpr std::size_t kColumns = 100, kLines = 40, kLinesOfSmall = 24, kFlagsOfSmall = 16;

Words words_of(const std::string& text) {
  std::istringstream stream(text);
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

Words help_lines(const std::string& text) {
  std::istringstream stream(text);
  Words lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

Words with(Words words, const std::string& last) {
  words.push_back(last);
  return words;
}

std::string help_of(const Words& words) {
  const Outcome outcome = run(words);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.err.empty());
  return outcome.out;
}

std::size_t visible_flags(const json& command) {
  const json& flags = command.at("flags");
  return static_cast<std::size_t>(std::count_if(
      flags.begin(), flags.end(), [](const json& flag) { return !flag.at("hidden").get<bool>(); }));
}

// Checks one line of an example against the tables: command, flags with their values, positionals.
void check_example(const std::string& line, const json& command, const json& shared) {
  CAPTURE(line);
  const std::string beginning = "starling " + command.at("path").get<std::string>();
  REQUIRE((line == beginning || line.starts_with(beginning + " ")));
  const Words words = words_of(line.substr(beginning.size()));
  std::size_t positionals = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "|" || words[i] == ">") break;  // the rest is for the shell
    if (!words[i].starts_with("--")) {
      ++positionals;
      continue;
    }
    CAPTURE(words[i]);
    const json* found = nullptr;
    for (const json* table : {&command.at("flags"), &shared})
      for (const json& flag : *table)
        if (flag.at("name") == words[i]) found = &flag;
    REQUIRE(found != nullptr);
    CHECK(found->at("hidden") == false);
    if (found->at("placeholder") != "") {
      REQUIRE(++i < words.size());
      CHECK_FALSE(words[i].starts_with("--"));
    }
  }
  std::size_t least = 0, most = 0;
  for (const json& positional : command.at("positionals")) {
    least += positional.at("required").get<bool>();
    most += positional.at("repeatable").get<bool>() ? 1000 : 1;
  }
  CHECK(positionals >= least);
  CHECK(positionals <= most);
}

TEST_CASE("every help text fits a screen and ends with a valid example") {
  const json tables = run_json({"tables"});
  REQUIRE(tables.at("commands").size() >= 20);
  for (const json& command : tables.at("commands")) {
    const std::string path = command.at("path");
    CAPTURE(path);
    const std::string help = help_of(with(words_of(path), "--help"));
    const Words lines = help_lines(help);
    CHECK(lines.size() <= (visible_flags(command) <= kFlagsOfSmall ? kLinesOfSmall : kLines));
    for (const std::string& line : lines) {
      CAPTURE(line);
      CHECK(line.size() <= kColumns);
    }
    const Words examples = help_lines(command.at("example"));
    REQUIRE(!examples.empty());
    REQUIRE(examples.size() <= 2);
    for (std::size_t i = 0; i < examples.size(); ++i) {
      check_example(examples[i], command, tables.at("shared"));
      CHECK(lines.at(lines.size() - examples.size() + i) == "  " + examples[i]);
    }
    // The help lists all flags or refers to --help all, which lists them.
    const std::string all = help_of(with(with(words_of(path), "--help"), "all"));
    for (const json& flag : command.at("flags")) {
      const std::string name = flag.at("name");
      CAPTURE(name);
      const bool listed = all.find("\n  " + name) != std::string::npos;
      CHECK(listed == !flag.at("hidden").get<bool>());
      if (!flag.at("hidden").get<bool>() && help.find("\n  " + name) == std::string::npos)
        CHECK(help.find("starling " + path + " --help all") != std::string::npos);
    }
    for (const std::string& line : help_lines(all)) {
      CAPTURE(line);
      CHECK(line.size() <= kColumns);
    }
  }
}

TEST_CASE("the list of commands fits a screen and is complete") {
  const json tables = run_json({"tables"});
  const std::string help = help_of({"--help"});
  CHECK(help_lines(help).size() <= kLines);
  for (const std::string& line : help_lines(help)) CHECK(line.size() <= kColumns);
  for (const json& command : tables.at("commands")) {
    const std::string path = command.at("path");
    CAPTURE(path);
    CHECK((help.find("\n  " + path + " ") != std::string::npos) == !command.at("hidden").get<bool>());
    if (path.starts_with("topology "))
      CHECK(help_of({"topology", "--help"}).find("\n  " + path + " ") != std::string::npos);
  }
}

TEST_CASE("all ways to request help print the same text") {
  CHECK(help_of({"help", "topology", "show"}) == help_of({"topology", "show", "--help"}));
  CHECK(help_of({"help"}) == help_of({"-h"}));
  CHECK(help_of({"swarm", "-h"}) == help_of({"swarm", "--seed", "1", "--help"}));
  CHECK(help_of({"swarm", "--help-all"}) == help_of({"swarm", "--help", "all"}));
  CHECK(help_of({"swarm", "--help-all"}) != help_of({"swarm", "--help"}));
}

TEST_CASE("help is complete: no entry is cut, and --rule lists every rule") {
  const json tables = run_json({"tables"});
  const json rules = run_json({"rule", "list", "--json"}).at("rules");
  REQUIRE(rules.size() >= 10);
  for (const json& command : tables.at("commands")) {
    const std::string path = command.at("path");
    CAPTURE(path);
    const std::string help = help_of(with(words_of(path), "--help"));
    for (const std::string& line : help_lines(help)) {
      CAPTURE(line);
      CHECK((!line.ends_with("...") || line.starts_with("usage: ") || contains(line, "s0, s1")));
    }
    const std::size_t rule = help.find("\n  --rule NAME");
    if (rule == std::string::npos || path == "hunt") continue;
    const Words words = words_of(help.substr(rule, help.find("\n  --", rule + 1) - rule));
    for (const json& entry : rules) {
      const std::string name = entry.at("name");
      CAPTURE(name);
      CHECK(std::any_of(words.begin(), words.end(),
                        [&](const std::string& word) { return word == name || word == name + ","; }));
    }
  }
}

TEST_CASE("help and version are also commands") {
  CHECK(help_of({"peer", "help"}) == help_of({"peer", "--help"}));
  CHECK(help_of({"help", "peer"}) == help_of({"peer", "--help"}));
  CHECK(help_of({"topology", "help"}) == help_of({"topology", "--help"}));
  CHECK(help_of({"topology", "show", "help"}) == help_of({"topology", "show", "--help"}));
  CHECK(help_of({"help", "help"}) == help_of({"help"}));
  CHECK(help_of({"version"}) == help_of({"--version"}));
}

TEST_CASE("a misspelled command or flag gives a suggestion") {
  struct Case {
    Words arguments;
    std::string said;
  };
  for (const Case& bad : std::vector<Case>{
           {{"simulat"}, "unknown command 'simulat'; did you mean simulate?"},
           {{"compare"}, "unknown command 'compare'; did you mean topology compare?"},
           {{"trian"}, "unknown command 'trian'; `starling simulate`, `swarm` and `peer` train a model"},
           {{"topology", "shwo", "ring"}, "unknown command 'shwo'; did you mean show?"},
           {{"swarm", "--peer", "4"}, "unknown option --peer; did you mean --peers?"},
           {{"swarm", "--learning-rat=1"}, "unknown option --learning-rat; did you mean --learning-rate?"},
           {{"swarm", "--listen", "x"}, "unknown option --listen; `starling peer` has it"},
           {{"peer", "--control-f", "1"},
            "unknown option --control-f; see"},  // hidden flags are not suggested
           {{"--versoin"}, "unknown option --versoin; did you mean --version?"},
           {{"fly", "--help"}, "unknown command 'fly'; see"},
           {{"help", "simulat"}, "unknown command 'simulat'; did you mean simulate?"},
           {{"help", "nonsense"}, "unknown command 'nonsense'; see `starling --help`"},
           {{"help", "topology", "shwo"}, "unknown command 'shwo'; did you mean show?"},
           {{"--json", "topology", "list"},
            "--json is before the command; expected `starling topology list --json`"},
           {{"--log-level", "debug", "topology", "list"},
            "--log-level is before the command; expected `starling topology list --log-level`"},
           {{"topology", "--log-level", "debug", "list"}, "--log-level"},
           {{"--log-level", "debug"}, "--log-level is for a command; expected it behind one"},
           {{"topology", "show", "ring", "--", "--peers"},
            "unexpected argument '--peers': words after -- are no flags"},
       }) {
    CAPTURE(bad.said);
    const Outcome outcome = run(bad.arguments);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(is_one_line(outcome.err));
    CHECK(outcome.err.find(bad.said) != std::string::npos);
  }
}

}  // namespace
}  // namespace starling::cli_tests
