// docs/EXTENDING.md lists the files that a new rule, payload, layer, data format, topology family, setting or
// command changes. These tests check the sources: a name occurs only in its table and its own files.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <regex>
#include <set>

#include "datasets/catalogue.h"
#include "models/layer_types.h"
#include "tests/catch.h"
#include "tests/rules/sources.h"
#include "topologies/topology.h"
#include "training/runs/experiment/settings/settings.h"
#include "wire/rules/rule.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

struct Source {
  std::string path, code;  // without comments
};

std::string without_comments(std::string text) {
  for (std::size_t at; (at = text.find("//")) != std::string::npos;)
    text.erase(at, std::min(text.find('\n', at), text.size()) - at);
  return text;
}

// Every .h and .cc of the program's rooms.
const std::vector<Source>& product() {
  static const std::vector<Source> kSources = [] {
    std::vector<Source> sources;
    const fs::path root = STARLING_SOURCE_DIR;
    for (const char* room : {"base", "wire", "topologies", "gossip", "models", "datasets", "training",
                             "transport", "node", "lab", "cli"}) {
      for (const auto& entry : fs::recursive_directory_iterator(root / room)) {
        const fs::path& path = entry.path();
        if (path.extension() != ".h" && path.extension() != ".cc") continue;
        const std::string name = fs::relative(path, root).string();
        sources.push_back({name, without_comments(source_text(name))});
      }
    }
    return sources;
  }();
  return kSources;
}

std::set<std::string> files_with(const std::string& text) {
  std::set<std::string> files;
  for (const Source& source : product())
    if (source.code.find(text) != std::string::npos) files.insert(source.path);
  return files;
}

bool is_word_character(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; }

bool contains_word(const std::string& text, const std::string& word) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_word_character(text[at - 1])) &&
        (end == text.size() || !is_word_character(text[end])))
      return true;
  }
  return false;
}

std::set<std::string> files_with_word(const std::string& word) {
  std::set<std::string> files;
  for (const Source& source : product())
    if (contains_word(source.code, word)) files.insert(source.path);
  return files;
}

// The section of docs/EXTENDING.md with this heading.
std::string section(const std::string& heading) {
  const std::string text = source_text("docs/EXTENDING.md");
  const std::size_t begin = text.find("\n## " + heading + "\n");
  REQUIRE(begin != std::string::npos);
  return text.substr(begin, text.find("\n## ", begin + 1) - begin);
}

int numbered_items(const std::string& text) {
  static const std::regex kItem(R"re(\n[0-9]+\. )re");
  return static_cast<int>(
      std::distance(std::sregex_iterator(text.begin(), text.end(), kItem), std::sregex_iterator()));
}

TEST_CASE("a new rule touches at most four files") { CHECK(numbered_items(section("A rule")) <= 4); }

TEST_CASE("the files that docs/EXTENDING.md names exist") {
  const std::string text = source_text("docs/EXTENDING.md");
  static const std::regex kPath(R"re(`([a-z_]+(?:/[a-z_]+)+\.(?:h|cc))`)re");
  int paths = 0;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), kPath); it != std::sregex_iterator(); ++it) {
    const std::string path = (*it)[1];
    INFO(path);
    ++paths;
    CHECK(fs::exists(fs::path(STARLING_SOURCE_DIR) / path));
  }
  CHECK(paths > 20);
}

TEST_CASE("a rule's name occurs only in its row and in the factory") {
  for (std::size_t k = 0; k < kRules.size(); ++k) {
    const std::string name(kRules[k].name);
    INFO(name);
    if (name == "none") continue;  // a common word
    std::set<std::string> expected = {"wire/rules/rule.h"};
    if (name == "push-sum") expected.insert("topologies/spectra/mixing.cc");  // the matrix of the same name
    CHECK(files_with("\"" + name + "\"") == expected);
    // "pairwise" and "none" are defaults.
    std::string enumerator = name;
    std::replace(enumerator.begin(), enumerator.end(), '-', '_');
    if (static_cast<Rule>(k) == Rule::pairwise) continue;
    auto files = files_with_word("Rule::" + enumerator);
    files.erase("wire/rules/rule.h");
    CHECK(files == std::set<std::string>{"training/mixing/make.cc"});
  }
}

TEST_CASE("the values of a setting that takes names are listed once, and include its default") {
  int with_choices = 0;
  for (const training::Setting& setting : training::settings()) {
    if (setting.choices.empty()) continue;
    INFO(setting.key);
    ++with_choices;
    training::Experiment experiment;
    for (const std::string& choice : setting.choices) {
      CHECK(setting.set(experiment, choice));
      CHECK(setting.get(experiment) == choice);
    }
    CHECK_FALSE(setting.set(experiment, "telepathy"));
    CHECK(std::find(setting.choices.begin(), setting.choices.end(), *setting.get(training::Experiment{})) !=
          setting.choices.end());
  }
  CHECK(with_choices == 12);
}

