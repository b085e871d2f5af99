// Flags override variables, which override the file, which overrides the defaults: for every option with a
// variable and a key in the tables of the commands. A new option is tested automatically if its placeholder
// is one of `values_of`; otherwise this test fails and asks for values.
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "tests/cli/json.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

// The sources of an option, lowest precedence first.
enum Source : std::size_t { in_file, in_environment, as_flag };
using Values = std::array<std::string, 3>;

// Options with neither variable nor key, and why.
const std::map<std::string, std::string>& flags_alone() {
  static const std::map<std::string, std::string> kFlags = {
      {"--set", "names keys itself"},
      {"--slow", "adds a fault to those of the file"},
      {"--print-config", "is a request"},
      {"--force", "is for a single run"},
      {"--json", "is about the output of a single run"},
      {"--threads", "changes no result"},
      {"--on-end", "runs a command, which neither a file nor a variable may name"},
  };
  return kFlags;
}

// Options about the results of a single run.
bool is_about_this_run(const std::string& command, const std::string& flag) {
  return command != "peer" &&
         (flag == "--out" || flag == "--checkpoint-every" || flag == "--resume" || flag == "--http");
}

// Options with a variable and no key: about the command, or the path of the file itself.
bool has_no_key(const std::string& command, const std::string& flag) {
  return flag == "--config" || flag.starts_with("--log-") || (command != "peer" && flag == "--key");
}

// Files and folders that options name.
class Places {
 public:
  Places() {
    for (const char* which : {"a", "b", "c"}) {
      REQUIRE(run({"key", "new", folder_.file(std::string(which) + ".key")}).exit_code == 0);
      folder_.write(std::string(which) + ".allow", "0123456789abcdef\n");
      const std::string token = std::string(which) + ".token";
      folder_.write(token, "0123456789abcdef\n");
      REQUIRE(::chmod(folder_.file(token).c_str(), 0600) == 0);
    }
  }
  Values files(const std::string& ending) const {
    return {folder_.file("a" + ending), folder_.file("b" + ending), folder_.file("c" + ending)};
  }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
};

const std::map<std::string, Values> kByName = {
    {"--name", {"one", "two", "three"}},
    {"--swarm", {"red", "green", "blue"}},
    {"--model", {"one", "two", "three"}},  // used with model.layers
    {"--data", {"glyphs", "mnist", "cifar10"}},
    {"--start", {"copy", "together", "copy"}},
    {"--partition", {"whole", "by-label", "iid"}},
    {"--own-data", {"one.csv", "two.csv", "three.csv"}},
    {"--windows", {"contiguous", "random", "contiguous"}},
    {"--optimizer", {"adamw", "sgd", "adamw"}},
    {"--schedule", {"cosine", "step", "constant"}},
    {"--split", {"stages", "layers", "data"}},
    {"--recompute", {"always", "never", "always"}},
    {"--pipeline", {"gpipe", "layer-wise", "1f1b"}},
    {"--precision", {"bf16", "tf32", "f32"}},
    {"--rule", {"choco", "d-psgd", "none"}},
    {"--topology", {"ring", "complete", "star"}},
    {"--payload", {"bf16", "int8", "top-k"}},
    {"--weights", {"work", "age", "equal"}},
    {"--log-format", {"json", "text", "json"}},
    {"--log-level", {"warning", "debug", "trace"}},
    {"--checkpoint-every", {"1m", "2m", "100 steps"}},
};

