#include "cli/commands/look/checkup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/program.h"
#include "cli/commands/look/ask.h"
#include "cli/commands/named_files.h"
#include "cli/shell/output.h"
#include "datasets/catalogue.h"
#include "datasets/dataset.h"
#include "datasets/info.h"
#include "datasets/published.h"
#include "datasets/readers/text_files.h"
#include "datasets/readers/token_files.h"
#include "node/discovery/avahi.h"
#include "node/front/answers.h"
#include "node/front/http_rules.h"
#include "node/greeting.h"
#include "node/work/free_memory.h"
#include "training/learning/memory.h"
#include "training/learning/recipe.h"

namespace starling::cli {
namespace {

namespace fs = std::filesystem;

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

// The TCP addresses of a host; the Error is the resolver's message.
Result<Addresses> resolve(const std::string& host, std::uint16_t port, bool passive = false) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) return Error{::gai_strerror(code)};
  return Addresses(found, ::freeaddrinfo);
}

std::vector<std::string> texts_of(const Addresses& addresses) {
  std::vector<std::string> texts;
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    char text[NI_MAXHOST];
    if (::getnameinfo(at->ai_addr, at->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
      continue;
    if (std::ranges::find(texts, text) == texts.end()) texts.emplace_back(text);
  }
  return texts;
}

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

// Calls `use` with a new TCP socket, and returns the errno of that or of socket().
template <class Use>
int with_socket(const addrinfo& at, Use use) {
  const int fd = ::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno;
  const int error = use(fd);
  ::close(fd);
  return error;
}

// 0 or an errno.
int try_listening(const addrinfo& at) {
  return with_socket(at, [&at](int fd) {
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return ::bind(fd, at.ai_addr, at.ai_addrlen) != 0 || ::listen(fd, 1) != 0 ? errno : 0;
  });
}

int try_dialing(const addrinfo& at) {
  constexpr int kPatienceMilliseconds = 3000;
  return with_socket(at, [&at](int fd) {
    if (::connect(fd, at.ai_addr, at.ai_addrlen) == 0) return 0;
    if (errno != EINPROGRESS) return errno;
    pollfd waiting{fd, POLLOUT, 0};
    if (::poll(&waiting, 1, kPatienceMilliseconds) != 1) return ETIMEDOUT;
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
    return error;
  });
}

void check_model_of(const node::PeerStatus& status, const Wanted& wanted, Checks& checks) {
  constexpr const char* kRemedy = "omit --model: the swarm sends the model to a joiner";
  if (wanted.model) {
    const auto own = resolve_model(*wanted.model);
    if (!own) return checks.bad("peer", "--model: " + own.error().message, kRemedy);
    if (own->name != status.model)
      return checks.bad("peer", fmt::format("it trains {}, not {}", status.model, own->name), kRemedy);
  }
  checks.good("peer", "it trains " + status.model + ", which it sends to a joiner");
}

void check_data_of(const node::PeerStatus& status, const Wanted& wanted, Checks& checks) {
  const auto data = datasets::load(wanted.data.value_or(status.data), wanted.data_root);
  if (data) {
    return checks.good("peer", fmt::format("its data is {}, which this machine has: {}", status.data,
                                           datasets::size_text(*data)));
  }
  checks.bad("peer", "its data is " + status.data + ", which this machine lacks: " + data.error().message,
             datasets::find_published(status.data) != nullptr
                 ? "download it with `starling data fetch " + status.data + "`"
                 : "copy the data to this machine and name it with --data");
}

// Whether a peer of that swarm accepts this machine's key, or its lack of one.
// Whether the running peer can dial this machine.
void check_dialed_back(const Address& gossip, const node::PeerStatus& status, const Wanted& wanted,
                       std::shared_ptr<const transport::TlsContext> tls, Checks& checks) {
  if (!wanted.listen || wanted.listen->port == 0 ||
      (node::is_loopback(wanted.listen->host) && !node::is_loopback(gossip.host)))
    return;
  const auto answer = node::ask_to_be_dialed(gossip, *wanted.listen, status.swarm, std::move(tls));
  if (!answer)
    return checks.note("reach", status.name + " was asked to dial this machine: " + answer.error().message);
  const std::string where = to_string(answer->address);
  if (answer->reached) return checks.good("reach", status.name + " can dial this machine at " + where);
  checks.note("reach",
              fmt::format("{} cannot dial this machine at {}: a router or a firewall is between them",
                          status.name, where),
              "a peer takes part in any case (--listen none); to let others dial it, forward the TCP port to "
              "this machine, or open it");
}

void check_key_of(const Address& gossip, const node::PeerStatus& status, const Wanted& wanted,
                  Checks& checks) {
  std::shared_ptr<const transport::TlsContext> tls;
  if (wanted.key) {
    const auto made = transport::TlsContext::make(*wanted.key, status.swarm);
    if (!made) return checks.bad("key", made.error().message);
    tls = *made;
  }
  const auto problem = node::greet(gossip, status.swarm, tls);
  if (!problem) {
    checks.good("key", wanted.key ? "it has the same key as this machine and accepts it"
                                  : "neither its swarm nor this machine has a key");
    return check_dialed_back(gossip, status, wanted, tls, checks);
  }
  using Kind = transport::LinkErrorKind;
  const std::string its = status.name + " at " + to_string(gossip);
  if (problem->kind == Kind::no_key) {
    checks.bad("key", its + " has no key, and this machine has one: they cannot connect",
               "start this peer without --key and STARLING_KEY, or restart the whole swarm with a copy of "
               "the key's file");
  } else if (problem->kind == Kind::not_allowed) {  // it has checked the key before
    checks.good("key", its + " accepts it, and admits only the peers of its list (--allow)");
  } else if (problem->kind == Kind::wrong_key && !wanted.key) {
    checks.bad("key", its + " belongs to a swarm with a key, and this machine has none",
               "copy the swarm's key file to this machine, and name it with --key or STARLING_KEY");
  } else if (problem->kind == Kind::wrong_key) {
    checks.bad("key", its + " has another key than " + wanted.key_file,
               "copy the key's file again from a machine of the swarm");
  } else {
    checks.bad("key", "the handshake failed: " + problem->message,
               "check for a proxy or firewall between the machines that blocks unknown protocols");
  }
}

void check_address_of(const node::PeerStatus& status, const Wanted& wanted, Checks& checks) {
  const auto gossip = Address::parse(status.address);
  if (!gossip) return;
  const auto addresses = resolve(gossip->host, gossip->port);
  const int error = addresses ? try_dialing(**addresses) : 0;
  if (!addresses || error != 0) {
    return checks.bad("peer",
                      fmt::format("its address is {}, which this machine cannot reach: {}", status.address,
                                  addresses ? std::strerror(error) : addresses.error().message),
                      "start it with --advertise and a reachable address, and open the port");
  }
  checks.good("peer", fmt::format("this machine can reach its address: join with --join {}", status.address));
  check_key_of(*gossip, status, wanted, checks);
}

}  // namespace