TEST_CASE("docs/EXPERIMENTS.md has a row for every setting, as in the table") {
  std::string document = source_text("docs/EXPERIMENTS.md");
  for (const training::Setting& setting : training::settings()) {
    const std::string begin = "\n| `" + setting.key + "` | `" + setting.flag + "` | ";
    INFO(begin);
    const std::size_t at = document.find(begin);
    REQUIRE(at != std::string::npos);
    std::string row = document.substr(at + begin.size(), document.find('\n', at + 1) - at - begin.size());
    std::erase(row, '`');
    CHECK(row == setting.help + " | " + (setting.shared ? "run" : "peer") + " |");
  }
}

TEST_CASE("a type of layer occurs in the files that define it, in the zoo, and where it is exported") {
  const std::set<std::string> allowed = {"models/spec.h", "models/layer_types.h", "models/plan.cc",
                                         "models/lowering.cc", "models/zoo.cc", "models/gpt.cc",
                                         // computes one token at a time
                                         "models/generator.h", "models/generator.cc",
                                         // divides a layer among parts; without a rule part 0 computes it
                                         "training/learning/slices/slice_plan.cc",
                                         "training/learning/export/onnx_layers.cc",
                                         // accepts networks of GPT-2's layers
                                         "training/learning/export/transformers.cc"};
  for (const char* type : {"Convolution", "AveragePool", "MaxPool", "GlobalAveragePool", "Relu", "Gelu",
                           "BatchNorm", "GroupNorm", "LayerNorm"}) {
    INFO(type);
    for (const std::string& file : files_with_word(type)) {
      if (file == "models/network.cc")
        continue;  // kernels::ReluSpec, which it fuses with the operation before it
      INFO(file);
      CHECK(allowed.contains(file));
    }
  }
  std::set<std::string> names;
  models::for_each_layer_type([&]<class T>(T) {
    names.insert(models::LayerType<T>::kName);
    CHECK_FALSE(std::string(models::LayerType<T>::kPrefix).empty());
  });
  CHECK(names.size() == std::variant_size_v<models::Layer::Kind>);
}

TEST_CASE("a data format is read by its own files and listed in one table") {
  for (const datasets::DataFormat& format : datasets::formats()) {
    INFO(format.what);
    CHECK_FALSE(std::string(format.files).empty());
    CHECK(format.matches != nullptr);
    CHECK(format.read != nullptr);
  }
  for (const std::string format : {"idx", "cifar", "npy", "csv"}) {
    INFO(format);
    const std::set<std::string> expected = {"datasets/readers/" + format + ".h",
                                            "datasets/readers/" + format + ".cc", "datasets/catalogue.cc"};
    CHECK(files_with_word("read_" + format + "_folder") == expected);
    CHECK(files_with_word("is_" + format + "_folder") == expected);
  }
}

TEST_CASE("a topology family has a file, a declaration and a row") {
  for (const topologies::TopologyEntry& entry : topologies::names()) {
    INFO(entry.name);
    CHECK_FALSE(std::string(entry.description).empty());
    if (entry.placeholder) continue;
    std::string name = entry.name;
    name.resize(std::min(name.size(), name.find(':')));
    CHECK(topologies::Topology::parse(entry.name));
    std::replace(name.begin(), name.end(), '-', '_');
    auto files = files_with_word("make_" + name);
    for (const std::string& file : {std::string("topologies/family.h"), std::string("topologies/topology.cc"),
                                    "topologies/families/" + name + ".cc"}) {
      INFO(file);
      CHECK(files.erase(file) == 1);
    }
    // A family may build on another one.
    for (const std::string& file : files) CHECK(file.starts_with("topologies/families/"));
  }
}

TEST_CASE("a command occurs only in its file, in commands.h and in the list") {
  static const std::regex kCommand(R"re(\b(\w+_command)\(\))re");
  const std::string list = source_text("cli/commands/all_commands.cc");
  int commands = 0;
  for (auto it = std::sregex_iterator(list.begin(), list.end(), kCommand); it != std::sregex_iterator();
       ++it) {
    const std::string name = (*it)[1];
    INFO(name);
    ++commands;
    if (list.find("Command " + name + "() {") != std::string::npos) continue;  // it prints the list itself
    const auto files = files_with(name + "()");
    CHECK(files.size() == 3);
    CHECK(files.contains("cli/commands/commands.h"));
  }
  CHECK(commands > 15);
}

}  // namespace
}  // namespace starling