// Three values that the option accepts and prints unchanged. Nothing for an unknown option.
std::optional<Values> values_of(const json& flag, const Places& places) {
  static const std::map<std::string, Values> kByPlaceholder = {
      {"N", {"11", "12", "13"}},
      {"S", {"21", "22", "23"}},
      {"E", {"1.5", "2.5", "3.5"}},
      {"R", {"0.125", "0.25", "0.5"}},
      {"F", {"0.125", "0.25", "0.5"}},
      {"C", {"0.125", "0.25", "0.5"}},
      {"A", {"0.125", "0.25", "0.5"}},
      {"L", {"0.125", "0.25", "0.5"}},
      {"FRACTION", {"0.125", "0.25", "0.5"}},
      {"T", {"10s", "20s", "30s"}},
      {"TIME", {"10ms", "20ms", "30ms"}},
      {"RATE", {"10Mbit/s", "20Mbit/s", "30Mbit/s"}},
      {"SIZE", {"16KiB", "32KiB", "64KiB"}},
      {"LENGTH", {"1.5", "100 steps", "1e+06 tokens"}},
      {"WHEN", {"4 steps", "100ms", "always"}},
      {"LAYERS", {"1,2", "1,3", "2,3"}},
      {"COUNTS", {"1,1", "2,1", "2"}},
      {"SPEEDS", {"1,0.5", "1,0.25", "1,2"}},
      {"POLICY", {"turns", "aware", "uniform"}},
      {"DEVICE", {"cpu", "cuda:0", "cuda:1"}},
      {"DEVICES", {"cuda:0,cuda:1", "cuda:1,cuda:2", "cuda:0,cuda:2"}},
      {"ADDR:PORT", {"127.0.0.1:7101", "127.0.0.1:7102", "127.0.0.1:7103"}},
      {"ADDR:PORT|none", {"127.0.0.1:7101", "127.0.0.1:7102", "127.0.0.1:7103"}},
      {"HOST:PORT", {"a.example:7101", "b.example:7102", "c.example:7103"}},
      {"TOML",
       {R"([ "relu", { type = "linear", features = 10 } ])",
        R"([ "relu", { type = "linear", features = 20 } ])",
        R"([ "relu", { type = "linear", features = 30 } ])"}},
      {"", {"true", "false", "true"}},
  };
  const std::string name = flag.at("name"), placeholder = flag.at("placeholder");
  if (name == "--key") return places.files(".key");
  if (name == "--token-file") return places.files(".token");
  if (name == "--allow") return places.files(".allow");
  if (placeholder == "DIR" || placeholder == "FILE" || placeholder == "FILE|DIR" || placeholder == "SOCKET")
    return places.files(name.substr(1));
  for (const auto* table : {&kByName, &kByPlaceholder}) {
    const auto at = table->find(table == &kByPlaceholder ? placeholder : name);
    if (at != table->end()) return at->second;
  }
  return std::nullopt;
}

const json& command_of(const json& tables, const std::string& path) {
  for (const json& command : tables.at("commands"))
    if (command.at("path") == path) return command;
  throw std::runtime_error("no command " + path);
}

// The options of a command that have a key, with three values each. If an option has no values or no
// variable, the test fails and lists what must be added here.
struct Option {
  std::string flag, variable, key;
  bool is_switch, is_list;
  Values values;
};
std::vector<Option> options_of(const json& tables, const std::string& path, const Places& places) {
  std::vector<Option> options;
  std::vector<json> flags = command_of(tables, path).at("flags");
  for (json flag : tables.at("shared")) {
    if (path == "peer")
      flag["key"] = "daemon." + std::string(flag.at("name") == "--log-format" ? "log_format" : "log_level");
    flags.push_back(std::move(flag));
  }
  for (const json& flag : flags) {
    const std::string name = flag.at("name"), variable = flag.at("environment"), key = flag.at("key");
    if (flag.at("hidden") || flags_alone().contains(name) || is_about_this_run(path, name)) continue;
    INFO(path << " " << name
              << " needs an environment variable and a key of the file, or a line in flags_alone()");
    CHECK_FALSE(variable.empty());
    if (has_no_key(path, name)) continue;
    CHECK_FALSE(key.empty());
    const auto values = values_of(flag, places);
    INFO(path << " " << name << " needs three values in values_of()");
    REQUIRE(values.has_value());
    options.push_back({name, variable, key, flag.at("placeholder") == "", flag.at("repeatable"), *values});
  }
  return options;
}

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

bool is_bare(const Option& option, const std::string& value) {
  return option.is_switch || option.key == "model.layers" ||
         value.find_first_not_of("0123456789.") == std::string::npos;
}

std::string file_of(const std::vector<Option>& options) {
  std::map<std::string, std::string> tables;  // "" is the root table
  for (const Option& option : options) {
    const std::size_t dot = option.key.find('.');
    const std::string value = option.values[in_file];
    tables[dot == std::string::npos ? "" : option.key.substr(0, dot)] +=
        option.key.substr(dot == std::string::npos ? 0 : dot + 1) + " = " +
        (is_bare(option, value) ? value : quoted(value)) + "\n";
  }
  std::string text;
  for (const auto& [table, lines] : tables) text += (table.empty() ? "" : "[" + table + "]\n") + lines;
  return text;
}

