// GCC 12 falsely reports an uninitialized member inside <regex> when sanitizers prevent inlining.
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
using Row = std::pair<std::string, std::string>;  // a room and its cell of the table

// The rooms of the program, from the bottom up. docs/ARCHITECTURE.md has the same rows and explains the
// cells.
constexpr const char* kProgramRows[][2] = {
    {"clients", ""},
    {"base", ""},
    {"rules", "base"},
    {"wire", "rules, base"},
    {"topologies", "base"},
    {"gossip", "topologies, wire/messages.h, rules, base"},
    {"kernels", "base"},
    {"kernels/reference", "kernels, base"},
    {"kernels/cpu/vectors", "base"},
    {"kernels/cpu/onednn", "kernels/buffer.h, kernels/operation.h, base"},
    {"kernels/cpu/lanes", "kernels, base"},
    {"kernels/cpu/formats", "kernels/cpu/onednn, kernels/cpu/lanes, kernels/cpu/vectors, kernels, base"},
    {"kernels/cpu/channels", "kernels/cpu/formats, and below"},
    {"kernels/cpu/tiles", "kernels/cpu/channels, and below"},
    {"kernels/cpu/sequences", "kernels/cpu/formats, kernels/reference, and below"},
    {"kernels/cpu", "kernels/cpu/tiles, kernels/cpu/sequences, and below"},
    {"kernels/cuda", "kernels, kernels/reference/dropout.h, base"},
    {"kernels/by_name", "kernels/cpu, kernels/reference, and below"},
    {"models", "kernels, kernels/cpu/sequences/loops.h, kernels/reference/pointwise.h, base"},
    {"datasets/text", "base"},
    {"datasets", "datasets/text, base"},
    {"training/runs/records", "models, base"},
    {"training/planner", "base"},
    {"training/planner/profiling", "training/planner, models, kernels, base"},
    {"training/learning/stages", "training/planner, models, kernels, base"},
    {"training/learning/slices", "training/learning/stages/stage_threads.h, models, kernels, base"},
    {"training/runs/experiment", "training/runs/records, training/planner, models, rules, base"},
    {"training/mixing", "models, kernels, rules, base"},
    {"training/learning",
     "training/runs/experiment, training/mixing, training/planner/profiling, "
     "training/learning/stages, training/learning/slices, datasets, kernels/by_name, and below"},
    {"transport", "wire, base"},
    {"node/exchange", "transport, training/mixing, training/runs/records, gossip, and below"},
    {"node/work", "training/learning, and below"},
    {"node/keep", "training/runs/experiment, gossip, wire, and below"},
    {"node/launch", "node/work, training/runs/experiment, transport, and below"},
    {"node/front", "node/work, transport, gossip, and below"},
    {"node/discovery", "base"},
    {"node/trainers", "node/work, node/front/log_limiter.h, transport, and below"},
    {"node/all_reduce", "node/work, node/launch, and below"},
    {"node/peer",
     "node/exchange, node/work, node/keep, node/launch, node/front, node/discovery, node/trainers, and "
     "below"},
    {"node",
     "node/peer, node/trainers, node/exchange, node/work, node/keep, node/launch, node/front, and below"},
    {"lab", "training/runs/experiment, and below"},
    {"lab/world", "training/mixing, training/runs/experiment, gossip, wire, and below"},
    {"lab/hunt", "lab/world, training/runs/records, and below"},
    {"lab/measure", "lab/world, lab, and below"},
    {"lab/simulate", "lab/world, lab, training/learning, and below"},
    {"lab/swarm", "lab, training/learning, topologies, and below"},
    {"lab/report", "training/runs/experiment, topologies, and below"},
    {"lab/plot", "lab/measure, lab/report, training/planner, lab, and below"},
    {"cli/shell", "training/runs/experiment, datasets, gossip, and below"},
    {"cli/commands",
     "cli/shell, node, node/all_reduce, lab/hunt, lab/measure, lab/simulate, lab/swarm, "
     "lab/report, lab/plot, training/planner/profiling, "
     "kernels/cpu/onednn/version.h, kernels/cpu/processor.h, and below"},
    {"cli", "everything"},
};

const std::vector<Row>& program_rows() {
  static const std::vector<Row> kRows = [] {
    std::vector<Row> rows;
    for (const auto& [room, cell] : kProgramRows) rows.emplace_back(room, cell);
    return rows;
  }();
  return kRows;
}

Rooms everything() {
  Rooms rooms;
  for (const auto& [room, cell] : program_rows()) rooms.insert(room);
  return rooms;
}

Rooms join(Rooms a, const Rooms& b) {
  a.insert(b.begin(), b.end());
  return a;
}

// The rooms and headers that a cell allows. "below" refers to rows that come earlier.
Rooms allowed_by(const std::string& cell, const std::map<std::string, Rooms>& earlier) {
  static const std::regex kWord(R"re([a-z_]+(/[a-z_]+)*(\.h)?)re");
  const Rooms known = everything();
  Rooms allowed;
  bool below = false;
  const std::string positive = cell.substr(0, cell.find(';'));  // exceptions follow the semicolon
  for (auto word = std::sregex_iterator(positive.begin(), positive.end(), kWord);
       word != std::sregex_iterator(); ++word) {
    if (word->str() == "below") below = true;
    if (word->str() == "everything") allowed = known;
    if (known.contains(word->str()) || word->str().ends_with(".h")) allowed.insert(word->str());
  }
  if (!below) return allowed;
  for (const auto& room : Rooms(allowed)) {
    if (const auto row = earlier.find(room); row != earlier.end()) allowed = join(allowed, row->second);
  }
  return allowed;
}

