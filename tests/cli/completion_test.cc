// Shell completion, tested with a real bash, and the manual page, tested with a real troff.
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "base/check.h"
#include "tests/cli/json.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

struct Said {
  int status = -1;
  std::string text;
};

// Runs a shell command and returns its standard output.
Said shell(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  STARLING_CHECK(pipe != nullptr);
  Said said;
  char buffer[4096];
  for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) said.text.append(buffer, n);
  said.status = pclose(pipe);
  return said;
}

bool is_there(const std::string& program) {
  return shell("command -v " + program + " >/dev/null").status == 0;
}

// The completions of the last word of "starling WORDS..." in bash, one per line.
std::string completed(const std::string& script, const std::string& words, int number) {
  const Said said =
      shell("bash --norc -c 'source " + script + "; COMP_WORDS=(starling " + words +
            "); COMP_CWORD=" + std::to_string(number) + "; _starling; printf \"%s\\n\" \"${COMPREPLY[@]}\"'");
  CHECK(said.status == 0);
  return said.text;
}

TEST_CASE("bash completes commands, flags and known values") {
  const TemporaryFolder folder;
  const Outcome outcome = run({"completion", "bash"});
  REQUIRE(outcome.exit_code == 0);
  folder.write("starling.bash", outcome.out);
  folder.write("my-net.toml", "");
  const std::string script = folder.file("starling.bash");
  CHECK(shell("bash -n " + script).status == 0);
  CHECK(completed(script, "simul", 1) == "simulate\n");
  CHECK(completed(script, "topology co", 2) == "compare\n");
  CHECK(completed(script, "swarm --target-a", 2) == "--target-accuracy\n");
  CHECK(completed(script, "swarm --peers 4 --learn", 4) == "--learning-rate\n");
  CHECK(completed(script, "topology show hyper", 3) == "hypercube\n");
  CHECK(completed(script, "swarm --topology one", 3) == "one-peer-exponential\n");
  CHECK(completed(script, "rule show push", 3) == "push-sum\n");
  CHECK(completed(script, "peer --rule push", 3) == "push-sum\n");
  CHECK(completed(script, "simulate --model " + folder.file("my"), 3) == folder.file("my-net.toml") + "\n");
  CHECK(completed(script, "peer --control", 2) == "\n");  // hidden flags are not completed
  CHECK(completed(script, "swarm --peers ", 3) == "\n");  // numbers are not completed
  CHECK(completed(script, "completion f", 2) == "fish\n");
}

TEST_CASE("each shell's script has every command and flag") {
  const json tables = run_json({"tables"});
  const std::string bash = run({"completion", "bash"}).out, zsh = run({"completion", "zsh"}).out,
                    fish = run({"completion", "fish"}).out;
  for (const json& command : tables.at("commands")) {
    const std::string path = command.at("path");
    if (command.at("hidden").get<bool>()) continue;
    CAPTURE(path);
    CHECK(bash.find("    \"" + path + "\")\n") != std::string::npos);
    CHECK(zsh.find("    '" + path + "')\n") != std::string::npos);
    for (const json& flag : command.at("flags")) {
      const std::string name = flag.at("name");
      CAPTURE(name);
      if (flag.at("hidden").get<bool>()) continue;
      CHECK(fish.find(" -l " + name.substr(2) + " ") != std::string::npos);
      CHECK((zsh.find(name + "=[") != std::string::npos || zsh.find(name + "[") != std::string::npos));
    }
  }
  if (is_there("fish")) {
    const TemporaryFolder folder;
    folder.write("starling.fish", fish);
    CHECK(shell("fish --no-execute " + folder.file("starling.fish")).status == 0);
  }
  if (is_there("zsh")) {
    const TemporaryFolder folder;
    folder.write("starling.zsh", zsh);
    CHECK(shell("zsh -n " + folder.file("starling.zsh")).status == 0);
  }
  const Outcome unknown = run({"completion", "tcsh"});
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.err == "starling completion: unknown shell 'tcsh'; expected bash, zsh or fish\n");
}

TEST_CASE("the manual page has every command and gives no troff warnings") {
  const json tables = run_json({"tables"});
  const Outcome outcome = run({"man"});
  REQUIRE(outcome.exit_code == 0);
  const TemporaryFolder folder;
  folder.write("starling.1", outcome.out);
  if (!is_there("groff")) {
    WARN("skipped: groff is not installed");
    return;
  }
  const Said warned = shell("groff -man -ww -Tascii " + folder.file("starling.1") + " 2>&1 >/dev/null");
  CHECK(warned.text.empty());
  CHECK(warned.status == 0);
  const std::string page = shell("groff -man -Tascii -P-cbou -rLL=160n " + folder.file("starling.1")).text;
  for (const json& command : tables.at("commands")) {
    const std::string path = command.at("path");
    CAPTURE(path);
    const bool hidden = command.at("hidden").get<bool>();
    CHECK((page.find("\n   starling " + path + "\n") != std::string::npos) == !hidden);
    if (hidden) continue;
    std::istringstream examples(command.at("example").get<std::string>());
    for (std::string line; std::getline(examples, line);) {
      CAPTURE(line);
      CHECK(page.find(line) != std::string::npos);
    }
    for (const json& flag : command.at("flags")) {
      const std::string name = flag.at("name");
      CAPTURE(name);
      if (!flag.at("hidden").get<bool>()) CHECK(page.find("\n       " + name) != std::string::npos);
    }
  }
}

}  // namespace
}  // namespace starling::cli_tests
