// Parts of the daemon besides the exchanger and the trainer: the connection to its launcher, and the replica.
// tests/cli tests the whole daemon as a process.
#include "node/daemon.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "node/launch/process.h"
#include "node/work/replica.h"
#include "tests/catch.h"
#include "tests/training/temporary_folder.h"
#include "tests/transport/world.h"
#include "training/learning/recipe.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STARLING_SANITIZED_MEMORY 1  // their allocators end the process
#else
#define STARLING_SANITIZED_MEMORY 0
#endif

namespace starling::node {
namespace {

using training::PeerReport;

// The launcher's end of the connection.
struct Launcher {
  explicit Launcher(transport::testing::World& w) : world(w) {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    mine = ends[0];
    REQUIRE(::fcntl(mine, F_SETFL, O_NONBLOCK) == 0);
    link = std::make_unique<LauncherLink>(
        w.executor(), ends[1], [this](std::string command) { commands.push_back(std::move(command)); },
        [this] { ++gone; });
  }
  ~Launcher() { hang_up(); }

  void hang_up() {
    if (mine >= 0) ::close(mine);
    mine = -1;
  }
  void say(const std::string& text) {
    REQUIRE(::send(mine, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
  }
  // What has been received so far.
  std::string hear() {
    std::string text;
    char piece[4096];
    for (;;) {
      const auto n = ::recv(mine, piece, sizeof piece, 0);
      if (n <= 0) return text;
      text.append(piece, static_cast<std::size_t>(n));
    }
  }

  transport::testing::World& world;
  int mine = -1;
  std::unique_ptr<LauncherLink> link;
  std::vector<std::string> commands;
  int gone = 0;
};

std::vector<PeerReport> reports_in(const std::string& text) {
  std::vector<PeerReport> reports;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    REQUIRE(end != std::string::npos);
    auto report = training::parse_report(std::string_view(text).substr(begin, end - begin));
    REQUIRE(report.ok());
    reports.push_back(std::move(*report));
    begin = end + 1;
  }
  return reports;
}

// A network of two layers with this many features.
training::Experiment wide(int features) {
  const std::string layer = "{ type = \"linear\", features = " + std::to_string(features) + " }";
  training::Experiment experiment;
  experiment.model.name = "wide";
  experiment.model.layers = "[" + layer + ", " + layer + ", \"linear\"]";
  return experiment;
}

PeerReport numbered(std::uint64_t steps) {
  PeerReport report;
  report.state = "training";
  report.steps = steps;
  return report;
}

}  // namespace

TEST_CASE("reports reach the launcher at once, each as one line that reads back") {
  transport::testing::World world;
  Launcher launcher(world);
  launcher.link->report(numbered(1));
  launcher.link->report(numbered(2));
  auto last = numbered(3);
  last.kind = PeerReport::Kind::finished;
  last.path = "p0.safetensors";
  launcher.link->report_last(last, kHang);
  const auto reports = reports_in(launcher.hear());
  REQUIRE(reports.size() == 3);
  REQUIRE(reports[0].steps == 1);
  REQUIRE(reports[1].steps == 2);
  REQUIRE(reports[2].kind == PeerReport::Kind::finished);
  REQUIRE(reports[2].path == "p0.safetensors");
}

TEST_CASE("the launcher's commands come in line by line, in pieces or several at once") {
  transport::testing::World world;
  Launcher launcher(world);
  launcher.say("end\nleave\nen");
  REQUIRE(world.until([&] { return launcher.commands.size() == 2; }));
  launcher.say("d\n");
  REQUIRE(world.until([&] { return launcher.commands.size() == 3; }));
  REQUIRE(launcher.commands == std::vector<std::string>{"end", "leave", "end"});
  REQUIRE(launcher.gone == 0);
}

TEST_CASE("the end of the launcher is detected, and later reports are harmless") {
  transport::testing::World world;
  Launcher launcher(world);
  launcher.say("end\n");
  launcher.hang_up();
  REQUIRE(world.until([&] { return launcher.gone == 1; }));
  REQUIRE(launcher.commands == std::vector<std::string>{"end"});
  launcher.link->report(numbered(1));
  launcher.link->report_last(numbered(2), std::chrono::hours(1));  // does not wait: the launcher is gone
  REQUIRE(launcher.gone == 1);
}

TEST_CASE("a launcher that sends an endless line counts as gone and fills no memory") {
  transport::testing::World world;
  Launcher launcher(world);
  launcher.say(std::string(5000, 'x'));
  REQUIRE(world.until([&] { return launcher.gone == 1; }));
  REQUIRE(launcher.commands.empty());
}

TEST_CASE("a launcher that does not read never blocks the peer, and later gets complete lines in order") {
  transport::testing::World world;
  Launcher launcher(world);
  const std::string line = training::to_json(numbered(1'000'000)) + "\n";
  const std::uint64_t count = (std::size_t{8} << 20) / line.size();  // more than socket and queue hold
  for (std::uint64_t i = 0; i < count; ++i) launcher.link->report(numbered(i));

  auto last = numbered(count);
  last.kind = PeerReport::Kind::finished;
  launcher.link->report_last(last,
                             std::chrono::milliseconds(1));  // times out: the launcher still does not read
  std::string heard = launcher.hear();
  REQUIRE(eventually([&] {
    launcher.link->report_last(last, std::chrono::milliseconds(1));
    heard += launcher.hear();
    return reports_in(heard.substr(0, heard.rfind('\n') + 1)).back().kind == PeerReport::Kind::finished;
  }));
  const auto reports = reports_in(heard.substr(0, heard.rfind('\n') + 1));
  REQUIRE(reports.size() < count);  // some were dropped
  REQUIRE(reports.size() > 10);
  for (std::size_t i = 1; i < reports.size(); ++i) REQUIRE(reports[i].steps >= reports[i - 1].steps);
  REQUIRE(reports.back().kind == PeerReport::Kind::finished);
}

TEST_CASE("the connection to the launcher may be destroyed while the loop runs") {
  transport::testing::World world;
  Launcher launcher(world);
  launcher.say("end\n");
  launcher.link.reset();
  launcher.hang_up();
  bool passed = false;
  asio::post(world.executor(), [&] { passed = true; });
  REQUIRE(world.until([&] { return passed; }));
  while (world.io.poll() > 0) {
  }
  REQUIRE(launcher.commands.empty());
  REQUIRE(launcher.gone == 0);
}

TEST_CASE("a replica that cannot be built is an error that names the reason") {
  training::Experiment experiment;
  const auto why = [&](std::optional<std::pair<std::uint32_t, std::uint32_t>> slot = std::nullopt) {
    const auto replica = make_replica(experiment, datasets::load(experiment.data.source, ""), slot, 1);
    REQUIRE_FALSE(replica.ok());
    return replica.error().message;
  };
  SECTION("data") {
    experiment.data.source = "nowhere";
    REQUIRE(why().find("'nowhere'") != std::string::npos);
  }
  SECTION("a folder without data") {
    const training::TemporaryFolder empty;
    experiment.data.source = empty.file("");
    REQUIRE(why().find("IDX") != std::string::npos);
  }
  SECTION("model") {
    experiment.model.name = "nothing";
    REQUIRE(why().find("nothing") != std::string::npos);
  }
  SECTION("partition") {
    experiment.data.partition = "sideways";
    REQUIRE(why(std::pair<std::uint32_t, std::uint32_t>{0, 2}).find("sideways") != std::string::npos);
  }
}

TEST_CASE("a replica that needs more memory than the machine has is an error with both figures") {
  training::Experiment experiment = wide(20'000);
  experiment.training.workers = 1000;
  const auto replica = make_replica(experiment, datasets::load("glyphs", ""), std::nullopt, 1);
  REQUIRE_FALSE(replica.ok());
  const std::string& why = replica.error().message;
  INFO(why);
  CHECK(why.starts_with("this machine has "));
  CHECK(why.find("B of memory left, and training wide with batches of 64 by 1000 workers needs about 3") !=
        std::string::npos);
  CHECK(why.ends_with(" GB; a smaller batch, fewer workers or --recompute need less"));
}

TEST_CASE("a plan is checked before anything is built for it") {
  training::Experiment experiment = wide(20'000);
  experiment.training.workers = 1000;
  std::size_t parameters = 0;
  const auto replica = make_replica(experiment, datasets::load("glyphs", ""), std::nullopt, 1,
                                    [&](const models::Plan& plan, const std::string& data) -> Status {
                                      parameters = plan.layout.parameter_count();
                                      return Error{"not this plan for " + data};
                                    });
  REQUIRE_FALSE(replica.ok());
  CHECK(replica.error().message == "not this plan for glyphs");
  CHECK(parameters > 400'000'000);
}

TEST_CASE("an allocation that fails while a replica is built is an error, not the end of the process") {
  if (STARLING_SANITIZED_MEMORY) return;
  auto data = datasets::load("glyphs", "");
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // The limit of data is not part of the memory that is compared before: the arena's 64 MB do not fit.
    std::ifstream file("/proc/self/statm");
    rlim_t pages = 0;
    for (int field = 0; field < 6; ++field) file >> pages;
    const rlim_t most = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (rlim_t{32} << 20);
    const rlimit limit{most, most};
    if (::setrlimit(RLIMIT_DATA, &limit) != 0) ::_exit(1);
    const auto replica = make_replica(wide(4000), std::move(data), std::nullopt, 1);
    if (replica) ::_exit(2);
    ::_exit(replica.error().message.starts_with("an allocation failed: this machine has ") ? 0 : 3);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a manifest names the data, and not where its first peer has it") {
  training::Experiment experiment;
  experiment.data.source = "/home/somebody/tables/iris.csv";
  const models::Layout layout;
  const auto manifest = training::manifest_of<wire::Manifest>(experiment, layout, "iris");
  CHECK(manifest.data == "iris");
  CHECK(std::ranges::count(manifest.settings, wire::ManifestEntry{"data.source", "iris"}) == 1);
  for (const wire::ManifestEntry& setting : manifest.settings)
    CHECK(setting.value.find("somebody") == std::string::npos);
}

TEST_CASE("a replica holds its data, its model, a zero arena that fits and the workers asked for") {
  training::Experiment experiment;
  experiment.model.name = "softmax";
  experiment.training.workers = 2;
  const auto replica = make_replica(experiment, datasets::load(experiment.data.source, ""),
                                    std::pair<std::uint32_t, std::uint32_t>{1, 4}, 1);
  REQUIRE(replica.ok());
  const Replica& made = **replica;
  REQUIRE(made.data.train.size() == 60'000);
  REQUIRE(made.workers.size() == 2);
  REQUIRE(made.arena.size() == made.plan.layout.arena_size());
  for (std::size_t i = 0; i < made.arena.size(); i += 97) REQUIRE(made.arena.data()[i] == 0.0f);
}

}  // namespace starling::node
