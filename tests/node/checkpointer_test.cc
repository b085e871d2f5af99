// Checkpoints in a folder: which ones are written, kept and chosen to resume from, and how a failing disk is
// handled.
#include "node/keep/checkpointer.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <set>

#include "tests/catch.h"
#include "tests/training/temporary_folder.h"

namespace starling::node {
namespace {

using training::contents;
using training::TemporaryFolder;

models::Layout small_layout(std::int64_t rows = 4) {
  models::Layout layout;
  layout.append("fc.weight", {rows, 5});
  layout.append("fc.bias", {rows});
  return layout;
}

training::PeerState state_at(std::uint64_t steps, const models::Layout& layout = small_layout()) {
  training::PeerState state;
  state.parameters.assign(layout.arena_size(), 0);
  for (const auto& tensor : layout.tensors())
    for (std::size_t i = 0; i < tensor.size; ++i)
      state.parameters[tensor.offset + i] = static_cast<float>(steps + i);
  training::WorkerState& worker = state.workers.emplace_back();
  worker.velocity.assign(layout.trained_size(), 0);
  worker.cursor = {{2, 0, 1}, 1, training::state_of(Random(steps))};
  state.steps = steps;
  state.samples = 16 * steps;
  return state;
}

CheckpointFacts facts(const std::string& name = "p") {
  CheckpointFacts facts;
  facts.run.swarm = "starling";
  facts.run.manifest.model = "mlp";
  facts.run.manifest.data = "glyphs";
  facts.run.manifest.arena_floats = small_layout().arena_size();
  facts.run.manifest.seed = 7;
  facts.run.manifest.settings = {{"training.steps", "1000"}, {"training.momentum", "0.5"}};
  facts.run.members = {{"q", {"127.0.0.1", 7101}}};
  facts.model = {"mlp", ""};
  facts.name = name;
  facts.id = PeerId{0xabc};
  facts.order = 0x1234;
  facts.earlier_samples = 160;
  facts.others_samples = 5000;
  facts.elapsed = std::chrono::seconds(12);
  return facts;
}

CheckpointOptions options(const std::string& folder, std::uint32_t keep = 3) {
  CheckpointOptions options;
  options.folder = folder;
  options.keep = keep;
  return options;
}

std::unique_ptr<Checkpointer> open(const TemporaryFolder& folder, const std::string& name = "p",
                                   const Resumption* resumed = nullptr, std::uint32_t keep = 3) {
  auto opened = Checkpointer::open(options(folder.path(), keep), name, resumed);
  if (!opened) FAIL(opened.error().message);
  return std::move(*opened);
}

std::string refusal(const TemporaryFolder& folder, const std::string& name = "p",
                    const Resumption* resumed = nullptr) {
  const auto opened = Checkpointer::open(options(folder.path()), name, resumed);
  REQUIRE_FALSE(opened.ok());
  return opened.error().message;
}

void write(Checkpointer& checkpointer, std::uint64_t steps, const std::string& name = "p") {
  const auto written = checkpointer.write(small_layout(), state_at(steps), facts(name));
  if (!written) FAIL(written.error().message);
}

Resumption found(const std::string& path, const std::string& name = "") {
  auto resumption = find_resumption(path, name);
  if (!resumption) FAIL(resumption.error().message);
  REQUIRE(resumption->has_value());
  return std::move(**resumption);
}

std::set<std::string> files_in(const TemporaryFolder& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    if (entry.path().extension() != ".lock") names.insert(entry.path().filename().string());
  return names;
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a checkpoint holds everything that its peer needs to resume the run") {
  const TemporaryFolder folder;
  write(*open(folder), 30);
  Resumption resumption = found(folder.file("p.30.safetensors"));
  CHECK(resumption.run == facts().run);
  CHECK(resumption.name == "p");
  CHECK(resumption.order == 0x1234);
  CHECK(resumption.earlier.steps == 30);
  CHECK(resumption.earlier.samples == 480);
  CHECK(resumption.earlier.swarm_samples == 5000 + 480 - 160);
  CHECK(resumption.earlier.elapsed == std::chrono::seconds(12));
  REQUIRE(read_state(resumption, small_layout()).ok());
  CHECK(resumption.state.parameters == state_at(30).parameters);
  CHECK(resumption.state.workers == state_at(30).workers);
  const Status other = read_state(resumption, small_layout(6));
  CHECK(says(other.error().message, "'fc.weight'"));
}

TEST_CASE("a checkpoint whose peer's name would be a path elsewhere is rejected") {
  const TemporaryFolder folder;
  for (const char* name : {"", "../p", ".p", "a/b", "p q"}) {
    INFO(name);
    const training::PeerState state = state_at(3);
    REQUIRE(training::write_peer_state(folder.file("p.3.safetensors"), small_layout(), state,
                                       to_facts(facts(name), state))
                .ok());
    const auto found = find_resumption(folder.file("p.3.safetensors"), "");
    REQUIRE_FALSE(found.ok());
    CHECK(says(found.error().message, "'name' is missing or not a peer's name"));
  }
}

TEST_CASE("a checkpoint that cannot be read back is an error and replaces no older one") {
  const TemporaryFolder folder;
  const auto p = open(folder, "p", nullptr, 1);
  write(*p, 3);
  const std::string before = contents(folder.file("p.3.safetensors"));
  CheckpointFacts unreadable = facts("p q");
  const auto refused = [&](std::uint64_t steps) {
    const auto written = p->write(small_layout(), state_at(steps), unreadable);
    REQUIRE_FALSE(written.ok());
    CHECK(contents(folder.file("p.3.safetensors")) == before);
    CHECK(files_in(folder) == std::set<std::string>{"p.3.safetensors"});
    return written.error().message;
  };
  for (const std::uint64_t steps : {3, 4}) {
    CHECK(refused(steps) == "no checkpoint " + folder.file("p." + std::to_string(steps) + ".safetensors") +
                                ": it could not be read back: what was written: 'name' is missing or not a "
                                "peer's name");
  }
  unreadable = facts();
  unreadable.run.manifest.model = "mlp\n";
  CHECK(
      says(refused(5), "its entry 'run' cannot be used: Welcome message: model contains control characters"));
  write(*p, 6);
  CHECK(files_in(folder) == std::set<std::string>{"p.6.safetensors"});
}

TEST_CASE("a member that cannot be used is left out of a checkpoint with a warning") {
  const TemporaryFolder folder;
  CheckpointFacts with_stranger = facts();
  with_stranger.run.members.push_back({"stranger", {"a b", 9}});
  REQUIRE(open(folder)->write(small_layout(), state_at(3), with_stranger).ok());
  for (const std::string& path : {folder.path(), folder.file("p.3.safetensors")}) {
    const Resumption resumption = found(path);
    CHECK(resumption.run == facts().run);
    REQUIRE(resumption.warnings.size() == 1);
    CHECK(resumption.warnings.front() ==
          folder.file("p.3.safetensors") +
              ": a member that cannot be used is left out: " + R"({"name":"stranger","address":"a b:9"})");
  }
}

TEST_CASE("a warning with the same cause is news once a minute, whichever file it names") {
  const TemporaryFolder folder;
  const auto p = open(folder, "p", nullptr, 2);
  CHECK(p->is_news("cannot write a/p.1.safetensors: No space left on device"));
  CHECK_FALSE(p->is_news("cannot write a/p.2.safetensors: No space left on device"));
  CHECK(p->is_news("cannot write a/p.3.safetensors: Read-only file system"));
}

TEST_CASE("the latest few checkpoints of each peer stay in a shared folder") {
  const TemporaryFolder folder;
  const auto p = open(folder, "p", nullptr, 2), q = open(folder, "q.7", nullptr, 1);
  for (const std::uint64_t steps : {5, 10, 15, 100}) {
    write(*p, steps);
    write(*q, steps + 1, "q.7");
  }
  write(*p, 100);  // the same number again is the same file
  CHECK(files_in(folder) ==
        std::set<std::string>{"p.15.safetensors", "p.100.safetensors", "q.7.101.safetensors"});
  CHECK(found(folder.path(), "p").earlier.steps == 100);
  CHECK(found(folder.path(), "q.7").earlier.steps == 101);
  const auto both = find_resumption(folder.path(), "");
  REQUIRE_FALSE(both.ok());
  CHECK(says(both.error().message, "(p or q.7); select one with --name"));
}

TEST_CASE(
    "the complete checkpoint with the most steps is chosen; unreadable files are skipped with a warning") {
  const TemporaryFolder folder;
  {
    const auto p = open(folder);
    for (const std::uint64_t steps : {9, 10, 11}) write(*p, steps);
  }
  CHECK(found(folder.path()).earlier.steps == 11);
  const std::string whole = contents(folder.file("p.11.safetensors"));
  folder.write("p.11.safetensors", whole.substr(0, whole.size() - 1));  // truncated
  folder.write("p.12.safetensors", "not ours");                         // not a checkpoint
  folder.write("p.13.safetensors.abcdef", whole);                       // left by a writer that was killed
  folder.write("p.014.safetensors", whole);  // not a name that the checkpointer writes
  const Resumption resumption = found(folder.path());
  CHECK(resumption.path == folder.file("p.10.safetensors"));
  REQUIRE(resumption.warnings.size() == 2);
  CHECK(says(resumption.warnings[0], "passed over: " + folder.file("p.12.safetensors")));
  CHECK(says(resumption.warnings[1], "passed over: " + folder.file("p.11.safetensors")));
  {
    // A peer that resumes from it renames the damaged files and continues to write.
    const auto p = open(folder, "p", &resumption);
    CHECK(files_in(folder) == std::set<std::string>{"p.9.safetensors", "p.10.safetensors",
                                                    "p.014.safetensors", "p.11.safetensors.damaged",
                                                    "p.12.safetensors.damaged"});
    write(*p, 11);
    write(*p, 12);
  }
  CHECK(found(folder.path()).earlier.steps == 12);
  CHECK(found(folder.path()).warnings.empty());
}

TEST_CASE("a folder with only damaged checkpoints is an error, an empty one is not") {
  const TemporaryFolder folder;
  const auto none = find_resumption(folder.path(), "");
  REQUIRE(none.ok());
  CHECK_FALSE(none->has_value());
  folder.write("p.3.safetensors", "");
  folder.write("p.4.safetensors", "x");
  const auto damaged = find_resumption(folder.path(), "");
  REQUIRE_FALSE(damaged.ok());
  CHECK(says(damaged.error().message, "none of the 2 checkpoints in " + folder.path() +
                                          " can be used; the latest: " + folder.file("p.4.safetensors")));
  CHECK_FALSE(find_resumption(folder.file("absent"), "").ok());
}

TEST_CASE("a peer does not write where checkpoints of its name have more steps") {
  const TemporaryFolder folder;
  {
    const auto p = open(folder);
    for (const std::uint64_t steps : {1, 20}) write(*p, steps);
  }
  CHECK(refusal(folder) == folder.path() +
                               " holds checkpoints of p up to 20 steps; resume from them with --resume " +
                               folder.path() + ", or use another folder");
  const Resumption early = found(folder.file("p.1.safetensors"));
  CHECK(refusal(folder, "p", &early) == folder.path() + " holds checkpoints of p up to 20 steps, more than " +
                                            folder.file("p.1.safetensors") +
                                            "; to continue from that file, use another folder");
  const Resumption late = found(folder.path());
  const auto p = open(folder, "p", &late);
  CHECK(
      says(refusal(folder, "p", &late), "another running peer writes checkpoints of p to " + folder.path()));
  const auto q = open(folder, "q");  // another name
}

TEST_CASE(
    "a checkpoint is due after each multiple of a number of steps or after a time, and never during another "
    "one") {
  const TemporaryFolder folder;
  CheckpointOptions by_steps = options(folder.path());
  by_steps.every = Pace{Pace::Kind::steps, 10, {}};
  auto checkpointer = std::move(*Checkpointer::open(by_steps, "p", nullptr));
  CHECK_FALSE(checkpointer->is_due(9));
  CHECK(checkpointer->is_due(10));
  checkpointer->begins(12);
  CHECK_FALSE(checkpointer->is_due(100));
  checkpointer->ends();
  CHECK_FALSE(checkpointer->is_due(19));  // after each multiple, also if the last one was late
  CHECK(checkpointer->is_due(20));
  checkpointer.reset();
  CheckpointOptions by_time = options(folder.path());
  by_time.every = Pace{Pace::Kind::time, 0, std::chrono::nanoseconds(1)};
  checkpointer = std::move(*Checkpointer::open(by_time, "p", nullptr));
  while (!checkpointer->is_due(0)) {
  }
  by_time.every.time = std::chrono::hours(1);
  checkpointer.reset();
  CHECK_FALSE((*Checkpointer::open(by_time, "p", nullptr))->is_due(1'000'000));
}

TEST_CASE("parameters that are not finite are never written over good ones") {
  const TemporaryFolder folder;
  const auto p = open(folder);
  write(*p, 5);
  training::PeerState lost = state_at(6);
  lost.parameters[3] = std::nanf("");
  const auto written = p->write(small_layout(), lost, facts());
  REQUIRE_FALSE(written.ok());
  CHECK(says(written.error().message, "the parameters are not finite"));
  CHECK(files_in(folder) == std::set<std::string>{"p.5.safetensors"});
}

TEST_CASE("a full disk fails the new checkpoint, keeps the older ones, and the next one is written") {
  const TemporaryFolder folder;
  const std::string disk = folder.file("disk");
  std::filesystem::create_directory(disk);
  const bool mounted = ::mount("none", disk.c_str(), "tmpfs", 0, "size=128k") == 0;
  const models::Layout layout = small_layout(1000);  // 24,000 bytes of parameters, and the same of velocity
  {
    auto opened = Checkpointer::open(options(disk, 1), "p", nullptr);
    REQUIRE(opened.ok());
    Checkpointer& p = **opened;
    REQUIRE(p.write(layout, state_at(1, layout), facts()).ok());
    const std::string before = contents(disk + "/p.1.safetensors");
    REQUIRE(before.size() > 48'000);
    // A process that may not mount a file system limits the file size instead.
    rlimit limit{};
    if (mounted) {
      std::ofstream(disk + "/rest") << std::string(60'000, 'x');
    } else {
      REQUIRE(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
      const rlimit small{30'000, limit.rlim_max};
      REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    }
    const auto written = p.write(layout, state_at(2, layout), facts());
    if (!mounted) ::setrlimit(RLIMIT_FSIZE, &limit);
    REQUIRE_FALSE(written.ok());
    INFO(written.error().message);
    CHECK(says(written.error().message, "cannot write " + disk + "/p.2.safetensors: "));
    CHECK(says(written.error().message, mounted ? "No space left on device" : "File too large"));
    CHECK(contents(disk + "/p.1.safetensors") == before);
    CHECK_FALSE(std::filesystem::exists(disk + "/p.2.safetensors"));
    CHECK(found(disk).earlier.steps == 1);
    // The same message twice in a row is news only once.
    CHECK(p.is_news(written.error().message));
    CHECK_FALSE(p.is_news(written.error().message));
    CHECK(p.is_news("another one"));

    std::filesystem::remove(disk + "/rest");
    REQUIRE(p.write(layout, state_at(3, layout), facts()).ok());
    CHECK(found(disk).earlier.steps == 3);
    CHECK_FALSE(std::filesystem::exists(disk + "/p.1.safetensors"));
  }
  if (mounted) {
    CHECK(::umount(disk.c_str()) == 0);
  } else {
    WARN("no tmpfs may be mounted here: tried with a limit of the files' size alone");
  }
}

TEST_CASE("a file size limit fails the checkpoint and does not end the process") {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit small{20'000, 20'000};
    auto opened = Checkpointer::open(options(folder.path()), "p", nullptr);
    if (!opened || ::setrlimit(RLIMIT_FSIZE, &small) != 0) ::_exit(1);
    const models::Layout layout = small_layout(1000);
    const auto written = (*opened)->write(layout, state_at(2, layout), facts());
    ::_exit(written.ok() ? 2 : says(written.error().message, "File too large") ? 0 : 3);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(files_in(folder).empty());
}

TEST_CASE("a checkpoint in a folder that becomes read-only fails with the path and the reason") {
  const TemporaryFolder folder;
  write(*open(folder), 1);
  const std::string before = contents(folder.file("p.1.safetensors"));
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const Resumption resumption = found(folder.path());
    const auto p = open(folder, "p", &resumption);
    if (::chmod(folder.path().c_str(), 0555) != 0) ::_exit(1);
    if (::geteuid() == 0 && ::seteuid(65534) != 0) ::_exit(2);  // root may write to any folder
    const auto written = p->write(small_layout(), state_at(2), facts());
    if (written) ::_exit(3);
    const std::string& why = written.error().message;
    ::_exit(why == "cannot write " + folder.file("p.2.safetensors") + ": Permission denied" ? 0 : 4);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(contents(folder.file("p.1.safetensors")) == before);
  CHECK(found(folder.path()).earlier.steps == 1);
}

TEST_CASE("settings given when a run is resumed apply, and all others come from the run") {
  const TemporaryFolder folder;
  write(*open(folder), 30);
  const Resumption resumption = found(folder.path());
  training::Experiment mine;
  mine.training.workers = 3;      // taken from the command line
  mine.optimizer.momentum = 0.7;  // taken from the run: reported if the user gave it
  mine.end.epochs = 2;            // an end given by the user replaces the run's
  auto run = resumed_experiment(resumption, mine, {}, std::nullopt);
  REQUIRE(run.ok());
  CHECK(run->model.name == "mlp");
  CHECK(run->seed == 7);
  CHECK(run->training.workers == 3);
  CHECK(run->optimizer.momentum == 0.5);
  CHECK(run->end.steps == 1000);
  CHECK_FALSE(run->end.epochs.has_value());
  run = resumed_experiment(resumption, mine, {"training.momentum", "training.epochs"}, "/data/glyphs");
  REQUIRE(run.ok());
  CHECK(run->optimizer.momentum == 0.7);
  CHECK_FALSE(run->end.steps.has_value());
  CHECK(run->end.epochs == 2);
  CHECK(run->data.source == "/data/glyphs");
  const auto other = resumed_experiment(resumption, mine, {"model.name"}, std::nullopt);
  REQUIRE_FALSE(other.ok());
  CHECK(says(other.error().message, "has the model 'mlp', not 'lenet' as --model says"));
}

}  // namespace starling::node
