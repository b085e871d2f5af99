// GCC 12 falsely reports an uninitialized member inside <regex> when sanitizers prevent inlining.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "tests/architecture/rules.h"

#include <algorithm>
#include <regex>
#include <set>

namespace starling::architecture {
namespace {

using Names = std::set<std::string>;

std::string sentence(const Source& source, std::size_t line, const std::string& what) {
  return source.path + ":" + std::to_string(line) + ": " + what;
}

std::string top_folder(const std::string& path) { return path.substr(0, path.find('/')); }

struct Ban {
  const char* what;
  std::regex pattern;
  Names rooms;            // rooms with this ban
  Names exceptions = {};  // paths
};

const Names kPure = {"base", "wire", "topologies", "gossip"};

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
      {"pugixml", std::regex(R"re(include\s*[<"]pugixml|\bpugi::)re"), {"topologies/graphml.cc"}},
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

std::vector<std::string> check_includes(const Source& source) {
  std::vector<std::string> found;
  const Table& table = rooms();
  const std::string room = room_of(source.path);
  const auto row = table.find(room);
  if (row == table.end()) {
    found.push_back(source.path + ": '" + room + "' is not a room of the table");
    return found;
  }
  for (const auto& include : own_includes(source)) {
    if (include.name == "starling_client.h") continue;  // included as by its users, from its own folder
    const std::string to = room_of(include.name);
    if (!table.contains(to)) {
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
