// starling data fetch, from a mirror on the loopback.
#include "datasets/sha256.h"
#include "tests/catch.h"
#include "tests/cli/json.h"
#include "tests/datasets/mirror.h"

namespace starling::cli_tests {
namespace {

using datasets::Mirror;
using nlohmann::json;

// An IDX file of images of 2x2 pixels, or of labels.
std::string images(int count) {
  std::string text("\0\0\x08\x03\0\0\0", 7);
  text += static_cast<char>(count);
  text += std::string("\0\0\0\x02\0\0\0\x02", 8);
  for (int i = 0; i < 4 * count; ++i) text += static_cast<char>(i * 50);
  return text;
}
std::string labels(int count) {
  std::string text("\0\0\x08\x01\0\0\0", 7);
  text += static_cast<char>(count);
  for (int i = 0; i < count; ++i) text += static_cast<char>(i % 2);
  return text;
}

std::string line_of(const std::string& name, const std::string& content) {
  datasets::Sha256 hash;
  hash.add(std::as_bytes(std::span(content)));
  return hash.hex() + " " + std::to_string(content.size()) + " " + name + "\n";
}

TEST_CASE("data fetch downloads a usable set, and only once") {
  const TemporaryFolder folder;
  std::map<std::string, Mirror::File> files;
  std::string sums;
  for (const auto& [name, content] :
       std::map<std::string, std::string>{{"train-images-idx3-ubyte", images(8)},
                                          {"train-labels-idx1-ubyte", labels(8)},
                                          {"t10k-images-idx3-ubyte", images(4)},
                                          {"t10k-labels-idx1-ubyte", labels(4)}}) {
    files["/sets/" + name] = {content};
    sums += line_of(name, content);
  }
  folder.write("sums", sums);
  Mirror mirror(files);
  const Words words = {"data",
                       "fetch",
                       "mnist",
                       "--from",
                       mirror.base(),
                       "--into",
                       folder.file("data"),
                       "--sums",
                       folder.file("sums")};
  const Outcome fetched = run(words);
  INFO(fetched.err);
  REQUIRE(fetched.exit_code == 0);
  CHECK(fetched.err.empty());
  CHECK(fetched.out.find("mnist: 108 B downloaded, all checksums match\n" + folder.file("data/mnist") +
                         "\n") == 0);
  const Outcome info = run({"data", "info", "mnist"}, {{"STARLING_DATA", folder.file("data")}});
  INFO(info.err);
  CHECK(info.exit_code == 0);
  CHECK(info.out.find("training    8 samples") != std::string::npos);

  Words again = words;
  again.push_back("--json");
  const json said = run_json(again);
  CHECK(said.at("files_already_there") == 4);
  CHECK(said.at("bytes_fetched") == 0);
  CHECK(said.at("folder") == folder.file("data/mnist"));
}

TEST_CASE("an error of data fetch is one line") {
  const TemporaryFolder folder;
  folder.write("broken", "abc\n");
  Mirror mirror(std::map<std::string, Mirror::File>{{"/sets/train-images-idx3-ubyte.gz", {"not it"}}});
  struct Case {
    Words arguments;
    int exit_code;
    std::string said;
  };
  for (const Case& bad : std::vector<Case>{
           {{"mnist"}, 2, "--into is missing, and STARLING_DATA"},
           {{"glyphs"}, 2, "glyphs is built in"},
           {{"mnits", "--into", folder.file("x")},
            2,
            "expected cifar10, cifar100, fashion-mnist, kmnist, mnist or shakespeare"},
           {{"mnist", "--into", folder.file("x"), "--from", "ftp://here"},
            2,
            "--from: 'ftp://here' is not the address"},
           {{"mnist", "--into", folder.file("x"), "--sums", folder.file("broken")},
            2,
            "line 1 is not SHA256 SIZE NAME"},
           {{"mnist", "--into", folder.file("broken")}, 1, "cannot be created"},
           {{"mnist", "--into", folder.file("x"), "--from", mirror.base()},
            1,
            "has 6 bytes, but the published file has 9912422"},
           {{"kmnist", "--into", folder.file("x"), "--from", mirror.base()},
            1,
            "has 6 bytes, but the published file has 18165135"},
           {{"cifar10", "--into", folder.file("x"), "--from", mirror.base()},
            1,
            "the server has no such file (404)"},
       }) {
    CAPTURE(bad.said);
    Words words = {"data", "fetch"};
    words.insert(words.end(), bad.arguments.begin(), bad.arguments.end());
    const Outcome outcome = run(words);
    INFO(outcome.err);
    CHECK(outcome.exit_code == bad.exit_code);
    CHECK(outcome.out.empty());
    CHECK(is_one_line(outcome.err));
    CHECK(outcome.err.find(bad.said) != std::string::npos);
  }
  // A command that lacks a published data set suggests the download.
  const Outcome absent = run({"data", "info", "mnist"});
  CHECK(absent.exit_code == 2);
  CHECK(absent.err.find("`starling data fetch mnist --into DIR` downloads it") != std::string::npos);
}

}  // namespace
}  // namespace starling::cli_tests
