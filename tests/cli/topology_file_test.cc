// Topologies from files.
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/cli/program.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

constexpr const char* kStar = "# a hub and three\nhub a\nhub b\nhub c 2\n";

json shown(const std::string& name, const std::string& peers) {
  const Outcome outcome = run({"topology", "show", name, "--peers", peers, "--json"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return json::parse(outcome.out);
}

void check_file_refused(const Words& words, const Words& parts) {
  const Outcome outcome = run(words);
  CHECK(outcome.exit_code == 2);
  CHECK(is_one_line(outcome.err));
  for (const std::string& part : parts) {
    CAPTURE(outcome.err, part);
    CHECK(outcome.err.find(part) != std::string::npos);
  }
}

TEST_CASE("a graph can be read from an edge list or GraphML") {
  const TemporaryFolder folder;
  folder.write("star.txt", kStar);
  const json star = shown("file:" + folder.file("star.txt"), "4");
  CHECK(star.at("edges") == 3);
  CHECK(star.at("degree_max") == 3);
  CHECK(star.at("diameter") == 2);
  const std::string ring =
      "<graphml><graph edgedefault='undirected'><node id='a'/><node id='b'/><node id='c'/>"
      "<edge source='a' target='b'/><edge source='b' target='c'/><edge source='c' "
      "target='a'/></graph></graphml>";
  folder.write("ring.graphml", ring);
  folder.write("ring", "\n" + ring);  // recognized by its content
  for (const char* file : {"ring.graphml", "ring"})
    CHECK(shown("file:" + folder.file(file), "3").at("edges") == 3);
}

TEST_CASE("an error in a graph's file names its path") {
  const TemporaryFolder folder;
  const auto named = [&](const char* file) { return "file:" + folder.file(file); };
  folder.write("loop.txt", "0 1\n1 1\n");
  folder.write("broken.graphml", "<graphml>\n<graph>");
  folder.write("star.txt", kStar);
  for (const char* command : {"swarm", "simulate", "peer"}) {
    check_file_refused({command, "--topology", named("none")}, {named("none"), "No such file"});
    check_file_refused({command, "--topology", named("loop.txt")},
                       {named("loop.txt"), "line 2", "linked to itself"});
  }
  check_file_refused({"topology", "show", named("broken.graphml"), "--peers", "4"},
                     {"broken.graphml", "is not XML"});
  check_file_refused({"topology", "show", "file:" + folder.file(""), "--peers", "4"}, {"it is a folder"});
  check_file_refused({"topology", "show", "file:", "--peers", "4"}, {"expected file:PATH"});
  check_file_refused({"simulate", "--peers", "5", "--topology", named("star.txt")},
                     {"4 nodes", "expected 4 peers"});
  check_file_refused({"topology", "show", "edges:2;0:0", "--peers", "2"},
                     {"edges:2;0:0", "linked to itself"});
}

TEST_CASE("the record of a run on a graph from a file contains the graph") {
  const TemporaryFolder folder;
  folder.write("star.txt", kStar);
  folder.write("star.toml", "peers = 4\n[gossip]\ntopology = \"file:" + folder.file("star.txt") + "\"\n");
  const Outcome outcome = run({"simulate", folder.file("star.toml"), "--model", "softmax", "--data", "glyphs",
                               "--steps", "5", "--out", folder.file("run"), "--json"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const std::string name = "edges:hub,a,b,c;0:1,2,3*2";
  CHECK(json::parse(outcome.out).at("topology") == name);
  CHECK(read_whole(folder.file("run/experiment.toml")).find("topology = \"" + name + "\"") !=
        std::string::npos);
}

}  // namespace
}  // namespace starling::cli_tests
