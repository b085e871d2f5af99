// Speed of a pairwise exchange between two processes over loopback TCP, with the real transport and
// node::Exchanger, one thread per process and no training. For each arena: goodput per direction (both carry
// parameters at once), median time of an exchange, and CPU seconds of both processes per GB received.
// --stages adds the speed of the bare wire and the cost of each stage (bench/bare_exchange.h); --tls encrypts
// the connection. One line each:
//   exchange floats 11250000 gbit_per_second 9.81 median_ms 36.7 cpu_seconds_per_gb 0.21
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "base/random.h"
#include "base/text.h"
#include "bench/bare_exchange.h"
#include "lab/world/network/virtual_identity.h"
#include "models/arena.h"
#include "node/exchange/exchanger.h"
#include "training/mixing/make.h"
#include "transport/links/link_table.h"
#include "transport/links/tcp.h"
#include "transport/tls/tls.h"

namespace {

using namespace starling;
using node::Flow;
using Clock = std::chrono::steady_clock;

struct Options {
  std::vector<std::size_t> floats = {11'250'000, 125'000};  // 45 MB and 0.5 MB
  std::size_t rounds = 0;                                   // 0: about two seconds
  training::MixOptions mix;
  std::optional<std::size_t> chunk_cells, window;  // unset: chosen by the exchange
  transport::LinkShape shape;
  bool pin = false;
  bool stages = false;
  bool tls = false;
};

constexpr const char* kUsage =
    "usage: exchange_bench [--floats N] [--rounds N] [--payload f32|bf16|int8] [--chunk CELLS] [--window "
    "CHUNKS]\n"
    "                      [--latency TIME] [--bandwidth RATE] [--pin] [--stages] [--tls]\n";

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "exchange_bench: %s\n", why.c_str());
  std::exit(2);
}

void pin_to(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0)
    fail("cannot pin to processor " + std::to_string(processor));
}

double cpu_seconds(pid_t process) {
  clockid_t clock;
  timespec spent{};
  if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &spent) != 0) return 0;
  return static_cast<double>(spent.tv_sec) + 1e-9 * static_cast<double>(spent.tv_nsec);
}

// The control channel between the two processes; not part of the measurement.
struct Partner {
  int line = -1;
  pid_t process = 0;  // 0: this is the responder

  void say(std::uint64_t word) const {
    if (::write(line, &word, sizeof word) != sizeof word) std::exit(0);
  }
  std::uint64_t hear() const {
    std::uint64_t word = 0;
    if (::read(line, &word, sizeof word) != sizeof word) std::exit(0);  // the other process has ended
    return word;
  }
};

void fill(models::Arena& arena, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(arena.size());
  for (float& value : values) value = static_cast<float>(random.uniform(-1, 1));
  arena.write(0, values);
}

// Runs `exchange` for some rounds and prints the result.
void measure(const std::string& what, const Options& options, std::size_t floats, const Partner& partner,
             const std::function<void()>& exchange) {
  for (int i = 0; i < 3; ++i) exchange();
  std::vector<double> seconds;
  double all = 0;
  const double cpu = cpu_seconds(0) + cpu_seconds(partner.process);
  while (options.rounds > 0 ? seconds.size() < options.rounds : all < 2) {
    const auto begun = Clock::now();
    exchange();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begun).count());
    all += seconds.back();
  }
  const double spent = cpu_seconds(0) + cpu_seconds(partner.process) - cpu;
  const double bytes = static_cast<double>(sizeof(float) * floats * seconds.size());
  std::sort(seconds.begin(), seconds.end());
  std::printf("%-10s floats %zu gbit_per_second %.2f median_ms %.3f cpu_seconds_per_gb %.3f\n", what.c_str(),
              floats, 8e-9 * bytes / all, 1e3 * seconds[seconds.size() / 2], spent / (2e-9 * bytes));
  std::fflush(stdout);
}

