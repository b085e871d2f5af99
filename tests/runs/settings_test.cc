#include "training/runs/experiment/settings/settings.h"
#include "training/runs/experiment/settings/effects.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "tests/training/experiments.h"

namespace starling::training {

TEST_CASE("layers are part of the shared settings, and their length from a peer is bounded") {
  Experiment mine;
  REQUIRE(read_text_of(mine, "[model]\nname = 'mine'\nlayers = [{ type = 'dropout', rate = 0.1 }, 'linear']")
              .ok());
  Experiment joiner;
  joiner.model.layers = R"(["relu", "linear"])";
  REQUIRE(apply_shared(joiner, shared_settings(mine)).ok());
  REQUIRE((joiner.model.name == "mine" && joiner.model.layers == mine.model.layers));
  // A swarm that trains a network of the zoo sends no layers.
  REQUIRE(apply_shared(joiner, shared_settings(Experiment{})).ok());
  REQUIRE((joiner.model.name == "lenet" && joiner.model.layers.empty()));
  for (const std::string& layers : {std::string("[]"), std::string("['rely']"), std::string(100'000, '['),
                                    "['relu'" + std::string(60'000, ' ') + "]"}) {
    const Status status = apply_shared(joiner, {{"model.layers", layers}});
    REQUIRE(!status.ok());
    REQUIRE(contains(status.error().message, "the swarm's settings: model.layers: "));
    REQUIRE(status.error().message.size() < 1000);
  }
}

TEST_CASE("every setting has one key, flag, variable and help text, and takes its own default") {
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
  std::istringstream known(
      "--peers --model --layers --data --partition --batch-size --learning-rate --optimizer --momentum "
      "--beta1 --beta2 --epsilon --weight-decay --clip-norm --nesterov --schedule --warmup --step-epochs "
      "--step-factor --final-rate --crop "
      "--flip --device --precision --workers --pace --epochs --steps --seconds --target-accuracy "
      "--target-loss --fragments --rule "
      "--topology --every --payload --quasi-global-momentum --top-k --weights --outer-rate --outer-momentum "
      "--consensus-rate --clip --chunk --window --seed --name --latency --bandwidth --port-bandwidth");
  for (std::string flag; known >> flag;) {
    INFO(flag);
    REQUIRE(flags.count(flag) == 1);
  }
  REQUIRE(flags.size() == 73);
}

TEST_CASE("devices are of one kind, and cuts ascend") {
  Experiment e;
  const auto refused = [&e](const char* key, const char* value) {
    const Status status = set_value(e, key, value, "here");
    return status.ok() ? "" : status.error().message;
  };
  CHECK(refused("training.devices", "cpu:0,cpu:3").empty());
  CHECK(e.training.devices == std::vector<std::string>{"cpu:0", "cpu:3"});
  CHECK(refused("training.devices", "cuda:0,cuda:0").empty());
  CHECK(refused("training.devices", "cpu:0,cpu:1,cpu:0,cpu:1").empty());
  CHECK(e.training.devices.size() == 4);
  for (const char* wrong : {"cpu:0,cuda:1", "cpu", "cpu:,cpu:1", "cpu:0,", "cpu:1234,cpu:1"}) {
    INFO(wrong);
    CHECK(refused("training.devices", wrong) ==
          "here: training.devices: '" + std::string(wrong) +
              "' does not name devices of one kind; expected cuda:0,cuda:1, ... or cpu:0,cpu:1, ...");
  }
  CHECK(refused("pipeline.cuts", "1,3,4").empty());
  CHECK(e.pipeline.cuts == std::vector<int>{1, 3, 4});
  for (const char* wrong : {"0", "3,3", "2,1", "1,x", "1,,2", "-1", "99999999999"})
    CHECK(refused("pipeline.cuts", wrong).find("' does not list cuts; expected numbers of layers") !=
          std::string::npos);
}

TEST_CASE("the replicas of stages are numbers") {
  Experiment e;
  REQUIRE(set_value(e, "pipeline.stage_replicas", "2,1,1", "here").ok());
  CHECK(e.pipeline.stage_replicas == std::vector<int>{2, 1, 1});
  for (const char* wrong : {"0", "2,0", "2,,1", "2-1-1", "-1", "1001"})
    CHECK(set_value(e, "pipeline.stage_replicas", wrong, "here").error().message ==
          "here: pipeline.stage_replicas: '" + std::string(wrong) +
              "' does not list replicas; expected a number from 1 to 1000 for each stage, for example 2,1,1");
}

TEST_CASE("recomputation was a switch, and still reads as one") {
  Experiment e;
  for (const auto& [text, value] :
       {std::pair("true", Recomputation::always), std::pair("false", Recomputation::never),
        std::pair("except-last", Recomputation::except_last), std::pair("never", Recomputation::never),
        std::pair("always", Recomputation::always)}) {
    REQUIRE(set_value(e, "training.recompute", text, "here"));
    CHECK(e.training.recompute == value);
  }
  CHECK(set_value(e, "training.recompute", "sometimes", "here").error().message ==
        "here: training.recompute: 'sometimes' is not available; this version has never, except-last or "
        "always");
}

TEST_CASE("micro-batches divide a batch, at most four for each stage") {
  Experiment e;
  e.training.batch_size = 60;
  CHECK(resolved_micro_batches(e, 2) == 6);
  CHECK(resolved_micro_batches(e, 4) == 15);
  e.pipeline.stage_replicas = {2, 1, 1};
  CHECK(resolved_micro_batches(e, 4) == 12);  // which replicas can share
  e.pipeline.stage_replicas.clear();
  e.training.batch_size = 7;
  CHECK(resolved_micro_batches(e, 2) == 7);
  CHECK(resolved_micro_batches(e, 1) == 1);
  e.pipeline.schedule = PipelineSchedule::layer_wise;
  CHECK(resolved_micro_batches(e, 2) == 1);
  e.pipeline.schedule = PipelineSchedule::pipedream;
  CHECK(resolved_micro_batches(e, 2) == 1);
  e.pipeline.micro_batches = 3;
  CHECK(resolved_micro_batches(e, 2) == 3);
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
  REQUIRE(e.network.port == kUnlimited);
  REQUIRE(set_value(e, "network.port", "0.1bit/s", "--set").error().message ==
          "--set: network.port: '0.1bit/s' is not a bandwidth from 1bit/s to 1000000Gbit/s, or unlimited");
}

TEST_CASE("environment variables set the same settings as flags, and errors contain their names") {
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
  REQUIRE(e.training.batch_size == 128);
  REQUIRE(e.end.seconds == std::chrono::milliseconds(2500));
  REQUIRE(e.peers == Experiment{}.peers);
  REQUIRE(e.data.source == "mnist");

  variables["STARLING_MOMENTUM"] = "x";
  const Experiment before = e;
  const Status status = read_environment(e, lookup);
  REQUIRE(!status.ok());
  REQUIRE(contains(status.error().message, "STARLING_MOMENTUM: training.momentum: 'x' is not a number"));
  REQUIRE(e == before);
}

TEST_CASE("errors for a key set by hand contain the flag and the key") {
  Experiment e;
  REQUIRE(set_value(e, "gossip.every", "always", "--set").ok());
  REQUIRE(e.gossip.every->kind == Pace::Kind::always);
  REQUIRE(contains(set_value(e, "gossip.evry", "always", "--set").error().message,
                   "--set: unknown key 'gossip.evry'; did you mean gossip.every?"));
  REQUIRE(contains(set_value(e, "seed", "1 ", "--set").error().message,
                   "--set: seed: '1 ' is not a whole number"));
  REQUIRE(contains(set_value(e, "data.source", "\xc3(", "--set").error().message, "UTF-8"));
  REQUIRE(set_value(e, "data.source", "/daten/V\xc3\xb6gel", "--set").ok());
  REQUIRE(contains(set_value(e, std::string(100'000, 'x'), "1", "--set").error().message, "xxx...'"));
}

TEST_CASE("a topology's name may be as long as the longest graph text, and not longer") {
  Experiment e;
  const std::string longest(49'152, 'e');
  REQUIRE(set_value(e, "gossip.topology", longest, "--set").ok());
  REQUIRE(e.gossip.topology == longest);
  REQUIRE(contains(set_value(e, "gossip.topology", longest + "e", "--set").error().message, "1 to 49152"));
}

TEST_CASE("an interval is read in steps, in time, or as always, and written back") {
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

TEST_CASE("a size is read in bytes, KiB, MiB and GiB and written back") {
  for (const char* text : {"64KiB", "1MiB", "65537", "4KiB"}) {
    REQUIRE(format_size(*parse_size(text, 4096, 1 << 20)) == text);
  }
  REQUIRE(format_size(*parse_size("3GiB", 1, std::uint64_t{1} << 40)) == "3GiB");
  REQUIRE(*parse_size("65536", 0, 1 << 20) == *parse_size("64KiB", 0, 1 << 20));
  REQUIRE(*parse_size("60MB", 1, 1 << 30) == 60'000'000);
  REQUIRE(format_size(*parse_size("64kB", 0, 1 << 20)) == "64000");
  REQUIRE(parse_size("60mb", 1, 1 << 20).error().message ==
          "'60mb' is not a size from 1 to 1MiB in bytes, KiB, MiB, GiB, kB, MB or GB");
  for (const char* text : {"", "KiB", "64 KiB", "64kb", "-1", "1GiB", "1TiB", "4095", "1025KiB"}) {
    INFO(text);
    REQUIRE(!parse_size(text, 4096, 1 << 20).ok());
  }
}

TEST_CASE("a joiner takes the swarm's shared settings and keeps its own") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const Experiment beginner = without_spelled_defaults(random_experiment(random));
    const Experiment before = random_experiment(random);
    Experiment joiner = before;
    REQUIRE(apply_shared(joiner, shared_settings(beginner)).ok());
    REQUIRE(shared_settings(joiner) == shared_settings(beginner));
    for (const auto& setting : settings()) {
      INFO(setting.key);
      if (setting.key == "training.learning_rate") continue;
      const bool idle = setting.shared && !has_effect(beginner, setting.key);  // then all have its default
      REQUIRE(setting.get(joiner) == setting.get(idle ? Experiment{} : setting.shared ? beginner : before));
    }
    if (has_effect(beginner, "gossip.every")) REQUIRE(resolved_every(joiner) == resolved_every(beginner));
    REQUIRE(resolved_learning_rate(joiner) == resolved_learning_rate(beginner));
    REQUIRE(joiner.faults == before.faults);
  }
}

TEST_CASE("a manifest does not say whether a setting is the default in other words") {
  Experiment one, other;
  one.optimizer.name = other.optimizer.name = "adamw";
  one.optimizer.beta1 = one.optimizer.momentum = other.optimizer.momentum = 0.8;
  one.gossip.rule = other.gossip.rule = Rule::noloco;
  one.gossip.outer_momentum = resolved_outer_momentum(other);
  one.gossip.every = resolved_every(other);
  CHECK(shared_settings(one) == shared_settings(other));
  Experiment joiner;
  joiner.optimizer.beta1 = 0.1;
  REQUIRE(apply_shared(joiner, shared_settings(one)).ok());
  CHECK_FALSE(joiner.optimizer.beta1.has_value());
  CHECK(joiner.optimizer.momentum == 0.8);
  other.optimizer.beta1 = 0.7;
  CHECK(shared_settings(one) != shared_settings(other));
}

TEST_CASE("a manifest has only settings that differ from their defaults") {
  const std::vector<std::string> some = {
      "training.schedule",   "training.warmup",   "training.step_epochs", "training.step_factor",
      "training.final_rate", "training.crop",     "training.flip",        "training.beta1",
      "training.epsilon",    "training.clip_norm"};
  Experiment e;
  using List = std::vector<std::pair<std::string, std::string>>;
  REQUIRE(shared_settings(e) == List{{"training.learning_rate", "0.05"}});  // depends on the workers
  e.training.workers = 2;
  REQUIRE(shared_settings(e) == List{{"training.learning_rate", "0.025"}});
  e.schedule.name = "step";
  e.schedule.warmup = {0.5};
  e.schedule.step_epochs = 2;
  e.schedule.step_factor = 0.5;
  e.schedule.final_rate = 0.01;
  e.training.crop = 4;
  e.training.flip = true;
  e.optimizer.beta1 = 0.8;
  e.optimizer.epsilon = 1e-6;
  e.optimizer.clip_norm = 1;
  const auto told = shared_settings(e);
  for (const std::string& key : some) {
    INFO(key);
    REQUIRE(std::count_if(told.begin(), told.end(), [&](const auto& pair) { return pair.first == key; }) ==
            (has_effect(e, key) ? 1 : 0));
  }
  Experiment joiner;
  joiner.schedule.name = "cosine";
  joiner.training.crop = 2;
  REQUIRE(apply_shared(joiner, told).ok());
  REQUIRE(joiner.schedule.step_epochs == 2.0);
  REQUIRE(joiner.training.crop == 4);
  REQUIRE(apply_shared(joiner, shared_settings(Experiment{})).ok());
  REQUIRE(shared_settings(joiner) == shared_settings(Experiment{}));
  REQUIRE(joiner.schedule.name == "constant");
  REQUIRE(joiner.training.crop == 0);
}

// A manifest has no defaults, so programs with one number of the protocol must agree on them.
TEST_CASE("the default of a setting that the peers of a run share never changes") {
  std::string defaults;
  for (const Setting& setting : settings()) {
    if (!setting.shared) continue;
    const auto value = setting.get(Experiment{});
    defaults += setting.key + (value ? " = " + *value : "") + "\n";
  }
  CHECK(defaults == R"(seed = 1
peers = 4
model.name = lenet
model.layers
data.source = glyphs
data.partition = iid
data.windows = random
training.batch_size = 64
training.optimizer = sgd
training.learning_rate
training.momentum = 0.9
training.beta1
training.beta2 = 0.999
training.epsilon = 1e-08
training.weight_decay = 0
training.clip_norm = 0
training.nesterov = false
training.quasi_global_momentum = false
training.schedule = constant
training.warmup = 0
training.step_epochs
training.step_factor = 0.1
training.final_rate = 0
training.crop = 0
training.flip = false
training.epochs
training.steps
training.seconds
training.target_accuracy
training.target_loss
gossip.rule = pairwise
gossip.topology = exponential
gossip.partners = uniform
gossip.every
gossip.payload = f32
gossip.top_k = 0.01
gossip.weights = equal
gossip.outer_rate = 0.7
gossip.outer_momentum
gossip.fragments = 1
gossip.consensus_rate
gossip.clip = 0.5
gossip.servers = 1
gossip.racks = 0
gossip.server_rate
gossip.staleness = 3
)");
}

TEST_CASE("what is used for a setting that is not set never changes") {
  std::string used;
  for (const RuleTraits& rule : kRules) {
    Experiment experiment;
    experiment.gossip.rule = *find_named<Rule>(kRules, rule.name);
    used += std::string(rule.name) + ":";
    for (const auto& [key, value] : used_values(experiment))
      if (find_setting(key)->shared && key != "training.learning_rate") used += " " + key + " = " + value;
    used += "\n";
  }
  CHECK(used == R"(pairwise: gossip.every = 8 steps
push-sum: gossip.every = 200ms
d-psgd: gossip.every = 1 steps
choco: gossip.consensus_rate = 1 gossip.every = 8 steps
noloco: gossip.every = 50 steps gossip.outer_momentum = 0.5
clipped: gossip.every = 8 steps
parameter-server: gossip.every = 1 steps
ssp: gossip.every = 1 steps
none:
all-reduce:
diloco: gossip.every = 50 steps gossip.outer_momentum = 0.9
)");
  Experiment experiment;
  experiment.optimizer.name = "adamw";
  experiment.schedule.name = "step";
  experiment.end.epochs = 3;
  const auto others = used_values(experiment);
  CHECK(others.at("training.learning_rate") == "0.001");
  CHECK(others.at("training.beta1") == "0.9");
  CHECK(others.at("training.step_epochs") == "1");
  experiment.gossip.rule = Rule::choco;
  experiment.gossip.payload = Payload::top_k;
  CHECK(used_values(experiment).at("gossip.consensus_rate") == "0.015");
}

TEST_CASE("a manifest with an unknown, foreign or invalid setting is rejected and changes nothing") {
  Experiment joiner;
  joiner.training.batch_size = 7;
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

TEST_CASE("a setting that an earlier version shared is ignored if it has its default") {
  Experiment joiner;
  joiner.training.precision = "bf16";
  auto values = shared_settings(Experiment{});
  values.emplace_back("training.precision", "f32");
  REQUIRE(apply_shared(joiner, values).ok());
  REQUIRE(joiner.training.precision == "bf16");
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
