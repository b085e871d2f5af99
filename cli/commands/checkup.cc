#include "cli/commands/checkup.h"

#include <fcntl.h>
#include <fmt/format.h>
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

#include "base/text.h"
#include "cli/commands/ask.h"
#include "cli/commands/model_name.h"
#include "cli/shell/output.h"
#include "datasets/catalogue.h"
#include "datasets/cifar.h"
#include "datasets/csv.h"
#include "datasets/dataset.h"
#include "datasets/idx.h"
#include "datasets/npy.h"
#include "datasets/published.h"
#include "node/greeting.h"
#include "node/front/answers.h"

namespace starling::cli {
namespace {

namespace fs = std::filesystem;
using Outcome = Check::Outcome;

constexpr double kLittleRoom = 1e9;  // bytes

Check good(std::string topic, std::string what) {
  return {std::move(topic), Outcome::good, std::move(what), ""};
}
Check note(std::string topic, std::string what, std::string remedy) {
  return {std::move(topic), Outcome::note, std::move(what), std::move(remedy)};
}
Check bad(std::string topic, std::string what, std::string remedy) {
  return {std::move(topic), Outcome::bad, std::move(what), std::move(remedy)};
}

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

// Where a host is, for TCP; the Error is the resolver's own sentence.
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
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.emplace_back(text);
  }
  return texts;
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }

 private:
  int value_;
};

// 0, or the error's number.
int try_listening(const addrinfo& at) {
  const Descriptor socket(::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return errno;
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), at.ai_addr, at.ai_addrlen) != 0 || ::listen(socket.get(), 1) != 0) return errno;
  return 0;
}

int try_dialing(const addrinfo& at) {
  constexpr int kPatienceMilliseconds = 3000;
  const Descriptor socket(::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0) return errno;
  if (::connect(socket.get(), at.ai_addr, at.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd waiting{socket.get(), POLLOUT, 0};
  if (::poll(&waiting, 1, kPatienceMilliseconds) != 1) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

// "mnist", with the numbers that one would look for; or why it cannot be read.
Check check_set(const std::string& name, const std::string& data_root) {
  const auto data = datasets::load(name, data_root);
  if (!data)
    return bad("data", name + " cannot be read: " + data.error().message,
               datasets::find_published(name) != nullptr
                   ? "move its folder away, and `starling data fetch " + name + "` gets it again"
                   : "mend or replace the file that is named, or move it away");
  return good("data", fmt::format("{}: {} + {} samples, {} classes", name, data->train.size(),
                                  data->test.size(), data->train.classes));
}

std::string absolute(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  return error ? path : whole.lexically_normal().string();
}

Check check_model_of(const node::PeerStatus& status, const Wanted& wanted) {
  if (wanted.model) {
    const auto own = resolve_model(*wanted.model);
    if (!own)
      return bad("peer", "--model: " + own.error().message,
                 "leave --model out: a joiner is told the network");
    if (own->name != status.model)
      return bad("peer", fmt::format("it trains {}, not {}", status.model, own->name),
                 "leave --model out: a joiner is told the network");
  }
  return good("peer", "it trains " + status.model + ", which a joiner is told");
}

Check check_data_of(const node::PeerStatus& status, const Wanted& wanted) {
  const std::string name = wanted.data.value_or(status.data);
  const auto data = datasets::load(name, wanted.data_root);
  if (!data)
    return bad("peer", "its data is " + status.data + ", which this machine has not: " + data.error().message,
               datasets::find_published(status.data) != nullptr
                   ? "`starling data fetch " + status.data + "` gets it"
                   : "copy the data here, and say with --data where it is");
  return good("peer",
              fmt::format("its data is {}, which is here: {} samples", status.data, data->train.size()));
}

}  // namespace

const char* outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::good:
      return "good";
    case Outcome::note:
      return "note";
    case Outcome::bad:
      return "bad";
  }
  return "";
}

Check check_port(const Address& listen, bool asked) {
  const std::string where = to_string(listen);
  const auto refused = [&](std::string what, std::string remedy) {
    return asked ? bad("port", std::move(what), std::move(remedy))
                 : note("port", std::move(what), std::move(remedy));
  };
  const auto addresses = resolve(listen.host, listen.port, true);
  if (!addresses)
    return refused("a peer cannot listen at " + where + ": the name does not resolve (" +
                       addresses.error().message + ")",
                   "give --listen an address of this machine, or 0.0.0.0 with --advertise");
  const int error = try_listening(**addresses);
  if (error == 0) {
    if (listen.host == "0.0.0.0" || listen.host == "::")
      return note("port", "a peer can listen at " + where + ", which names no address that others could dial",
                  "give it --advertise HOST:PORT as well");
    return good("port", "a peer can listen at " + where);
  }
  const std::string what = "a peer cannot listen at " + where + ": " + std::strerror(error);
  switch (error) {
    case EADDRINUSE:
      return refused(
          what,
          "another program has the port, perhaps a peer (`ss -ltnp` tells which); stop it, or give --listen "
          "another port");
    case EADDRNOTAVAIL:
      return refused(
          what,
          "no interface of this machine has that address (`ip address` lists them); 0.0.0.0 with --advertise "
          "is all of them");
    case EACCES:
      return refused(what, "ports below 1024 take more rights; give --listen a port above");
    default:
      return refused(what, "give --listen another address");
  }
}