// All keys of the printed file; the values without quotes and spaces.
std::map<std::string, std::string> read_config(const std::string& text) {
  std::map<std::string, std::string> values;
  std::istringstream lines(text);
  std::string table, key;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("[")) {
      table = line.substr(1, line.find(']') - 1) + ".";
      continue;
    }
    const std::size_t equals = line.find(" = ");
    const bool begins =
        !line.empty() && line.front() >= 'a' && line.front() <= 'z' && equals != std::string::npos;
    if (begins) key = table + line.substr(0, equals);
    for (const char c : begins ? line.substr(equals + 3) : line)
      if (c != '"' && c != ' ') values[key] += c;
  }
  return values;
}

std::string bare(const std::string& text) {
  std::string out;
  for (const char c : text)
    if (c != '"' && c != ' ') out += c;
  return out;
}

void check_values(const std::map<std::string, std::string>& read, const std::vector<Option>& options,
                  Source source) {
  for (const Option& option : options) {
    CAPTURE(option.flag);
    REQUIRE(read.contains(option.key));
    const std::string& value = read.at(option.key);
    std::string wanted = bare(option.values[source]);
    if (option.key == "model.layers") {
      wanted = "features=" + std::to_string(10 * (source + 1));
      CHECK(value.find(wanted) != std::string::npos);
    } else if (option.is_list) {
      CHECK(value == "[" + wanted + "]");
    } else {
      CHECK(value == wanted);
    }
  }
}

void check_command(const std::string& path) {
  const json tables = run_json({"tables"});
  const Places places;
  const std::vector<Option> options = options_of(tables, path, places);
  REQUIRE(options.size() > 50);
  places.folder().write("all.toml", file_of(options));
  const std::string file = places.folder().file("all.toml");
  Words from_file = path == "peer" ? Words{path, "--config", file} : Words{path, file};
  from_file.emplace_back("--print-config");
  Words flags;
  Environment environment;
  for (const Option& option : options) {
    environment[option.variable] = option.values[in_environment];
    flags.push_back(option.flag);
    if (!option.is_switch) flags.push_back(option.values[as_flag]);
  }
  const auto config = [&](Words words, const Words& more, Environment variables) {
    variables.try_emplace("STARLING_EXPORT", "");  // otherwise the tests' own
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words, variables);
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return outcome.out;
  };
  CAPTURE(path);
  const std::string printed = config(from_file, {}, {});
  check_values(read_config(printed), options, in_file);
  check_values(read_config(config(from_file, {}, environment)), options, in_environment);
  check_values(read_config(config({path, "--print-config"}, {}, environment)), options, in_environment);
  check_values(read_config(config(from_file, flags, {})), options, as_flag);
  check_values(read_config(config(from_file, flags, environment)), options, as_flag);

  // --set overrides variable and file, and the option's own flag overrides --set.
  Words sets;
  for (const Option& option : options)
    sets.insert(sets.end(), {"--set", option.key + "=" + option.values[as_flag]});
  check_values(read_config(config(from_file, sets, environment)), options, as_flag);
  Words others = flags;
  for (const Option& option : options) {
    if (option.is_switch) continue;  // a switch has only one value
    others.insert(others.end(), {"--set", option.key + "=" + option.values[in_environment]});
  }
  check_values(read_config(config(from_file, others, {})), options, as_flag);

  // The printed file gives the same result; empty variables are ignored.
  places.folder().write("again.toml", printed);
  const std::string again = places.folder().file("again.toml");
  Environment empty;
  for (const auto& [name, value] : environment) empty[name] = "";
  const Words from_again = path == "peer" ? Words{path, "--config", again, "--print-config"}
                                          : Words{path, again, "--print-config"};
  CHECK(config(from_again, {}, empty) == printed);
}

}  // namespace

TEST_CASE("peer: flags override variables, and variables override the file") { check_command("peer"); }

TEST_CASE("swarm and simulate: flags override variables, and variables override the file") {
  check_command("swarm");
  check_command("simulate");
}

