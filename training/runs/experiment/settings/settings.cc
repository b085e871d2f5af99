#include "training/runs/experiment/settings/settings.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/check.h"
#include "base/nearest.h"
#include "base/text.h"
#include "models/spec_text.h"
#include "training/runs/experiment/settings/pipeline_settings.h"
#include "training/runs/experiment/settings/setting_kinds.h"

namespace starling::training {
namespace {

using E = Experiment;
using Settings = std::vector<Setting>;

// A field of a section.
template <class Section, class T>
auto in(Section Experiment::*section, T Section::*member) {
  return [=](auto& experiment) -> auto& { return experiment.*section.*member; };
}

// Unset while empty.
std::optional<std::string> unless_empty(std::string text) {
  return text.empty() ? std::nullopt : std::optional(std::move(text));
}

// The effects of settings that others switch on.
Effect with_rules(bool (*has)(const RuleTraits&)) {
  Effect effect{"gossip.rule", {}, [has](const E& it) { return has(traits(it.gossip.rule)); }};
  for (const RuleTraits& rule : kRules)
    if (has(rule)) effect.values.emplace_back(rule.name);
  return effect;
}
Effect with_optimizer(const std::string& name) {
  return {"training.optimizer", {name}, [name](const E& it) { return it.optimizer.name == name; }};
}
// beta1 replaces the momentum.
Effect without_beta1() {
  return {
      "training.beta1", {}, [](const E& it) { return it.optimizer.name != "adamw" || !it.optimizer.beta1; }};
}
Effect with_schedule(const std::string& name) {
  return {"training.schedule", {name}, [name](const E& it) { return it.schedule.name == name; }};
}
Effect with_sparse_payload() {
  Effect effect{"gossip.payload", {}, [](const E& it) { return !traits(it.gossip.payload).dense; }};
  for (const PayloadTraits& payload : kPayloads)
    if (!payload.dense) effect.values.emplace_back(payload.name);
  return effect;
}
Effect with_devices() {
  return {"training.devices", {}, [](const E& it) { return !it.training.devices.empty(); }};
}

Effect with_servers() {
  return with_rules([](const RuleTraits& rule) { return rule.has_servers(); });
}
Effect with_exchanges() {
  return with_rules([](const RuleTraits& rule) { return rule.exchanges(); });
}

bool has_outer_steps(const RuleTraits& rule) { return rule.has_outer_steps(); }
bool is_paced(const RuleTraits& rule) { return rule.is_paced(); }
bool has_links(const RuleTraits& rule) { return rule.exchanges() && !rule.has_servers(); }

// A topology's name may hold a whole graph.
constexpr std::size_t kTopologyBytesMax = 49'152;

Settings run_settings() {
  return {
      make({"name", "NAME", "name of the run; its folder is runs/NAME-SEED", per_peer}, &E::name,
           parse_run_name, same),
      whole(
          {"seed", "N",
           "seed of every random choice of the run; a peer started by hand also draws by its name", per_run},
          &E::seed, 0, UINT64_MAX),
      whole({"peers", "N", "number of peers", per_run}, &E::peers, 1, 100'000),
      one_named({"start", "NAME",
                 "simulate: peers begin together at time 0, or copy the first one's parameters, as processes",
                 per_peer},
                &E::start, kBegins),
      whole({"looks", "N",
             "evaluations of the mean model per epoch (0: only at the end; default 20; in swarm without a "
             "target as many as cost up to 2 % of the run, about 30 in all)",
             per_peer},
            &E::looks, 0, 10'000),
  };
}

Settings model_and_data_settings() {
  return {
      words({"model.name", "NAME-OR-FILE", "the network (starling model list), or a .toml file with layers",
             per_run},
            in(&E::model, &ModelSettings::name), 4096),
      make({"model.layers", "TOML", "the layers of a network that is not in the zoo", per_run},
           in(&E::model, &ModelSettings::layers), parse_network_layers, unless_empty, Setting::Form::array),
      words({"model.init", "FILE",
             "a safetensors file with the initial parameters; without it the seed draws them", per_peer},
            in(&E::model, &ModelSettings::init), 4096),
      words({"data.source", "NAME-OR-PATH", "the data set (starling data list)", per_run},
            in(&E::data, &DataSettings::source), 4096),
      words({"data.partition", "NAME", "how the data is distributed among the peers", per_run},
            in(&E::data, &DataSettings::partition), 100),
      words(
          {"data.own_data", "NAME-OR-PATH",
           "data of this peer's own, to train on all of it instead of on a part of the run's data", per_peer},
          in(&E::data, &DataSettings::own_data), 4096),
      choice({"data.windows", "NAME",
              "training samples of a text: random windows, moved in each epoch, or contiguous ones", per_run},
             in(&E::data, &DataSettings::windows), {"random", "contiguous"}),
  };
}

Settings optimizer_settings() {
  return {
      whole({"training.batch_size", "N", "samples per step", per_run},
            in(&E::training, &TrainingSettings::batch_size), 1, 65'536),
      choice({"training.optimizer", "NAME", "sgd or adamw", per_run},
             in(&E::optimizer, &OptimizerSettings::name), {"sgd", "adamw"}),
      real({"training.learning_rate", "R",
            "step size; default 0.05 divided by the number of workers, for adamw 0.001; 0 only mixes",
            per_run},
           in(&E::optimizer, &OptimizerSettings::learning_rate), {0, 1000}),
      real({"training.momentum", "R", "momentum of each worker's velocity; for adamw the default of beta1",
            per_run, without_beta1()},
           in(&E::optimizer, &OptimizerSettings::momentum), {0, 1, false, true}),
      real({"training.beta1", "R", "adamw: decay of the mean of gradients; default --momentum", per_run,
            with_optimizer("adamw")},
           in(&E::optimizer, &OptimizerSettings::beta1), {0, 1, false, true}),
      real({"training.beta2", "R", "adamw: decay of the mean of squared gradients", per_run,
            with_optimizer("adamw")},
           in(&E::optimizer, &OptimizerSettings::beta2), {0, 1, false, true}),
      real({"training.epsilon", "R", "adamw: added to the root of the mean of squared gradients", per_run,
            with_optimizer("adamw")},
           in(&E::optimizer, &OptimizerSettings::epsilon), {1e-30, 1}),
      real({"training.weight_decay", "R",
            "L2 penalty, added to the gradient; for adamw to the step, and not of biases and normalizations",
            per_run},
           in(&E::optimizer, &OptimizerSettings::weight_decay), {0, 1000}),
      real({"training.clip_norm", "C",
            "scales each gradient with a larger norm over all tensors down to this norm; 0: off", per_run},
           in(&E::optimizer, &OptimizerSettings::clip_norm), {0, 1e9}),
      truth({"training.nesterov", "", "Nesterov momentum", per_run},
            in(&E::optimizer, &OptimizerSettings::nesterov)),
      truth({"training.quasi_global_momentum", "", "momentum along the swarm's direction, for unlike data",
             per_run},
            in(&E::optimizer, &OptimizerSettings::quasi_global_momentum)),
  };
}

Setting rate_schedule() {
  const std::vector<std::string> names = {"constant", "cosine", "step"};
  const auto parse = [names](std::string_view text) -> Result<std::string> {
    auto name = parse_choice(text, names);
    if (!name && find_named<PipelineSchedule>(kPipelineSchedules, text))
      return Error{in_quotes(text) + " is a schedule of pipelines, --pipeline " + std::string(text) +
                   "; the learning rate has " + one_of(names)};
    return name;
  };
  Setting setting =
      make({"training.schedule", "NAME",
            "learning-rate schedule: constant, cosine (to --epochs or, without them, to --steps) "
            "or step",
            per_run},
           in(&E::schedule, &ScheduleSettings::name), parse, same);
  setting.choices = names;
  return setting;
}

Settings schedule_and_image_settings() {
  return {
      rate_schedule(),
      make({"training.warmup", "LENGTH",
            "linear warm-up over so many epochs (0.5) or tokens of the swarm (1e6 tokens) or steps of "
            "each peer (100 steps)",
            per_run},
           in(&E::schedule, &ScheduleSettings::warmup), parse_warmup, format_warmup),
      real({"training.step_epochs", "E", "schedule step: epochs between decays; default a third of the run",
            per_run, with_schedule("step")},
           in(&E::schedule, &ScheduleSettings::step_epochs), {0, 1e6, true}),
      real({"training.step_factor", "F", "schedule step: factor of each decay", per_run,
            with_schedule("step")},
           in(&E::schedule, &ScheduleSettings::step_factor), {0, 1, true}),
      real({"training.final_rate", "F", "schedule cosine: final rate as a fraction of the learning rate",
            per_run, with_schedule("cosine")},
           in(&E::schedule, &ScheduleSettings::final_rate), {0, 1}),
      whole({"training.crop", "N",
             "pads training images by N pixels on each side and crops them at random; 0: off", per_run},
            in(&E::training, &TrainingSettings::crop), 0, 1024),
      truth({"training.flip", "", "mirrors training images left to right at random", per_run},
            in(&E::training, &TrainingSettings::flip)),
  };
}

Settings device_settings() {
  return {
      make({"training.device", "DEVICE", "cpu, cuda:N (NVIDIA GPU number N), or auto: a GPU if one is usable",
            per_peer},
           in(&E::training, &TrainingSettings::device), parse_device, same),
      make(
          {"training.devices", "DEVICES",
           "several devices of one machine for one peer: cuda:0,cuda:1, or groups of processors: cpu:0,cpu:1",
           per_peer},
          in(&E::training, &TrainingSettings::devices), parse_devices,
          [](const std::vector<std::string>& devices) { return unless_empty(joined(devices, ",")); }),
      one_named({"training.split", "NAME",
                 "what the devices of a peer divide: data (a replica on each), stages (consecutive layers on "
                 "each), layers (a part of each layer), or auto (data or stages, as starling plan predicts)",
                 per_peer, with_devices()},
                in(&E::training, &TrainingSettings::split), kSplits),
      whole({"training.average_every", "S",
             "split data: steps on each of --devices between two averages of their replicas", per_peer,
             with_devices()},
            in(&E::training, &TrainingSettings::average_every), 1, 1'000'000),
      choice(
          {"training.precision", "NAME",
           "arithmetic of products: f32; bf16 on a GPU or a processor with matrix tiles (for text also with "
           "AVX512-BF16), else f32; tf32, "
           "float32 rounded to 10 bits by a GPU",
           per_peer},
          in(&E::training, &TrainingSettings::precision), {"f32", "bf16", "tf32"}),
      whole({"training.workers", "N", "Hogwild workers per peer", per_peer},
            in(&E::training, &TrainingSettings::workers), 1, 1024),
      recomputation({"training.recompute", "WHEN",
                     "recomputes activations instead of storing them, for less memory and more time: never, "
                     "always, or in stages except-last; alone it means always",
                     per_peer},
                    in(&E::training, &TrainingSettings::recompute)),
      make({"training.pace", "TIME", "minimum time of a step, for example 20ms", per_peer},
           in(&E::training, &TrainingSettings::pace), parse_time, format_duration),
  };
}

Settings stages_and_virtual_devices() { return pipeline_settings(with_devices()); }

Settings end_settings() {
  return {
      real(
          {"training.epochs", "E", "ends the run after this many passes of the swarm over the data", per_run},
          in(&E::end, &EndSettings::epochs), {0, 1e6, true}),
      whole({"training.steps", "S", "ends the run after this many steps of each peer", per_run},
            in(&E::end, &EndSettings::steps), 1, 1'000'000'000'000),
      make({"training.seconds", "T", "ends the run after this many seconds, or a time such as 2m", per_run},
           in(&E::end, &EndSettings::seconds), parse_run_time, format_duration),
      make({"training.target_accuracy", "A",
            "ends the run at this accuracy of the mean model, for example 0.97", per_run},
           in(&E::end, &EndSettings::target_accuracy), parse_accuracy, format_number, Setting::Form::number),
      real({"training.target_loss", "L",
            "ends the run at this loss of the mean model, in nats, for example 2 for a text", per_run},
           in(&E::end, &EndSettings::target_loss), {0, 1000, true}),
  };
}

Settings exchange_settings() {
  return {
      one_named({"gossip.rule", "NAME", "how peers mix: " + joined(names_of(kRules), ", "), per_run},
                in(&E::gossip, &GossipSettings::rule), kRules),
      words({"gossip.topology", "NAME", "who may exchange with whom (starling topology list)", per_run,
             with_rules(has_links)},
            in(&E::gossip, &GossipSettings::topology), kTopologyBytesMax),
      one_named({"gossip.partners", "POLICY",
                 "how a neighbor is chosen: uniform (at random), turns, or aware (prefers fast ones with new "
                 "samples)",
                 per_run, with_rules([](const RuleTraits& rule) { return rule.has_partners(); })},
                in(&E::gossip, &GossipSettings::partners), kPartners),
      make({"gossip.every", "WHEN",
            "exchange every '8 steps', '200ms', 'poisson 200ms', or 'always'; default by rule", per_run,
            with_rules(is_paced)},
           in(&E::gossip, &GossipSettings::every), parse_pace, format_pace),
      one_named({"gossip.payload", "NAME", "encoding of parameters: " + joined(names_of(kPayloads), ", "),
                 per_run, with_rules([](const RuleTraits& rule) { return rule.meeting != Meeting::never; })},
                in(&E::gossip, &GossipSettings::payload), kPayloads),
      real({"gossip.top_k", "FRACTION", "payload top-k: fraction of the parameters that is sent", per_run,
            with_sparse_payload()},
           in(&E::gossip, &GossipSettings::top_k), {0, 1, true}),
      one_named({"gossip.weights", "NAME",
                 "weight of a partner: equal, by its work, or by the age of its parameters", per_run,
                 with_rules([](const RuleTraits& rule) { return rule.shares; })},
                in(&E::gossip, &GossipSettings::weights), kShares),
      real({"gossip.outer_rate", "R", "rules noloco and diloco: rate of the outer step", per_run,
            with_rules(has_outer_steps)},
           in(&E::gossip, &GossipSettings::outer_rate), {0, 1, true}),
      real({"gossip.outer_momentum", "R",
            "rules noloco and diloco: momentum of the outer step; default 0.5, for diloco 0.9", per_run,
            with_rules(has_outer_steps)},
           in(&E::gossip, &GossipSettings::outer_momentum), {0, 1, false, true}),
      whole({"gossip.fragments", "N",
             "rules noloco and diloco: parts of the model that are exchanged in turn, each after --every",
             per_run, with_rules(has_outer_steps)},
            in(&E::gossip, &GossipSettings::fragments), 1, kFragmentsMax),
      real({"gossip.consensus_rate", "R",
            "rule choco: size of the step towards the partner; default by payload", per_run,
            with_rules([](const RuleTraits& rule) { return rule.copies; })},
           in(&E::gossip, &GossipSettings::consensus_rate), {0, 1, true}),
      real({"gossip.clip", "C", "rule clipped: largest accepted change, as a multiple of the median distance",
            per_run, with_rules([](const RuleTraits& rule) { return rule.clips; })},
           in(&E::gossip, &GossipSettings::clip), {0, 100, true}),
  };
}

Settings server_and_chunk_settings() {
  return {
      whole(
          {"gossip.servers", "N",
           "rules parameter-server and ssp: additional peers s0, s1, ... that each serve a part of the model",
           per_run, with_servers()},
          in(&E::gossip, &GossipSettings::servers), 1, kServersMax),
      whole({"gossip.racks", "N",
             "rule parameter-server: additional servers, each between a rack of peers and --servers; 0: none",
             per_run, with_rules([](const RuleTraits& rule) { return rule.racks; })},
            in(&E::gossip, &GossipSettings::racks), 0, kServersMax),
      real({"gossip.server_rate", "R",
            "rules parameter-server and ssp: fraction of a push that is applied; default 1 / number of "
            "pushing peers",
            per_run, with_servers()},
           in(&E::gossip, &GossipSettings::server_rate), {0, 1, true}),
      whole({"gossip.staleness", "N",
             "rule ssp: maximum number of pushes between the fastest and the slowest peer", per_run,
             with_rules([](const RuleTraits& rule) { return rule.bounded; })},
            in(&E::gossip, &GossipSettings::staleness), 1, kStalenessMax),
      make({"gossip.chunk", "SIZE", "bytes of float32 in a frame, for example 64KiB, or auto", per_peer,
            with_exchanges()},
           in(&E::gossip, &GossipSettings::chunk), automatic(parse_chunk), automatic_text(format_size)),
      make({"gossip.window", "N", "chunks sent and not yet answered, or auto", per_peer, with_exchanges()},
           in(&E::gossip, &GossipSettings::window),
           automatic([](std::string_view text) { return parse_whole(text, 1, 256); }),
           automatic_text([](std::uint64_t n) { return std::to_string(n); })),
  };
}

Settings network_settings() {
  return {
      make({"network.latency", "TIME",
            "one-way latency of every link; between processes, added to the actual one", per_peer},
           in(&E::network, &NetworkSettings::latency), parse_time, format_duration),
      make({"network.bandwidth", "RATE", "bandwidth of every link in each direction, for example 100Mbit/s",
            per_peer},
           in(&E::network, &NetworkSettings::bandwidth), parse_rate, format_rate),
      make({"network.port", "RATE",
            "bandwidth shared by all links of a simulated peer in each direction, as a network card; default "
            "one link's; or unlimited",
            per_peer},
           in(&E::network, &NetworkSettings::port), parse_port, format_port),
  };
}

Settings make_settings() {
  Settings table;
  for (const auto section : {run_settings, model_and_data_settings, optimizer_settings,
                             schedule_and_image_settings, device_settings, end_settings, exchange_settings,
                             server_and_chunk_settings, network_settings, stages_and_virtual_devices}) {
    for (Setting& setting : section()) table.push_back(std::move(setting));
  }
  return table;
}

Status set_one(Experiment& experiment, const Setting& setting, std::string_view value,
               const std::string& place) {
  Status status = setting.set(experiment, value);
  if (status.ok()) return status;
  return Error{place + ": " + setting.key + ": " + status.error().message};
}

std::string without_table(const std::string& key) { return key.substr(key.find('.') + 1); }

}  // namespace

const std::vector<Setting>& settings() {
  static const Settings table = make_settings();
  return table;
}

const Setting* find_setting(std::string_view key) {
  static const std::map<std::string_view, const Setting*> by_key = [] {
    std::map<std::string_view, const Setting*> all;
    for (const Setting& setting : settings()) all.emplace(setting.key, &setting);
    return all;
  }();
  const auto found = by_key.find(key);
  return found == by_key.end() ? nullptr : found->second;
}

Status set_value(Experiment& experiment, std::string_view key, std::string_view value,
                 const std::string& place) {
  if (const Setting* setting = find_setting(key)) return set_one(experiment, *setting, value, place);
  std::vector<std::string> keys;
  for (const auto& setting : settings()) keys.push_back(setting.key);
  return Error{place + ": " + unknown_key(key, keys)};
}

bool is_own_setting(const Setting& setting) {
  // Of [pipeline], those whose names are no other table's.
  static constexpr std::array kOfOtherTables = {"data.own_data",   "pipeline.micro_batches",
                                                "pipeline.cuts",   "pipeline.stage_replicas",
                                                "pipeline.speeds", "pipeline.memory"};
  return !setting.shared && (setting.key.starts_with("training.") ||
                             std::ranges::find(kOfOtherTables, setting.key) != kOfOtherTables.end());
}

const Setting* find_own(std::string_view key) {
  for (const char* const table : {"training.", "pipeline.", "data."}) {
    const Setting* const setting = find_setting(table + std::string(key));
    if (setting != nullptr && (is_own_setting(*setting) || setting->key.starts_with("training.")))
      return setting;
  }
  return nullptr;
}

Status set_own(OwnSettings& own, const std::string& key, const std::string& value) {
  if (key == "number") {
    const Status taken = take(PeerSet::parse(value), own.peers);
    return taken ? taken : Error{"peer.number: " + taken.error().message};
  }
  const Setting* const setting = find_own(key);
  if (setting == nullptr) {
    std::vector<std::string> keys = {"peer.number"};
    for (const Setting& known : settings())
      if (is_own_setting(known)) keys.push_back("peer." + without_table(known.key));
    return Error{unknown_key("peer." + key, keys)};
  }
  if (!is_own_setting(*setting)) {
    return Error{"peer." + key + ": all peers of a run share it; set it in [training]. A [[peer]] can set " +
                 own_setting_names()};
  }
  Experiment scratch;
  if (Status set = setting->set(scratch, value); !set)
    return Error{"peer." + key + ": " + set.error().message};
  const auto had = std::find_if(own.values.begin(), own.values.end(),
                                [&](const auto& pair) { return pair.first == setting->key; });
  if (had != own.values.end()) {
    had->second = value;
  } else {
    own.values.emplace_back(setting->key, value);
  }
  return Done{};
}

std::string own_setting_names() {
  std::vector<std::string> names;
  for (const Setting& setting : settings())
    if (is_own_setting(setting)) names.push_back(without_table(setting.key));
  return and_list(names);
}

Experiment of_peer(const Experiment& experiment, std::uint32_t peer) {
  Experiment its = experiment;
  its.own.clear();
  its.optimizer.learning_rate =
      resolved_learning_rate(experiment);  // the run's, however many workers this peer has
  for (const OwnSettings& own : experiment.own) {
    if (!own.peers.contains(peer)) continue;
    for (const auto& [key, value] : own.values) {
      // Of one device and several, the last that is set counts.
      if (key == "training.device") its.training.devices.clear();
      if (key == "training.devices") its.training.device = "auto";
      if (const Setting* setting = find_setting(key)) STARLING_CHECK(setting->set(its, value).ok());
    }
  }
  return its;
}

Status check_model(const Experiment& experiment) {
  if (experiment.model.layers.empty()) return Done{};
  if (Status fine = models::check_model_name(experiment.model.name); !fine)
    return Error{"model.name: " + fine.error().message};
  return Done{};
}

Status settle_model(Experiment& experiment, bool name_given, bool layers_given) {
  if (layers_given && !name_given) experiment.model.name = models::kUnnamedModel;
  if (name_given && !layers_given) experiment.model.layers.clear();
  return check_model(experiment);
}

Status read_environment(Experiment& experiment, const std::function<const char*(const char*)>& lookup) {
  Experiment read = experiment;
  bool name = false, layers = false;
  for (const auto& setting : settings()) {
    const char* value = lookup(setting.environment.c_str());
    if (value == nullptr || *value == '\0') continue;
    if (Status status = set_one(read, setting, value, setting.environment); !status) return status;
    name = name || setting.key == "model.name";
    layers = layers || setting.key == "model.layers";
  }
  if (Status status = settle_model(read, name, layers); !status)
    return Error{"STARLING_MODEL: " + status.error().message};
  experiment = std::move(read);
  return Done{};
}

}  // namespace starling::training