std::vector<Check> check_clock() {
  using Wall = std::chrono::system_clock;
  using Steady = std::chrono::steady_clock;
  constexpr auto kLooked = std::chrono::milliseconds(50), kMostApart = std::chrono::milliseconds(10);
  std::vector<Check> checks;
  const auto wall = Wall::now();
  const auto steady = Steady::now();
  std::this_thread::sleep_for(kLooked);
  const auto apart =
      (Wall::now() - wall) - std::chrono::duration_cast<Wall::duration>(Steady::now() - steady);
  if (apart > kMostApart || apart < -kMostApart) {
    checks.push_back(
        note("clock", "the wall clock is being set: it left the steady one within a twentieth of a second",
             "have one program alone keep the time (`timedatectl status` tells which)"));
  } else {
    checks.push_back(good("clock", "the wall clock goes as the steady one does, by which peers go"));
  }
  // Certificates are not valid yet to somebody who lives in the past.
  constexpr std::int64_t kOfThisProgram = 1'735'689'600;  // 2025
  if (std::chrono::duration_cast<std::chrono::seconds>(wall.time_since_epoch()).count() < kOfThisProgram)
    checks.push_back(bad("clock", "the wall clock is years behind", "set it: `timedatectl set-ntp true`"));
  timex kernel{};
  const int state = ::adjtimex(&kernel);
  if (state < 0) {
    checks.push_back(note(
        "clock", std::string("whether it is synchronized cannot be asked: ") + std::strerror(errno), ""));
  } else if (state == TIME_ERROR || (kernel.status & STA_UNSYNC) != 0) {
    checks.push_back(note(
        "clock", "the wall clock is not synchronized by NTP, so logs of machines may not be put in order",
        "`timedatectl set-ntp true`; training does not need it"));
  } else {
    checks.push_back(good("clock", "the wall clock is synchronized by NTP"));
  }
  return checks;
}

std::vector<Check> check_names(const std::vector<std::string>& hosts) {
  std::vector<Check> checks;
  char own[256] = {};
  if (::gethostname(own, sizeof own - 1) == 0 && own[0] != '\0') {
    const auto addresses = resolve(own, 0);
    if (!addresses) {
      checks.push_back(note(
          "names",
          fmt::format("this machine's own name, {}, does not resolve: {}", own, addresses.error().message),
          "give --advertise an address that others dial, or put the name into /etc/hosts"));
    } else {
      const auto texts = texts_of(*addresses);
      if (std::all_of(texts.begin(), texts.end(), is_loopback)) {
        checks.push_back(
            note("names",
                 fmt::format("this machine's own name, {}, is {} here, which others do not reach", own,
                             fmt::join(texts, ", ")),
                 "give --advertise an address or a name that others dial"));
      } else {
        checks.push_back(good("names", fmt::format("this machine is {}, {}", own, fmt::join(texts, ", "))));
      }
    }
  }
  for (const std::string& host : hosts) {
    const auto addresses = resolve(host, 0);
    if (addresses) {
      checks.push_back(good("names", fmt::format("{} is {}", host, fmt::join(texts_of(*addresses), ", "))));
    } else {
      checks.push_back(bad("names", fmt::format("{} does not resolve: {}", host, addresses.error().message),
                           "mend the name or /etc/resolv.conf, put it into /etc/hosts, or dial an address"));
    }
  }
  return checks;
}

