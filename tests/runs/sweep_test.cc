#include "training/runs/experiment/sweep.h"

#include <set>

#include "tests/catch.h"
#include "tests/training/temporary_folder.h"
#include "training/runs/experiment/check.h"
#include "training/runs/experiment/experiment_file.h"
#include "training/runs/experiment/settings/settings.h"

namespace starling::training {
namespace {

const char* nothing(const char*) { return nullptr; }

struct File {
  explicit File(const std::string& text) : path(folder.write("sweep.toml", text)) {}

  TemporaryFolder folder;
  std::string path;
};

Result<Sweep> read(const std::string& text, const std::vector<std::pair<std::string, std::string>>& sets = {},
                   const std::function<const char*(const char*)>& lookup = nothing) {
  const File file(text);
  return read_sweep(file.path, lookup, sets);
}

}  // namespace

TEST_CASE("the preset of a network is below the file and the lists of a sweep") {
  const std::string text = "model.name = \"gpt-tiny\"\ndata.source = \"shakespeare\"\n";
  const auto sweep = read(text + "[sweep]\ntraining.learning_rate = [0.001, 0.002]\n");
  REQUIRE(sweep.ok());
  for (const SweepPoint& point : sweep->points) CHECK(point.experiment.optimizer.name == "adamw");
  CHECK(sweep->points.at(1).experiment.optimizer.learning_rate == 0.002);
  const auto own = read(text + "training.optimizer = \"sgd\"\n[sweep]\nseed = [1]\n");
  REQUIRE(own.ok());
  CHECK(own->points.at(0).experiment.optimizer.clip_norm == 0);
}

TEST_CASE("a sweep is every combination of its lists, seeds last") {
  const auto sweep = read(
      "peers = 4\n"
      "[training]\nbatch_size = 32\n"
      "[[fault]]\npeer = 1\nslow = 2\n"
      "[[fault]]\npeer = 2\nlink = { latency = \"1ms\" }\n"
      "[sweep]\n"
      "seed = [1, 2]\n"
      "gossip.rule = [\"pairwise\", \"push-sum\"]\n"
      "fault.1.slow = [1, 10, \"log-normal:sigma=1\"]\n"
      "\"fault.2.link.bandwidth\" = [\"1Mbit/s\"]\n");
  REQUIRE((sweep.ok() ? "" : sweep.error().message) == std::string());
  REQUIRE(sweep->points.size() == 12);
  REQUIRE(sweep->axes.back().key == "seed");
  std::set<std::string> names;
  for (const SweepPoint& point : sweep->points) {
    names.insert(point.name);
    CHECK(point.experiment.training.batch_size == 32);
    CHECK(point.experiment.faults.at(1).link.bandwidth == 1e6);
    CHECK(point.experiment.faults.at(1).link.latency == std::chrono::milliseconds(1));
    CHECK(check(point.experiment).ok());
    for (std::size_t k = 0; k < sweep->axes.size(); ++k) {
      const std::string& value = point.values.at(k);
      if (sweep->axes[k].key == "seed") CHECK(std::to_string(point.experiment.seed) == value);
      if (sweep->axes[k].key == "gossip.rule") CHECK(traits(point.experiment.gossip.rule).name == value);
      if (sweep->axes[k].key == "fault.1.slow") CHECK(point.experiment.faults[0].factor.text() == value);
    }
  }
  CHECK(names.size() == 12);
  CHECK(names.contains("slow=10,bandwidth=1Mbit-s,rule=push-sum,seed=2"));
  // Neighboring points differ only in their seeds.
  CHECK(sweep->points[0].experiment.seed == 1);
  CHECK(sweep->points[1].experiment.seed == 2);
  CHECK(sweep->points[0].experiment.gossip.rule == sweep->points[1].experiment.gossip.rule);
}

TEST_CASE("settings of a [[peer]] may be lists, for peers in the file and for others") {
  const auto sweep = read(
      "peers = 4\n[[peer]]\nnumber = 0\npace = \"20ms\"\n[[peer]]\nnumber = 1\nworkers = 2\n"
      "[sweep]\npeer.1.pace = [\"10ms\", \"40ms\"]\npeer.1.workers = [3]\npeer.2.number = [1, \"2-3\"]\n");
  if (!sweep) FAIL(sweep.error().message);
  REQUIRE(sweep->points.size() == 4);
  CHECK(sweep->points[0].name == "pace=10ms,workers=3,number=1");
  CHECK(sweep->points[3].name == "pace=40ms,workers=3,number=2-3");
  const Experiment& last = sweep->points[3].experiment;
  CHECK(of_peer(last, 0).training.pace == std::chrono::milliseconds(40));
  CHECK(of_peer(last, 0).training.workers == 3);
  CHECK(of_peer(last, 1).training.workers == 1);
  CHECK(of_peer(last, 3).training.workers == 2);
  CHECK(of_peer(sweep->points[0].experiment, 1).training.workers == 2);
}

TEST_CASE("flags and variables override the file and are overridden by the lists") {
  const std::string text = "[training]\nbatch_size = 32\n[sweep]\nseed = [7, 8]\n";
  const auto lookup = [](const char* name) -> const char* {
    if (std::string(name) == "STARLING_SEED") return "99";
    return std::string(name) == "STARLING_PEERS" ? "9" : nullptr;
  };
  const auto sweep = read(text, {{"training.batch_size", "16"}}, lookup);
  REQUIRE(sweep.ok());
  REQUIRE(sweep->points.size() == 2);
  CHECK(sweep->points[0].experiment.seed == 7);
  CHECK(sweep->points[0].experiment.training.batch_size == 16);
  CHECK(sweep->points[0].experiment.peers == 9);
  const auto shorter = read(text, {{"seed", "3"}, {"seed", "5"}, {"seed", "4"}});
  REQUIRE(shorter.ok());
  REQUIRE(shorter->points.size() == 3);
  CHECK(shorter->points[1].experiment.seed == 5);
  CHECK(shorter->points[1].values == std::vector<std::string>{"5"});
  CHECK(read(text, {{"seed", "3"}, {"seed", "3"}}).error().message == "--set: seed: 3 occurs twice");
  CHECK(read(text, {{"seed", "x"}}).error().message.starts_with("--set: seed: "));
  const auto clash = read("[sweep]\ncase = [{ peers = 2 }, { peers = 3, seed = 1 }]\n", {{"seed", "3"}});
  REQUIRE_FALSE(clash.ok());
  CHECK(clash.error().message.find("--set: seed is set by a case of the [sweep]") != std::string::npos);
}

TEST_CASE("points whose file names would be equal get different names") {
  const auto sweep = read("[sweep]\ndata.source = [\"a/b\", \"a-b\", \"a:b\"]\n");
  REQUIRE(sweep.ok());
  CHECK(sweep->points[0].name == "source=a-b");
  CHECK(sweep->points[1].name == "source=a-b~2");
  CHECK(sweep->points[2].name == "source=a-b~3");
}

TEST_CASE("a case of a sweep sets several keys together") {
  const auto sweep = read(
      "[sweep]\nseed = [1, 2]\ncase = [{ gossip.rule = \"noloco\", gossip.payload = \"int8\" },\n"
      "{ peers = 1, gossip.rule = \"none\" }]\n");
  REQUIRE(sweep.ok());
  REQUIRE(sweep->points.size() == 4);
  CHECK(sweep->points[0].values[0] == "payload=int8,rule=noloco");
  CHECK(sweep->points[1].experiment.gossip.payload == Payload::int8);
  CHECK(sweep->points[1].experiment.gossip.rule == Rule::noloco);
  CHECK(sweep->points[1].experiment.seed == 2);
  CHECK(sweep->points[2].experiment.peers == 1);
  CHECK(sweep->points[2].experiment.gossip.payload == Payload::f32);
  const auto refused = [](const std::string& text, const std::string& why) {
    const auto bad = read(text);
    REQUIRE_FALSE(bad.ok());
    INFO(bad.error().message);
    CHECK(bad.error().message.find(why) != std::string::npos);
  };
  refused("[sweep]\ncase = []\n", ", line 2: sweep.case: the list is empty");
  refused("[sweep]\ncase = [1]\n", ", line 2: sweep.case: expected a table of settings");
  refused("[sweep]\ncase = [{ gossip.rul = \"none\" }]\n", "did you mean gossip.rule?");
  refused("[sweep]\ncase = [{ peers = 0 }]\n", ", line 2: sweep: peers: '0' is not a whole number");
  refused("[sweep]\ncase = [{ peers = 2 }, { peers = 2 }]\n", "peers=2 occurs twice");
  refused("[sweep]\npeers = [1, 2]\ncase = [{ peers = 3 }]\n", "peers is set by a list and by a case");
}

TEST_CASE("a sweep that cannot be run is rejected with its file, line and key") {
  const auto refused = [](const std::string& text, const std::string& why) {
    const auto sweep = read(text);
    INFO(text);
    REQUIRE_FALSE(sweep.ok());
    INFO(sweep.error().message);
    CHECK(sweep.error().message.find(why) != std::string::npos);
  };
  refused("peers = 3\n", "it has no [sweep]");
  refused("[sweep]\n", ", line 1: [sweep] has no lists");
  refused("[sweep]\nseed = 3\n", ", line 2: sweep.seed: expected a list");
  refused("[sweep]\nseed = []\n", ", line 2: sweep.seed: the list is empty");
  refused("[sweep]\nseed = [[1]]\n", ", line 2: sweep.seed: expected a list of single values");
  refused("[sweep]\nseed = [1, 1]\n", ", line 2: sweep.seed: 1 occurs twice");
  refused("[sweep]\ntraining.pace = [\"20ms\", \"0.02s\"]\n", "pace: 0.02s occurs twice, first as 20ms");
  refused("[sweep]\ngossip.rul = [\"none\"]\n", ", line 2: sweep: ");
  refused("[sweep]\ngossip.rule = [\"none\",\n\"some\"]\n", ", line 3: sweep: gossip.rule: 'some' is not");
  refused("[sweep]\nfault.1.slow = [1, 2]\n",
          ", line 2: sweep.fault.1.slow: fault 1 does not exist; the file has 0 [[fault]]s");
  refused("[[fault]]\npeer = 0\nslow = 2\n[sweep]\nfault.1.speed = [1]\n",
          ", line 5: sweep.fault.1.speed: a fault has no 'speed'");
  refused("[[fault]]\npeer = 0\nslow = 2\n[sweep]\nfault.1.slow = [0.5]\n",
          "sweep.fault.1.slow: '0.5' is not a number");
  refused("peers = 4\n[[fault]]\npeer = 0\nslow = 2\n[sweep]\nfault.1.peer = [3, 4]\n",
          "sweep: peer=4: fault 1 (slow of peer 4): that peer does not exist");
  const std::string peer = "[[peer]]\nnumber = 0\nworkers = 2\n[sweep]\n";
  refused(
      "[sweep]\npeer.1.workers = [1]\n",
      ", line 2: sweep.peer.1.workers: [[peer]] 1 does not exist; the file has 0 [[peer]]s, numbered from 1");
  refused(peer + "peer.2.workers = [1]\n",
          ", line 5: sweep.peer.2.workers: [[peer]] 2 does not exist; the file has 1");
  refused(peer + "peer.1.batch_size = [1]\n",
          ", line 5: sweep.peer.1.batch_size: peer.batch_size: all peers of a run share it; set it in "
          "[training]");
  refused(peer + "peer.1.worker = [1]\n",
          "sweep.peer.1.worker: unknown key 'peer.worker'; did you mean peer.workers?");
  refused(peer + "peer.1.workers = [0]\n", "sweep.peer.1.workers: peer.workers: '0' is not");
  refused(peer + "peer.1.number = [9]\n", "sweep: number=9: ");
  refused("[[peer]]\nnumber = 0\nworkers = [1, 2]\n[sweep]\nseed = [1]\n",
          ", line 3: peer.workers: expected a single value; to sweep over it in the first [[peer]], write "
          "in [sweep]: peer.1.workers = [ ... ]");
  std::string seeds = "[sweep]\ntraining.batch_size = [";
  for (int i = 1; i <= 400; ++i) seeds += std::to_string(i) + ",";
  seeds += "]\nseed = [";
  for (int i = 1; i <= 400; ++i) seeds += std::to_string(i) + ",";
  refused(seeds + "]\n", "these are more than 100000 experiments");
}

TEST_CASE("a file with a sweep is not a single experiment") {
  const File file("[sweep]\nseed = [1, 2]\n");
  Experiment experiment;
  const Status status = read_file(experiment, file.path);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().message.find(
            ", line 1: [sweep] describes many experiments; run it with: starling sweep ") !=
        std::string::npos);
}

}  // namespace starling::training
