// Checks all sources and documents against the limits of style. Snippets show that each check can fail.
#include "tests/architecture/style.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/architecture/cycles.h"
#include "tests/architecture/project.h"
#include "tests/architecture/structure.h"
#include "tests/catch.h"

namespace starling::architecture {
namespace {

void append(std::vector<Finding>& findings, const std::vector<Finding>& more) {
  findings.insert(findings.end(), more.begin(), more.end());
}

std::vector<Finding> cycle_findings() {
  std::vector<Finding> findings;
  for (const auto& cycle : include_cycles(sources())) {
    for (const auto& unit : cycle)
      findings.push_back({"include-cycle", unit, static_cast<int>(cycle.size())});
  }
  return findings;
}

// README.md and all documents in docs/.
std::vector<Finding> all_document_findings() {
  std::vector<Finding> findings = document_findings("README.md", read_text(kRoot + "/README.md"));
  for (const auto& entry : std::filesystem::directory_iterator(kRoot + "/docs")) {
    if (entry.path().extension() == ".md")
      append(findings,
             document_findings("docs/" + entry.path().filename().string(), read_text(entry.path().string())));
  }
  return findings;
}

const std::vector<Finding>& findings() {
  static const std::vector<Finding> kFindings = [] {
    std::vector<Finding> all = cycle_findings();
    for (const auto& source : sources()) {
      append(all, text_findings(source));
      append(all, structure_findings(source));
    }
    append(all, name_findings(sources()));
    append(all, all_document_findings());
    return all;
  }();
  return kFindings;
}

Structure structure(const std::string& text) { return structure_of(make_source("a/b.h", text)); }

}  // namespace

TEST_CASE("no unit includes itself through others, except for the listed exceptions") {
  REQUIRE(differences("include-cycle", findings()) == "");
}

TEST_CASE("functions, files, classes and lines are within their limits, except for the listed exceptions") {
  for (const std::string rule :
       {"function-lines", "file-lines", "class-methods", "class-members", "line-columns"}) {
    CAPTURE(rule);
    CHECK(differences(rule, findings()) == "");
  }
}

TEST_CASE("every header begins with prose, except for the listed exceptions") {
  REQUIRE(differences("header-prose", findings()) == "");
}

TEST_CASE("no name is declared in two rooms, except for the listed exceptions") {
  REQUIRE(differences("shared-name", findings()) == "");
}

TEST_CASE("documents are wrapped, except for the listed exceptions") {
  REQUIRE(differences("document-columns", findings()) == "");
}

TEST_CASE("clang-format 14 changes no source, except for the listed exceptions") {
  const auto found = format_findings(kRoot, sources());
  if (found) {
    REQUIRE(differences("format", *found) == "");
  } else {
    WARN("clang-format 14 is not installed, so the format is not checked");
  }
}

TEST_CASE("the exceptions shrink to the current findings", "[.][shrink]") {
  std::vector<Finding> all = findings();
  const std::string text = read_text(kExceptionsPath);
  const auto formats = format_findings(kRoot, sources());
  REQUIRE(formats.has_value());
  append(all, *formats);
  std::ofstream(kExceptionsPath, std::ios::binary) << shrunk(text, all);
}

TEST_CASE("exceptions may only shrink") {
  const std::string list = "# why\n\nfile-lines 700 a/b.cc\nfile-lines 650 a/c.cc\n";
  const Exceptions exceptions = read_exceptions(list);
  const auto count = [&](const std::vector<Finding>& findings) {
    return compare("file-lines", findings, exceptions).size();
  };
  REQUIRE(count({{"file-lines", "a/b.cc", 700}, {"file-lines", "a/c.cc", 650}}) == 0);
  REQUIRE(count({{"file-lines", "a/b.cc", 701}, {"file-lines", "a/c.cc", 650}}) == 1);
  REQUIRE(count({{"file-lines", "a/b.cc", 690}, {"file-lines", "a/c.cc", 650}}) == 1);
  REQUIRE(count({{"file-lines", "a/b.cc", 700}}) == 1);
  REQUIRE(
      count({{"file-lines", "a/b.cc", 700}, {"file-lines", "a/c.cc", 650}, {"file-lines", "a/d.cc", 601}}) ==
      1);
  REQUIRE(compare("other-rule", {}, exceptions).empty());
  REQUIRE(shrunk(list, {{"file-lines", "a/b.cc", 690}, {"file-lines", "a/d.cc", 601}}) ==
          "# why\n\nfile-lines 690 a/b.cc\n");
  REQUIRE(shrunk(list, {{"file-lines", "a/b.cc", 701}, {"file-lines", "a/c.cc", 650}}) == list);
}

TEST_CASE("include cycles are found between units, not files") {
  const std::vector<Source> sources = {
      make_source("a/one.h", "int x;"),
      make_source("a/one.cc", "#include \"a/one.h\"\n#include \"a/two.h\"\n"),
      make_source("a/two.h", "#include \"a/three.h\"\n"),
      make_source("a/three.cc", "#include \"a/one.h\"\n"),
      make_source("a/four.h", "#include \"a/one.h\"\n"),
  };
  const std::vector<std::vector<std::string>> cycle = {{"a/one", "a/three", "a/two"}};
  REQUIRE(include_cycles(sources) == cycle);
  REQUIRE(include_cycles({sources[0], sources[1], sources[2], sources[4]}).empty());
}

TEST_CASE("functions are measured from their head to their closing brace") {
  const Structure found = structure(R"(
namespace a {
int one() {
  return 1;
}
template <class T, int N = (3 > 2)>
std::map<int, std::vector<T>> World<T>::two(
    int x) const noexcept {
  const auto f = [] { return std::vector<int>{1, 2}; };
  if (x) {
  }
}
World::World(int x)
    : a_{1}, b_(x), c_<int>{2} {
}
bool operator()(int x) { return x < 2; }
std::ostream& operator<<(std::ostream& out, const World&) {
}
const auto kTable = make(1, [] { return 2; });
const std::map<int, int> kMap = {{1, 2}, {3, 4}};
int declared(int x);
TEST_CASE("a test") {
}
}
)");
  std::vector<std::pair<std::string, int>> functions;
  for (const auto& function : found.functions) functions.emplace_back(function.name, function.lines);
  const std::vector<std::pair<std::string, int>> expected = {
      {"one", 3}, {"World::two", 7}, {"World::World", 3}, {"operator", 1}, {"operator", 2}, {"TEST_CASE", 2}};
  CHECK(functions == expected);
}

TEST_CASE("methods and data members of a class are counted") {
  const Structure found = structure(R"(
class alignas(64) World final : public Base<void(int)>, Other {
 public:
  explicit World(int x) : x_{x}, y_(2) { f(); }
  ~World() override;
  World(const World&) = delete;
  bool operator==(const World& other) const = default;
  [[nodiscard]] std::map<int, int> get() const { return {{1, 2}}; }
  template <class T>
  void take(std::function<void(T)> f = [](T) {});
  virtual void must() = 0;
  static int count();
  friend class Friend;
  using Map = std::map<int, std::function<void()>>;
  enum class Kind : int { one, two };
  struct Inner {
    int a, b;
    void c();
  };

 private:
  class Forward;
  static constexpr int kConstant = 3;
  int x_, y_ = 2;
  std::function<void(int, int)> callback_ = [] { return 1; };
  std::map<int, std::pair<int, int>> map_{{1, {2, 3}}};
  void (*pointer_)(int);
  Inner inner_;
};
struct Empty {};
)");
  REQUIRE(found.classes.size() == 3);
  CHECK(found.classes[0].name == "World");
  CHECK(found.classes[0].methods == 6);
  CHECK(found.classes[0].members == 6);
  CHECK(found.classes[1].name == "Inner");
  CHECK(found.classes[1].methods == 1);
  CHECK(found.classes[1].members == 2);
  CHECK(found.classes[2].methods + found.classes[2].members == 0);
}

TEST_CASE("a header's public names are its types and functions at namespace scope") {
  const Structure found = structure(R"(
namespace a::b {
class Forward;
struct Type { int member(); };
enum class Kind { one };
using Alias = int;
inline constexpr int kConstant = 1;
Result<int> function(int x);
template <class T> T defined(T x) { return x; }
namespace {
int hidden();
}
}
)");
  const std::vector<std::string> expected = {"Type", "Kind", "function", "defined"};
  CHECK(found.names == expected);
  const auto names = [](const std::string& path, const std::string& other) {
    return name_findings(
               {make_source("gossip/a.h", "class Peer {};\nint to_string();"), make_source(path, other)})
        .size();
  };
  CHECK(names("node/a.h", "struct Peer {};") == 1);
  CHECK(names("gossip/b.h", "struct Peer {};") == 0);
  CHECK(names("node/a.cc", "struct Peer {};") == 0);
  CHECK(names("node/a.h", "class Peer;") == 0);
  CHECK(names("node/a.h", "int to_string();") == 0);
}

TEST_CASE("a place over a limit is reported, and a place at the limit is not") {
  const auto rules = [](const std::string& path, const std::string& text) {
    const Source source = make_source(path, text);
    std::vector<Finding> all = text_findings(source);
    append(all, structure_findings(source));
    std::string list;
    for (const auto& finding : all) list += finding.rule + " " + std::to_string(finding.number) + ";";
    return list;
  };
  const auto lines = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += "\n";
    return text;
  };
  const auto repeated = [](const std::string& text, int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += text;
    return all;
  };
  CHECK(rules("a/b.cc", std::string(110, 'x') + "\n" + lines(599)).empty());
  CHECK(rules("a/b.cc", std::string(111, 'x') + "\n// " + std::string(108, 'x')) == "line-columns 2;");
  CHECK(rules("a/b.cc", "// " + repeated("\u00e9", 107)).empty());
  CHECK(rules("a/b.cc", lines(601)) == "file-lines 601;");
  CHECK(rules("a/b.cc", "int f() {" + lines(59) + "}").empty());
  CHECK(rules("a/b.cc", "int f() {" + lines(60) + "}") == "function-lines 61;");
  CHECK(rules("a/b.cc", "struct A {" + repeated("int f();\n", 45) + repeated("int x;\n", 25) + "};").empty());
  CHECK(rules("a/b.cc", "struct A {" + repeated("int f();\n", 46) + "};") == "class-methods 46;");
  CHECK(rules("a/b.cc", "struct A {" + repeated("int x;\n", 26) + "};") == "class-members 26;");
  CHECK(rules("a/b.h", "// What it is.\n#pragma once\n").empty());
  CHECK(rules("a/b.h", "#pragma once\n// What it is.\n") == "header-prose 1;");
}

TEST_CASE("the width of documents is measured without tables, code and link targets") {
  const std::string wide(101, 'x');
  CHECK(document_findings("a.md", std::string(100, 'x')).empty());
  CHECK(document_findings("a.md", wide + "\n" + wide).at(0).number == 2);
  CHECK(document_findings("a.md", "| " + wide + " |\n# " + wide + "\n```\n" + wide + "\n```\n").empty());
  CHECK(document_findings("a.md", "```\n```\n" + wide).size() == 1);
  CHECK(document_findings("a.md", "see [here](https://" + wide + ")").empty());
}

}  // namespace starling::architecture