std::vector<Check> check_data(const std::string& data_root) {
  if (data_root.empty())
    return {note("data", "STARLING_DATA, which names the folder of data sets, is not set; glyphs is built in",
                 "`starling data fetch mnist --into DIR` gets a set; then export STARLING_DATA=DIR")};
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator at(data_root, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  if (error)
    return {bad("data", "STARLING_DATA is '" + data_root + "', which cannot be read: " + error.message(),
                "set it to a folder of data sets")};
  std::sort(names.begin(), names.end());
  std::vector<Check> checks;
  for (const std::string& name : names) {
    const std::string path = data_root + "/" + name;
    if (name.starts_with(".")) continue;
    const bool folder = fs::is_directory(path, error);
    const bool published = datasets::find_published(name) != nullptr;
    if ((folder && published) || datasets::format_of(path) != nullptr)
      checks.push_back(check_set(name, data_root));
  }
  if (checks.empty())
    checks.push_back(note("data", "STARLING_DATA is '" + data_root + "', which holds no data set",
                          "`starling data fetch mnist` gets one"));
  return checks;
}

Check check_space(const std::string& flag, const std::string& folder) {
  // It need not be there yet: then what it would be made in counts.
  fs::path there = absolute(folder);
  std::error_code error;
  while (!fs::exists(there, error) && there.has_parent_path() && there != there.parent_path())
    there = there.parent_path();
  const std::string where = flag + " " + folder;
  if (!fs::is_directory(there, error))
    return bad("space", where + " cannot be made: '" + there.string() + "' is no folder",
               "give " + flag + " a folder's path");
  if (::access(there.c_str(), W_OK | X_OK) != 0)
    return bad(
        "space", where + " cannot be written: " + std::strerror(errno),
        "give this user the right to write in '" + there.string() + "', or give " + flag + " another folder");
  struct statvfs disk {};
  if (::statvfs(there.c_str(), &disk) != 0)
    return note("space", where + ": its disk does not say how much is free: " + std::strerror(errno), "");
  const double free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  const std::string room = where + " can be written, and has " + format_bytes(free) + " free";
  if (free >= kLittleRoom) return good("space", room);
  return note("space", room,
              "make room, or give " + flag + " a folder on another disk: a replica of ResNet-18 takes 45 MB");
}

// Whether a peer of its swarm is let in with this machine's key, or without one.
std::vector<Check> check_key_of(const Address& gossip, const node::PeerStatus& status, const Wanted& wanted) {
  std::shared_ptr<const transport::TlsContext> tls;
  if (wanted.key) {
    const auto made = transport::TlsContext::make(*wanted.key, status.swarm);
    if (!made) return {bad("key", made.error().message, "")};
    tls = *made;
  }
  const auto problem = node::greet(gossip, status.swarm, tls);
  if (!problem)
    return {good("key", wanted.key ? "it has the same key as this machine, which it lets in"
                                   : "it lets this machine in: its swarm has no key, as ours")};
  using Kind = transport::LinkErrorKind;
  const std::string its = status.name + " at " + to_string(gossip);
  if (problem->kind == Kind::no_key)
    return {bad("key", its + " has no key, and this machine's peer would have one: neither talks to the other",
                "start this one without --key (and STARLING_KEY), or the whole swarm anew with a copy of the key's file")};
  if (problem->kind == Kind::wrong_key && !wanted.key)
    return {bad("key", its + " belongs to a swarm with a key, and this machine's peer would have none: it is refused",
                "copy the swarm's key file to this machine, and give it with --key or STARLING_KEY")};
  if (problem->kind == Kind::wrong_key)
    return {bad("key", its + " has another key than " + wanted.key_file + ": it refuses this machine's peer",
                "copy the key's file anew from a machine of the swarm")};
  return {bad("key", "it was greeted as a peer greets, and did not take it: " + problem->message,
              "is there something between that does not let through what it does not know?")};
}

std::vector<Check> check_peer(const Address& http, const Wanted& wanted) {
  const std::string where = to_string(http);
  const auto answer = get(http, "/api/v1/status");
  if (!answer)
    return {bad("peer", answer.error().message,
                "is the peer started with --http " + where +
                    ", has it loaded its data, and does no firewall stand between?")};
  const auto status = node::parse_status(*answer);
  if (!status)
    return {bad("peer", where + " is not a Starling peer's --http address: " + status.error().message,
                "give --at the peer's --http address, which is another one than it gossips at")};

  std::vector<Check> checks = {
      good("peer", fmt::format("{} answers: starling {}, {}", status->name, status->version, status->phase))};
  if (status->version != STARLING_VERSION)
    checks.push_back(note("peer",
                          fmt::format("it is starling {}, and this is {}: they may not understand each other",
                                      status->version, STARLING_VERSION),
                          "install the same version on both"));
  if (status->swarm == wanted.swarm) {
    checks.push_back(good("peer", "its swarm is '" + status->swarm + "', as ours"));
  } else {
    checks.push_back(bad("peer",
                         fmt::format("its swarm is '{}', and ours '{}': it refuses peers of another swarm",
                                     status->swarm, wanted.swarm),
                         "join with --swarm " + status->swarm));
  }
  const auto gossip = Address::parse(status->address);
  if (gossip) {
    const auto addresses = resolve(gossip->host, gossip->port);
    const int error = addresses ? try_dialing(**addresses) : 0;
    if (!addresses || error != 0) {
      checks.push_back(
          bad("peer",
              fmt::format("it says that it is dialed at {}, which is not reached from here: {}",
                          status->address, addresses ? std::strerror(error) : addresses.error().message),
              "start it with --advertise and an address that is reached from here, and open the port"));
    } else {
      checks.push_back(good("peer", "it is dialed at " + status->address +
                                        ", which is reached from here: join with --join " + status->address));
      for (Check& check : check_key_of(*gossip, *status, wanted)) checks.push_back(std::move(check));
    }
  }
  if (status->phase == "finished")
    checks.push_back(note("peer", "its run is over: who joins now only gets the result", ""));
  if (!status->model.empty()) checks.push_back(check_model_of(*status, wanted));
  if (!status->data.empty()) checks.push_back(check_data_of(*status, wanted));
  return checks;
}

}  // namespace starling::cli
