// Checks all sources against the architecture. Snippets show that each rule can fail.

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "tests/architecture/project.h"
#include "tests/architecture/rooms.h"
#include "tests/architecture/rules.h"
#include "tests/architecture/sources.h"
#include "tests/catch.h"

namespace starling::architecture {

namespace {

Source snippet(const std::string& path, const std::string& text) { return make_source(path, text); }

// All violations, one per line; empty without violations.
std::string violations(std::vector<std::string> (*check)(const Source&)) {
  std::string text;
  for (const auto& source : sources()) text += joined(check(source));
  return text;
}

}  // namespace

TEST_CASE("every room of the table, except perhaps bench, has sources") {
  std::set<std::string> with_sources;
  for (const auto& source : sources()) with_sources.insert(room_of(source.path));
  for (const auto& [room, below] : rooms()) {
    CAPTURE(room);
    REQUIRE((with_sources.contains(room) || room == "bench"));
  }
}

TEST_CASE("every #include is allowed by the table of rooms") { REQUIRE(violations(check_includes) == ""); }

TEST_CASE("the pure rooms have no clock, thread, lock, socket, log, randomness or unordered container") {
  REQUIRE(violations(check_purity) == "");
}

TEST_CASE("each library is used only in its place") { REQUIRE(violations(check_libraries) == ""); }

TEST_CASE("rooms.txt: a row adds what the named rooms may include, single headers, and its wing") {
  const Rooms read =
      read_rooms("wing 1 low a\na:\nwing 2 high b\nb/c: a\nb: b/c, d/e.h, and below\nz: everything\n");
  REQUIRE(read.table.at("a").empty());
  REQUIRE(read.table.at("b/c") == std::set<std::string>{"a"});
  REQUIRE(read.table.at("b") == std::set<std::string>{"a", "b/c", "d/e.h"});
  REQUIRE(read.table.at("z") == std::set<std::string>{"a", "b", "b/c"});
  REQUIRE(read.wings.size() == 2);
  REQUIRE(read.wings[1].floor == 2);
  REQUIRE(read.wings[1].rooms == std::vector<std::string>{"b/c", "b", "z"});
}

TEST_CASE("eleven wings on five floors, drawn in docs/ARCHITECTURE.md on their floors") {
  REQUIRE(wings().size() == 11);
  const std::string document = read_text(kRoot + "/docs/ARCHITECTURE.md");
  for (const Wing& wing : wings()) {
    CAPTURE(wing.name);
    const std::string floor = "floor " + std::to_string(wing.floor);
    const std::size_t line = document.find("    " + floor);
    REQUIRE(line != std::string::npos);
    const std::string drawn = document.substr(line, document.find('\n', line) - line);
    REQUIRE(drawn.find(" " + wing.name) != std::string::npos);
    REQUIRE(document.find("../" + wing.folder + "/README.md") != std::string::npos);
  }
}

TEST_CASE("each wing has a README of at most 20 lines that says what may enter and where to start") {
  for (const Wing& wing : wings()) {
    CAPTURE(wing.name);
    const std::string text = read_text(kRoot + "/" + wing.folder + "/README.md");
    REQUIRE(std::ranges::count(text, '\n') <= 20);
    REQUIRE(text.find("**May enter:**") != std::string::npos);
    REQUIRE(text.find("**Start with**") != std::string::npos);
    for (const std::string& room : wing.rooms) {
      CAPTURE(room);
      const std::string name = room.substr(room.rfind('/') + 1);
      REQUIRE((room == wing.folder || text.find(name) != std::string::npos));
    }
  }
}

TEST_CASE("no folder of the program has more than 30 source files") {
  std::map<std::string, std::size_t> files;
  for (const auto& source : sources()) {
    const std::string top = source.path.substr(0, source.path.find('/'));
    if (top != "tests" && top != "bench") ++files[source.path.substr(0, source.path.rfind('/'))];
  }
  for (const auto& [folder, count] : files) {
    CAPTURE(folder, count);
    REQUIRE(count <= 30);
  }
}

TEST_CASE("the table of rooms has no cycle") {
  // Repeatedly remove the rooms that include none of the remaining rooms.
  auto left = rooms();
  bool taken = true;
  while (taken) {
    taken = false;
    for (auto row = left.begin(); row != left.end();) {
      const bool leaf = std::none_of(row->second.begin(), row->second.end(),
                                     [&](const std::string& room) { return left.contains(room); });
      taken = taken || leaf;
      row = leaf ? left.erase(row) : std::next(row);
    }
  }
  REQUIRE(left.empty());
}

TEST_CASE("an #include that the table does not allow is reported") {
  const auto arrow = [](const std::string& path, const std::string& include) {
    return check_includes(snippet(path, "#pragma once\n#include \"" + include + "\"\n")).size();
  };
  REQUIRE(arrow("base/text.h", "wire/frame.h") == 1);
  REQUIRE(arrow("wire/frame.cc", "gossip/peer.h") == 1);
  REQUIRE(arrow("topologies/ring.h", "wire/messages.h") == 1);
  REQUIRE(arrow("gossip/peer.cc", "wire/codec.h") == 1);
  REQUIRE(arrow("gossip/peer.cc", "training/mixing/mixer.h") == 1);
  REQUIRE(arrow("kernels/cpu/linear.cc", "models/arena.h") == 1);
  REQUIRE(arrow("kernels/queue.cc", "kernels/cpu/backend.h") == 1);
  REQUIRE(arrow("kernels/cpu/lanes/format.cc", "kernels/cpu/formats/conversion.h") == 1);
  REQUIRE(arrow("kernels/cpu/tiles/tiles.cc", "kernels/cpu/operations.h") == 1);
  REQUIRE(arrow("models/network.cc", "kernels/by_name/backends.h") == 1);
  REQUIRE(arrow("models/arena.cc", "datasets/dataset.h") == 1);
  REQUIRE(arrow("datasets/readers/idx.cc", "kernels/backend.h") == 1);
  REQUIRE(arrow("training/learning/worker.cc", "gossip/peer.h") == 1);
  REQUIRE(arrow("training/runs/experiment/experiment.cc", "training/learning/augment.h") == 1);
  REQUIRE(arrow("training/runs/records/record.cc", "training/runs/experiment/experiment.h") == 1);
  REQUIRE(arrow("training/mixing/make.cc", "training/runs/experiment/experiment.h") == 1);
  REQUIRE(arrow("training/mixing/make.cc", "wire/codec.h") == 1);
  REQUIRE(arrow("transport/links/tcp.cc", "gossip/peer.h") == 1);
  REQUIRE(arrow("kernels/cpu/onednn/onednn.cc", "kernels/backend.h") == 1);
  REQUIRE(arrow("node/daemon.cc", "lab/world/world.h") == 1);
  REQUIRE(arrow("node/front/http.cc", "node/daemon.h") == 1);
  REQUIRE(arrow("node/work/hogwild.cc", "transport/links/link.h") == 1);
  REQUIRE(arrow("node/discovery/avahi.cc", "node/peer/lives.h") == 1);
  REQUIRE(arrow("lab/world/world.cc", "transport/links/tcp.h") == 1);
  REQUIRE(arrow("lab/swarm/swarm.cc", "node/daemon.h") == 1);
  REQUIRE(arrow("lab/report/report.cc", "lab/world/world.h") == 1);
  // The simulator does not use code for real processes, nor the reverse.
  for (const std::string virtual_room : {"lab/world", "lab/hunt", "lab/measure", "lab/simulate"}) {
    CAPTURE(virtual_room);
    REQUIRE(arrow(virtual_room + "/a.cc", "lab/swarm/child_process.h") == 1);
    REQUIRE(arrow(virtual_room + "/a.cc", "node/exchange/flow.h") == 1);
    REQUIRE(arrow(virtual_room + "/a.cc", "transport/links/link.h") == 1);
    REQUIRE(arrow("lab/swarm/a.cc", virtual_room + "/b.h") == 1);
    REQUIRE(arrow("node/a.cc", virtual_room + "/b.h") == 1);
  }
  REQUIRE(arrow("node/daemon.cc", "cli/shell/log.h") == 1);
  REQUIRE(arrow("cli/shell/log.cc", "cli/commands/commands.h") == 1);
  REQUIRE(arrow("cli/main.cc", "tests/catch.h") == 1);
  REQUIRE(arrow("base/text.cc", "text.h") == 1);            // not from the root
  REQUIRE(arrow("base/text.cc", "utilities/text.h") == 1);  // no such room
  REQUIRE(arrow("utilities/text.cc", "base/text.h") == 1);  // the file is in no room
  REQUIRE(arrow("main.cc", "base/text.h") == 1);

  REQUIRE(arrow("gossip/peer.cc", "wire/messages.h") == 0);
  REQUIRE(arrow("gossip/peer.cc", "gossip/peer.h") == 0);
  REQUIRE(arrow("kernels/cpu/onednn/onednn.cc", "kernels/buffer.h") == 0);
  REQUIRE(arrow("kernels/cpu/linear.cc", "kernels/cpu/onednn/onednn.h") == 0);
  REQUIRE(arrow("lab/world/world.cc", "wire/codec.h") == 0);
  REQUIRE(arrow("lab/simulate/simulate.cc", "lab/world/world.h") == 0);
  REQUIRE(arrow("node/daemon.cc", "transport/links/tcp.h") == 0);
  REQUIRE(arrow("node/daemon.cc", "node/work/trainer.h") == 0);
  REQUIRE(arrow("cli/main.cc", "node/daemon.h") == 0);
  REQUIRE(arrow("tests/lab/world_test.cc", "lab/world/world.h") == 0);
}

TEST_CASE("a file belongs to the room of the longest row that matches") {
  REQUIRE(room_of("gossip/peer.cc") == "gossip");
  REQUIRE(room_of("lab/recurrence.cc") == "lab");
  REQUIRE(room_of("lab/world/world.cc") == "lab/world");
  REQUIRE(room_of("node/all_reduce/gloo/collective.cc") == "node/all_reduce");
  REQUIRE(room_of("kernels/queue.h") == "kernels");
  REQUIRE(room_of("kernels/cpu/backend.h") == "kernels/cpu");
  REQUIRE(room_of("kernels/cpu/onednn/onednn.h") == "kernels/cpu/onednn");
  REQUIRE(room_of("training/worker.cc") == "training");  // not a room
  REQUIRE(room_of("main.cc").empty());
  REQUIRE(check_includes(snippet("training/worker.cc", "int x;")).size() == 1);
}

TEST_CASE("an #include is found with any spacing, and reported with its line") {
  const auto found =
      check_includes(snippet("base/a.cc", "/* two\nlines */\n  #  include   \"wire/frame.h\"  // why\n"));
  REQUIRE(found.size() == 1);
  REQUIRE(found[0].starts_with("base/a.cc:3: "));
}

TEST_CASE("constructs that are forbidden in pure rooms are reported there and nowhere else") {
  const std::vector<std::string> lines = {
      "auto t = std::chrono::steady_clock::now();",
      "using C = std::chrono::system_clock;",
      "std::chrono::high_resolution_clock::time_point p;",
      "clock_gettime(CLOCK_MONOTONIC, &t);",
      "gettimeofday(&t, nullptr);",
      "auto t = std::time(nullptr);",
      "#include <ctime>",
      "#include <time.h>",
      "#include <thread>",
      "std::thread t(work);",
      "std::jthread t(work);",
      "auto f = std::async(work);",
      "#include <future>",
      "#include <mutex>",
      "#include <shared_mutex>",
      "#include <condition_variable>",
      "#include <semaphore>",
      "#include <atomic>",
      "std::recursive_mutex m;",
      "std::atomic<int> count;",
      "std::atomic_ref<float> x(y);",
      "#include <sys/socket.h>",
      "#include <asio/ip/tcp.hpp>",
      "spdlog::info(\"hello\");",
      "#include <iostream>",
      "std::cout << 1;",
      "std::cerr << 1;",
      "std::fprintf(stderr, \"x\");",
      "printf(\"x\");",
      "#include <random>",
      "std::random_device d;",
      "std::mt19937_64 g;",
      "std::uniform_int_distribution<int> d(0, 1);",
      "std::normal_distribution<float> d;",
      "std::shuffle(a, b, g);",
      "#include <unordered_map>",
      "std::unordered_set<int> s;",
      "std::unordered_multimap<int, int> s;",
  };
  for (const auto& line : lines) {
    CAPTURE(line);
    for (const std::string room : {"base", "wire", "topologies", "gossip"}) {
      REQUIRE(check_purity(snippet(room + "/a.cc", "int x;\n" + line + "\n")).size() == 1);
    }
    for (const std::string room : {"node", "lab", "transport", "training", "tests", "kernels"}) {
      REQUIRE(check_purity(snippet(room + "/a.cc", "int x;\n" + line + "\n")).empty());
    }
  }
  for (const std::string line :
       {"virtual void f();", "std::shared_ptr<int> p;", "auto p = std::make_shared<int>();"}) {
    REQUIRE(check_purity(snippet("gossip/a.h", line)).size() == 1);
    REQUIRE(check_purity(snippet("base/a.h", line)).empty());
  }
  // Only the file that prints a failed assertion may print.
  REQUIRE(check_purity(snippet("base/check.cc", "std::fprintf(stderr, \"x\");")).empty());
  REQUIRE(check_purity(snippet("base/check.cc", "std::thread t;")).size() == 1);
}

TEST_CASE("code that only resembles a forbidden construct is not a violation") {
  const std::string innocent =
      "#include \"base/time.h\"\n"
      "#include <chrono>\n"
      "Duration time(Instant at);\n"
      "double degree_distribution(int node);\n"
      "std::snprintf(text, 8, \"%d\", 1);\n"
      "auto strand = operand(random);\n"
      "random_.shuffle(std::span(items));\n"
      "std::map<int, int> ordered;\n";
  REQUIRE(check_purity(snippet("gossip/a.cc", innocent)).empty());
}

TEST_CASE("a library outside its place is reported") {
  struct Case {
    std::string line, home, elsewhere;
  };
  const std::vector<Case> cases = {
      {"#include <flatbuffers/flatbuffers.h>", "wire/codec.cc", "wire/frame.cc"},
      {"#include \"wire/protocol_generated.h\"", "wire/codec.cc", "wire/codec.h"},
      {"flatbuffers::Verifier v(a, b);", "wire/codec.cc", "transport/links/link.cc"},
      {"#include <oneapi/dnnl/dnnl.hpp>", "kernels/cpu/onednn/onednn.cc", "kernels/by_name/backends.cc"},
      {"#include <dnnl.hpp>", "kernels/cpu/onednn/onednn.h", "kernels/reference/linear.h"},
      {"dnnl::engine e;", "kernels/cpu/onednn/onednn.cc", "kernels/cpu/linear.cc"},
      {"#include <toml++/toml.h>", "training/runs/experiment/settings/toml.h", "cli/main.cc"},
      {"toml::table t;", "training/runs/experiment/sweep.cc", "training/runs/records/record.cc"},
      {"#include <cuda_runtime.h>", "kernels/cuda/runtime.h", "kernels/by_name/backends.cc"},
      {"toml::array a;", "models/spec_text.cc", "models/spec_text.h"},
      {"#include <asio/write.hpp>", "transport/links/tcp.cc", "lab/swarm/swarm.cc"},
      {"asio::io_context io;", "node/daemon.cc", "cli/commands/run/peer.cc"},
      {"#include <pugixml.hpp>", "topologies/graphml.cc", "topologies/families/file.cc"},
      {"pugi::xml_document d;", "topologies/graphml.cc", "cli/commands/topology_name.cc"},
      {"#include <openssl/ssl.h>", "transport/tls/tls.cc", "transport/tls/tls.h"},
      {"SSL_free(ssl);", "transport/tls/tls.cc", "node/daemon.cc"},
      {"#include <avahi-client/client.h>", "node/discovery/avahi.cc", "node/peer/discovery.cc"},
      {"avahi_client_free(client);", "node/discovery/avahi.cc", "node/discovery/avahi.h"},
      {"#include <CLI/App.hpp>", "cli/shell/arguments.cc", "cli/shell/help.cc"},
      {"CLI::App app;", "cli/shell/arguments.cc", "cli/commands/run/peer.cc"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.line);
    REQUIRE(check_libraries(snippet(c.home, c.line)).empty());
    REQUIRE(check_libraries(snippet(c.elsewhere, c.line)).size() == 1);
    REQUIRE(check_libraries(snippet("tests/wire/a.cc", c.line)).empty());
  }
}

TEST_CASE("words in comments and literals are not violations") {
  const std::string text = R"text(
// std::thread, #include "node/daemon.h", asio::io_context
/* std::mutex
   #include "lab/world/world.h"
   std::cout */ int a = 1;
const char* s = "std::cout << \" std::mutex // not a comment";
const char* r = R"x(std::thread "quoted" )" std::mutex)x";
const std::size_t n = 1'000'000; const char c = '"'; const char d = '\''; int e = 0x5b'f0;  // "std::thread
const char* after = "";
)text";
  for (const auto check : {check_includes, check_purity, check_libraries}) {
    REQUIRE(check(snippet("gossip/a.cc", text)).empty());
  }
  // The code after them is checked.
  REQUIRE(check_purity(snippet("gossip/a.cc", text + "std::mutex m;\n")).size() == 1);
  REQUIRE(check_purity(snippet("gossip/a.cc", "/* a */ std::mutex m; // b\n")).size() == 1);
  REQUIRE(check_purity(snippet("gossip/a.cc", "f(\"a\"); std::mutex m;\n")).size() == 1);
  REQUIRE(check_purity(snippet("gossip/a.cc", "f('\"'); std::mutex m;\n")).size() == 1);
  REQUIRE(check_purity(snippet("gossip/a.cc", "f(1'000); std::mutex m; g(1'000);\n")).size() == 1);
}

TEST_CASE("code keeps its line numbers when comments and literals are removed") {
  const auto lines = code_of("a\n/* b\nc */ d\n// e\nR\"(f\ng)\" h\n\"i\" j");
  const std::vector<std::string> expected = {"a", " ", " d", "", "\"\"", " h", "\"\" j"};
  REQUIRE(lines == expected);
}

}  // namespace starling::architecture
