// GCC 12 takes a member of <regex>'s own states for uninitialized when sanitizers keep it from inlining (a
// false alarm).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "tests/architecture/rules.h"

#include <algorithm>
#include <array>
#include <optional>
#include <regex>
#include <sstream>

namespace starling::architecture {
namespace {

using Rooms = std::set<std::string>;

Rooms everything() {
  return {"base",     "wire",     "topologies", "gossip", "kernels", "models",
          "datasets", "training", "transport",  "node",   "lab",     "cli"};
}

Rooms join(Rooms a, const Rooms& b) {
  a.insert(b.begin(), b.end());
  return a;
}

struct Include {
  std::size_t line;  // from 1
  std::string name;
};

// The project's own includes: those in quotes.
std::vector<Include> own_includes(const Source& source) {
  static const std::regex kInclude(R"re(^\s*#\s*include\s*"([^"]*)")re");
  std::vector<Include> includes;
  std::smatch match;
  for (std::size_t n = 0; n < source.lines.size(); ++n) {
    if (source.lines[n].find("include") == std::string::npos) continue;
    if (std::regex_search(source.lines[n], match, kInclude)) includes.push_back({n + 1, match[1]});
  }
  return includes;
}

std::string sentence(const Source& source, std::size_t line, const std::string& what) {
  return source.path + ":" + std::to_string(line) + ": " + what;
}

struct Ban {
  const char* what;
  std::regex pattern;
  Rooms rooms;            // where it holds
  Rooms exceptions = {};  // paths
};

const Rooms kPure = {"base", "wire", "topologies", "gossip"};

const std::vector<Ban>& bans() {
  static const std::vector<Ban> kBans = {
      {"a clock (time is an argument)",
       std::regex(
           R"re(\b(system_clock|steady_clock|high_resolution_clock|utc_clock|tai_clock|gps_clock|file_clock)\b)re"
           R"re(|\b(clock_gettime|gettimeofday|timespec_get)\b|\bstd::(time|clock)\b|<ctime>|<(sys/)?time\.h>)re"),
       kPure},
      {"a thread",
       std::regex(
           R"re(<(thread|future|stop_token|pthread\.h|omp\.h)>|\bstd::(thread|jthread|this_thread|async|future|promise)\b)re"
           R"re(|\bpthread_|#\s*pragma\s+omp\b)re"),
       kPure},
      // Atomics are banned with the locks: what only one thread ever touches needs none, so one would be a
      // sign that state is shared.
      {"a lock or an atomic",
       std::regex(
           R"re(<(mutex|shared_mutex|condition_variable|semaphore|latch|barrier|atomic)>|\bstd::(\w*mutex|condition_variable\w*)re"
           R"re(|counting_semaphore|binary_semaphore|latch|barrier|atomic\w*|lock_guard|unique_lock|scoped_lock|memory_order\w*)\b)re"),
       kPure},
      {"a socket",
       std::regex(R"re(<(sys/socket|netinet/\w+|arpa/inet|netdb|poll|sys/epoll)\.h>|<asio|\basio::)re"),
       kPure},
      {"a log",
       std::regex(
           R"re(\bspdlog\b|<iostream>|\bstd::(cout|cerr|clog)\b|\b(f|v|vf)?printf\s*\(|\bf?puts\s*\(|\b(stdout|stderr)\b)re"),
       kPure,
       {"base/check.cc"}},  // a failed assertion's last words
      {"chance that is not base/random.h (it differs between libraries or cannot be replayed)",
       std::regex(
           R"re(<random>|\brandom_device\b|\b(mt19937|minstd_rand|ranlux|knuth_b|default_random_engine)\w*)re"
           R"re(|\bstd::\w+_distribution\b|\b(uniform_int|uniform_real|normal|bernoulli|poisson|exponential|discrete)_distribution\b)re"
           R"re(|\bs?rand\s*\(|\bstd::shuffle\b)re"),
       kPure},
      {"a container without an order of its own", std::regex(R"re(\bunordered_(multi)?(map|set)\b)re"),
       kPure},
      {"a virtual call", std::regex(R"re(\bvirtual\b)re"), {"gossip"}},
      {"shared ownership", std::regex(R"re(\bshared_ptr\b|\bmake_shared\b|\bweak_ptr\b)re"), {"gossip"}},
  };
  return kBans;
}

struct Library {
  const char* name;
  std::regex pattern;
  std::vector<std::string> places;  // path prefixes
};

const std::vector<Library>& libraries() {
  static const std::vector<Library> kLibraries = {
      {"FlatBuffers",
       std::regex(R"re(include\s*[<"]flatbuffers/|_generated\.h|\bflatbuffers::)re"),
       {"wire/codec.cc"}},
      {"oneDNN",
       std::regex(R"re(include\s*[<"](dnnl|oneapi/dnnl)|\bdnnl::|\bdnnl_\w+\s*\()re"),
       {"kernels/cpu/"}},
      {"CUDA", std::regex(R"re(include\s*[<"](cuda|cublas|cudnn|nccl)\w*\.h)re"), {"kernels/cuda/", "tests/emulator/"}},
      {"toml++", std::regex(R"re(include\s*[<"]toml|\btoml::)re"), {"training/", "models/spec_text.cc"}},
      {"Asio", std::regex(R"re(include\s*[<"](boost/)?asio|\basio::)re"), {"transport/", "node/"}},
      {"cpp-httplib", std::regex(R"re(include\s*[<"]httplib|\bhttplib::)re"), {"node/http.cc", "datasets/download.cc"}},
      {"pugixml", std::regex(R"re(include\s*[<"]pugixml|\bpugi::)re"), {"topologies/graph_file.cc"}},
      {"OpenSSL", std::regex(R"re(include\s*[<"]openssl/|\bSSL_\w+\s*\()re"), {"transport/tls.cc", "datasets/sha256.cc"}},
      {"CLI11", std::regex(R"re(include\s*[<"]CLI/|\bCLI::)re"), {"cli/"}},
  };
  return kLibraries;
}

}  // namespace

const std::map<std::string, Rooms>& rooms() {
  static const std::map<std::string, Rooms> kRooms = [] {
    std::map<std::string, Rooms> table;
    table["base"] = {};
    table["wire"] = {"base"};
    table["topologies"] = {"base"};
    table["gossip"] = {"topologies", "wire", "base"};
    table["kernels"] = {"base"};
    table["models"] = {"kernels", "base"};
    table["datasets"] = {"base"};
    table["training"] = {"models", "datasets", "kernels", "base"};
    table["transport"] = {"wire", "base"};
    const Rooms below = join(join(table["training"], table["gossip"]), {"training", "gossip"});
    table["node"] = join(below, {"transport"});
    table["lab"] = below;
    table["cli"] = everything();
    table["cli"].erase("cli");
    table["bench"] = everything();
    table["tests"] = everything();
    table["fuzz"] = join(everything(), {"tests"});
    return table;
  }();
  return kRooms;
}

std::map<std::string, Rooms> rooms_in(std::string_view document) {
  static const std::regex kRow(R"re(^\| `(\w+)` \|.*\| ([^|]*) \|$)re");
  static const std::regex kWord(R"re([a-z]+)re");
  std::map<std::string, Rooms> table;
  std::istringstream lines{std::string(document)};
  for (std::string line; std::getline(lines, line);) {
    std::smatch row;
    if (!std::regex_match(line, row, kRow)) continue;
    Rooms& named = table[row[1]];
    const std::string cell = row[2];
    const std::string allowed = cell.substr(0, cell.find(';'));  // behind it stands what it may not include
    bool below = false;
    for (auto word = std::sregex_iterator(allowed.begin(), allowed.end(), kWord);
         word != std::sregex_iterator(); ++word) {
      if (word->str() == "below") below = true;
      if (rooms().contains(word->str())) named.insert(word->str());
      if (word->str() == "everything") named = everything();
    }
    if (below) {
      for (const auto& room : Rooms(named)) named = join(named, rooms().at(room));
    }
    named.erase(row[1]);
  }
  return table;
}

std::string room_of(std::string_view path) {
  const auto slash = path.find('/');
  return slash == std::string_view::npos ? std::string{} : std::string(path.substr(0, slash));
}

std::vector<std::string> check_includes(const Source& source) {
  std::vector<std::string> found;
  const std::string room = room_of(source.path);
  const auto row = rooms().find(room);
  if (row == rooms().end()) {
    found.push_back(source.path + ": '" + room + "' is no room of the table");
    return found;
  }
  for (const auto& include : own_includes(source)) {
    const std::string to = room_of(include.name);
    if (!rooms().contains(to)) {
      found.push_back(sentence(source, include.line, "\"" + include.name + "\" does not begin with a room"));
    } else if (to != room && !row->second.contains(to)) {
      found.push_back(
          sentence(source, include.line, room + " may not include " + to + " (" + include.name + ")"));
    } else if (room == "gossip" && to == "wire" && include.name != "wire/messages.h") {
      found.push_back(
          sentence(source, include.line, "gossip may include nothing of wire but wire/messages.h"));
    }
  }
  return found;
}

std::vector<std::string> check_purity(const Source& source) {
  std::vector<std::string> found;
  const std::string room = room_of(source.path);
  for (const auto& ban : bans()) {
    if (!ban.rooms.contains(room) || ban.exceptions.contains(source.path)) continue;
    for (std::size_t n = 0; n < source.lines.size(); ++n) {
      if (std::regex_search(source.lines[n], ban.pattern))
        found.push_back(sentence(source, n + 1, room + " may not contain " + ban.what));
    }
  }
  return found;
}

std::vector<std::string> check_libraries(const Source& source) {
  std::vector<std::string> found;
  const std::string room = room_of(source.path);
  if (room == "tests" || room == "bench" || room == "fuzz") return found;
  for (const auto& library : libraries()) {
    const bool allowed =
        std::any_of(library.places.begin(), library.places.end(),
                    [&](const std::string& place) { return source.path.starts_with(place); });
    if (allowed) continue;
    for (std::size_t n = 0; n < source.lines.size(); ++n) {
      if (std::regex_search(source.lines[n], library.pattern))
        found.push_back(
            sentence(source, n + 1, std::string(library.name) + " is used in its own place alone"));
    }
  }
  return found;
}

}  // namespace starling::architecture