void check_port(const Address& listen, bool given, Checks& checks) {
  const std::string where = to_string(listen);
  const auto report = [&](const std::string& why, const char* remedy) {
    const std::string what = "a peer cannot listen at " + where + ": " + why;
    return given ? checks.bad("port", what, remedy) : checks.note("port", what, remedy);
  };
  const auto addresses = resolve(listen.host, listen.port, true);
  if (!addresses) {
    return report("the name does not resolve (" + addresses.error().message + ")",
                  "give --listen an address of this machine, or 0.0.0.0 for all of them");
  }
  const int error = try_listening(**addresses);
  switch (error) {
    case 0:
      if (listen.host == "0.0.0.0" || listen.host == "::") {
        return checks.good("port", "a peer can listen at " + where +
                                       ", and finds out from members at which address they can dial it");
      }
      return checks.good("port", "a peer can listen at " + where);
    case EADDRINUSE:
      return report(std::strerror(error),
                    "another program uses the port, perhaps a peer (`ss -ltnp` shows it); stop it, or give "
                    "--listen another port");
    case EADDRNOTAVAIL:
      return report(std::strerror(error),
                    "no interface of this machine has that address (`ip address` lists them); to listen on "
                    "all of them give 0.0.0.0");
    case EACCES:
      return report(std::strerror(error),
                    "ports below 1024 need more privileges; give --listen a higher port");
    default:
      return report(std::strerror(error), "give --listen another address");
  }
}

