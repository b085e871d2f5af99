#include "training/experiment/experiment.h"

#include "training/experiment/check.h"
#include "training/experiment/experiment_file.h"
#include "training/experiment/settings.h"
#include "training/experiment/sweep.h"

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/random.h"
#include "base/text.h"
#include "tests/catch.h"
#include "tests/training/temporary_folder.h"
#include "training/experiment/quantities.h"
#include "training/experiment/schedule.h"

namespace starling::training {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Duration random_time(Random& random) {
  // Every magnitude, the last nanosecond included.
  const auto bits = random.below(52);
  return std::min(Duration(static_cast<std::int64_t>(random.below(std::uint64_t{1} << bits) + 1)),
                  kLongestTime);
}

std::string random_text(Random& random) {
  static const std::vector<std::string> kPieces = {"a", "Z", "0", " ", "\"", "\\", "'",
                                                   "#", "=", "[", "é", "鳥", "/",  "."};
  std::string text;
  for (std::uint64_t i = 0; i <= random.below(12); ++i) text += kPieces[random.below(kPieces.size())];
  return text;
}

// In canonical form.
std::string random_layers(Random& random) {
  static const std::vector<std::string> kPieces = {
      "\"relu\"", "\"batch norm\"",
      "{ type = \"convolution\", channels = 8, kernel = 3, padding = 1, bias = false }",
      "{ type = \"dropout\", rate = 0.25 }",
      "{ type = \"residual\", layers = [\"gelu\", \"layer norm\"], shortcut = [\"relu\"] }"};
  std::string text = "[";
  for (std::uint64_t i = random.below(6); i > 0; --i) text += kPieces[random.below(kPieces.size())] + ", ";
  return text + "\"linear\"]";
}

// Any value that passes check().
Experiment random_experiment(Random& random) {
  Experiment e;
  e.name = "run-" + std::to_string(random.below(1000));
  e.seed = random.bits();
  e.peers = static_cast<std::uint32_t>(1 + random.below(100'000));
  e.model = random_text(random);
  if (random.chance(0.5)) e.layers = random_layers(random);
  if (random.chance(0.3)) e.init = random_text(random);
  e.data = random_text(random);
  e.partition = random_text(random);
  e.batch_size = static_cast<std::uint32_t>(1 + random.below(65'536));
  if (random.chance(0.8))
    e.learning_rate = random.uniform() * std::pow(10, -static_cast<double>(random.below(12)));
  e.momentum = random.uniform();
  e.weight_decay = random.chance(0.5) ? 0 : random.uniform();
  e.nesterov = random.chance(0.5);
  e.workers = static_cast<std::uint32_t>(1 + random.below(1024));
  e.pace = random.chance(0.5) ? Duration{0} : random_time(random);
  if (random.chance(0.5)) e.epochs = random.chance(0.5) ? random.uniform(1e-9, 1e6) : 3;
  if (random.chance(0.5)) e.steps = 1 + random.below(1'000'000'000'000);
  if (random.chance(0.5)) e.seconds = random_time(random);
  if (random.chance(0.5)) e.target_accuracy = random.chance(0.2) ? 1 : random.uniform(1e-6, 1);
  const auto one_of = [&](std::vector<const char*> names) {
    return std::string(names[random.below(names.size())]);
  };
  e.quasi_global_momentum = random.chance(0.5);
  e.optimizer = random.chance(0.5) ? "sgd" : "adamw";
  if (!check_optimizer(e)) e.nesterov = e.quasi_global_momentum = false;
  e.beta2 = random.uniform();
  e.schedule = one_of({"constant", "cosine", "step"});
  e.warmup = random.chance(0.5) ? 0 : random.uniform(0, 10);
  if (random.chance(0.5)) e.step_epochs = random.uniform(1e-6, 100);
  e.step_factor = random.uniform(1e-6, 1);
  e.final_rate = random.uniform();
  e.crop = static_cast<std::uint32_t>(random.below(1025));
  e.flip = random.chance(0.5);
  if (!make_schedule(e)) e.epochs = e.warmup + random.uniform(1e-6, 100);
  e.rule = *rule_named(one_of({"pairwise", "push-sum", "d-psgd", "choco", "noloco", "clipped", "none"}));
  e.payload = *payload_named(one_of({"f32", "bf16", "int8", "top-k"}));
  if (e.payload == Payload::top_k && !check_rule(e)) e.payload = Payload::int8;
  e.top_k = random.uniform(1e-6, 1);
  e.weights = *find_named<Shares>(kShares, one_of({"equal", "work", "age"}));
  e.outer_rate = random.uniform(1e-6, 1);
  e.outer_momentum = random.uniform();
  if (random.chance(0.5)) e.consensus_rate = random.uniform(1e-6, 1);
  e.clip = random.uniform(0.1, 100);
  if (random.chance(0.5)) e.chunk = 4096 + random.below((1 << 20) - 4096);
  if (random.chance(0.5)) e.window = static_cast<std::uint32_t>(1 + random.below(256));
  e.topology = random_text(random);
  switch (random.below(4)) {
    case 0:
      if (e.rule != Rule::push_sum) e.every = Pace{.steps = 1 + random.below(1'000'000'000)};
      break;
    case 1:
      e.every = Pace{.kind = Pace::Kind::time, .time = random_time(random)};
      break;
    case 2:
      e.every = Pace{.kind = Pace::Kind::always};
      break;
    default:
      break;  // as the rule has it
  }
  e.latency = random_time(random);
  e.bandwidth = random.chance(0.3) ? 1e8 : std::pow(10, random.uniform(0, 15));
  for (std::uint64_t i = random.below(4); i > 0; --i) {
    Fault fault;
    fault.peer = static_cast<std::uint32_t>(random.below(e.peers));
    fault.kind = static_cast<Fault::Kind>(random.below(7));
    if (fault.kind == Fault::Kind::slow) {
      const std::vector<std::string> by_chance = {"exponential", "log-normal:sigma=0.7,per=peer",
                                                  "pareto:alpha=1.5"};
      fault.factor = random.uniform(1, 1e6);
      if (random.chance(0.5)) fault.factor = *Slowness::parse(by_chance[random.below(by_chance.size())]);
      if (random.chance(0.3)) fault.peer = Fault::kAll;
    }
    if (fault.kind == Fault::Kind::poison) fault.poison = poisons()[random.below(poisons().size())];
    if (fault.kind == Fault::Kind::link) {
      fault.link.drop = random.uniform();
      if (random.chance(0.5)) fault.link.latency = random_time(random);
      if (random.chance(0.5)) fault.link.bandwidth = std::pow(10, random.uniform(0, 15));
    }
    fault.from = random.chance(0.3) ? Duration{0} : random_time(random) / 2;
    if (lasts(fault.kind) && random.chance(0.5))
      fault.to = fault.from + random_time(random) / 2 + Duration{1};
    e.faults.push_back(fault);
  }
  return e;
}

Status read_text_of(Experiment& experiment, const std::string& toml) {
  const TemporaryFolder folder;
  return read_file(experiment, folder.write("experiment.toml", toml));
}

std::string refusal(const std::string& toml) {
  Experiment experiment;
  const Status status = read_text_of(experiment, toml);
  REQUIRE(!status.ok());
  REQUIRE(experiment == Experiment{});
  return status.error().message;
}

}  // namespace

TEST_CASE("an experiment written as TOML reads back to the same value") {
  const TemporaryFolder folder;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const Experiment written = random_experiment(random);
    const std::string toml = to_toml(written);
    INFO("seed " << seed << "\n" << toml);
    const Status fine = check(written);
    REQUIRE((fine.ok() ? "" : fine.error().message) == std::string());
    Experiment read;
    const Status status = read_file(read, folder.write("experiment.toml", toml));
    REQUIRE((status.ok() ? "" : status.error().message) == std::string());
    REQUIRE(read == written);
  }
}

TEST_CASE("the default experiment is within its own limits and reads back from TOML") {
  REQUIRE(check(Experiment{}).ok());
  Experiment read;
  read.peers = 9;
  REQUIRE(read_text_of(read, to_toml(Experiment{})).ok());
  REQUIRE(read == Experiment{});
}

TEST_CASE("the experiment file of the manual is accepted") {
  Experiment e;
  const Status status = read_text_of(e, R"(
name = "one-slow-peer"
seed = 1
peers = 8
[model]
name = "mlp"
[data]
source = "mnist"
partition = "dirichlet:alpha=0.1"
[training]
batch_size = 32
optimizer = "sgd"
learning_rate = 0.01
momentum = 0.5
precision = "f32"
workers = 2
pace = "20ms"
epochs = 3
seconds = 10
[gossip]
rule = "none"
topology = "ring"
every = "200ms"
payload = "f32"
[network]
latency = "2ms"
bandwidth = "100Mbit/s"
[[fault]]
peer = 3
slow = 10.0
from = "0s"
to = "60s"
[[fault]]
peer = 2
crash = true
from = 5
)");
  REQUIRE((status.ok() ? "" : status.error().message) == std::string());
  REQUIRE(e.name == "one-slow-peer");
  REQUIRE(e.peers == 8);
  REQUIRE(e.model == "mlp");
  REQUIRE(e.partition == "dirichlet:alpha=0.1");
  REQUIRE(e.batch_size == 32);
  REQUIRE(e.workers == 2);
  REQUIRE(e.pace == std::chrono::milliseconds(20));
  REQUIRE(e.epochs == 3.0);
  REQUIRE(e.seconds == std::chrono::seconds(10));
  REQUIRE(e.every == Pace{.kind = Pace::Kind::time, .time = std::chrono::milliseconds(200)});
  REQUIRE(e.bandwidth == 1e8);
  REQUIRE(e.faults.size() == 2);
  REQUIRE(e.faults[0] == Fault{.peer = 3, .factor = 10, .to = std::chrono::seconds(60)});
  REQUIRE(e.faults[1] == Fault{.peer = 2, .kind = Fault::Kind::crash, .from = std::chrono::seconds(5)});
  REQUIRE(check(e).ok());
}

TEST_CASE("a network in the experiment file is kept as canonical text, and written a layer a line") {
  Experiment e;
  REQUIRE(read_text_of(
              e, "[model]\nlayers = [  # mine\n{ type = 'linear', features = 64 },\n'relu',\n'linear',\n]\n")
              .ok());
  REQUIRE(e.model == "custom");
  REQUIRE(e.layers == R"([{ type = "linear", features = 64 }, "relu", "linear"])");
  REQUIRE(contains(to_toml(e),
                   "[model]\nname = \"custom\"\nlayers = [\n  { type = \"linear\", features = 64 },\n"
                   "  \"relu\",\n  \"linear\",\n]\n"));
  // As a flag gives it, in a file.
  Experiment text;
  REQUIRE(read_text_of(text, "[model]\nlayers = '''" + e.layers + "'''").ok());
  REQUIRE(text == e);
}

TEST_CASE("a later source's name replaces an earlier one's layers, and its layers the name") {
  const auto environment = [](Experiment& e, const std::string& name, const std::string& layers) {
    return read_environment(e, [&](const char* variable) -> const char* {
      if (variable == std::string("STARLING_MODEL")) return name.c_str();
      if (variable == std::string("STARLING_LAYERS")) return layers.c_str();
      return nullptr;
    });
  };
  Experiment e;
  REQUIRE(read_text_of(e, "[model]\nname = 'mine'\nlayers = ['linear']").ok());
  REQUIRE((e.model == "mine" && e.layers == R"(["linear"])"));
  REQUIRE(environment(e, "", "").ok());
  REQUIRE(e.model == "mine");
  REQUIRE(environment(e, "", "['relu', 'linear']").ok());
  REQUIRE((e.model == "custom" && e.layers == R"(["relu", "linear"])"));
  REQUIRE(environment(e, "other", "['linear']").ok());
  REQUIRE((e.model == "other" && e.layers == R"(["linear"])"));
  REQUIRE(check(e).ok());
  REQUIRE(contains(environment(e, "mlp", "['linear']").error().message, "'mlp' is a network of the zoo"));
  REQUIRE(environment(e, "mlp", "").ok());
  REQUIRE((e.model == "mlp" && e.layers.empty()));
  e.layers = R"(["linear"])";
  REQUIRE(contains(check(e).error().message, "model.name: 'mlp' is a network of the zoo"));
}

TEST_CASE("layers travel with the shared settings, and what a stranger sends of them is bounded") {
  Experiment mine;
  REQUIRE(read_text_of(mine, "[model]\nname = 'mine'\nlayers = [{ type = 'dropout', rate = 0.1 }, 'linear']")
              .ok());
  Experiment joiner;
  joiner.layers = R"(["relu", "linear"])";
  REQUIRE(apply_shared(joiner, shared_settings(mine)).ok());
  REQUIRE((joiner.model == "mine" && joiner.layers == mine.layers));
  // A swarm that trains a network of the zoo says nothing of layers.
  REQUIRE(apply_shared(joiner, shared_settings(Experiment{})).ok());
  REQUIRE((joiner.model == "lenet" && joiner.layers.empty()));
  for (const std::string& layers : {std::string("[]"), std::string("['rely']"), std::string(100'000, '['),
                                    "['relu'" + std::string(60'000, ' ') + "]"}) {
    const Status status = apply_shared(joiner, {{"model.layers", layers}});
    REQUIRE(!status.ok());
    REQUIRE(contains(status.error().message, "the swarm's settings: model.layers: "));
    REQUIRE(status.error().message.size() < 1000);
  }
}

TEST_CASE("an unknown key is named with its file, its line, the nearest key and the table's keys") {
  const std::string text = refusal("seed = 2\n\n[training]\nbatchsize = 3\n");
  REQUIRE(contains(text, "experiment.toml, line 4"));
  REQUIRE(contains(text, "unknown key 'training.batchsize'"));
  REQUIRE(contains(text, "did you mean training.batch_size?"));
  REQUIRE(contains(text, "[training] accepts batch_size, optimizer"));

  REQUIRE(contains(refusal("batch_size = 3\n"), "did you mean training.batch_size?"));
  REQUIRE(contains(refusal("[trianing]\nbatch_size = 3\n"),
                   "line 1: unknown key 'trianing'; did you mean training?"));
  REQUIRE(contains(
      refusal("[zoo]\nx = 3\n"),
      "unknown key 'zoo'; the top level accepts name, seed, peers, looks, [model], [data], [training], "
      "[gossip], [network], [fault] or [peer]"));
  REQUIRE(contains(refusal("colour = 3\n"), "unknown key 'colour'; the top level accepts name, seed, peers"));
  REQUIRE(contains(refusal("[training.zoo]\nx = 3\n"), "unknown key 'training.zoo'; [training] accepts"));
  REQUIRE(contains(refusal("[[fault]]\npeer = 1\nslwo = 3\n"),
                   "line 3: unknown key 'fault.slwo'; did you mean fault.slow?"));
}

TEST_CASE("a bad value is refused with the file, the line, the key and what is accepted") {
  const std::map<std::string, std::string> cases = {
      {"[training]\nbatch_size = 0",
       "line 2: training.batch_size: '0' is not a whole number from 1 to 65536"},
      {"[training]\nbatch_size = 65537", "from 1 to 65536"},
      {"[training]\nbatch_size = 1.5", "training.batch_size: '1.5' is not a whole number"},
      {"[training]\nbatch_size = [1]", "training.batch_size: expected a single value"},
      {"[training]\nbatch_size = 1979-05-27", "training.batch_size: expected a single value"},
      {"[training]\nlearning_rate = nan", "training.learning_rate"},
      {"[training]\nlearning_rate = inf", "training.learning_rate"},
      {"[training]\nlearning_rate = -0.1", "'-0.1' is not a number from 0 to 1000"},
      {"[training]\nmomentum = 1.0", "from 0 to below 1"},
      {"[training]\nnesterov = 1", "'1' is neither true nor false"},
      {"[training]\ntarget_accuracy = 0", "from above 0 to 1"},
      {"[training]\ntarget_accuracy = 1.01", "from above 0 to 1"},
      {"[training]\nschedule = \"linear\"",
       "'linear' is not available; this version has constant, cosine or step"},
      {"[training]\nwarmup = -1", "training.warmup: '-1' is not a number from 0 to 1e+06"},
      {"[training]\nstep_epochs = 0", "training.step_epochs: '0' is not a number from above 0 to 1e+06"},
      {"[training]\nstep_factor = 0", "training.step_factor: '0' is not a number from above 0 to 1"},
      {"[training]\nfinal_rate = 1.5", "training.final_rate: '1.5' is not a number from 0 to 1"},
      {"[training]\ncrop = -1", "training.crop: '-1' is not a whole number from 0 to 1024"},
      {"[training]\nflip = 1", "training.flip: '1' is neither true nor false"},
      {"[training]\noptimizer = \"adagrad\"", "'adagrad' is not available; this version has sgd or adamw"},
      {"[training]\nprecision = \"f16\"", "'f16' is not available; this version has f32, bf16 or tf32"},
      {"[training]\ndevice = \"gpu\"", "'gpu' is not a device; expected auto, cpu, or cuda:0, cuda:1, ..."},
      {"[training]\nepochs = 0", "training.epochs"},
      {"[training]\nsteps = 0", "training.steps"},
      {"[training]\nseconds = 0", "more than 0 seconds"},
      {"[training]\nseconds = -1", "'-1' is negative"},
      {"[training]\npace = 20", "training.pace: '20' is not a time"},
      {"[training]\npace = \"2000h\"", "at most 3600000s"},
      {"[gossip]\nrule = \"telepathy\"",
       "this version has pairwise, push-sum, d-psgd, choco, noloco, clipped, parameter-server, ssp, none or "
       "all-reduce"},
      {"[gossip]\npayload = \"fp8\"", "this version has f32, bf16, int8 or top-k"},
      {"[gossip]\ntop_k = 0", "'0' is not a number from above 0 to 1"},
      {"[gossip]\ntop_k = 1.5", "gossip.top_k"},
      {"[gossip]\nweights = \"luck\"", "this version has equal, work or age"},
      {"[gossip]\nouter_rate = 0", "gossip.outer_rate"},
      {"[gossip]\nouter_momentum = 1", "from 0 to below 1"},
      {"[gossip]\nconsensus_rate = 2", "gossip.consensus_rate"},
      {"[gossip]\nclip = 0", "gossip.clip"},
      {"[gossip]\nchunk = \"2MiB\"", "gossip.chunk: '2MiB' is not a size from 4KiB to 1MiB, or auto"},
      {"[gossip]\nchunk = 100", "gossip.chunk"},
      {"[gossip]\nchunk = \"18446744073709551615KiB\"", "gossip.chunk"},
      {"[gossip]\nwindow = 0", "gossip.window: '0' is not a whole number from 1 to 256, or auto"},
      {"[gossip]\nwindow = 257", "gossip.window"},
      {"[gossip]\nevery = \"0 steps\"", "does not say how often"},
      {"[gossip]\nevery = \"0s\"", "does not say how often"},
      {"[gossip]\ntopology = \"\"", "printable"},
      {"[network]\nbandwidth = \"fast\"", "is not a bandwidth"},
      {"[network]\nbandwidth = \"0.1bit/s\"", "is not a bandwidth"},
      {"peers = 0", "'0' is not a whole number from 1 to 100000"},
      {"peers = 100001", "from 1 to 100000"},
      {"seed = -1", "seed: '-1'"},
      {"name = \"../x\"", "cannot name a run"},
      {"training = 3", "line 1: training: expected a table, [training]"},
      {"fault = 3", "double brackets"},
      {"fault = [3]", "double brackets"},
      {"[fault]\npeer = 1", "double brackets"},
      {"[training.pace]\nx = 1", "training.pace: expected a single value"},
      {"[training.zoo]\nx = 1", "unknown key 'training.zoo'"},
      {"peers = 2\npeers = 3", "line 2"},
      {"peers = ", "line 1"},
      {"peers = \xff", "line 1"},
      {"[[fault]]\nslow = 2", "has no 'peer'"},
      {"[[fault]]\npeer = 1", "has no kind"},
      {"[[fault]]\npeer = 1\nslow = 2\npause = true", "has several kinds"},
      {"[[fault]]\npeer = -1\nslow = 2", "fault.peer"},
      {"[[fault]]\npeer = 1\nslow = 0.5", "fault.slow: '0.5' is not a number from 1 to 1e+06"},
      {"[[fault]]\npeer = 1\ncrash = false", "write crash = true"},
      {"[[fault]]\npeer = 1\ncrash = true\nto = 3", "only slow, pause, poison, link and churn have fault.to"},
      {"[[fault]]\npeer = 1\nslow = 2\nfrom = 5\nto = 5", "later than fault.from"},
      {"[[fault]]\npeer = 1\npoison = \"lies\"",
       "line 3: fault.poison: 'lies' is not a poison; expected one of nan, inf, huge, noise, sign-flip, "
       "frozen"},
      {"[[fault]]\npeer = 1\npoison = [\"nan\"]", "fault.poison: expected a single value"},
      {"[[fault]]\npeer = 1\npoison = \"nan\"\nlink = {drop = 0.1}", "has several kinds"},
      {"[[fault]]\npeer = 1\nlink = 3", "line 3: fault.link: expected a table"},
      {"[[fault]]\npeer = 1\nlink = {}", "line 3: fault.link: expected a table"},
      {"[[fault]]\npeer = 1\nlink = {drop = 0}", "line 3: fault.link: this link is like all others"},
      {"[[fault]]\npeer = 1\nlink = {drop = 1}", "fault.link.drop: '1' is not a number from 0 to below 1"},
      {"[[fault]]\npeer = 1\nlink = {latency = 20}", "line 3: fault.link.latency: '20'"},
      {"[[fault]]\npeer = 1\nlink = {bandwidth = \"fast\"}",
       "fault.link.bandwidth: 'fast' is not a bandwidth"},
      {"[[fault]]\npeer = 1\nlink = {latncy = \"1ms\"}", "did you mean fault.link.latency?"},
      {"[[fault]]\npeer = 1\nslow = [2]", "fault.slow: expected a single value"},
      {"[model]\nlayers = [\n\"relu\",\n{ type = \"linear\", feature = 3 },\n]",
       "line 4: model.layers: layer 2 (linear): unknown key 'feature'; did you mean features?"},
      {"[model]\nlayers = []", "line 2: model.layers: expected an array of at least one layer"},
      {"[model]\nlayers = 3", "line 2: model.layers: expected an array of at least one layer"},
      {"[model]\nlayers = \"relu\"", "line 2: model.layers: it is no TOML array"},
      {"[model.layers]\ntype = \"relu\"",
       "line 1: model.layers: expected an array of layers, layers = [ ... ]"},
      {"[model]\nlayer = [\"linear\"]", "did you mean model.layers?"},
      {"[model]\nname = \"lenet\"\nlayers = [\"linear\"]",
       "line 2: model.name: 'lenet' is a network of the zoo"},
      {"[model]\nname = \"a.toml\"\nlayers = [\"linear\"]", "line 2: model.name: 'a.toml' looks like a file"},
  };
  for (const auto& [toml, sentence] : cases) {
    INFO(toml);
    const std::string text = refusal(toml);
    INFO(text);
    REQUIRE(contains(text, sentence));
    REQUIRE(contains(text, "experiment.toml, line "));
    REQUIRE(text.find('\n') == std::string::npos);
  }
}

TEST_CASE("a file that cannot be read is one sentence with its path and the reason") {
  const TemporaryFolder folder;
  Experiment e;
  REQUIRE(contains(read_file(e, folder.file("absent.toml")).error().message, "absent.toml: No such file"));
  REQUIRE(contains(read_file(e, folder.path()).error().message, "it is a folder"));
  folder.write("large.toml", std::string((1 << 20) + 1, '#'));
  REQUIRE(contains(read_file(e, folder.file("large.toml")).error().message, "at most 1048576"));
  folder.write("deep.toml", "x = " + std::string(100'000, '['));
  REQUIRE(!read_file(e, folder.file("deep.toml")).ok());
}

TEST_CASE("no cut or changed byte of an experiment file crashes its reader") {
  const TemporaryFolder folder;
  Random random(5);
  const std::string good = to_toml(random_experiment(random));
  int read = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string bad = good;
    if (i < 300) {
      bad.resize(random.below(bad.size()));
    } else {
      for (std::uint64_t flips = 1 + random.below(3); flips > 0; --flips) {
        bad[random.below(bad.size())] = static_cast<char>(random.below(256));
      }
    }
    Experiment e;
    const Status status = read_file(e, folder.write("bad.toml", bad));
    read += status.ok();
    if (!status.ok()) REQUIRE(e == Experiment{});
  }
  REQUIRE(read < 1500);
}

TEST_CASE("every setting has its key, flag, variable and help once, and takes its own default") {
  std::set<std::string> keys, flags, variables;
  for (const auto& setting : settings()) {
    INFO(setting.key);
    REQUIRE(keys.insert(setting.key).second);
    REQUIRE(flags.insert(setting.flag).second);
    REQUIRE(variables.insert(setting.environment).second);
    REQUIRE(setting.flag.starts_with("--"));
    REQUIRE(setting.environment.starts_with("STARLING_"));
    REQUIRE(!setting.help.empty());
    REQUIRE(setting.placeholder.empty() == (setting.form == Setting::Form::boolean));
    Experiment e;
    if (const auto value = setting.get(e)) REQUIRE(setting.set(e, *value).ok());
    REQUIRE(e == Experiment{});
  }
  for (const char* flag : {"--peers",
                           "--model",
                           "--layers",
                           "--data",
                           "--partition",
                           "--batch-size",
                           "--learning-rate",
                           "--optimizer",
                           "--momentum",
                           "--beta2",
                           "--weight-decay",
                           "--nesterov",
                           "--schedule",
                           "--warmup",
                           "--step-epochs",
                           "--step-factor",
                           "--final-rate",
                           "--crop",
                           "--flip",
                           "--device",
                           "--precision",
                           "--workers",
                           "--pace",
                           "--epochs",
                           "--steps",
                           "--seconds",
                           "--target-accuracy",
                           "--rule",
                           "--topology",
                           "--every",
                           "--payload",
                           "--quasi-global-momentum",
                           "--top-k",
                           "--weights",
                           "--outer-rate",
                           "--outer-momentum",
                           "--consensus-rate",
                           "--clip",
                           "--chunk",
                           "--window",
                           "--seed",
                           "--name",
                           "--latency",
                           "--bandwidth",
                           "--port-bandwidth"}) {
    INFO(flag);
    REQUIRE(flags.count(flag) == 1);
  }
  REQUIRE(flags.size() == 55);
}

TEST_CASE("a network card's rate is a bandwidth, or unlimited, and reads back") {
  for (const char* text : {"unlimited", "25Mbit/s"}) {
    Experiment e;
    REQUIRE(set_value(e, "network.port", text, "--set").ok());
    const TemporaryFolder folder;
    Experiment back;
    REQUIRE(read_file(back, folder.write("port.toml", to_toml(e))).ok());
    REQUIRE(back == e);
  }
  Experiment e;
  REQUIRE(set_value(e, "network.port", "unlimited", "--set").ok());
  REQUIRE(e.port == kUnlimited);
  REQUIRE(set_value(e, "network.port", "0.1bit/s", "--set").error().message ==
          "--set: network.port: '0.1bit/s' is not a bandwidth from 1bit/s to 1000000Gbit/s, or unlimited");
}

TEST_CASE("environment variables set what flags set, and name themselves when they are wrong") {
  std::map<std::string, std::string> variables = {{"STARLING_BATCH_SIZE", "128"},
                                                  {"STARLING_SECONDS", "2.5"},
                                                  {"STARLING_PEERS", ""},
                                                  {"STARLING_DATA", "/data"},
                                                  {"STARLING_DATA_SOURCE", "mnist"}};
  const auto lookup = [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  Experiment e;
  REQUIRE(read_environment(e, lookup).ok());
  REQUIRE(e.batch_size == 128);
  REQUIRE(e.seconds == std::chrono::milliseconds(2500));
  REQUIRE(e.peers == Experiment{}.peers);
  REQUIRE(e.data == "mnist");

  variables["STARLING_MOMENTUM"] = "x";
  const Experiment before = e;
  const Status status = read_environment(e, lookup);
  REQUIRE(!status.ok());
  REQUIRE(contains(status.error().message, "STARLING_MOMENTUM: training.momentum: 'x' is not a number"));
  REQUIRE(e == before);
}

TEST_CASE("a key set by hand answers for an unknown name and a bad value with its place") {
  Experiment e;
  REQUIRE(set_value(e, "gossip.every", "always", "--set").ok());
  REQUIRE(e.every->kind == Pace::Kind::always);
  REQUIRE(contains(set_value(e, "gossip.evry", "always", "--set").error().message,
                   "--set: unknown key 'gossip.evry'; did you mean gossip.every?"));
  REQUIRE(contains(set_value(e, "seed", "1 ", "--set").error().message,
                   "--set: seed: '1 ' is not a whole number"));
  REQUIRE(contains(set_value(e, "data.source", "\xc3(", "--set").error().message, "UTF-8"));
  REQUIRE(set_value(e, "data.source", "/daten/V\xc3\xb6gel", "--set").ok());
  REQUIRE(contains(set_value(e, std::string(100'000, 'x'), "1", "--set").error().message, "xxx...'"));
}

TEST_CASE("a topology's name may be as long as one that holds a graph, and no longer") {
  Experiment e;
  const std::string longest(49'152, 'e');
  REQUIRE(set_value(e, "gossip.topology", longest, "--set").ok());
  REQUIRE(e.topology == longest);
  REQUIRE(contains(set_value(e, "gossip.topology", longest + "e", "--set").error().message, "1 to 49152"));
}

TEST_CASE("how often is read in steps, in time, or as always, and written back") {
  for (const char* text : {"8 steps", "1 steps", "200ms", "always", "1000000000 steps"}) {
    REQUIRE(format_pace(*parse_pace(text)) == text);
  }
  REQUIRE(parse_pace("1 step")->steps == 1);
  REQUIRE(parse_pace("16")->steps == 16);
  for (const char* text :
       {"", "0", "-1", "8steps", "8 step s", " steps", "0ms", "never", "1000000001 steps", "99999h"}) {
    INFO(text);
    REQUIRE(!parse_pace(text).ok());
  }
}

TEST_CASE("a slow peer is read from PEER=FACTOR with or without its times") {
  REQUIRE(*parse_slow("3=10") == Fault{.peer = 3, .factor = 10});
  REQUIRE(*parse_slow("0=2.5@5s..60s") ==
          Fault{.factor = 2.5, .from = std::chrono::seconds(5), .to = std::chrono::seconds(60)});
  REQUIRE(*parse_slow("0=2@1.5s..") == Fault{.factor = 2, .from = std::chrono::milliseconds(1500)});
  REQUIRE(*parse_slow("0=2@5..7") ==
          Fault{.factor = 2, .from = std::chrono::seconds(5), .to = std::chrono::seconds(7)});
  REQUIRE(*parse_slow("all=log-normal:sigma=1@5s..") ==
          Fault{.peer = Fault::kAll,
                .factor = *Slowness::parse("log-normal:sigma=1"),
                .from = std::chrono::seconds(5)});
  for (const char* text :
       {"3=10", "3=1.5@0s..1500ms", "3=2@90s..", "all=exponential:per=peer", "0=pareto:alpha=2@1s..2s"})
    REQUIRE(format_slow(*parse_slow(text)) == text);
  for (const char* text :
       {"", "3", "=", "3=", "=3", "x=3", "-1=3", "3=0.5", "3=nan", "3=2@", "3=2@5s", "3=2@5s..5s",
        "3=2@6s..5s", "3=2@x..y", "100000=2", "every=2", "3=normal", "all=log-normal"}) {
    INFO(text);
    REQUIRE(!parse_slow(text).ok());
    REQUIRE(contains(parse_slow(text).error().message, "PEER=FACTOR"));
  }
}

TEST_CASE("a peer lies for a while, and another has poor links") {
  Experiment e;
  const Status status =
      read_text_of(e,
                   "[[fault]]\npeer = 3\npoison = \"sign-flip\"\nfrom = \"2s\"\nto = \"5s\"\n"
                   "[[fault]]\npeer = 2\npoison = nan\n"
                   "[[fault]]\npeer = 1\nfrom = 7\nlink = { latency = \"20ms\", "
                   "bandwidth = \"10Mbit/s\", drop = 0.01 }\n"
                   "[[fault]]\npeer = 0\n[fault.link]\nlatency = \"1s\"\n");
  REQUIRE((status.ok() ? "" : status.error().message) == std::string());
  using namespace std::chrono_literals;
  REQUIRE(e.faults.size() == 4);
  REQUIRE(e.faults[0] ==
          Fault{.peer = 3, .kind = Fault::Kind::poison, .from = 2s, .to = 5s, .poison = "sign-flip"});
  REQUIRE(e.faults[1] == Fault{.peer = 2, .kind = Fault::Kind::poison, .poison = "nan"});
  REQUIRE(e.faults[2] == Fault{.peer = 1,
                               .kind = Fault::Kind::link,
                               .from = 7s,
                               .link = {.latency = 20ms, .bandwidth = 1e7, .drop = 0.01}});
  REQUIRE(e.faults[3] == Fault{.kind = Fault::Kind::link, .link = {.latency = 1s}});
}

TEST_CASE("chance slows peers, one or all") {
  Experiment e;
  const Status status = read_text_of(e,
                                     "[[fault]]\npeer = \"all\"\nslow = \"log-normal:sigma=1\"\n"
                                     "[[fault]]\npeer = 2\nslow = \"exponential:per=peer\"\nfrom = 3\n"
                                     "[[fault]]\npeer = \"all\"\nlink = { drop = 0.5 }\n");
  REQUIRE((status.ok() ? "" : status.error().message) == std::string());
  REQUIRE(e.faults.size() == 3);
  REQUIRE(e.faults[0].concerns(0));
  REQUIRE(e.faults[0].concerns(3));
  REQUIRE(e.faults[0].factor.text() == "log-normal:sigma=1");
  REQUIRE(e.faults[1].factor.text() == "exponential:per=peer");
  REQUIRE_FALSE(e.faults[1].concerns(3));
  REQUIRE(check(e).ok());
  Experiment other;
  const Status bad = read_text_of(other, "[[fault]]\npeer = 1\nslow = \"log-normal\"\n");
  REQUIRE_FALSE(bad.ok());
  REQUIRE(
      contains(bad.error().message, "fault.slow: 'log-normal': there is no sigma; expected a factor from 1"));
  const Status nobody = read_text_of(other, "[[fault]]\npeer = \"any\"\nslow = 2\n");
  REQUIRE_FALSE(nobody.ok());
  REQUIRE(contains(nobody.error().message, ", or all"));
}

TEST_CASE(
    "faults that recur, links between groups, and peers with settings of their own are read and written") {
  using namespace std::chrono_literals;
  Experiment e;
  const Status status = read_text_of(e, R"(
peers = 9
[[peer]]
number = [6, 7]
workers = 2
pace = "80ms"
[[peer]]
number = 3
device = "cuda:1"
recompute = true
[[fault]]
peer = "all"
pause = true
every = "10s"
length = "2s"
to = "1h"
[[fault]]
peer = "all"
churn = { crashes_per_minute = 0.5, leaves_per_minute = 1, back_after = "20s" }
[[fault]]
peer = [2, 1]
crash = true
from = "5s"
back_after = 30
[[fault]]
peer = "0-3"
other = [4, 5, 6, 8]
link = { bandwidth = "10Mbit/s" }
)");
  REQUIRE((status.ok() ? "" : status.error().message) == std::string());
  REQUIRE(check(e).ok());
  REQUIRE(e.own == std::vector<OwnSettings>{
                       {*PeerSet::parse("6-7"), {{"training.pace", "80ms"}, {"training.workers", "2"}}},
                       {3, {{"training.device", "cuda:1"}, {"training.recompute", "true"}}}});
  REQUIRE(of_peer(e, 7).workers == 2);
  REQUIRE(of_peer(e, 7).pace == 80ms);
  REQUIRE(of_peer(e, 5).workers == 1);
  REQUIRE(of_peer(e, 3).device == "cuda:1");
  REQUIRE(e.faults[0] ==
          Fault{.peer = Fault::kAll, .kind = Fault::Kind::pause, .to = 1h, .every = 10s, .length = 2s});
  REQUIRE(e.faults[1] == Fault{.peer = Fault::kAll,
                               .kind = Fault::Kind::churn,
                               .churn = {0.5, 1, std::optional<Duration>(20s)}});
  REQUIRE(e.faults[2] ==
          Fault{.peer = *PeerSet::parse("1-2"), .kind = Fault::Kind::crash, .from = 5s, .back_after = 30s});
  REQUIRE(e.faults[3].other->text() == "4-6,8");
  REQUIRE(e.faults[3].concerns_link(5, 2));
  REQUIRE_FALSE(e.faults[3].concerns_link(1, 2));
  Experiment back;
  REQUIRE(read_text_of(back, to_toml(e)).ok());
  REQUIRE(back == e);
}

TEST_CASE(
    "keys of a fault that contradict each other, and a peer's that are not its own, are refused in a "
    "sentence") {
  const auto refused = [](const std::string& toml, const std::string& sentence) {
    INFO(toml);
    Experiment e;
    Status status = read_text_of(e, toml);
    if (status.ok()) status = check(e);
    REQUIRE_FALSE(status.ok());
    INFO(status.error().message);
    REQUIRE(contains(status.error().message, sentence));
    REQUIRE_FALSE(contains(status.error().message, "\n"));
  };
  const std::string fault = "[[fault]]\npeer = 1\n", pause = fault + "pause = true\n";
  refused(pause + "every = '10s'\n", "line 1: fault: 'every' needs a 'length'");
  refused(pause + "length = '1s'\n", "'length' needs an 'every'");
  refused(pause + "every = '1s'\nlength = '1s'\n", "a pause of 1s every 1s would never end");
  refused(pause + "every = '0s'\nlength = '0s'\n", "must be longer than 0s");
  refused(fault + "slow = 2\nevery = '2s'\nlength = '1s'\n", "'every' and 'length' belong to pause alone");
  refused(fault + "slow = 2\nother = 2\n", "'other' belongs to link alone");
  refused(fault + "other = 1\nlink = { drop = 0.1 }\n", "peer 1 has no link to itself");
  refused(fault + "other = 9\nlink = { drop = 0.1 }\n",
          "'other': there is no peer 9; 4 peers are numbered from 0 to 3");
  refused("[[fault]]\npeer = [1, 7]\nslow = 2\n", "there is no peer 7; 4 peers");
  refused("[[fault]]\npeer = '3-1'\nslow = 2\n", "'3-1' runs backwards");
  refused("[[fault]]\npeer = [0, 1, 2, 3]\ncrash = true\n",
          "only slow, pause, link and churn may befall all peers");
  refused(fault + "slow = 2\nback_after = '3s'\n", "'back_after' belongs to crash and leave");
  refused(fault + "crash = true\nback_after = '0s'\n", "'back_after' is not between 0s");
  refused(fault + "crash = true\nto = '2s'\n", "only slow, pause, poison, link and churn have fault.to");
  refused(fault + "churn = {}\n",
          "expected a table with some of crashes_per_minute, leaves_per_minute and back_after");
  refused(fault + "churn = { back_after = '2s' }\n",
          "churn needs crashes_per_minute or leaves_per_minute above 0");
  refused(fault + "churn = { crashes_per_minute = -1 }\n",
          "fault.churn.crashes_per_minute: '-1' is not a number");
  refused(fault + "churn = { crash = 1 }\n", "unknown key 'fault.churn.crash'");
  refused(fault + "poison = 'nan'\nchurn = { crashes_per_minute = 1 }\n", "several kinds");
  refused("peers = 1\n[[fault]]\npeer = 0\nchurn = { crashes_per_minute = 1 }\n",
          "churn needs at least 2 peers");
  refused("peers = 0\n", "peers: '0'");
  refused("[[peer]]\nworkers = 2\n", "this [[peer]] has no 'number'");
  refused("[[peer]]\nnumber = 1\n", "this [[peer]] sets nothing");
  refused("[[peer]]\nnumber = 4\nworkers = 2\n", "[[peer]] 1: there is no peer 4; 4 peers");
  refused("[[peer]]\nnumber = 1\nbatch_size = 2\n", "line 3: peer.batch_size: all peers of a run share it");
  refused("[[peer]]\nnumber = 1\nworker = 2\n", "unknown key 'peer.worker'; did you mean peer.workers?");
  refused("[[peer]]\nnumber = 1\nworkers = 0\n", "line 3: peer.workers: '0'");
  refused("[[peer]]\nnumber = 1\ndevice = 'cpu'\ndevices = 'cuda:0,cuda:1'\n",
          "device or on devices, not on both");
  refused("[peer]\nnumber = 1\n", "expected [[peer]] tables");
}

TEST_CASE("the reference of the experiment file has every key, and every ready experiment can be run") {
  const std::string root = STARLING_SOURCE_DIR;
  const std::string text = contents(root + "/docs/EXPERIMENTS.md");
  for (const auto& setting : settings()) {
    INFO(setting.key);
    CHECK(contains(text, "`" + setting.key + "`"));
    CHECK(contains(text, "`" + setting.flag + "`"));
    if (is_own_setting(setting))
      CHECK(contains(text, "`" + setting.key.substr(setting.key.find('.') + 1) + "`"));
  }
  for (const char* key : {"slow",
                          "pause",
                          "crash",
                          "leave",
                          "join",
                          "poison",
                          "link",
                          "churn",
                          "peer",
                          "other",
                          "from",
                          "to",
                          "every",
                          "length",
                          "back_after",
                          "crashes_per_minute",
                          "leaves_per_minute",
                          "latency",
                          "bandwidth",
                          "drop",
                          "number"}) {
    INFO(key);
    CHECK((contains(text, "`" + std::string(key) + "`") || contains(text, "`" + std::string(key) + " =") ||
           contains(text, "    " + std::string(key) + " =")));
  }
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/experiments")) {
    const std::string path = entry.path().string();
    INFO(path);
    ++files;
    const std::string file = contents(path);
    CHECK(file.starts_with("# "));
    const auto command = file.find("#   starling ");
    REQUIRE(command != std::string::npos);
    CHECK(contains(file, " experiments/" + entry.path().filename().string()));
    if (contains(file, "[sweep]")) {
      const auto sweep = read_sweep(path, [](const char*) -> const char* { return nullptr; }, {});
      INFO((sweep.ok() ? "" : sweep.error().message));
      REQUIRE(sweep.ok());
      CHECK(sweep->points.size() > 1);
    } else {
      Experiment e;
      REQUIRE(read_file(e, path).ok());
      CHECK(check(e).ok());
    }
  }
  CHECK(files >= 8);
}

TEST_CASE("check refuses faults of peers that are not there and times that run backwards") {
  Experiment e;
  e.faults = {{.peer = 4, .factor = 2}};
  REQUIRE(contains(check(e).error().message,
                   "fault 1 (slow of peer 4): there is no such peer; 4 peers are numbered from 0 to 3"));
  e.faults = {{.peer = 3, .factor = 2}, {.peer = 0, .factor = 0.5}};
  REQUIRE(contains(check(e).error().message, "fault 2"));
  e.faults = {{.peer = Fault::kAll, .kind = Fault::Kind::crash}};
  REQUIRE(contains(check(e).error().message,
                   "fault 1 (crash of peer all): only slow, pause, link and churn may befall all"));
  e.faults = {{.factor = 2, .from = std::chrono::seconds(3), .to = std::chrono::seconds(3)}};
  REQUIRE(contains(check(e).error().message, "does not run forwards"));
  e.faults = {{.kind = Fault::Kind::crash, .to = std::chrono::seconds(3)}};
  REQUIRE(contains(check(e).error().message, "'to' belongs"));
  e.faults = {{.factor = 2, .from = Duration{-1}}};
  REQUIRE(contains(check(e).error().message, "its times"));
  e.faults = {{.kind = Fault::Kind::poison, .poison = "arsenic"}};
  REQUIRE(contains(check(e).error().message, "fault 1 (poison of peer 0): there is no poison 'arsenic'"));
  e.faults = {{.kind = Fault::Kind::pause, .poison = "nan"}};
  REQUIRE(contains(check(e).error().message, "only poison"));
  for (const Fault::Link& link : {Fault::Link{}, Fault::Link{.drop = 1}, Fault::Link{.bandwidth = 0},
                                  Fault::Link{.latency = Duration{-1}}}) {
    e.faults = {{.kind = Fault::Kind::link, .link = link}};
    REQUIRE(contains(check(e).error().message, "fault 1 (link of peer 0): "));
  }
  e.faults = {{.kind = Fault::Kind::pause, .link = {.drop = 0.1}}};
  REQUIRE(contains(check(e).error().message, "only link"));
  e.faults.clear();
  e.batch_size = 0;
  REQUIRE(contains(check(e).error().message, "training.batch_size: '0'"));
  e.batch_size = 64;
  e.learning_rate = std::numeric_limits<double>::quiet_NaN();
  REQUIRE(contains(check(e).error().message, "training.learning_rate"));
}

TEST_CASE("AdamW takes its own learning rate by default, and refuses what belongs to SGD") {
  Experiment e;
  CHECK(resolved_learning_rate(e) == 0.05);
  e.optimizer = "adamw";
  CHECK(resolved_learning_rate(e) == 0.001);
  REQUIRE(check(e).ok());
  const auto shared = shared_settings(e);
  REQUIRE(std::find(shared.begin(), shared.end(),
                    std::pair<std::string, std::string>("training.learning_rate", "0.001")) != shared.end());
  e.learning_rate = 0.01;
  CHECK(resolved_learning_rate(e) == 0.01);
  e.nesterov = true;
  CHECK(
      contains(check(e).error().message, "training.nesterov: Nesterov momentum requires the optimizer sgd"));
  e.nesterov = false;
  e.quasi_global_momentum = true;
  CHECK(contains(check(e).error().message, "training.quasi_global_momentum"));
}

TEST_CASE(
    "the default learning rate of SGD is shared among a peer's workers, and one that is set never changes") {
  Experiment e;
  e.workers = 4;
  CHECK(resolved_learning_rate(e) == 0.0125);
  e.optimizer = "adamw";
  CHECK(resolved_learning_rate(e) == 0.001);
  e.optimizer = "sgd";
  e.learning_rate = 0.05;
  CHECK(resolved_learning_rate(e) == 0.05);
}

TEST_CASE("many workers at a learning rate at which they go too far together are warned of") {
  Experiment e;
  for (const std::uint32_t workers : {1U, 2U, 3U, 64U}) {
    e.workers = workers;
    CHECK(warning_of_workers(e).empty());  // by default
  }
  e.learning_rate = 0.05;
  for (const std::uint32_t workers : {1U, 2U}) {
    e.workers = workers;
    CHECK(warning_of_workers(e).empty());
  }
  e.workers = 4;
  const std::string warning = warning_of_workers(e);
  CHECK(contains(warning, "4 workers"));
  CHECK(contains(warning, "0.05"));
  CHECK(contains(warning, "default is 0.0125"));
  e.momentum = 0;
  CHECK(warning_of_workers(e).empty());
  e.momentum = 0.9;
  e.optimizer = "adamw";
  CHECK(warning_of_workers(e).empty());
}

TEST_CASE("the pace that is not set is the rule's, and the one that is set counts") {
  const std::map<std::string, std::string> paces = {
      {"pairwise", "8 steps"}, {"clipped", "8 steps"}, {"choco", "8 steps"}, {"noloco", "50 steps"},
      {"d-psgd", "1 steps"},   {"push-sum", "200ms"},  {"none", "8 steps"},  {"all-reduce", "1 steps"}};
  for (const auto& [rule, pace] : paces) {
    INFO(rule);
    Experiment e;
    e.rule = *rule_named(rule);
    REQUIRE(check(e).ok());
    REQUIRE(format_pace(resolved_every(e)) == pace);
    e.every = Pace{.kind = Pace::Kind::always};
    REQUIRE(resolved_every(e) == Pace{.kind = Pace::Kind::always});
  }
}

TEST_CASE("check refuses rules with payloads and paces that they do not have") {
  for (const Rule rule : {Rule::push_sum, Rule::d_psgd, Rule::noloco, Rule::clipped}) {
    Experiment e;
    e.rule = rule;
    e.payload = Payload::top_k;
    REQUIRE(contains(check(e).error().message, "takes f32, bf16 or int8, not top-k"));
    e.payload = Payload::int8;
    REQUIRE(check(e).ok());
  }
  Experiment e;
  e.rule = Rule::push_sum;
  e.every = Pace{.steps = 8};
  REQUIRE(contains(check(e).error().message, "gossip.every: the rule push-sum is paced by time"));
  e.every = Pace{.kind = Pace::Kind::poisson, .time = std::chrono::seconds(1)};
  REQUIRE(check(e).ok());
}

TEST_CASE("check refuses what all-reduce would do otherwise, and lets pass what has no meaning there") {
  Experiment sound;
  sound.rule = Rule::all_reduce;
  sound.topology = "torus";
  sound.every = Pace{.steps = 3};
  sound.weights = Shares::work;
  sound.faults = {{.peer = Fault::kAll, .factor = 2}, {.peer = 1, .kind = Fault::Kind::crash}};
  REQUIRE(check(sound).ok());
  const auto refused = [&](const auto& change, const std::string& why) {
    Experiment e = sound;
    change(e);
    const Status status = check(e);
    REQUIRE(!status.ok());
    CHECK(contains(status.error().message, why));
  };
  refused([](Experiment& e) { e.payload = Payload::bf16; },
          "gossip.payload: the rule all-reduce takes f32, not bf16");
  refused([](Experiment& e) { e.workers = 2; }, "training.workers: all-reduce has one worker in each peer");
  refused([](Experiment& e) { e.quasi_global_momentum = true; },
          "training.quasi_global_momentum: all-reduce");
  refused([](Experiment& e) { e.devices = {"cuda:0", "cuda:1"}; }, "training.devices: with all-reduce");
  const auto befalls = [](Fault::Kind kind) {
    return [kind](Experiment& e) {
      e.faults.push_back({.peer = 2, .kind = kind, .from = std::chrono::seconds(1)});
    };
  };
  refused(befalls(Fault::Kind::join), "the fault join of peer 2: all-reduce needs every peer");
  refused(befalls(Fault::Kind::leave), "the fault leave of peer 2: all-reduce needs every peer");
  refused(befalls(Fault::Kind::poison), "the fault poison of peer 2: all-reduce exchanges no parameters");
}

TEST_CASE("a size is read in bytes, KiB and MiB and written back") {
  for (const char* text : {"64KiB", "1MiB", "65537", "4KiB"}) {
    REQUIRE(format_size(*parse_size(text, 4096, 1 << 20)) == text);
  }
  REQUIRE(*parse_size("65536", 0, 1 << 20) == *parse_size("64KiB", 0, 1 << 20));
  for (const char* text : {"", "KiB", "64 KiB", "64kb", "-1", "1GiB", "4095", "1025KiB"}) {
    INFO(text);
    REQUIRE(!parse_size(text, 4096, 1 << 20).ok());
  }
}

TEST_CASE("a joiner ends with the swarm's shared settings and keeps its own") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const Experiment beginner = random_experiment(random);
    const Experiment before = random_experiment(random);
    Experiment joiner = before;
    REQUIRE(apply_shared(joiner, shared_settings(beginner)).ok());
    REQUIRE(shared_settings(joiner) == shared_settings(beginner));
    for (const auto& setting : settings()) {
      INFO(setting.key);
      if (setting.key == "gossip.every" || setting.key == "training.learning_rate") continue;
      REQUIRE(setting.get(joiner) == setting.get(setting.shared ? beginner : before));
    }
    REQUIRE(joiner.every == resolved_every(beginner));
    REQUIRE(joiner.learning_rate == resolved_learning_rate(beginner));
    REQUIRE(joiner.faults == before.faults);
  }
}

TEST_CASE("what came later than the manifest is told where it is not the default, and else not") {
  const std::vector<std::string> later = {
      "training.schedule",   "training.warmup", "training.step_epochs", "training.step_factor",
      "training.final_rate", "training.crop",   "training.flip"};
  Experiment e;
  for (const auto& [key, value] : shared_settings(e))
    REQUIRE(std::find(later.begin(), later.end(), key) == later.end());
  e.schedule = "step";
  e.warmup = 0.5;
  e.step_epochs = 2;
  e.step_factor = 0.5;
  e.final_rate = 0.01;
  e.crop = 4;
  e.flip = true;
  const auto told = shared_settings(e);
  for (const std::string& key : later) {
    INFO(key);
    REQUIRE(std::count_if(told.begin(), told.end(), [&](const auto& pair) { return pair.first == key; }) ==
            1);
  }
  Experiment joiner;
  joiner.schedule = "cosine";
  joiner.crop = 2;
  REQUIRE(apply_shared(joiner, told).ok());
  REQUIRE(joiner.step_epochs == 2.0);
  REQUIRE(joiner.crop == 4);
  REQUIRE(apply_shared(joiner, shared_settings(Experiment{})).ok());
  REQUIRE(shared_settings(joiner) == shared_settings(Experiment{}));
  REQUIRE(joiner.schedule == "constant");
  REQUIRE(joiner.crop == 0);
}

TEST_CASE("a manifest with an unknown, foreign or bad setting is refused and changes nothing") {
  Experiment joiner;
  joiner.batch_size = 7;
  const Experiment before = joiner;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"training.batchsize", "3"}, {"training.batch_size", "0"}, {"training.workers", "8"}, {"", ""}};
  for (const auto& bad : cases) {
    auto values = shared_settings(Experiment{});
    values.push_back(bad);
    const Status status = apply_shared(joiner, values);
    REQUIRE(!status.ok());
    REQUIRE(contains(status.error().message, "the swarm's settings: "));
    REQUIRE(joiner == before);
  }
}

TEST_CASE("what an earlier version shared, and each peer has for itself now, is not heard") {
  Experiment joiner;
  joiner.precision = "bf16";
  auto values = shared_settings(Experiment{});
  values.emplace_back("training.precision", "f32");
  REQUIRE(apply_shared(joiner, values).ok());
  REQUIRE(joiner.precision == "bf16");
  for (const auto& [key, value] : shared_settings(joiner)) REQUIRE(key != "training.precision");
}

TEST_CASE("every bandwidth within limits is written so that it reads back exactly") {
  Random random(3);
  for (int i = 0; i < 2000; ++i) {
    const double rate = std::pow(10, random.uniform(0, 15));
    INFO(rate);
    REQUIRE(*parse_rate(format_rate(rate)) == rate);
  }
  REQUIRE(format_rate(1e9) == "1Gbit/s");
}

TEST_CASE("every time within limits is written so that it reads back exactly") {
  Random random(4);
  for (int i = 0; i < 5000; ++i) {
    const Duration time = random_time(random);
    INFO(time.count());
    REQUIRE(*parse_time(format_duration(time)) == time);
  }
  REQUIRE(*parse_time(format_duration(kLongestTime)) == kLongestTime);
  REQUIRE(*parse_time(format_duration(kLongestTime - Duration{1})) == kLongestTime - Duration{1});
}

}  // namespace starling::training