TEST_CASE("a network's preset is below all sources, and none applies if one of them chooses the optimizer") {
  const TemporaryFolder folder;
  const auto config = [&](Words more, const Environment& environment = {}) {
    more.emplace_back("--print-config");
    return read_config(run(more, environment).out);
  };
  const Words text = {"simulate", "--model", "gpt-tiny", "--data", "shakespeare"};
  const auto with = [&text](const Words& more) {
    Words all = text;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto preset = config(text);
  CHECK(preset.at("training.optimizer") == "adamw");
  CHECK(preset.at("training.batch_size") == "12");
  CHECK(preset.at("training.learning_rate") == "0.003");
  CHECK(preset.at("training.schedule") == "cosine");
  CHECK(config(with({"--seconds", "60"})).at("training.schedule") == "constant");  // cosine needs steps

  folder.write("file.toml", "training.batch_size = 24\nmodel.name = \"gpt-tiny\"\n");
  const auto mixed = config({"simulate", folder.file("file.toml"), "--learning-rate", "0.01"},
                            {{"STARLING_CLIP_NORM", "2"}});
  CHECK(mixed.at("training.optimizer") == "adamw");
  CHECK(mixed.at("training.batch_size") == "24");
  CHECK(mixed.at("training.learning_rate") == "0.01");
  CHECK(mixed.at("training.clip_norm") == "2");

  const auto own = config(with({"--optimizer", "sgd"}));
  CHECK(own.at("training.optimizer") == "sgd");
  CHECK(own.at("training.batch_size") == "64");
  CHECK(config({"simulate", "--model", "lenet"}).at("training.optimizer") == "sgd");

  const Outcome told = run(with({"--steps", "1", "--peers", "1", "--out", folder.file("run")}));
  CHECK(told.err.find("gpt-tiny is trained with its preset, --optimizer adamw --batch-size 12") !=
        std::string::npos);
}

TEST_CASE("a peer's file is named by --config or STARLING_CONFIG") {
  const TemporaryFolder folder;
  folder.write("one.toml", "seed = 11\n");
  folder.write("two.toml", "seed = 12\n");
  const Environment environment = {{"STARLING_CONFIG", folder.file("one.toml")}};
  CHECK(read_config(run({"peer", "--print-config"}, environment).out).at("seed") == "11");
  CHECK(read_config(run({"peer", "--print-config", "--config", folder.file("two.toml")}, environment).out)
            .at("seed") == "12");
}

TEST_CASE("STARLING_JOIN separates peers by commas, and the file has a list") {
  const TemporaryFolder folder;
  folder.write("list.toml", "[daemon]\njoin = [\"a:7100\", \"b:7100\"]\n");
  const std::string wanted = "[a:7100,b:7100]";
  CHECK(read_config(run({"peer", "--print-config", "--config", folder.file("list.toml")}).out)
            .at("daemon.join") == wanted);
  CHECK(read_config(run({"peer", "--print-config"}, {{"STARLING_JOIN", "a:7100, b:7100"}}).out)
            .at("daemon.join") == wanted);
  CHECK(read_config(run({"peer", "--print-config", "--join", "a:7100", "--join", "b:7100"}).out)
            .at("daemon.join") == wanted);
}

TEST_CASE("an error in a peer's option names its source") {
  struct Bad {
    std::string option, value, said;  // `option` as in the file
  };
  const TemporaryFolder folder;
  folder.write("open.token", "0123456789abcdef\n");
  REQUIRE(::chmod(folder.file("open.token").c_str(), 0644) == 0);
  for (const Bad& bad : std::vector<Bad>{{"listen", "nowhere", "nowhere"},
                                         {"join", "127.0.0.1:0", "port 0 cannot be dialed"},
                                         {"name", "a b", "'a b' is not"},
                                         {"http", "x", "x"},
                                         {"key", "/no/key", "/no/key cannot be read"},
                                         {"token_file", folder.file("open.token"), "chmod 600"},
                                         {"resume", "/no/such", "/no/such"},
                                         {"keep", "3", "has no effect without --checkpoints"},
                                         {"log_level", "loud", "'loud' is unknown"}}) {
    std::string variable = "STARLING_", flag = "--";
    for (const char c : bad.option) {
      variable += c == '_' ? '_' : static_cast<char>(c - 'a' + 'A');
      flag += c == '_' ? '-' : c;
    }
    folder.write("bad.toml", "[daemon]\n" + bad.option + " = \"" + bad.value + "\"\n");
    const std::string file = folder.file("bad.toml");
    CAPTURE(bad.option);
    const auto check = [&](const Outcome& outcome, const std::string& place) {
      INFO(outcome.err);
      CHECK(outcome.exit_code == 2);
      CHECK(is_one_line(outcome.err));
      CHECK(outcome.err.starts_with("starling peer: " + place));
      CHECK(outcome.err.find(bad.said) != std::string::npos);
    };
    check(run({"peer", "--steps", "1", flag, bad.value}), flag);
    if (bad.option != "log_level") check(run({"peer", "--steps", "1"}, {{variable, bad.value}}), variable);
    check(run({"peer", "--steps", "1", "--config", file}), file + ", line 2: daemon." + bad.option);
    check(run({"peer", "--steps", "1", "--set", "daemon." + bad.option + "=" + bad.value}),
          "--set: daemon." + bad.option);
  }
}

TEST_CASE("unknown [daemon] keys, and [daemon] for other commands, are rejected") {
  const TemporaryFolder folder;
  folder.write("typo.toml", "seed = 1\n[daemon]\nlissen = \"127.0.0.1:1\"\n");
  const Outcome typo = run({"peer", "--config", folder.file("typo.toml")});
  CHECK(typo.exit_code == 2);
  CHECK(is_one_line(typo.err));
  CHECK(typo.err.find("typo.toml, line 3: unknown key 'daemon.lissen'; did you mean daemon.listen?") !=
        std::string::npos);
  folder.write("two.toml", "[daemon]\nhttp = [\"a:1\", \"b:1\"]\n");
  CHECK(run({"peer", "--config", folder.file("two.toml")}).err.find("daemon.http: expected a single value") !=
        std::string::npos);
  folder.write("good.toml", "[daemon]\nlisten = \"127.0.0.1:1\"\n");
  for (const char* command : {"swarm", "simulate", "sweep"}) {
    const Outcome outcome = run({command, folder.file("good.toml")});
    CHECK(outcome.exit_code == 2);
    CHECK(is_one_line(outcome.err));
    CHECK(outcome.err.find(
              "good.toml, line 1: [daemon] configures one peer; run it with: starling peer --config") !=
          std::string::npos);
  }
}

TEST_CASE("a swarm's peers ignore the variables of a single peer") {
  const TemporaryFolder folder;
  const Outcome outcome = run({"swarm", "--peers", "2", "--model", "softmax", "--steps", "20", "--pace",
                               "5ms", "--out", folder.file("run"), "--json"},
                              {{"STARLING_LISTEN", "127.0.0.1:1"},
                               {"STARLING_JOIN", "127.0.0.1:1"},
                               {"STARLING_NAME", "same"},
                               {"STARLING_SWARM", "herd"},
                               {"STARLING_HTTP", "127.0.0.1:1"},
                               {"STARLING_STATE", "/nowhere/at/all"}});
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("--token-always needs --token-file, and takes true or false from a variable or a file") {
  const auto refusal = [](const Words& more, const Environment& environment) {
    Words words = {"peer", "--steps", "1"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words, environment);
    CHECK(outcome.exit_code == 2);
    return outcome.err;
  };
  CHECK(refusal({"--token-always"}, {}) ==
        "starling peer: --token-always has no effect without --token-file FILE\n");
  CHECK(refusal({}, {{"STARLING_TOKEN_ALWAYS", "maybe"}}) ==
        "starling peer: STARLING_TOKEN_ALWAYS: 'maybe' is neither true nor false\n");
  CHECK(run({"peer", "--print-config", "--set", "daemon.token_always=false"}).exit_code == 0);
}

TEST_CASE("STARLING_TOKEN_FILE names the token for commands") {
  const TemporaryFolder folder;
  const Outcome outcome =
      run({"leave", "--at", "127.0.0.1:9"}, {{"STARLING_TOKEN_FILE", folder.file("none")}});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.find("starling leave: STARLING_TOKEN_FILE: cannot read " + folder.file("none")) == 0);
}

TEST_CASE("a joiner's data can be set by variable and file") {
  const TemporaryFolder folder;
  folder.write("data.toml", "[data]\nsource = \"/no/such/data\"\n");
  Program first({"peer", "--listen", "127.0.0.1:0", "--model", "softmax", "--pace", "5ms"});
  const std::string address = first.wait_for_error_word(" listens at ");
  REQUIRE(first.wait_for_error_text("training begins"));
  const Words joiner = {"peer", "--listen", "127.0.0.1:0", "--join", address};
  Words with_file = joiner;
  with_file.insert(with_file.end(), {"--config", folder.file("data.toml")});
  for (const Outcome& outcome : {run(joiner, {{"STARLING_DATA_SOURCE", "/no/such/data"}}), run(with_file)}) {
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err.find("/no/such/data") != std::string::npos);
  }
}

}  // namespace starling::cli_tests
