// An experiment as a value: everything that can be set, with its default. The table of settings (settings.h)
// gives each field its key, flag, parser and help line; check.h decides which combinations are possible;
// experiment_file.h reads and writes it as TOML. Names of models, topologies, partitions and data sets are
// resolved by their rooms.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "training/planner/recomputation.h"
#include "training/planner/schedule.h"
#include "training/runs/experiment/fault.h"
#include "wire/rules/pace.h"
#include "wire/rules/policy.h"
#include "wire/rules/rule.h"

namespace starling::training {

// Settings that some peers have instead of the experiment's: one [[peer]] of the file.
struct OwnSettings {
  PeerSet peers = 0;
  std::vector<std::pair<std::string, std::string>> values{};  // keys such as "training.workers", in order
  friend bool operator==(const OwnSettings&, const OwnSettings&) = default;
};

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();  // a rate

// The sections of the file; [training] is divided into `training`, `optimizer`, `schedule` and `end`.
struct ModelSettings {
  std::string name = "lenet";
  std::string layers{};               // models/spec_text.h; empty: `name` is in the zoo
  std::optional<std::string> init{};  // a file with the initial parameters; unset: drawn from the seed
  friend bool operator==(const ModelSettings&, const ModelSettings&) = default;
};

struct DataSettings {
  std::string source = "glyphs";
  std::string partition = "iid";
  std::optional<std::string> own_data{};  // of one peer, which trains on all of it instead of on its part
  std::string windows = "random";         // of a text (training/learning/augment.h), or contiguous
  friend bool operator==(const DataSettings&, const DataSettings&) = default;
};

// How several devices of a peer share the training.
enum class Split : std::uint8_t {
  data,       // a replica on each, which are averaged from time to time (training/learning/device_group.h)
  stages,     // one replica, consecutive layers on each (training/learning/stages)
  layers,     // one replica, a part of each layer on each
  automatic,  // data or stages, as the planner of pipelines predicts
};
struct SplitTraits {
  std::string_view name;
};
inline constexpr std::array<SplitTraits, 4> kSplits = {{{"data"}, {"stages"}, {"layers"}, {"auto"}}};

struct TrainingSettings {
  std::uint32_t batch_size = 64;
  std::uint32_t crop = 0;  // pixels (training/learning/augment.h); 0: images are not cropped
  bool flip = false;
  std::string device = "auto";       // or cpu, cuda:N
  std::vector<std::string> devices;  // instead of `device`: several, which train as `split` says
  Split split = Split::data;
  std::uint32_t average_every = 8;  // split data: steps of each device between two averages
  std::string precision = "f32";    // of products, or bf16, tf32 (kernels/backend.h)
  std::uint32_t workers = 1;
  Recomputation recompute = Recomputation::never;  // of activations; without stages only never and always
  Duration pace{0};
  friend bool operator==(const TrainingSettings&, const TrainingSettings&) = default;
};

// Of split = stages.
struct PipelineSettings {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  std::uint32_t micro_batches = 0;  // of a batch; 0: see resolved_micro_batches()
  std::vector<int> cuts;            // the first layer of each stage but the first; empty: settle_split()
  std::vector<int> stage_replicas;  // of each stage, together as many as devices; empty: one
  bool vertical_sync = false;       // pipedream
  // Of simulated peers.
  std::vector<double> speeds;             // of the devices, where 1 is a single device's; empty: 1
  std::optional<double> bandwidth{};      // bits per second between stages; unset: transfers take no time
  std::optional<Duration> latency{};      // of a transfer
  std::optional<std::uint64_t> memory{};  // bytes of each device; unset: no bound
  friend bool operator==(const PipelineSettings&, const PipelineSettings&) = default;
};

struct OptimizerSettings {
  std::string name = "sgd";
  std::optional<double> learning_rate{};  // unset: depends on the optimizer, see resolved_learning_rate()
  double momentum = 0.9;
  std::optional<double> beta1{};  // adamw; unset: momentum
  double beta2 = 0.999;           // adamw
  double epsilon = 1e-8;          // adamw
  double weight_decay = 0;
  double clip_norm = 0;  // the largest norm of a gradient; 0: any
  bool nesterov = false;
  bool quasi_global_momentum = false;
  friend bool operator==(const OptimizerSettings&, const OptimizerSettings&) = default;
};

// The length of the warm-up: epochs or tokens of the swarm, or the peer's own steps.
struct Warmup {
  enum class Unit : std::uint8_t { epochs, steps, tokens };
  double length = 0;
  Unit unit = Unit::epochs;
  friend bool operator==(const Warmup&, const Warmup&) = default;
};

// The learning rate over the run (schedule.h).
struct ScheduleSettings {
  std::string name = "constant";  // or cosine, step
  Warmup warmup{};
  std::optional<double> step_epochs;  // step: epochs between decays; unset: a third of the run
  double step_factor = 0.1;           // step
  double final_rate = 0;              // cosine
  friend bool operator==(const ScheduleSettings&, const ScheduleSettings&) = default;
};

// The run ends at the first that is reached. With none: 3 epochs in `swarm` and `simulate`, never in `peer`.
struct EndSettings {
  std::optional<double> epochs;
  std::optional<std::uint64_t> steps;
  std::optional<Duration> seconds;
  std::optional<double> target_accuracy;
  std::optional<double> target_loss;  // nats, of the mean model
  friend bool operator==(const EndSettings&, const EndSettings&) = default;
};

struct GossipSettings {
  Rule rule = Rule::pairwise;
  std::string topology = "exponential";
  Partners partners = Partners::uniform;
  std::optional<Pace> every;  // unset: the rule's, see resolved_every()
  Payload payload = Payload::f32;
  double top_k = 0.01;  // payload top-k: the fraction of the parameters that is sent
  Shares weights = Shares::equal;
  double outer_rate = 0.7;                 // rules with outer steps
  std::optional<double> outer_momentum{};  // the same; unset: the rule's, see resolved_outer_momentum()
  std::uint32_t fragments = 1;             // the same: parts of the model that take turns
  std::optional<double> consensus_rate{};  // choco; unset: depends on the payload
  double clip = 0.5;                       // clipped: the largest change, in median distances
  std::uint32_t servers = 1;               // rules with servers: each serves a part of the model
  std::uint32_t racks = 0;                 // rules with racks: servers between those and the peers
  std::optional<double> server_rate{};     // rules with servers; unset: 1 / number of peers that push
  std::uint64_t staleness = 3;             // pushes, in bounded rules
  std::uint64_t chunk = 0;                 // bytes of float32 per frame; 0: chosen per link
  std::uint32_t window = 0;                // unanswered chunks; 0: chosen per link
  friend bool operator==(const GossipSettings&, const GossipSettings&) = default;
};

// Links. Unset: as between processes; in `simulate` 100 us and 1 Gbit/s.
struct NetworkSettings {
  std::optional<Duration> latency;
  std::optional<double> bandwidth;  // bits per second
  // The network card of a simulated peer, each way, in bits per second, or kUnlimited. Unset: one link's
  // bandwidth.
  std::optional<double> port;
  friend bool operator==(const NetworkSettings&, const NetworkSettings&) = default;
};

// How the peers that are there from the beginning of a simulation get the initial parameters.
enum class Begin : std::uint8_t {
  together,  // all have them at time 0, and train
  copy,      // they copy the first peer's, as processes do, and train when all have them
};
struct BeginTraits {
  std::string_view name;
};
inline constexpr std::array<BeginTraits, 2> kBegins = {{{"together"}, {"copy"}}};

struct Experiment {
  std::string name = "run";
  std::uint64_t seed = 1;
  std::uint32_t peers = 4;
  Begin start = Begin::together;
  std::optional<std::uint32_t> looks;  // evaluations of the mean model per epoch; unset: see resolved_looks()

