#include "training/runs/experiment/experiment_file.h"

#include <map>

#include "tests/training/experiments.h"
#include "training/runs/experiment/sweep.h"

namespace starling::training {

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

TEST_CASE("the file of a run has the hashes of other files, by their names") {
  const TemporaryFolder folder;
  Experiment written;
  written.faults = {{.peer = 1, .kind = Fault::Kind::slow, .factor = 2}};
  const std::map<std::string, std::string> contents = {{"my \"own\".csv:label=1", "14f65ff222c51744"},
                                                       {"first.safetensors", "00000000000000ff"}};
  const std::string text = to_toml(written, contents), path = folder.write("experiment.toml", text);
  CHECK(to_toml(written, {}) == to_toml(written));
  CHECK(without_contents(text) == to_toml(written));
  CHECK(without_contents(to_toml(written)) == to_toml(written));
  Experiment read;
  const Status status = read_file(read, path);
  REQUIRE((status.ok() ? "" : status.error().message) == std::string());
  CHECK(read.contents == contents);
  CHECK(to_toml(read) == to_toml(written));
  const auto values = values_in(path);
  REQUIRE(values.ok());
  for (const auto& [key, value] : *values) CHECK_FALSE(key.starts_with("contents"));
  CHECK(read_text_of(read, "contents = 3\n")
            .error()
            .message.ends_with(", line 1: contents: expected a table, [contents]"));
  CHECK(read_text_of(read, "[contents]\n\"my.csv\" = 3\n")
            .error()
            .message.ends_with(", line 2: contents: expected a text, the hash of my.csv"));
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
  REQUIRE(e.model.name == "mlp");
  REQUIRE(e.data.partition == "dirichlet:alpha=0.1");
  REQUIRE(e.training.batch_size == 32);
  REQUIRE(e.training.workers == 2);
  REQUIRE(e.training.pace == std::chrono::milliseconds(20));
  REQUIRE(e.end.epochs == 3.0);
  REQUIRE(e.end.seconds == std::chrono::seconds(10));
  REQUIRE(e.gossip.every == Pace{.kind = Pace::Kind::time, .time = std::chrono::milliseconds(200)});
  REQUIRE(e.network.bandwidth == 1e8);
  REQUIRE(e.faults.size() == 2);
  REQUIRE(e.faults[0] == Fault{.peer = 3, .factor = 10, .to = std::chrono::seconds(60)});
  REQUIRE(e.faults[1] == Fault{.peer = 2, .kind = Fault::Kind::crash, .from = std::chrono::seconds(5)});
  REQUIRE(check(e).ok());
}

TEST_CASE("a network in the experiment file is kept as canonical text, and written one layer a line") {
  Experiment e;
  REQUIRE(read_text_of(
              e, "[model]\nlayers = [  # mine\n{ type = 'linear', features = 64 },\n'relu',\n'linear',\n]\n")
              .ok());
  REQUIRE(e.model.name == "custom");
  REQUIRE(e.model.layers == R"([{ type = "linear", features = 64 }, "relu", "linear"])");
  REQUIRE(contains(to_toml(e),
                   "[model]\nname = \"custom\"\nlayers = [\n  { type = \"linear\", features = 64 },\n"
                   "  \"relu\",\n  \"linear\",\n]\n"));
  // The text of a flag, in a file.
  Experiment text;
  REQUIRE(read_text_of(text, "[model]\nlayers = '''" + e.model.layers + "'''").ok());
  REQUIRE(text == e);
}

TEST_CASE("a later source's name replaces an earlier one's layers, and later layers replace a name") {
  const auto environment = [](Experiment& e, const std::string& name, const std::string& layers) {
    return read_environment(e, [&](const char* variable) -> const char* {
      if (variable == std::string("STARLING_MODEL")) return name.c_str();
      if (variable == std::string("STARLING_LAYERS")) return layers.c_str();
      return nullptr;
    });
  };
  Experiment e;
  REQUIRE(read_text_of(e, "[model]\nname = 'mine'\nlayers = ['linear']").ok());
  REQUIRE((e.model.name == "mine" && e.model.layers == R"(["linear"])"));
  REQUIRE(environment(e, "", "").ok());
  REQUIRE(e.model.name == "mine");
  REQUIRE(environment(e, "", "['relu', 'linear']").ok());
  REQUIRE((e.model.name == "custom" && e.model.layers == R"(["relu", "linear"])"));
  REQUIRE(environment(e, "other", "['linear']").ok());
  REQUIRE((e.model.name == "other" && e.model.layers == R"(["linear"])"));
  REQUIRE(check(e).ok());
  REQUIRE(contains(environment(e, "mlp", "['linear']").error().message, "'mlp' is a network of the zoo"));
  REQUIRE(environment(e, "mlp", "").ok());
  REQUIRE((e.model.name == "mlp" && e.model.layers.empty()));
  e.model.layers = R"(["linear"])";
  REQUIRE(contains(check(e).error().message, "model.name: 'mlp' is a network of the zoo"));
}

TEST_CASE("an unknown key is reported with file, line, nearest key and the table's keys") {
  const std::string text = refusal("seed = 2\n\n[training]\nbatchsize = 3\n");
  REQUIRE(contains(text, "experiment.toml, line 4"));
  REQUIRE(contains(text, "unknown key 'training.batchsize'"));
  REQUIRE(contains(text, "did you mean training.batch_size?"));
  REQUIRE(contains(text, "[training] accepts batch_size, optimizer"));

  REQUIRE(contains(refusal("batch_size = 3\n"), "did you mean training.batch_size?"));
  REQUIRE(contains(refusal("[trianing]\nbatch_size = 3\n"),
                   "line 1: unknown key 'trianing'; did you mean training?"));
  REQUIRE(contains(refusal("[zoo]\nx = 3\n"),
                   "unknown key 'zoo'; the top level accepts name, seed, peers, start, looks, [model], "
                   "[data], [training], [gossip], [network], [pipeline], [fault] or [peer]"));
  REQUIRE(contains(refusal("colour = 3\n"), "unknown key 'colour'; the top level accepts name, seed, peers"));
  REQUIRE(contains(refusal("[training.zoo]\nx = 3\n"), "unknown key 'training.zoo'; [training] accepts"));
  REQUIRE(contains(refusal("[[fault]]\npeer = 1\nslwo = 3\n"),
                   "line 3: unknown key 'fault.slwo'; did you mean fault.slow?"));
}

namespace {

using Sentences = std::map<std::string, std::string>;  // the error by the text of the file

void check_refusals(const Sentences& cases) {
  for (const auto& [toml, sentence] : cases) {
    INFO(toml);
    const std::string text = refusal(toml);
    INFO(text);
    REQUIRE(contains(text, sentence));
    REQUIRE(contains(text, "experiment.toml, line "));
    REQUIRE(text.find('\n') == std::string::npos);
  }
}

}  // namespace

TEST_CASE("a bad value of [training] is rejected with file, line, key and valid values") {
  check_refusals({
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
      {"[training]\ntarget_loss = 0", "training.target_loss: '0' is not a number from above 0 to 1000"},
      {"[training]\nschedule = \"linear\"",
       "'linear' is not available; this version has constant, cosine or step"},
      {"[training]\nschedule = \"gpipe\"",
       "'gpipe' is a schedule of pipelines, --pipeline gpipe; the learning rate has constant, cosine or "
       "step"},
      {"[training]\nwarmup = -1",
       "training.warmup: '-1' is not the length of a warm-up; expected a number of epochs (0.5), of a peer's "
       "steps (100 steps) or of tokens (1e6 tokens)"},
      {"[training]\nwarmup = '0.5 steps'", "'0.5 steps' is not the length of a warm-up"},
      {"[training]\nwarmup = '100 laps'", "'100 laps' is not the length of a warm-up"},
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
  });
}

TEST_CASE("a bad value of [gossip] and [network] is rejected with file, line, key and valid values") {
  check_refusals({
      {"[gossip]\nrule = \"telepathy\"", "this version has pairwise, push-sum, "},
      {"[gossip]\nrule = \"telepathy\"", ", none, all-reduce or diloco"},
      {"[gossip]\npayload = \"fp8\"", "this version has f32, bf16, int8 or top-k"},
      {"[gossip]\ntop_k = 0", "'0' is not a number from above 0 to 1"},
      {"[gossip]\ntop_k = 1.5", "gossip.top_k"},
      {"[gossip]\nweights = \"luck\"", "this version has equal, work or age"},
      {"[gossip]\nouter_rate = 0", "gossip.outer_rate"},
      {"[gossip]\nouter_momentum = 1", "from 0 to below 1"},
      {"[gossip]\nfragments = 0", "gossip.fragments: '0' is not a whole number from 1 to 1024"},
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
  });
}

TEST_CASE("a bad value at the top level is rejected with file, line, key and valid values") {
  check_refusals({
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
  });
}

TEST_CASE("a bad value of a fault is rejected with file, line, key and valid values") {
  check_refusals({
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
  });
}

TEST_CASE("a bad value of [model] is rejected with file, line, key and valid values") {
  check_refusals({
      {"[model]\nlayers = [\n\"relu\",\n{ type = \"linear\", feature = 3 },\n]",
       "line 4: model.layers: layer 2 (linear): unknown key 'feature'; did you mean features?"},
      {"[model]\nlayers = []", "line 2: model.layers: expected an array of at least one layer"},
      {"[model]\nlayers = 3", "line 2: model.layers: expected an array of at least one layer"},
      {"[model]\nlayers = \"relu\"", "line 2: model.layers: it is not a TOML array"},
      {"[model.layers]\ntype = \"relu\"",
       "line 1: model.layers: expected an array of layers, layers = [ ... ]"},
      {"[model]\nlayer = [\"linear\"]", "did you mean model.layers?"},
      {"[model]\nname = \"lenet\"\nlayers = [\"linear\"]",
       "line 2: model.name: 'lenet' is a network of the zoo"},
      {"[model]\nname = \"a.toml\"\nlayers = [\"linear\"]", "line 2: model.name: 'a.toml' looks like a file"},
  });
}

TEST_CASE("a file that cannot be read is an error with its path and the reason") {
  const TemporaryFolder folder;
  Experiment e;
  REQUIRE(contains(read_file(e, folder.file("absent.toml")).error().message, "absent.toml: No such file"));
  REQUIRE(contains(read_file(e, folder.path()).error().message, "it is a folder"));
  folder.write("large.toml", std::string((1 << 20) + 1, '#'));
  REQUIRE(contains(read_file(e, folder.file("large.toml")).error().message, "at most 1048576"));
  folder.write("deep.toml", "x = " + std::string(100'000, '['));
  REQUIRE(!read_file(e, folder.file("deep.toml")).ok());
}

TEST_CASE("no truncation and no changed byte of an experiment file crashes its reader") {
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

}  // namespace starling::training