// ---- with the daemon's exchanger ----

transport::TcpOptions tcp_options(const Options& options) {
  transport::TcpOptions tcp;
  if (!options.tls) return tcp;
  auto context = transport::TlsContext::make(transport::SwarmKey{}, "bench");
  if (!context) fail(context.error().message);
  tcp.tls = *context;
  return tcp;
}

struct Daemon {
  Daemon(std::uint64_t id, std::size_t floats, const Options& options)
      : identity(PeerId{id}), transport(io.get_executor(), tcp_options(options)), arena(floats) {
    fill(arena, id);
    transport.shapes().set_all(options.shape);
    transport::Self self;
    self.hello.swarm = "bench";
    self.hello.name = "bench";
    self.hello.address = {"127.0.0.1", 0};
    self.identity = &identity;
    transport::LinkTableEvents link_events;
    link_events.on_bulk = [this](transport::LinkPtr link, wire::Hello remote) {
      exchanger->serve(std::move(link), std::move(remote));
    };
    links =
        std::make_unique<transport::LinkTable>(io.get_executor(), transport, self, std::move(link_events));
    const auto listening = links->listen({"127.0.0.1", 0});
    if (!listening) fail(listening.error().message);
    address = *listening;
    self.hello.address = address;
    links->set_hello(self.hello);

    node::ExchangerOptions limits;
    limits.window = options.window;
    limits.chunk_cells = options.chunk_cells;
    exchanger = std::make_unique<node::Exchanger>(
        io.get_executor(), *links, [this](const gossip::Event& event) { take(event); }, limits);
    mixer = training::make_mixer(arena, options.mix);
    exchanger->attach(arena, 1, *mixer);
  }

  void take(const gossip::Event& event) {
    if (const auto* offer = std::get_if<gossip::ExchangeOffered>(&event))
      exchanger->answer({offer->from, offer->exchange, true, wire::RefusalReason::busy, {}});
    if (std::holds_alternative<gossip::ReplicaDiverged>(event)) fail("the parameters diverged");
    if (const auto* end = std::get_if<gossip::ExchangeEnded>(&event)) {
      if (end->outcome != gossip::Outcome::completed) fail("exchange failed");
      ended = true;
    }
  }

  void exchange_with(PeerId partner, const Address& at) {
    ended = false;
    exchanger->begin(++exchange, {partner, at});
    while (!ended) io.run_one();
  }

  lab::VirtualIdentity identity;
  asio::io_context io{1};
  transport::TcpTransport transport;
  models::Arena arena;
  std::unique_ptr<training::Mixer> mixer;
  Address address;
  std::unique_ptr<transport::LinkTable> links;
  std::unique_ptr<node::Exchanger> exchanger;
  std::uint64_t exchange = 0;
  bool ended = false;
};

void measure_daemons(const Options& options, std::size_t floats, const Partner& partner) {
  const bool initiator = partner.process != 0;
  Daemon daemon(initiator ? 1 : 2, floats, options);
  if (!initiator) {
    partner.say(daemon.address.port);
    for (;;) daemon.io.run_one();  // until killed
  }
  const Address there{"127.0.0.1", static_cast<std::uint16_t>(partner.hear())};
  measure("exchange", options, floats, partner, [&] { daemon.exchange_with(PeerId{2}, there); });
  const Flow& flow = *daemon.exchanger->flow(PeerId{2});
  std::fprintf(stderr, "# chunks of %zu cells, window %zu; rate %.2f GB/s, delay %.0f us\n",
               flow.chunk_cells(), flow.window(), 1e-9 * flow.rate(), 1e6 * to_seconds(flow.delay()));
}

// ---- stage by stage ----