void check_reach(Checks& checks) {
  std::vector<std::string> anywhere, site;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return;
  for (const ifaddrs* it = first; it != nullptr; it = it->ifa_next) {
    const int family = it->ifa_addr != nullptr ? it->ifa_addr->sa_family : AF_UNSPEC;
    if ((family != AF_INET && family != AF_INET6) || (it->ifa_flags & IFF_LOOPBACK) != 0) continue;
    char text[NI_MAXHOST] = {};
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (::getnameinfo(it->ifa_addr, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) continue;
    const std::string host = std::string(text).substr(0, std::string_view(text).find('%'));  // no interface
    (is_local_host(host) ? site : anywhere).push_back(host);
  }
  ::freeifaddrs(first);
  if (!anywhere.empty()) {
    return checks.good("reach", fmt::format("peers anywhere can dial {}, unless a firewall prevents it",
                                            fmt::join(anywhere, " and ")));
  }
  const char* const remedy =
      "a peer takes part in any case: start it with --listen 0.0.0.0:PORT, and it finds out whether members "
      "can dial it, or with --listen none";
  if (site.empty()) return checks.note("reach", "this machine has no address but loopback ones", remedy);
  checks.note("reach",
              fmt::format("only machines of the same network can dial {}; others can if a router forwards a "
                          "port to it",
                          fmt::join(site, " and ")),
              remedy);
}

void check_mdns(Checks& checks) {
  if (const Status found = node::find_avahi(); !found) {
    return checks.note("mdns", found.error().message,
                       "only --discover needs it; peers with --join find their swarm without it");
  }
  checks.good("mdns", "an Avahi daemon answers: peers find each other on this network with --discover");
}

void check_clock(Checks& checks) {
  using Wall = std::chrono::system_clock;
  using Steady = std::chrono::steady_clock;
  constexpr auto kSpan = std::chrono::milliseconds(50), kDriftMax = std::chrono::milliseconds(10);
  const auto wall = Wall::now();
  const auto steady = Steady::now();
  std::this_thread::sleep_for(kSpan);
  const auto drift =
      (Wall::now() - wall) - std::chrono::duration_cast<Wall::duration>(Steady::now() - steady);
  if (drift > kDriftMax || drift < -kDriftMax) {
    checks.note("clock", "the wall clock is being adjusted: it drifted by more than 10 ms within 50 ms",
                "let only one program set the time (`timedatectl status` shows which)");
  } else {
    checks.good("clock", "the wall clock runs like the steady clock, which peers use");
  }
  // With a clock in the past, certificates are not valid yet.
  constexpr std::int64_t kEarliest = 1'735'689'600;  // 2025, seconds since 1970
  if (std::chrono::duration_cast<std::chrono::seconds>(wall.time_since_epoch()).count() < kEarliest)
    checks.bad("clock", "the wall clock is years behind", "set it: `timedatectl set-ntp true`");
  timex kernel{};
  const int state = ::adjtimex(&kernel);
  if (state < 0) {
    checks.note("clock", std::string("cannot find out whether it is synchronized: ") + std::strerror(errno));
  } else if (state == TIME_ERROR || (kernel.status & STA_UNSYNC) != 0) {
    checks.note(
        "clock",
        "the wall clock is not synchronized by NTP, so the logs of several machines may be out of order",
        "`timedatectl set-ntp true`; training does not need it");
  } else {
    checks.good("clock", "the wall clock is synchronized by NTP");
  }
}

void check_names(const std::vector<std::string>& hosts, Checks& checks) {
  char own[256] = {};
  if (::gethostname(own, sizeof own - 1) == 0 && own[0] != '\0') {
    const auto addresses = resolve(own, 0);
    const auto texts = addresses ? texts_of(*addresses) : std::vector<std::string>();
    if (!addresses) {
      checks.note(
          "names",
          fmt::format("this machine's own name, {}, does not resolve: {}", own, addresses.error().message),
          "give --advertise an address that others can dial, or add the name to /etc/hosts");
    } else if (std::ranges::all_of(texts, is_loopback)) {
      checks.note("names",
                  fmt::format("this machine's own name, {}, is {} here, which other machines cannot reach",
                              own, fmt::join(texts, ", ")),
                  "give --advertise an address or a name that others can dial");
    } else {
      checks.good("names", fmt::format("this machine is {}, {}", own, fmt::join(texts, ", ")));
    }
  }
  for (const std::string& host : hosts) {
    const auto addresses = resolve(host, 0);
    if (addresses) {
      checks.good("names", fmt::format("{} is {}", host, fmt::join(texts_of(*addresses), ", ")));
    } else {
      checks.bad("names", fmt::format("{} does not resolve: {}", host, addresses.error().message),
                 "correct the name or /etc/resolv.conf, add it to /etc/hosts, or dial an address");
    }
  }
}

void check_data(const std::string& data_root, Checks& checks) {
  if (data_root.empty()) {
    return checks.note(
        "data", "STARLING_DATA, the folder of data sets, is not set; glyphs is built in",
        "`starling data fetch mnist --into DIR` downloads a set; then export STARLING_DATA=DIR");
  }
  const std::string root = "STARLING_DATA is '" + data_root + "', which ";
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator at(data_root, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  if (error)
    return checks.bad("data", root + "cannot be read: " + error.message(), "set it to a folder of data sets");
  std::ranges::sort(names);
  bool any = false;
  for (const std::string& name : names) {
    const std::string path = data_root + "/" + name;
    const bool published = datasets::find_published(name) != nullptr;
    if (name.starts_with(".") ||
        !((published && fs::is_directory(path, error)) || datasets::format_of(path) != nullptr))
      continue;
    const auto data = datasets::load(name, data_root);
    // Not every text beside data sets is one.
    if (!data && (datasets::is_text_path(path) || datasets::is_token_path(path))) continue;
    any = true;
    if (data) {
      checks.good("data", name + ": " + datasets::size_text(*data));
    } else {
      checks.bad("data", name + " cannot be read: " + data.error().message,
                 published
                     ? "move its folder away, and download it again with `starling data fetch " + name + "`"
                     : "correct or replace the file, or move it away");
    }
  }
  if (!any) checks.note("data", root + "holds no data set", "`starling data fetch mnist` downloads one");
}

void check_space(const std::string& flag, const std::string& folder, Checks& checks) {
  constexpr double kLittleSpace = 1e9;  // bytes
  // If the folder does not exist yet, its nearest existing parent counts.
  std::error_code error;
  fs::path there = fs::absolute(folder, error).lexically_normal();
  if (error) there = folder;
  while (!fs::exists(there, error) && there.has_parent_path() && there != there.parent_path())
    there = there.parent_path();
  const std::string where = flag + " " + folder;
  if (!fs::is_directory(there, error)) {
    return checks.bad("space", where + " cannot be created: '" + there.string() + "' is not a folder",
                      "give " + flag + " the path of a folder");
  }
  if (::access(there.c_str(), W_OK | X_OK) != 0) {
    return checks.bad(
        "space", where + " cannot be written: " + std::strerror(errno),
        "allow this user to write in '" + there.string() + "', or give " + flag + " another folder");
  }
  struct statvfs disk {};
  if (::statvfs(there.c_str(), &disk) != 0)
    return checks.note("space", where + ": the free space of its disk is unknown: " + std::strerror(errno));
  const double free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  const std::string what = where + " can be written and has " + format_bytes(free) + " free";
  if (free >= kLittleSpace) return checks.good("space", what);
  checks.note(
      "space", what,
      "free some space, or give " + flag + " a folder on another disk: a replica of ResNet-18 takes 45 MB");
}

void check_memory(Checks& checks) {
  training::Experiment experiment;
  experiment.model.name = "lenet";
  auto data = datasets::load("glyphs", "");
  const auto backend = training::make_host_backend(experiment);
  if (!data || !backend) return;
  const auto plan = training::make_plan({experiment.model.name, ""}, *data);
  if (!plan) return;
  const auto need =
      training::peer_memory(training::training_memory(experiment, *plan, **backend), *plan, **backend, &*data)
          .peak();
  const std::string what = "a peer with lenet on glyphs needs " + format_bytes(need);
  const auto free = node::free_memory();
  if (!free) return checks.note("memory", what + "; the free memory is unknown");
  const std::string text = what + "; " + format_bytes(*free) + " are free";
  if (*free >= need) return checks.good("memory", text);
  checks.note("memory", text, "end other programs, or raise `ulimit -v` or the limit of the container");
}

void check_peer(const Address& http, const Wanted& wanted, Checks& checks) {
  const std::string where = to_string(http);
  const auto answer = get({http}, "/api/v1/status");
  if (!answer) {
    return checks.bad("peer", answer.error().message,
                      "check that the peer runs with --http " + where +
                          ", has loaded its data, and is not behind a firewall");
  }
  const auto status = node::parse_status(*answer);
  if (!status) {
    return checks.bad("peer", where + " is not a Starling peer's --http address: " + status.error().message,
                      "give --at the peer's --http address, which differs from its --listen address");
  }
  checks.good("peer",
              fmt::format("{} answers: starling {}, {}", status->name, status->version, status->phase));
  if (status->version != version()) {
    checks.note(
        "peer",
        fmt::format(
            "it runs starling {}, and this is {}; docs/PROTOCOL.md says which versions train together",
            status->version, version()),
        "install the same version on both machines, unless the swarm is being upgraded");
  }
  if (status->swarm == wanted.swarm) {
    checks.good("peer", "its swarm is '" + status->swarm + "', like ours");
  } else {
    checks.bad("peer",
               fmt::format("its swarm is '{}', and ours '{}': it rejects peers of another swarm",
                           status->swarm, wanted.swarm),
               "join with --swarm " + status->swarm);
  }
  check_address_of(*status, wanted, checks);
  if (status->phase == "finished")
    checks.note("peer", "its run is over: a peer that joins now only receives the result");
  if (!status->model.empty()) check_model_of(*status, wanted, checks);
  if (!status->data.empty()) check_data_of(*status, wanted, checks);
}

}  // namespace starling::cli