std::map<std::string, Rooms> table_of(const std::vector<Row>& rows) {
  std::map<std::string, Rooms> table;
  for (const auto& [room, cell] : rows) {
    Rooms allowed = allowed_by(cell, table);
    allowed.erase(room);
    table[room] = std::move(allowed);
  }
  return table;
}

std::string sentence(const Source& source, std::size_t line, const std::string& what) {
  return source.path + ":" + std::to_string(line) + ": " + what;
}

std::string top_folder(const std::string& path) { return path.substr(0, path.find('/')); }

struct Ban {
  const char* what;
  std::regex pattern;
  Rooms rooms;            // rooms with this ban
  Rooms exceptions = {};  // paths
};

const Rooms kPure = {"base", "rules", "wire", "topologies", "gossip"};

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
      // Atomics are banned with the locks. State that only one thread uses needs none, so an atomic indicates
      // shared state.
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
       {"base/check.cc"}},  // prints a failed assertion
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
       {"wire/codec.cc", "wire/encode.cc"}},
      {"oneDNN",
       std::regex(R"re(include\s*[<"](dnnl|oneapi/dnnl)|\bdnnl::|\bdnnl_\w+\s*\()re"),
       {"kernels/cpu/onednn/"}},
      {"CUDA",
       std::regex(R"re(include\s*[<"](cuda|cublas|cudnn|nccl)\w*\.h)re"),
       {"kernels/cuda/", "tests/emulator/"}},
      {"toml++",
       std::regex(R"re(include\s*[<"]toml|\btoml::)re"),
       {"training/runs/experiment/", "models/spec_text.cc"}},
      {"Asio", std::regex(R"re(include\s*[<"](boost/)?asio|\basio::)re"), {"transport/", "node/"}},
      {"cpp-httplib",
       std::regex(R"re(include\s*[<"]httplib|\bhttplib::)re"),
       {"node/front/http_client.cc", "datasets/download.cc"}},
      {"pugixml", std::regex(R"re(include\s*[<"]pugixml|\bpugi::)re"), {"topologies/graph_file.cc"}},
      {"OpenSSL",
       std::regex(R"re(include\s*[<"]openssl/|\bSSL_\w+\s*\()re"),
       {"transport/tls/tls.cc", "transport/tls/tls_records.cc", "transport/trust/identity.cc",
        "transport/tls/ipsec_mb/", "transport/trust/discovery_tag.cc", "datasets/sha256.cc"}},
      {"IPsec-MB", std::regex(R"re(include\s*[<"]intel-ipsec|\bIMB_)re"), {"transport/tls/ipsec_mb/"}},
      {"Avahi", std::regex(R"re(include\s*[<"]avahi-|\bavahi_\w+\s*\()re"), {"node/discovery/avahi.cc"}},
      {"Cairo", std::regex(R"re(include\s*[<"]cairo|\bcairo_\w+)re"), {"lab/plot/canvas.cc"}},
      {"CLI11", std::regex(R"re(include\s*[<"]CLI/|\bCLI::)re"), {"cli/shell/arguments.cc"}},
  };
  return kLibraries;
}

}  // namespace

const std::map<std::string, Rooms>& rooms() {
  static const std::map<std::string, Rooms> kRooms = [] {
    auto table = table_of(program_rows());
    table["tests"] = everything();
    table["bench"] = everything();
    return table;
  }();
  return kRooms;
}

std::map<std::string, Rooms> rooms_in(std::string_view document) {
  static const std::regex kRow(R"re(^\| `([\w/]+)` \|.*\| ([^|]*) \|$)re");
  std::vector<Row> rows;
  std::istringstream lines{std::string(document)};
  for (std::string line; std::getline(lines, line);) {
    std::smatch row;
    if (std::regex_match(line, row, kRow)) rows.emplace_back(row[1], row[2]);
  }
  return table_of(rows);
}

std::string room_of(std::string_view path) {
  const auto file = path.rfind('/');
  if (file == std::string_view::npos) return {};
  std::string folder(path.substr(0, file));
  while (!rooms().contains(folder)) {
    const auto slash = folder.rfind('/');
    if (slash == std::string::npos) break;
    folder.resize(slash);
  }
  return folder;
}

std::vector<std::string> check_includes(const Source& source) {
  std::vector<std::string> found;
  const std::string room = room_of(source.path);
  const auto row = rooms().find(room);
  if (row == rooms().end()) {
    found.push_back(source.path + ": '" + room + "' is not a room of the table");
    return found;
  }
  for (const auto& include : own_includes(source)) {
    if (include.name == "starling_client.h") continue;  // included as by its users, from its own folder
    const std::string to = room_of(include.name);
    if (!rooms().contains(to)) {
      found.push_back(sentence(source, include.line, "\"" + include.name + "\" does not begin with a room"));
    } else if (to != room && !row->second.contains(to) && !row->second.contains(include.name)) {
      found.push_back(
          sentence(source, include.line, room + " may not include " + to + " (" + include.name + ")"));
    }
  }
  return found;
}

std::vector<std::string> check_purity(const Source& source) {
  std::vector<std::string> found;
  const std::string room = top_folder(source.path);
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
  const std::string room = top_folder(source.path);
  if (room == "tests" || room == "bench") return found;
  for (const auto& library : libraries()) {
    const bool allowed =
        std::any_of(library.places.begin(), library.places.end(),
                    [&](const std::string& place) { return source.path.starts_with(place); });
    if (allowed) continue;
    for (std::size_t n = 0; n < source.lines.size(); ++n) {
      if (std::regex_search(source.lines[n], library.pattern))
        found.push_back(
            sentence(source, n + 1, std::string(library.name) + " may only be used in its own place"));
    }
  }
  return found;
}

}  // namespace starling::architecture