  ModelSettings model;
  DataSettings data;
  TrainingSettings training;
  OptimizerSettings optimizer;
  ScheduleSettings schedule;
  EndSettings end;
  GossipSettings gossip;
  NetworkSettings network;
  PipelineSettings pipeline;

  std::vector<OwnSettings> own;  // where several name the same peer, the last one counts, key by key
  std::vector<Fault> faults;

  // What its file says of the contents of other files, as of the run that wrote it: hashes by their names.
  std::map<std::string, std::string> contents{};

  friend bool operator==(const Experiment&, const Experiment&) = default;
};

// The step size of each worker: as set, else the optimizer's default. SGD's default is divided by the number
// of a peer's workers: they step from the same place, so together they move as far as one worker at the whole
// rate. AdamW's steps do not grow with the workers, so its default is not divided (figures: docs/CPU.md).
double resolved_learning_rate(const Experiment& experiment);
// SGD's default with this many workers.
double default_sgd_rate(std::uint32_t workers);

// Parameter servers are peers beside those that train. servers_in_all() counts them, racks included.
bool has_servers(const Experiment& experiment);
std::uint32_t servers_in_all(const Experiment& experiment);
// "p3" for peers that train; "s0", "s1", ... for servers, which are numbered after them.
std::string peer_name(const Experiment& experiment, std::uint32_t number);

// Whether the devices of a peer hold one replica together: as stages, or with divided layers.
bool has_stages(const Experiment& experiment);
bool has_divided_layers(const Experiment& experiment);
// The micro-batches of a batch: as set, else the most that divide it equally and are at most four for each of
// `stages`, beyond which the bubble is small (Huang et al., "GPipe", 2019, section 2.3). Without a flush the
// batches for an update: as set, else 1.
std::uint32_t resolved_micro_batches(const Experiment& experiment, std::size_t stages);

// How often peers exchange: as set, else the rule's default.
Pace resolved_every(const Experiment& experiment);
// The momentum of outer steps: as set, else the rule's default.
double resolved_outer_momentum(const Experiment& experiment);
// The consensus rate of choco: as set, else the payload's default.
double resolved_consensus_rate(const Experiment& experiment);
// Whether there is an accuracy or a loss to reach; whether an evaluation reaches it (with both, the first
// that is reached); and whether one on a few samples comes so near that all of them must decide.
inline bool has_target(const EndSettings& end) { return end.target_accuracy || end.target_loss; }
bool reaches_target(const EndSettings& end, double accuracy, double loss);
bool is_near_target(const EndSettings& end, double accuracy, double loss);
// Evaluations of the mean model per epoch, if they cost the peers nothing or there is a target to reach.
std::uint32_t resolved_looks(const Experiment& experiment);

// The link from `from` to `to` at a time of the run: `[network]` as changed by the faults; several faults
// combine as worse().
LinkChange link_at(const Experiment& experiment, std::uint32_t from, std::uint32_t to, Duration at);

// The largest factor by which the peer is ever slowed (the median of a random factor), at least 1.
double slowness(const Experiment& experiment, std::uint32_t peer);

}  // namespace starling::training
