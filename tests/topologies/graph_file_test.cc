// Graphs from files: valid and invalid files, the name that carries a graph, and graphs under churn.
#include "topologies/graph_file.h"

#include "tests/contains.h"
#include "tests/topologies/family.h"
#include "topologies/drawings/drawing.h"
#include "topologies/graph.h"
#include "topologies/spectra/mixing.h"

namespace starling::topologies {
namespace {

using FileEdges = std::vector<GraphFile::Edge>;
using Reader = Result<GraphFile> (*)(std::string_view text);

GraphFile good(Reader read, std::string_view text) {
  auto graph = read(text);
  if (!graph) FAIL(graph.error().message);
  return *graph;
}

// The error message for an invalid text.
std::string refusal(Reader read, std::string_view text) {
  const auto graph = read(text);
  REQUIRE_FALSE(graph.ok());
  CHECK_FALSE(contains(graph.error().message, "\n"));
  return graph.error().message;
}

std::string graphml(const std::string& direction, const std::string& body) {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
         "<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n"
         "  <key id=\"w\" for=\"edge\" attr.name=\"weight\" attr.type=\"double\"/>\n"
         "  <key id=\"c\" for=\"node\" attr.name=\"weight\" attr.type=\"double\"/>\n"
         "  <graph id=\"G\" edgedefault=\"" +
         direction + "\">\n" + body + "  </graph>\n</graphml>\n";
}

constexpr const char* kThreeNodes =
    "<node id=\"a\"/><node id=\"b\"><data key=\"c\">7</data></node><node id=\"c\"/>\n";

std::vector<VertexKey> keys_of(const std::vector<std::string>& peers) {
  std::vector<VertexKey> keys;
  for (const std::string& name : peers) keys.push_back(vertex_key(name));
  return keys;
}

std::string name_of(const GraphFile& graph) {
  auto name = graph_name(graph);
  if (!name) FAIL(name.error().message);
  return *name;
}

// A random connected graph: a tree with additional links.
GraphFile random_graph(Random& random) {
  GraphFile graph;
  graph.nodes = static_cast<std::uint32_t>(2 + random.below(30));
  graph.directed = random.chance(0.3);
  if (random.chance(0.5))
    for (std::uint32_t i = 0; i < graph.nodes; ++i)
      graph.labels.push_back((random.chance(0.2) ? "n\xc3\xb6 ,;:*%" : "node-") + std::to_string(i));
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> edges;
  const bool weighted = random.chance(0.5);
  const auto link = [&](std::uint32_t a, std::uint32_t b) {
    if (a == b) return;
    if (!graph.directed && a > b) std::swap(a, b);
    edges.emplace(std::pair(a, b), weighted ? random.uniform(0.001, 1000) : 1);
  };
  for (std::uint32_t i = 1; i < graph.nodes; ++i) {
    const auto other = static_cast<std::uint32_t>(random.below(i));
    link(i, other);
    if (graph.directed) link(other, i);
  }
  for (std::uint64_t more = random.below(40); more > 0; --more)
    link(static_cast<std::uint32_t>(random.below(graph.nodes)),
         static_cast<std::uint32_t>(random.below(graph.nodes)));
  for (const auto& [ends, weight] : edges) graph.edges.push_back({ends.first, ends.second, weight});
  return graph;
}

}  // namespace

TEST_CASE("an edge list has two columns, or three with weights, and optional comments") {
  const GraphFile numbered = good(read_edge_list, "# four\n\n0 1\n2\t1 \r\n  3 0 # a chord\n1 0\n");
  CHECK(numbered.nodes == 4);
  CHECK(numbered.labels.empty());
  CHECK_FALSE(numbered.directed);
  CHECK(numbered.edges == FileEdges{{0, 1}, {0, 3}, {1, 2}});

  const GraphFile labeled = good(read_edge_list, "Rome Oslo 2\nOslo Bern 0.5\nOslo Rome 2");
  CHECK(labeled.labels == std::vector<std::string>{"Rome", "Oslo", "Bern"});
  CHECK(labeled.edges == FileEdges{{0, 1, 2}, {1, 2, 0.5}});

  const GraphFile directed = good(read_edge_list, "#\ndirected\n0 1\n1 2\n2 0 3\n");
  CHECK(directed.directed);
  CHECK(directed.edges == FileEdges{{0, 1}, {1, 2}, {2, 0, 3}});

  CHECK(good(read_edge_list, "1 0").nodes == 2);
  CHECK(good(read_edge_list, "p1 p0").labels == std::vector<std::string>{"p1", "p0"});
}

TEST_CASE("columns of an edge list are separated by blanks, commas or semicolons") {
  const GraphFile graph = good(read_edge_list, "0 1\n0 2 0.5\n1 2\n");
  for (const char* text : {"0,1\n0,2,0.5\n1,2\n", "0;1\n0;2;0.5\n1;2\n", "0\t1\n0, 2, 0.5\n1 ; 2\n",
                           "\xef\xbb\xbf"
                           "0 1\r\n0 2 0.5\r\n1 2\r\n",
                           "\"0\",1\n0,\"2\",0.5\n1,2\n", "% by a tool\n0 1 % one\n0 2 0.5# two\n1 2\n"})
    CHECK(good(read_edge_list, text) == graph);
}

TEST_CASE("an empty cell between commas or semicolons is rejected with its line") {
  const auto empty = [](const char* nth) {
    return std::string("line 2: the ") + nth + " cell is empty; expected 'a b' or 'a b weight'";
  };
  CHECK(refusal(read_edge_list, "a,b,2\nc,,2\n") == empty("second"));
  CHECK(refusal(read_edge_list, "0;1;2\n2;;0\n") == empty("second"));
  CHECK(refusal(read_edge_list, "a,b\n,a\n") == empty("first"));
  CHECK(refusal(read_edge_list, "a,b,1\nb,c,\n") == empty("third"));
  CHECK(refusal(read_edge_list, "a,b\n1 ; 2 ;  # none\n") == empty("third"));
  CHECK(refusal(read_edge_list, "a,b\nb,\n") == empty("second"));
  CHECK(contains(refusal(read_edge_list, "a,b\nNew York,7\n"), "line 2: a cell has a blank inside"));
  CHECK(good(read_edge_list, "\"New York\",a\n").labels == std::vector<std::string>{"New York", "a"});
  CHECK(contains(refusal(read_edge_list, std::string_view("\xff\xfe"
                                                          "0\0 \0",
                                                          6)),
                 "expected UTF-8"));
}

TEST_CASE("a list of links with networkx's attributes is read with its weights") {
  const GraphFile graph = good(read_edge_list, "0 1 {}\n1 2 {'weight': 2.5, 'color': 'a, {b}: #'}  # two\n");
  CHECK(graph.edges == FileEdges{{0, 1}, {1, 2, 2.5}});
  CHECK(good(read_edge_list, "0,1,{}\n1,2,{\"Weight\": np.float64(2.5), 'on': True}\n") == graph);
  for (const char* wrong : {"{", "{'weight' 2}", "{'weight': }", "{'weight': 2} 3", "{'a': {'b': 1}}",
                            "{'a': [1]}", "{'weight': 'x", "{weight}", "{'weight': 1,}"})
    CHECK(contains(refusal(read_edge_list, "0 1 {}\n1 2 " + std::string(wrong)), "expected {'weight': 2.5}"));
  CHECK(contains(refusal(read_edge_list, "0 1 {'weight': 0}"), "line 1: the weight is '0'"));
  CHECK(contains(refusal(read_edge_list, "0 1 {'weight': 1, 'Weight': 2}"), "two weights"));
  CHECK(contains(refusal(read_edge_list, "0 1 {'weights': 2}"), "'weights' is similar to a weight"));
  CHECK(refusal(read_edge_list, "0 1 2 {}") == "line 1 has 3 columns; expected 'a b' or 'a b weight'");
}

TEST_CASE("a table of links has a header, as pandas and Gephi write it") {
  const GraphFile graph = good(read_edge_list, "a b 2\nb c 0.5\n");
  for (const char* text :
       {"source,target,weight\na,b,2\nb,c,0.5\n", ",source,target,weight\n0,a,b,2\n1,b,c,0.5\n",
        "# links\nSource;Target;Type;Id;Label;Weight\na;b;Undirected;0;;2.0\nb;c;undirected;1;x y;0.5\n",
        "\xef\xbb\xbfWeight,Label,Target,Source\r\n2,\"x, \"\"y\"\"\",b,a\r\n0.5,,c,b\r\n",
        "Source\tTarget\tLabel\tWeight\na\tb\t\t2\nb\tc\t\t0.5\n", "from to weight\na b 2\nb c 0.5\n"}) {
    CAPTURE(text);
    CHECK(good(read_edge_list, text) == graph);
  }
  const GraphFile circle = good(read_edge_list, "directed\n0 1\n1 2\n2 0\n");
  CHECK(good(read_edge_list, "Source,Target,Type\n0,1,Directed\n1,2,Directed\n2,0,Directed\n") == circle);
  CHECK(good(read_edge_list, "directed\nsource,target\n0,1\n1,2\n2,0\n") == circle);
  const auto table = [](const std::string& rows) {
    return refusal(read_edge_list, "source,target,weight,type\n" + rows);
  };
  CHECK(table("a,b,2\n") == "line 2 has 3 cells; expected 4, as in the header");
  CHECK(table("a,,2,directed\n") == "line 2: the cell of the target is empty; expected a node");
  CHECK(contains(table("a,b,,directed\n"), "line 2: the weight is ''"));
  CHECK(contains(table("a,b,1,mutual\n"), "line 2: the type of the link is 'mutual'"));
  for (const char* types : {"a,b,1,directed\nb,a,1,undirected\n", "a,b,1,undirected\nb,a,1,directed\n"})
    CHECK(contains(table(types), "line 3: the link is "));
  CHECK(contains(refusal(read_edge_list, "source,target,source\n"), "twice"));
  CHECK(contains(refusal(read_edge_list, "source,target,weight_2\na,b,1\n"), "'weight_2' is similar"));
}

TEST_CASE("an adjacency list is rejected by its name") {
  const std::string comments = "#/home/a/write.py\n# GMT Sun Nov 29 10:00:00 2026\n#  star\n";
  for (const char* text : {"0 1 2 3\n1\n2\n3\n", "0 1\n1 2\n2\n"}) {
    CHECK(contains(refusal(read_edge_list, text), "networkx.write_adjlist()"));
    CHECK(contains(refusal(read_edge_list, comments + text), "networkx.write_adjlist()"));
  }
  // Rows of three columns could be links with weights.
  CHECK(contains(refusal(read_edge_list, comments + "0 1 2\n1 0 2\n2 0 1\n"), "networkx.write_adjlist()"));
}

TEST_CASE("the list of edges of every family reads as the same graph") {
  for (const std::string& name : all_families()) {
    for (const std::uint32_t n : {2u, 5u, 8u, 16u, 33u}) {
      CAPTURE(name, n);
      const Schedule schedule = named(name).among(n);
      const Graph graph = *Graph::of_period(schedule);
      const std::string text = to_edge_list(graph);
      const GraphFile file = good(read_edge_list, text);
      CHECK(file.nodes == n);
      CHECK(file.directed == schedule.directed());
      CHECK(file.edges.size() == graph.edge_count());
      const Schedule again = graph_family(file).among(default_keys(n));
      CHECK(arcs(again) == arcs(schedule));
      // Also through the name that a swarm receives.
      CHECK(good(read_graph_name, name_of(file)) == file);
    }
  }
}

TEST_CASE("a graph is shown by the name of its file, which is part of its name") {
  GraphFile graph = good(read_edge_list, "0 1\n1 2\n");
  CHECK(shown_name(name_of(graph)) == name_of(graph));
  graph.file = "g.txt";
  CHECK(name_of(graph) == "edges:file=g.txt;3;0:1;1:2");
  CHECK(shown_name(name_of(graph)) == "file:g.txt");
  CHECK(good(read_graph_name, name_of(graph)) == graph);
  CHECK(named(name_of(graph)).only_peers() == 3);
  CHECK_FALSE(named("ring").only_peers().has_value());
  graph.file =
      "gr\xc3\xb6\xc3\x9f"
      "e; 1,2.txt";
  graph.directed = true;
  graph.edges = {{0, 1}, {1, 2}, {2, 0}};
  CHECK(good(read_graph_name, name_of(graph)) == graph);
  CHECK(shown_name(name_of(graph)) == "file:" + graph.file);
  CHECK(shown_name("ring") == "ring");
  CHECK(name_without_file("ring") == "ring");
  CHECK(name_without_file("edges:file=g.txt;3;0:1;1:2") == "edges:3;0:1;1:2");
  CHECK(name_without_file("edges:3;0:1;1:2") == "edges:3;0:1;1:2");
  // A member may send any name; control characters are not shown.
  for (const char* file : {"", "a/b", "%0A", "%1B%5B31m", "%C3"}) {
    CAPTURE(file);
    const std::string name = "edges:file=" + std::string(file) + ";3;0:1;1:2";
    CHECK(contains(refusal(read_graph_name, name), "the name of its file is"));
    CHECK((shown_name(name) == name || std::string(file).empty()));
  }
}

TEST_CASE("a bad edge list is rejected with its line and what is expected") {
  CHECK(refusal(read_edge_list, "") == "the graph has no links; expected at least one");
  CHECK(refusal(read_edge_list, "# nothing\n\n") == "the graph has no links; expected at least one");
  CHECK(refusal(read_edge_list, "0 1\n1 1\n") ==
        "line 2: node '1' is linked to itself; expected a link between two different nodes");
  CHECK(refusal(read_edge_list, "0 1\n2 3\n") ==
        "node '2' is not connected to node '0'; expected a connected graph");
  CHECK(refusal(read_edge_list, "directed\n0 1\n1 2\n") ==
        "no path leads from node '1' to node '0'; expected a directed graph in which every node "
        "reaches every other");
  CHECK(refusal(read_edge_list, "directed\n0 1\n1 0\n0 2\n") ==
        "no path leads from node '2' to node '0'; expected a directed graph in which every node "
        "reaches every other");
  for (const char* weight : {"0", "-1", "x", "nan", "inf", "1e10", "1e-10"}) {
    CHECK(refusal(read_edge_list, "0 1\n\n1 2 " + std::string(weight)) ==
          "line 3: the weight is '" + std::string(weight) + "'; expected a number from 1e-09 to 1e+09");
  }
  CHECK(
      refusal(read_edge_list, "0 1 2\n1 2\n1 0 3\n") ==
      "line 3: the link between '0' and '1' has the weight 3, but 2 at line 1; expected one weight per link");
  CHECK(refusal(read_edge_list, "0 1\n2\n") == "line 2 has 1 column; expected 'a b' or 'a b weight'");
  for (const char* line : {"0 1 2 3\n", "0 1 1,5\n"})
    CHECK(refusal(read_edge_list, line) == "line 1 has 4 columns; expected 'a b' or 'a b weight'");
  CHECK(refusal(read_edge_list, "1 2\n2 3\n") ==
        "the nodes are numbered, but node 0 has no link; expected numbers from 0 without a gap, or names");
  CHECK(refusal(read_edge_list, "0 1\n1 1000000\n") ==
        "the nodes are numbered, but node 2 has no link; expected numbers from 0 without a gap, or names");
  CHECK(contains(refusal(read_edge_list, "a " + std::string(65, 'b')), "expected 1 to 64 bytes"));
  std::string many = "0 1\n";
  for (int i = 1; i < 70'000; ++i) many += std::to_string(i) + " " + std::to_string(i + 1) + "\n";
  CHECK(contains(refusal(read_edge_list, many), "too large; expected at most 65536 nodes"));
}

TEST_CASE("GraphML gives the direction, the nodes' ids and the weights of the edges") {
  const GraphFile plain =
      good(read_graphml,
           graphml("undirected", std::string(kThreeNodes) +
                                     "<edge source=\"c\" target=\"a\"/>\n"
                                     "<edge source=\"b\" target=\"a\">"
                                     "<data key=\"x\">5</data><data key=\"w\"> 2.5 </data></edge>\n"));
  CHECK(plain.labels == std::vector<std::string>{"a", "b", "c"});
  CHECK(plain.edges == FileEdges{{0, 1, 2.5}, {0, 2}});
  CHECK_FALSE(plain.directed);

  const GraphFile directed =
      good(read_graphml, graphml("directed",
                                 "<edge source=\"1\" target=\"0\"/><edge source=\"0\" target=\"1\"/>"
                                 "<node id=\"1\"/><node id=\"0\"/>\n"));
  CHECK(directed.directed);
  CHECK(directed.labels.empty());
  CHECK(directed.edges == FileEdges{{0, 1}, {1, 0}});

  const GraphFile usual =
      good(read_graphml,
           "<graphml><key id='k' for='all' attr.name='weight'><default>3</default></key>"
           "<graph edgedefault='undirected'><node id='n0'/><node id='n1'/><node id='n2'/>"
           "<edge source='n0' target='n1'/><edge source='n1' target='n2'><data key='k'>4</data></edge>"
           "</graph></graphml>");
  CHECK(usual.edges == FileEdges{{0, 1, 3}, {1, 2, 4}});
}

TEST_CASE("every key of GraphML for the weights of edges counts") {
  const auto with = [](const std::string& keys, const std::string& edges) {
    return "<graphml>" + keys +
           "<graph edgedefault='undirected'><node id='0'/><node id='1'/><node id='2'/><node id='3'/>" +
           edges + "</graph></graphml>";
  };
  const std::string edges =
      "<edge source='0' target='1'><data key='d0'>1</data></edge>"
      "<edge source='1' target='2'><data key='d1'>2.5</data></edge><edge source='2' target='3'>"
      "<data key='d0'> 4 </data></edge>";
  const std::string whole = "<key id='d0' for='edge' attr.name='weight' attr.type='long'/>",
                    part = "<key id='d1' for='all' attr.name='Weight' attr.type='double'/>";
  for (const std::string& keys : {whole + part, part + whole})
    CHECK(good(read_graphml, with(keys, edges)).edges == FileEdges{{0, 1}, {1, 2, 2.5}, {2, 3, 4}});
  // A mark of the order of bytes, and ids of edges.
  const std::string gephi = with(
      "<key attr.name='weight' attr.type='double' for='edge' id='weight'/>"
      "<key attr.name='Edge Label' attr.type='string' for='edge' id='edgelabel'/>"
      "<key attr.name='size' attr.type='float' for='node' id='size'/>",
      "<edge id='0' source='0' target='1'><data key='edgelabel'>7</data><data key='weight'>2.0</data></edge>"
      "<edge id='1' source='1' target='2'/><edge id='2' source='2' target='3'/>");
  CHECK(good(read_graphml, "\xef\xbb\xbf" + gephi).edges == FileEdges{{0, 1, 2}, {1, 2}, {2, 3}});

  CHECK(contains(
      refusal(read_graphml, with(whole, "<edge source='0' target='1'><data key='weight'>3</data></edge>")),
      "line 1: the edge has data of the key 'weight', which no <key> declares"));
  CHECK(contains(refusal(read_graphml, with(whole + part,
                                            "<edge source='0' target='1'><data key='d0'>3</data>"
                                            "<data key='d1'>3.5</data></edge>")),
                 "the edge has the weights '3' and '3.5'"));
  CHECK(contains(refusal(read_graphml, with(whole + "<key id='d0' for='edge' attr.name='x'/>", edges)),
                 "the key 'd0' is a weight of edges and something else"));
  CHECK(contains(refusal(read_graphml, with("<key id='d0' for='edge' attr.name='Edge Weight'/>", edges)),
                 "the key 'Edge Weight' of edges is similar to a weight"));
  CHECK(contains(refusal(read_graphml, with("<key id='a' attr.name='weight'><default>1</default></key>"
                                            "<key id='b' attr.name='weight'><default>2</default></key>",
                                            edges)),
                 "the default weight is '2', but '1' before"));
}

TEST_CASE("bad GraphML is rejected with its line and what is expected") {
  const auto with = [](const std::string& body) {
    return refusal(read_graphml, graphml("undirected", kThreeNodes + body));
  };
  CHECK(contains(refusal(read_graphml, "<graphml>\n<graph></graf>\n"), "line 2 is not XML: "));
  CHECK(refusal(read_graphml, "<svg/>") == "the document has no <graph> in a <graphml>; expected GraphML");
  CHECK(contains(refusal(read_graphml, ""), "is not XML"));
  CHECK(refusal(read_graphml, graphml("sideways", "")) ==
        "line 5: edgedefault is 'sideways'; expected directed or undirected");
  CHECK(with("") == "the graph has no links; expected at least one");
  CHECK(with("<edge source=\"a\" target=\"d\"/>\n") ==
        "line 7: node 'd' is not declared; expected an edge between declared nodes");
  CHECK(with("<edge source=\"a\"/>\n") ==
        "line 7: node '' is not declared; expected an edge between declared nodes");
  CHECK(with("\n<edge source=\"a\" target=\"a\"/>\n") ==
        "line 8: node 'a' is linked to itself; expected a link between two different nodes");
  CHECK(with("<edge source=\"a\" target=\"b\"/>\n") ==
        "node 'c' is not connected to node 'a'; expected a connected graph");
  CHECK(with("<edge source=\"a\" target=\"b\"><data key=\"w\">heavy</data></edge>\n") ==
        "line 7: the weight is 'heavy'; expected a number from 1e-09 to 1e+09");
  CHECK(
      with("<edge source=\"a\" target=\"b\"/>\n<edge source=\"b\" target=\"a\"><data "
           "key=\"w\">2</data></edge>\n") ==
      "line 8: the link between 'a' and 'b' has the weight 2, but 1 at line 7; expected one weight per link");
  CHECK(with("<edge source=\"a\" target=\"b\" directed=\"true\"/>\n") ==
        "line 7: the edge is directed, but edgedefault is not; expected the same for all edges");
  CHECK(with("<node id=\"a\"/>\n") == "line 7: node 'a' is declared twice; expected once");
  CHECK(with("<node/>\n") == "line 7: a node's name is ''; expected 1 to 64 bytes");
  CHECK(contains(with("<node id=\"d\"><graph/></node>"), "line 7: a node contains a graph"));
  CHECK(contains(with("<hyperedge/>"), "line 7: there is a hyperedge"));
  CHECK(contains(refusal(read_graphml, "<graphml><graph edgedefault='directed'/>\n<graph/></graphml>"),
                 "line 2: there is a second <graph>"));
}

TEST_CASE("a graph's name is short, has no spaces, and parses to the same graph") {
  CHECK(name_of(good(read_edge_list, "0 1\n0 2\n1 2 0.5\n")) == "edges:3;0:1,2;1:2*0.5");
  CHECK(name_of(good(read_edge_list, "directed\nb a\na b")) == "edges:directed;b,a;0:1;1:0");
  CHECK(name_of(good(read_edge_list, "z\xc3\xbcrich a*b")) == "edges:z%C3%BCrich,a%2Ab;0:1");
  Random random(3);
  for (int round = 0; round < 200; ++round) {
    const GraphFile graph = random_graph(random);
    const std::string name = name_of(graph);
    CAPTURE(name);
    for (const char c : name) REQUIRE((c > ' ' && c < '\x7f' && c != '"' && c != '\\' && c != '\''));
    REQUIRE(good(read_graph_name, name) == graph);
    REQUIRE(named(name).name() == name);
  }
}

TEST_CASE("a graph that is too large for a name is rejected") {
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += std::to_string(i) + " " + std::to_string(i + 1) + "\n";
  const auto name = graph_name(good(read_edge_list, text));
  REQUIRE_FALSE(name.ok());
  CHECK(contains(name.error().message, "its 10000 links take "));
  CHECK(contains(name.error().message, "expected at most 49152"));
  CHECK(contains(Topology::parse("edges:2;0:1" + std::string(49'152, '0')).error().message,
                 "expected at most 49152"));
}

TEST_CASE("an invalid name of a graph is rejected") {
  for (const char* wrong : {"edges:",
                            "edges:2",
                            "edges:2;",
                            "edges:;0:1",
                            "edges:1;0:1",
                            "edges:0;",
                            "edges:-2;0:1",
                            "edges:2;0",
                            "edges:2;0:",
                            "edges:2;0:2",
                            "edges:2;2:0",
                            "edges:2;0:0",
                            "edges:2;0:1,",
                            "edges:2;0:1;;",
                            "edges:2;0-1",
                            "edges:2;00:1",
                            "edges:2;0:1*",
                            "edges:2;0:1*0",
                            "edges:2;0:1*-1",
                            "edges:2;0:1*x",
                            "edges:2;0:1*1,1*2",
                            "edges:2;0:1 ",
                            "edges:4;0:1;2:3",
                            "edges:directed;2;0:1",
                            "edges:directed",
                            "edges:undirected;2;0:1",
                            "edges:a;0:1",
                            "edges:a,;0:1",
                            "edges:a,a;0:1",
                            "edges:a,b%;0:1",
                            "edges:a,b%2;0:1",
                            "edges:a,b%2c;0:1",
                            "edges:a,b c;0:1",
                            "edges:99999999999;0:1",
                            "edges:70000;0:1"}) {
    CAPTURE(wrong);
    CHECK(contains(refusal(read_graph_name, wrong), "topology 'edges:"));
    CHECK_FALSE(Topology::parse(wrong).ok());
  }
  CHECK(refusal(read_graph_name, "edges:3;0:1,7") ==
        "topology 'edges:3;0:1,7': link 0:7 is invalid; expected two numbers of nodes below 3");
  // Random changes of a name give at most an Error.
  Random random(11);
  const std::string name = "edges:directed;a,b%20,c;0:1*2.5,2;1:0;2:0";
  for (int round = 0; round < 5000; ++round) {
    std::string changed = name;
    for (std::uint64_t changes = 1 + random.below(4); changes > 0; --changes)
      changed[random.below(changed.size())] = static_cast<char>(random.below(256));
    static_cast<void>(Topology::parse(changed).ok());
    static_cast<void>(read_edge_list(changed).ok());
    static_cast<void>(read_graphml("<graphml>" + changed).ok());
  }
}

TEST_CASE("a file's graph exists for as many peers as nodes, with its links and normalized weights") {
  const Topology topology = named("edges:4;0:1,3;1:2;2:3");
  CHECK(topology.exists(4).ok());
  CHECK(topology.exists(5).error().message ==
        "the topology's file has 4 nodes, so it does not exist for 5 peers; expected 4 peers");
  const Schedule ring = topology.among(4);
  CHECK(arcs(ring) == arcs(named("ring").among(4)));
  CHECK(ring.weights() == Weights::equal);
  CHECK(named("edges:3;0:1*7;1:2*7").among(3).weights() == Weights::equal);
  CHECK(named("edges:3;0:1*7;1:2*7").among(3).links(0, 0) == Links{{1, 1.0}});

  const Schedule weighted = named("edges:3;0:1*6;1:2*2").among(3);
  CHECK(weighted.weights() == Weights::relative);
  CHECK(weighted.links(0, 0)[0].weight == Approx(1.5));
  CHECK(weighted.links(1, 0)[1].weight == Approx(0.5));

  const Schedule directed = named("edges:directed;3;0:1;1:2;2:0").among(3);
  CHECK(directed.directed());
  CHECK(arcs(directed) == Arcs{{0, 1}, {1, 2}, {2, 0}});
}

TEST_CASE("labeled nodes are the peers with these names; numbered nodes are the vertices in order") {
  const Topology chain = named("edges:c,a,d,b;0:1;1:2;2:3");  // c - a - d - b
  CHECK(arcs(chain.among(keys_of({"a", "b", "c", "d"}))) ==
        Arcs{{2, 0}, {0, 2}, {0, 3}, {3, 0}, {3, 1}, {1, 3}});
  // No peer has such a name, so the order decides.
  CHECK(arcs(chain.among(keys_of({"w", "x", "y", "z"}))) == arcs(named("line").among(4)));
  CHECK(arcs(named("edges:4;0:1;1:2;2:3").among(keys_of({"d", "c", "b", "a"}))) ==
        arcs(named("line").among(4)));
}

TEST_CASE("a missing node is bridged, and a peer without a node is attached to another peer") {
  const Topology chain = named("edges:a,b,c,d,e;0:1*2;1:2*2;2:3*2;3:4*10");
  // b and c are missing, so a and d are linked with the mean weight, 4. The link of d and e keeps weight 10.
  const Schedule two = chain.among(keys_of({"a", "d", "e"}));
  CHECK(arcs(two) == Arcs{{0, 1}, {1, 0}, {1, 2}, {2, 1}});
  CHECK(two.links(1, 0)[0].weight == Approx(4 / 7.0));
  CHECK(two.links(1, 0)[1].weight == Approx(10 / 7.0));
  // x and y are the vertices 4 and 5. With the four nodes a, b, d, e they attach to 4 mod 4 and 5 mod 4.
  const Schedule strangers = chain.among(keys_of({"a", "b", "d", "e", "x", "y"}));
  CHECK(neighbors(strangers, 4) == List{0});
  CHECK(neighbors(strangers, 5) == List{1});
  CHECK(neighbors(strangers, 1) == List{0, 2, 5});
  // In directed graphs bridges follow the arcs, and peers without a node are linked both ways.
  const Topology circle = named("edges:directed;a,b,c,d;0:1;1:2;2:3;3:0");
  CHECK(arcs(circle.among(keys_of({"a", "c", "d"}))) == Arcs{{0, 1}, {1, 2}, {2, 0}});
  CHECK(arcs(circle.among(keys_of({"a", "c", "x"}))) == Arcs{{0, 1}, {1, 0}, {2, 0}, {0, 2}});
}

TEST_CASE("a file's graph is connected and symmetric with mean weight 1, for any peers") {
  Random random(23);
  for (int round = 0; round < 100; ++round) {
    const GraphFile graph = random_graph(random);
    const Topology topology = named(name_of(graph));
    std::vector<std::string> peers;
    const auto some = [&] {
      const std::uint64_t i = random.below(graph.nodes);
      return graph.labels.empty() || random.chance(0.2) ? "x" + std::to_string(random.bits())
                                                        : graph.labels[i];
    };
    for (std::uint64_t left = 1 + random.below(40); left > 0; --left) peers.push_back(some());
    std::sort(peers.begin(), peers.end());
    if (random.chance(0.7)) peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
    const auto n = static_cast<std::uint32_t>(peers.size());
    const Schedule schedule = topology.among(keys_of(peers));
    REQUIRE(schedule.peers() == n);
    REQUIRE(reaches_all(n, arcs(schedule)));
    double sum = 0;
    std::size_t count = 0;
    for (std::uint32_t i = 0; i < n; ++i) {
      for (const Link& link : schedule.links(i, 0)) {
        sum += link.weight;
        ++count;
        if (graph.directed) continue;
        const Links back = schedule.links(link.peer, 0);
        REQUIRE(std::find(back.begin(), back.end(), Link{i, link.weight}) != back.end());
      }
    }
    if (count > 0) REQUIRE(sum == Approx(static_cast<double>(count)));
  }
}

TEST_CASE("the metropolis matrix of a file's graph is doubly stochastic") {
  const auto graph = Graph::of(named("edges:4;0:1*5,2*0.5;1:2;2:3*3").among(4));
  REQUIRE(graph.ok());
  const auto matrix = mixing_matrix(*graph, Mixing::metropolis);
  REQUIRE(matrix.ok());
  CHECK(is_doubly_stochastic(*matrix));
}

}  // namespace starling::topologies
