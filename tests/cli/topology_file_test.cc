// Topologies from files.
#include <algorithm>
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
  const std::string name = "edges:file=star.txt;hub,a,b,c;0:1,2,3*2";
  CHECK(json::parse(outcome.out).at("topology") == "file:star.txt");
  CHECK(read_whole(folder.file("run/experiment.toml")).find("topology = \"" + name + "\"") !=
        std::string::npos);
}

TEST_CASE("a graph from a file has its own number of peers") {
  const TemporaryFolder folder;
  folder.write("star.txt", kStar);
  const std::string name = "file:" + folder.file("star.txt");
  const Outcome shown_alone = run({"topology", "show", name, "--json"});
  INFO(shown_alone.err);
  REQUIRE(shown_alone.exit_code == 0);
  CHECK(json::parse(shown_alone.out).at("edges") == 3);
  check_file_refused({"topology", "show", name, "--peers", "5"}, {"4 nodes", "expected 4 peers"});
}

TEST_CASE("the name of a file is no topology, and the message says how to write it") {
  const TemporaryFolder folder;
  folder.write("g.txt", kStar);
  const Outcome outcome = run({"topology", "show", "g.txt", "--peers", "4"}, {}, folder.path());
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err ==
        "starling topology show: topology 'g.txt' is unknown, but there is a file of this name; "
        "expected file:g.txt for the graph in it\n");
  // A family is not shadowed by a file.
  folder.write("ring", kStar);
  CHECK(run({"topology", "show", "ring", "--peers", "4"}, {}, folder.path()).exit_code == 0);
}

TEST_CASE("the edges of a directed topology can be read back, and lost rounds are pointed out") {
  const TemporaryFolder folder;
  const Outcome edges = run({"topology", "show", "directed-exponential", "--peers", "8", "--format", "edges",
                             "--out", folder.file("d.txt")});
  INFO(edges.err);
  REQUIRE(edges.exit_code == 0);
  CHECK(edges.err.empty());
  CHECK(read_whole(folder.file("d.txt")).starts_with("directed\n0 1\n"));
  const json again = shown("file:" + folder.file("d.txt"), "8");
  CHECK(again.at("directed") == true);
  CHECK(again.at("edges") == shown("directed-exponential", "8").at("edges"));
  const Outcome rounds =
      run({"topology", "show", "one-peer-exponential", "--peers", "8", "--format", "edges"});
  CHECK(rounds.exit_code == 0);
  CHECK(is_one_line(rounds.err));
  CHECK(rounds.err.find("varies in time: the list has the links of all 3 rounds") != std::string::npos);
}

TEST_CASE("each command that reads a graph prints one line with what it has read") {
  const TemporaryFolder folder;
  folder.write("star.txt", kStar);
  const std::string name = "file:" + folder.file("star.txt");
  const std::string said =
      "topology file:star.txt: 4 peers, 3 links, undirected, weights 1 to 2, spectral gap 0.";
  const auto lines = [&](const Words& words) {
    const Outcome outcome = run(words, {}, folder.path());
    INFO(outcome.err);
    CHECK(outcome.exit_code == 0);
    std::size_t count = 0;
    for (std::size_t at = outcome.err.find(said); at != std::string::npos;
         at = outcome.err.find(said, at + 1))
      ++count;
    return count;
  };
  CHECK(lines({"topology", "show", name}) == 1);
  CHECK(lines({"topology", "show", name, "--json"}) == 1);
  CHECK(lines({"topology", "compare", name, "ring", "--peers", "4"}) == 1);
  CHECK(lines({"plot", "--topology", name, "--out", "g.svg"}) == 1);
  CHECK(lines({"topology", "show", "ring", "--peers", "4"}) == 0);
  const Words few = {"--model", "softmax", "--steps", "2",          "--looks",
                     "0",       "--peers", "4",       "--topology", name};
  for (const char* command : {"simulate", "swarm"}) {
    Words words = {command, "--out", command};
    words.insert(words.end(), few.begin(), few.end());
    CAPTURE(command);
    CHECK(lines(words) == 1);
  }
  folder.write("sweep.toml",
               "peers = 4\nmodel.name = \"softmax\"\ntraining.steps = 2\nlooks = 0\n"
               "gossip.topology = \"" +
                   name + "\"\n[sweep]\nseed = [1, 2]\n");
  CHECK(lines({"sweep", "sweep.toml", "--out", "sweep"}) == 1);
  folder.write("arrows.csv", "Source,Target,Type\na,b,Directed\nb,a,Directed\n");
  CHECK(run({"topology", "show", "file:" + folder.file("arrows.csv"), "--json"}).err ==
        "topology file:arrows.csv: 2 peers, 2 links, directed, without weights, spectral gap 1\n");
}

TEST_CASE("a drawing is in ASCII where the locale has no other characters") {
  const auto shown_in = [](const char* locale) {
    return run({"topology", "show", "directed-exponential", "--peers", "5"}, {{"LC_ALL", locale}}).out;
  };
  const auto beyond = [](char c) { return static_cast<unsigned char>(c) >= 0x80; };
  const std::string plain = shown_in("C"), braille = shown_in("C.UTF-8");
  CHECK(std::none_of(plain.begin(), plain.end(), beyond));
  CHECK(std::any_of(braille.begin(), braille.end(), beyond));
  CHECK(std::count(plain.begin(), plain.end(), '\n') == std::count(braille.begin(), braille.end(), '\n'));
}

TEST_CASE("a report calls a graph by its file") {
  const TemporaryFolder folder;
  folder.write("star.txt", kStar);
  for (const std::string& topology : {"file:" + folder.file("star.txt"), std::string("ring")}) {
    const Outcome outcome = run({"simulate", "--peers", "4", "--topology", topology, "--model", "softmax",
                                 "--steps", "5", "--out", folder.file(topology == "ring" ? "ring" : "star")});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.out.find("edges:") == std::string::npos);
  }
  const std::string csv = folder.file("table.csv");
  const Outcome report = run({"report", folder.file("star"), folder.file("ring"), "--csv", csv});
  INFO(report.err);
  REQUIRE(report.exit_code == 0);
  CHECK(read_whole(csv).find("\nfile:star.txt,1,") != std::string::npos);
  const std::string page = read_whole(folder.file("star/report.html"));
  CHECK(page.find("edges:") == std::string::npos);
  CHECK(page.find("4 peers, 3 links, diameter 2") != std::string::npos);  // the graph is analyzed
}

}  // namespace
}  // namespace starling::cli_tests
