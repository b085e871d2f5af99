// Files that commands write, and what a peer tells others about the files that it reads.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/cli/program.h"

namespace starling::cli_tests {
namespace {

std::string small_table(const TemporaryFolder& folder) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += std::to_string(i * 7 % 11) + "," + std::to_string(i % 2) + "\n";
  folder.write("table.csv", text);
  return folder.file("table.csv");
}

TEST_CASE("an option that names an output file rejects pipes and devices before any work, and leaves them") {
  const TemporaryFolder folder;
  const std::string pipe = folder.file("pipe"), device = folder.file("device");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  REQUIRE(::symlink("/dev/full", device.c_str()) == 0);
  for (const auto& [path, kind] : {std::pair(pipe, "pipe"), std::pair(device, "device")}) {
    for (Words words :
         std::vector<Words>{{"peer", "--export"},
                            {"topology", "show", "ring", "--peers", "4", "--out"},
                            {"topology", "compare", "ring", "--peers", "4", "--measure", "--out"},
                            {"hunt", "--seeds", "0..1", "--trace"}}) {
      const std::string flag = words.back();
      words.push_back(path);
      const Outcome outcome = run(words);
      INFO(words.front() << ": " << outcome.err);
      CHECK(outcome.exit_code == 2);
      CHECK(outcome.out.empty());
      CHECK(is_one_line(outcome.err));
      CHECK(outcome.err.find(flag + ": cannot write " + path + ": it is a " + kind + ", expected a file") !=
            std::string::npos);
    }
  }
  CHECK(std::filesystem::is_fifo(pipe));
  CHECK(std::filesystem::is_symlink(device));
  CHECK(std::filesystem::is_character_file("/dev/full"));
}

TEST_CASE("an output file may be standard output") {
  const Words words = {"topology", "show", "ring", "--peers", "4"};
  Words named = words;
  named.insert(named.end(), {"--out", "/dev/stdout"});
  const Outcome outcome = run(named);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out == run(words).out);
  CHECK(std::filesystem::is_symlink("/dev/stdout"));
}

TEST_CASE("a joiner reads no path that the swarm names, and is told no path of the first peer's data") {
  const TemporaryFolder folder;
  const std::string table = small_table(folder);
  Program first({"peer", "--listen", "127.0.0.1:0", "--model", "mlp", "--data", table, "--pace", "5ms",
                 "--state", folder.file("state"), "--cache-interval", "5ms"});
  const std::string address = first.wait_for_error_word("listens at ");
  REQUIRE_FALSE(address.empty());
  const Words join = {"peer", "--listen", "127.0.0.1:0", "--join", address.substr(0, address.find(','))};

  const Outcome refused = run(join, {{"STARLING_DATA", folder.file("none")}});
  INFO(refused.err);
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("the swarm trains on the data 'table', which is neither in the catalogue nor in the "
                         "folder $STARLING_DATA ('" +
                         folder.file("none") + "'); give the path of your own copy with --data") !=
        std::string::npos);

  Words own = join;
  own.insert(own.end(), {"--data", table, "--state", folder.file("joined"), "--cache-interval", "5ms"});
  Program second(own);
  CHECK(second.wait_for_error_text("training begins"));
  second.signal(SIGTERM);
  CHECK(second.finish().exit_code == 0);
  // What the first peer sent is in the second peer's cache.
  const auto cache = nlohmann::json::parse(read_whole(folder.file("joined/peers.json")));
  CHECK(cache.at("manifest").at("data") == "table");
  CHECK(cache.dump().find(folder.file("")) == std::string::npos);
  CHECK(cache.dump().find(R"({"key":"data.source","value":"table"})") != std::string::npos);
  first.signal(SIGTERM);
  CHECK(first.finish().exit_code == 0);
}

}  // namespace
TEST_CASE("a peer says how others join, where its page is, when the run ends, and keeps its model") {
  const TemporaryFolder folder;
  const Words peer = {"peer",   "--listen", "127.0.0.1:0", "--name", "north",  "--model",    "softmax",
                      "--data", "glyphs",   "--epochs",    "0.1",    "--http", "127.0.0.1:0"};
  const auto says = [](const Outcome& outcome, const char* what) {
    INFO(what);
    CHECK(outcome.err.find(what) != std::string::npos);
  };
  const Outcome kept = run(peer, {{"STARLING_EXPORT", ""}}, folder.path());
  REQUIRE(kept.exit_code == 0);
  says(kept, "others join with: starling peer --join 127.0.0.1:");
  says(kept, "page: http://127.0.0.1:");
  says(kept, "the run ends after 0.1 epochs of the swarm");
  says(kept, "at the end the model is written to ./north.safetensors");
  CHECK(run({"evaluate", folder.file("north.safetensors"), "--data", "glyphs"}).exit_code == 0);

  // The next one of this name does not replace it; none keeps nothing.
  says(run(peer, {{"STARLING_EXPORT", ""}}, folder.path()), "written to ./north-2.safetensors");
  says(run(peer, {}, folder.path()), "the model is not kept; --export FILE keeps it");
  CHECK(std::filesystem::exists(folder.file("north-2.safetensors")));
  CHECK_FALSE(std::filesystem::exists(folder.file("north-3.safetensors")));
  says(run({"peer", "--listen", "127.0.0.1:0", "--model", "softmax", "--data", "glyphs", "--steps", "1"},
           {{"STARLING_EXPORT", ""}}, "/proc"),
       "the current folder cannot be written, so the model is not kept; --out DIR keeps it");
}

TEST_CASE("a running simulation says how far it is and how long it still takes") {
  const TemporaryFolder folder;
  Program program(
      {"simulate", "--peers", "8", "--model", "mlp", "--epochs", "10000", "--out", folder.file("run")});
  REQUIRE(program.wait_for_error_text(" s of virtual time, about "));
  program.signal(SIGINT);
  CHECK(program.finish().exit_code == 130);
}

}  // namespace starling::cli_tests
