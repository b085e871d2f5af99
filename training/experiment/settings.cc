#include "training/experiment/settings.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "models/spec_text.h"
#include "training/experiment/nearest.h"
#include "training/experiment/setting_kinds.h"

namespace starling::training {
namespace {

using enum Setting::Form;
using E = Experiment;
using Settings = std::vector<Setting>;

// A topology's name may hold a whole graph.
constexpr std::size_t kTopologyBytesMax = 49'152;

template <class Table>
std::string list_of(const Table& table) {
  std::string text;
  for (const std::string& name : names_of(table)) text += (text.empty() ? "" : ", ") + name;
  return text;
}

Settings run_settings() {
  return {
      make({"name", "--name", "NAME", "name of the run; its folder is runs/NAME-SEED", text, per_peer},
           &E::name, parse_run_name, same),
      whole({"seed", "--seed", "N", "seed of every random choice of the run", number, per_run}, &E::seed, 0,
            UINT64_MAX),
      whole({"peers", "--peers", "N", "number of peers", number, per_run}, &E::peers, 1, 100'000),
      whole({"looks", "--looks", "N",
             "evaluations of the mean model per epoch (0: only at the end; default 20; in swarm without a "
             "target as many as cost up to 2 % of the run, about 30 in all)",
             number, per_peer},
            &E::looks, 0, 10'000),
  };
}

Settings model_and_data_settings() {
  return {
      words({"model.name", "--model", "NAME-OR-FILE",
             "the network (starling model list), or a .toml file with layers", text, per_run},
            &E::model, 4096),
      network_layers({"model.layers", "--layers", "TOML", "the layers of a network that is not in the zoo",
                      array, per_run}),
      words(
          {"model.init", "--init", "FILE",
           "a safetensors file with the initial parameters; without it the seed draws them", text, per_peer},
          &E::init, 4096),
      words({"data.source", "--data", "NAME-OR-PATH", "the data set (starling data list)", text, per_run},
            &E::data, 4096),
      words({"data.partition", "--partition", "NAME", "how the data is distributed among the peers", text,
             per_run},
            &E::partition, 100),
  };
}

Settings optimizer_settings() {
  return {
      whole({"training.batch_size", "--batch-size", "N", "samples per step", number, per_run}, &E::batch_size,
            1, 65'536),
      choice({"training.optimizer", "--optimizer", "NAME", "sgd or adamw", text, per_run}, &E::optimizer,
             {"sgd", "adamw"}),
      real({"training.learning_rate", "--learning-rate", "R",
            "step size; default 0.05 divided by the number of workers, for adamw 0.001; 0 only mixes", number,
            per_run},
           &E::learning_rate, {0, 1000}),
      real({"training.momentum", "--momentum", "R", "momentum of each worker's velocity; for adamw beta1",
            number, per_run},
           &E::momentum, {0, 1, false, true}),
      real({"training.beta2", "--beta2", "R", "adamw: decay of the mean of squared gradients", number,
            per_run},
           &E::beta2, {0, 1, false, true}),
      real({"training.weight_decay", "--weight-decay", "R",
            "L2 penalty, added to the gradient; for adamw to the step", number, per_run},
           &E::weight_decay, {0, 1000}),
      truth({"training.nesterov", "--nesterov", "", "Nesterov momentum", boolean, per_run}, &E::nesterov),
      truth({"training.quasi_global_momentum", "--quasi-global-momentum", "",
             "momentum along the swarm's direction, for unlike data", boolean, per_run},
            &E::quasi_global_momentum),
  };
}

Settings schedule_and_image_settings() {
  return {
      choice({"training.schedule", "--schedule", "NAME",
              "learning-rate schedule over the swarm's progress: constant, cosine (to --epochs) or step",
              text, per_run_if_set},
             &E::schedule, {"constant", "cosine", "step"}),
      real({"training.warmup", "--warmup", "E", "epochs of linear warmup from 0, for example 0.5", number,
            per_run_if_set},
           &E::warmup, {0, 1e6}),
      real({"training.step_epochs", "--step-epochs", "E",
            "schedule step: epochs between decays; default a third of the run", number, per_run_if_set},
           &E::step_epochs, {0, 1e6, true}),
      real({"training.step_factor", "--step-factor", "F", "schedule step: factor of each decay", number,
            per_run_if_set},
           &E::step_factor, {0, 1, true}),
      real({"training.final_rate", "--final-rate", "F",
            "schedule cosine: final rate as a fraction of the learning rate", number, per_run_if_set},
           &E::final_rate, {0, 1}),
      whole({"training.crop", "--crop", "N",
             "pads training images by N pixels on each side and crops them at random; 0: off", number,
             per_run_if_set},
            &E::crop, 0, 1024),
      truth({"training.flip", "--flip", "", "mirrors training images left to right at random", boolean,
             per_run_if_set},
            &E::flip),
  };
}

Settings device_settings() {
  return {
      make({"training.device", "--device", "DEVICE",
            "where a peer trains: cpu, cuda:N (an NVIDIA GPU, by number), or auto: a GPU if one can be used",
            text, per_peer},
           &E::device, parse_device, same),
      several_devices({"training.devices", "--devices", "DEVICES",
                       "several GPUs of one machine for one peer, with a replica on each: cuda:0,cuda:1",
                       text, per_peer}),
      whole({"training.average_every", "--average-every", "S",
             "steps on each of --devices between two averages of their replicas", number, per_peer},
            &E::average_every, 1, 1'000'000),
      choice({"training.precision", "--precision", "NAME",
              "arithmetic of products: f32; bf16 where the device supports it; tf32, float32 rounded to 10 "
              "bits by a GPU",
              text, per_peer},
             &E::precision, {"f32", "bf16", "tf32"}),
      whole({"training.workers", "--workers", "N", "Hogwild workers per peer", number, per_peer}, &E::workers,
            1, 1024),
      truth({"training.recompute", "--recompute", "",
             "recomputes activations instead of storing them: less memory, more time", boolean, per_peer},
            &E::recompute),
      make({"training.pace", "--pace", "TIME", "minimum time of a step, for example 20ms", text, per_peer},
           &E::pace, parse_time, format_duration),
  };
}

Settings end_settings() {
  return {
      real({"training.epochs", "--epochs", "E",
            "ends the run after this many passes of the swarm over the data", number, per_run},
           &E::epochs, {0, 1e6, true}),
      whole({"training.steps", "--steps", "S", "ends the run after this many steps of each peer", number,
             per_run},
            &E::steps, 1, 1'000'000'000'000),
      make({"training.seconds", "--seconds", "T",
            "ends the run after this many seconds, or a time such as 2m", text, per_run},
           &E::seconds, parse_run_time, format_duration),
      real({"training.target_accuracy", "--target-accuracy", "A",
            "ends the run when the mean model reaches it (0.97)", number, per_run},
           &E::target_accuracy, {0, 1, true}),
  };
}

Settings exchange_settings() {
  return {
      one_named({"gossip.rule", "--rule", "NAME", "how peers mix: " + list_of(kRules), text, per_run},
                &E::rule, kRules),
      words({"gossip.topology", "--topology", "NAME", "who may exchange with whom (starling topology list)",
             text, per_run},
            &E::topology, kTopologyBytesMax),
      one_named({"gossip.partners", "--partners", "POLICY",
                 "how a neighbor is chosen: uniform (at random), turns, or aware (prefers fast ones with new "
                 "samples)",
                 text, per_run},
                &E::partners, kPartners),
      make({"gossip.every", "--every", "WHEN",
            "how often a peer starts an exchange: '8 steps', '200ms', 'poisson 200ms', 'always'; default by "
            "rule",
            text, per_run},
           &E::every, parse_pace, format_pace),
      one_named({"gossip.payload", "--payload", "NAME", "encoding of parameters: " + list_of(kPayloads), text,
                 per_run},
                &E::payload, kPayloads),
      real({"gossip.top_k", "--top-k", "FRACTION", "payload top-k: fraction of the parameters that is sent",
            number, per_run},
           &E::top_k, {0, 1, true}),
      one_named({"gossip.weights", "--weights", "NAME",
                 "weight of a partner: equal, by its work, or by the age of its parameters", text, per_run},
                &E::weights, kShares),
      real({"gossip.outer_rate", "--outer-rate", "R", "rule noloco: rate of the outer step", number, per_run},
           &E::outer_rate, {0, 1, true}),
      real({"gossip.outer_momentum", "--outer-momentum", "R", "rule noloco: momentum of the outer step",
            number, per_run},
           &E::outer_momentum, {0, 1, false, true}),
      real({"gossip.consensus_rate", "--consensus-rate", "R",
            "rule choco: size of the step towards the partner; default by payload", number, per_run},
           &E::consensus_rate, {0, 1, true}),
      real({"gossip.clip", "--clip", "C",
            "rule clipped: largest accepted change, as a multiple of the median distance", number, per_run},
           &E::clip, {0, 100, true}),
  };
}

Settings server_and_chunk_settings() {
  return {
      whole(
          {"gossip.servers", "--servers", "N",
           "rules parameter-server and ssp: additional peers s0, s1, ... that each serve a part of the model",
           number, per_run_if_set},
          &E::servers, 1, kServersMax),
      whole({"gossip.racks", "--racks", "N",
             "rule parameter-server: additional servers, each between a rack of peers and --servers; 0: none",
             number, per_run_if_set},
            &E::racks, 0, kServersMax),
      real({"gossip.server_rate", "--server-rate", "R",
            "rules parameter-server and ssp: fraction of a push that is applied; default 1 / number of "
            "pushing peers",
            number, per_run_if_set},
           &E::server_rate, {0, 1, true}),
      whole({"gossip.staleness", "--staleness", "N",
             "rule ssp: maximum number of pushes between the fastest and the slowest peer", number,
             per_run_if_set},
            &E::staleness, 1, kStalenessMax),
      make({"gossip.chunk", "--chunk", "SIZE", "bytes of float32 in a frame, for example 64KiB, or auto",
            text, per_peer},
           &E::chunk, automatic(parse_chunk), automatic_text(format_size)),
      make({"gossip.window", "--window", "N", "chunks sent and not yet answered, or auto", text, per_peer},
           &E::window, automatic([](std::string_view text) { return parse_whole(text, 1, 256); }),
           automatic_text([](std::uint64_t n) { return std::to_string(n); })),
  };
}

Settings network_settings() {
  return {
      make({"network.latency", "--latency", "TIME",
            "one-way latency of every link; between processes, added to the actual one", text, per_peer},
           &E::latency, parse_time, format_duration),
      make({"network.bandwidth", "--bandwidth", "RATE",
            "bandwidth of every link in each direction, for example 100Mbit/s", text, per_peer},
           &E::bandwidth, parse_rate, format_rate),
      make({"network.port", "--port-bandwidth", "RATE",
            "bandwidth shared by all links of a simulated peer in each direction, as a network card; default "
            "that of one link; or unlimited",
            text, per_peer},
           &E::port, parse_port, format_port),
  };
}

Settings make_settings() {
  Settings table;
  for (const auto section :
       {run_settings, model_and_data_settings, optimizer_settings, schedule_and_image_settings,
        device_settings, end_settings, exchange_settings, server_and_chunk_settings, network_settings}) {
    for (Setting& setting : section()) table.push_back(std::move(setting));
  }
  for (auto& setting : table) {
    if (setting.key == "data.source") setting.environment = "STARLING_DATA_SOURCE";
  }
  return table;
}

Status set_one(Experiment& experiment, const Setting& setting, std::string_view value,
               const std::string& place) {
  Status status = setting.set(experiment, value);
  if (status.ok()) return status;
  return Error{place + ": " + setting.key + ": " + status.error().message};
}

std::string without_table(const std::string& key) {
  return key.substr(key.find('.') + 1);
}

}  // namespace

const std::vector<Setting>& settings() {
  static const Settings table = make_settings();
  return table;
}

const Setting* find_setting(std::string_view key) {
  for (const auto& setting : settings())
    if (setting.key == key) return &setting;
  return nullptr;
}

Status set_value(Experiment& experiment, std::string_view key, std::string_view value,
                 const std::string& place) {
  if (const Setting* setting = find_setting(key)) return set_one(experiment, *setting, value, place);
  std::vector<std::string> keys;
  for (const auto& setting : settings()) keys.push_back(setting.key);
  return Error{place + ": " + unknown_key(key, keys)};
}

bool is_own_setting(const Setting& setting) {
  return setting.key.starts_with("training.") && !setting.shared;
}

Status set_own(OwnSettings& own, const std::string& key, const std::string& value) {
  if (key == "number") {
    const auto peers = PeerSet::parse(value);
    if (!peers) return Error{"peer.number: " + peers.error().message};
    own.peers = *peers;
    return Done{};
  }
  const Setting* setting = find_setting("training." + key);
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
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += std::string(i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

Experiment of_peer(const Experiment& experiment, std::uint32_t peer) {
  Experiment its = experiment;
  its.own.clear();
  its.learning_rate = resolved_learning_rate(experiment);  // the run's, however many workers this peer has
  for (const OwnSettings& own : experiment.own) {
    if (!own.peers.contains(peer)) continue;
    for (const auto& [key, value] : own.values) {
      // One device or several: the last one that is set counts.
      if (key == "training.device") its.devices.clear();
      if (key == "training.devices") its.device = "auto";
      if (const Setting* setting = find_setting(key)) STARLING_CHECK(setting->set(its, value).ok());
    }
  }
  return its;
}

Status check_model(const Experiment& experiment) {
  if (experiment.layers.empty()) return Done{};
  if (Status fine = models::check_model_name(experiment.model); !fine)
    return Error{"model.name: " + fine.error().message};
  return Done{};
}

Status settle_model(Experiment& experiment, bool name_given, bool layers_given) {
  if (layers_given && !name_given) experiment.model = models::kUnnamedModel;
  if (name_given && !layers_given) experiment.layers.clear();
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

std::vector<std::pair<std::string, std::string>> shared_settings(const Experiment& experiment) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const auto& setting : settings()) {
    if (!setting.shared) continue;
    if (!setting.told_by_default && setting.get(experiment) == setting.get(Experiment{})) continue;
    if (setting.key == "training.learning_rate") {
      values.emplace_back(setting.key, format_number(resolved_learning_rate(experiment)));
    } else if (setting.key == "gossip.every") {
      values.emplace_back(setting.key, format_pace(resolved_every(experiment)));
    } else if (auto value = setting.get(experiment)) {
      values.emplace_back(setting.key, std::move(*value));
    }
  }
  return values;
}

Status apply_shared(Experiment& experiment, const std::vector<std::pair<std::string, std::string>>& values) {
  static const std::string kPlace = "the swarm's settings";
  Experiment joined = experiment;
  for (const auto& setting : settings()) {
    if (setting.shared) setting.reset(joined);
  }
  for (const auto& [key, value] : values) {
    const Setting* setting = find_setting(key);
    // An earlier version may list a setting that is each peer's own today; it had only the default.
    if (setting != nullptr && !setting->shared && setting->get(Experiment{}) == value) continue;
    if (setting != nullptr && !setting->shared)
      return Error{kPlace + ": " + setting->key + " is each peer's own and cannot be shared"};
    if (Status status = set_value(joined, key, value, kPlace); !status) return status;
  }
  experiment = std::move(joined);
  return Done{};
}

}  // namespace starling::training