int connected_socket(const Partner& partner) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* address = reinterpret_cast<sockaddr*>(&at);
  int connected = socket;
  if (partner.process == 0) {
    socklen_t size = sizeof at;
    if (::bind(socket, address, sizeof at) != 0 || ::listen(socket, 1) != 0 ||
        ::getsockname(socket, address, &size) != 0)
      fail("cannot listen on loopback");
    partner.say(ntohs(at.sin_port));
    connected = ::accept(socket, nullptr, nullptr);
  } else {
    at.sin_port = htons(static_cast<std::uint16_t>(partner.hear()));
    if (::connect(socket, address, sizeof at) != 0) fail("cannot connect on loopback");
  }
  const int yes = 1;
  ::setsockopt(connected, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  ::fcntl(connected, F_SETFL, O_NONBLOCK);
  return connected;
}

void measure_stage(bench::Stage stage, const Options& options, std::size_t floats, const Partner& partner) {
  const bool initiator = partner.process != 0;
  const int socket = connected_socket(partner);
  models::Arena arena(floats);
  fill(arena, initiator ? 1 : 2);
  bench::BareExchange bare(socket, arena, initiator,
                           {stage, options.chunk_cells.value_or(Flow::kChunkCells) * options.mix.cell_floats,
                            options.window.value_or(Flow::kWindowAtFirst)});
  if (!initiator) {
    for (;;) bare.run();  // until killed
  }
  measure(name(stage), options, floats, partner, [&] { bare.run(); });
}

// Runs `work` in two connected processes.
void in_two_processes(const Options& options, const std::function<void(const Partner&)>& work) {
  int line[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, line) != 0) fail("no socket pair");
  const pid_t child = ::fork();
  if (child < 0) fail("cannot fork");
  ::close(line[child == 0 ? 0 : 1]);
  if (options.pin) pin_to(child == 0 ? 1 : 0);
  work(Partner{line[child == 0 ? 1 : 0], child});
  if (child == 0) std::exit(0);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(line[0]);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto number = [&]() -> std::size_t {
      const auto value = i + 1 < argc ? parse_number<std::uint64_t>(argv[i + 1]) : std::nullopt;
      if (!value || *value == 0) fail(flag + " needs a number of at least 1\n" + kUsage);
      ++i;
      return *value;
    };
    if (flag == "--floats") {
      options.floats = {number()};
    } else if (flag == "--rounds") {
      options.rounds = number();
    } else if (flag == "--chunk") {
      options.chunk_cells = number();
    } else if (flag == "--cell") {
      options.mix.cell_floats = number();
    } else if (flag == "--payload") {
      const std::string name = i + 1 < argc ? argv[++i] : "";
      if (name == "bf16") {
        options.mix.payload = Payload::bf16;
      } else if (name == "int8") {
        options.mix.payload = Payload::int8;
      } else if (name != "f32") {
        fail("--payload: expected f32, bf16 or int8\n" + std::string(kUsage));
      }
    } else if (flag == "--window") {
      options.window = number();
    } else if (flag == "--latency" || flag == "--bandwidth") {
      const std::string text = i + 1 < argc ? argv[++i] : "";
      const auto latency = parse_duration(text);
      const auto bandwidth = parse_bandwidth(text);
      if (flag == "--latency" ? !latency.ok() : !bandwidth.ok())
        fail(flag + ": invalid value '" + text + "'");
      if (latency.ok()) options.shape.latency = *latency;
      if (bandwidth.ok()) options.shape.bandwidth = *bandwidth;
    } else if (flag == "--pin") {
      options.pin = true;
    } else if (flag == "--stages") {
      options.stages = true;
    } else if (flag == "--tls") {
      options.tls = true;
    } else {
      fail("unknown option '" + flag + "'\n" + kUsage);
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  for (const std::size_t floats : options.floats) {
    if (options.stages) {
      for (const bench::Stage stage : bench::kStages)
        in_two_processes(options,
                         [&](const Partner& partner) { measure_stage(stage, options, floats, partner); });
    }
    in_two_processes(options, [&](const Partner& partner) { measure_daemons(options, floats, partner); });
  }
  return 0;
}
