// An experiment as a value, and the one table of everything that can be set in it. The experiment file, the
// environment and the flags all go through this table, so a key has one name, one parser, one default and one
// help line, and what a joiner is told is a list of the same keys. Names of models, topologies, partitions
// and data sets are looked up later, by their rooms; here they only have to be decent text.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "training/experiment/fault.h"
#include "training/experiment/peer_set.h"

namespace starling::training {

// How often a peer begins an exchange: after so many of its own steps, after so much time, or as soon as the
// last one ended.
struct Every {
  enum class Kind : std::uint8_t { steps, time, poisson, always };
  Kind kind = Kind::steps;
  std::uint64_t steps = 8;  // of Kind::steps, else the default
  Duration time{0};         // of Kind::time; the mean of Kind::poisson; else zero
  friend bool operator==(const Every&, const Every&) = default;
};
Result<Every> parse_every(
    std::string_view text);  // "8 steps", "200ms", "poisson 200ms", "always"; a bare number is steps
std::string format_every(const Every& every);

// Settings that some peers have in place of the experiment's: one [[peer]] of the file.
struct OwnSettings {
  PeerSet peers = 0;
  std::vector<std::pair<std::string, std::string>> values{};  // of keys such as "training.workers", in order
  friend bool operator==(const OwnSettings&, const OwnSettings&) = default;
};

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();  // of a rate

// The rule that is none of the gossip's: bulk-synchronous training, in which every step is one of all peers
// together. It has drivers of its own (lab/all_reduce.h, node/all_reduce.h); the core knows nothing of it.
inline constexpr const char* kAllReduce = "all-reduce";

struct Experiment {
  std::string name = "run";
  std::uint64_t seed = 1;
  std::uint32_t peers = 4;

  std::string model = "lenet";
  std::string layers{};  // models/spec_text.h; empty: `model` is one of the zoo
  std::optional<std::string> init{};  // a file with the parameters to begin with; unset: drawn from the seed
  std::string data = "glyphs";
  std::string partition = "iid";

  std::uint32_t batch_size = 64;
  std::string optimizer = "sgd";
  std::optional<double> learning_rate{};  // unset: by the optimizer, see resolved_learning_rate()
  double momentum = 0.9;                  // of adamw: beta1
  double beta2 = 0.999;                   // of adamw
  double weight_decay = 0;
  bool nesterov = false;
  bool quasi_global_momentum = false;
  std::string schedule = "constant";  // of the learning rate (training/schedule.h): or cosine, step
  double warmup = 0;                  // epochs, as the next one
  std::optional<double> step_epochs;  // of step; unset: a third of the run
  double step_factor = 0.1;           // of step
  double final_rate = 0;              // of cosine
  std::uint32_t crop = 0;             // of training images (training/augment.h); 0: none
  bool flip = false;
  std::string device = "auto";       // or cpu, cuda:N
  std::vector<std::string> devices;  // instead of it: several GPUs, a replica on each
  std::uint32_t average_every = 8;   // steps of each of them between two averages
  std::string precision = "f32";     // or bf16, tf32: what kernels multiply (kernels/backend.h)
  std::uint32_t workers = 1;
  bool recompute = false;  // gradient checkpointing
  Duration pace{0};

  // The end: the first that is reached; none: 3 epochs in `swarm` and `simulate`, until stopped in `peer`.
  std::optional<double> epochs;
  std::optional<std::uint64_t> steps;
  std::optional<Duration> seconds;
  std::optional<double> target_accuracy;
  std::optional<std::uint32_t> looks;  // at the mean model, in an epoch of the swarm; unset: see resolved_looks()

  std::string rule = "pairwise";
  std::string topology = "exponential";
  std::string partners = "uniform";        // how one of the neighbors is chosen: or turns, aware
  std::optional<Every> every;              // unset: by the rule, see resolved_every()
  std::string payload = "f32";             // or bf16, int8, top-k
  double top_k = 0.01;                     // the part of the floats that travels, of payload top-k
  std::string weights = "equal";           // or work, age: by which partners far behind count for less
  double outer_rate = 0.7;                 // of noloco
  double outer_momentum = 0.5;             // of noloco
  std::optional<double> consensus_rate{};  // of choco; unset: by payload
  double clip = 0.5;                       // of clipped: the multiple of the median distance that is taken
  std::uint32_t servers = 1;               // of parameter-server and ssp: each of a part of the model
  std::uint32_t racks = 0;                 // of parameter-server: servers between those and the peers
  std::optional<double> server_rate{};     // of both; unset: 1 / number of those who push
  std::uint64_t staleness = 3;             // of ssp: pushes
  std::uint64_t chunk = 0;                 // bytes of float32 in a frame; 0: as suits the link
  std::uint32_t window = 0;                // chunks sent and not yet answered; 0: as suits the link

  // Of links; unset: as they are between processes, 100 us and 1 Gbit/s in `simulate`.
  std::optional<Duration> latency;
  std::optional<double> bandwidth;  // bits per second
  // What all links of one simulated peer share, each way; unset: as much as one of them has.
  std::optional<double> port;  // bits per second, or kUnlimited

  std::vector<OwnSettings> own;  // of several that speak of one peer the last counts, key by key
  std::vector<Fault> faults;

  friend bool operator==(const Experiment&, const Experiment&) = default;
};

// The step size of each worker: as set, else the optimizer's default. That of SGD is shared among a peer's
// workers: they take their steps from one place, so that together they go as far as one at the whole rate.
// AdamW's is not, whose steps grow no longer for it (docs/CPU.md has figures of both).
double resolved_learning_rate(const Experiment& experiment);

// "cuda:0,cuda:1"
std::string join_devices(const std::vector<std::string>& devices);

// One sentence where more than two workers with a learning rate that was set go together so far that a
// network may not learn; else nothing.
std::string warning_of_workers(const Experiment& experiment);

// Whether its rule has parameter servers: peers beside those that train. And how many they are.
bool has_servers(const Experiment& experiment);
std::uint32_t servers_in_all(const Experiment& experiment);
// "p3" of those that train, "s0" and so on of the servers, which are numbered behind them.
std::string peer_name(const Experiment& experiment, std::uint32_t number);

// How often its peers exchange: as set, else the rule's default.
Every resolved_every(const Experiment& experiment);
// How often the mean model is judged where looks cost the peers nothing, or there is a target to be reached.
std::uint32_t resolved_looks(const Experiment& experiment);

// No time in an experiment is longer: up to here every nanosecond reads back exactly.
inline constexpr Duration kLongestTime = std::chrono::hours(1000);

// One thing that can be set. `set` refuses a bad value with a sentence that does not repeat the key.
struct Setting {
  enum class Form : std::uint8_t { text, number, boolean, array };  // how a TOML file writes the value

  std::string key;          // in the file: "training.batch_size"
  std::string flag;         // "--batch-size"
  std::string environment;  // "STARLING_BATCH_SIZE"
  std::string placeholder;  // "N", "NAME", "RATE"; empty: a switch, whose flag alone means "true"
  std::string help;
  Form form = Form::text;
  bool shared = false;           // belongs to the run, not to a peer: travels in the manifest,
  bool told_by_default = false;  // also while it has its default
  std::function<Status(Experiment&, std::string_view)> set;
  std::function<std::optional<std::string>(const Experiment&)> get;  // nullopt: unset
  std::function<void(Experiment&)> reset;                            // back to the default
};
const std::vector<Setting>& settings();

// Whether a [[peer]] may have this setting: it is of [training], and each peer's own.
bool is_own_setting(const Setting& setting);

// The experiment as this peer has it: its own settings in place of the run's. It has no `own` any more.
Experiment of_peer(const Experiment& experiment, std::uint32_t peer);

// Sets one key; an unknown key or bad value is a sentence that names the key and what is accepted. `place`
// begins it
// ("experiment.toml, line 3", "--set", "STARLING_SEED").
Status set_value(Experiment& experiment, std::string_view key, std::string_view value,
                 const std::string& place);

// What one source of settings (a file, the environment, a command line) says of the network, once it was read
// over `experiment`: layers without a name are called "custom"; a name without layers is another network, so
// that layers of an earlier source go; both together must be what a network with layers of its own may be
// called.
Status settle_model(Experiment& experiment, bool name_given, bool layers_given);

// Reads a TOML file over `experiment`. Unknown keys and bad values name the file, the line and the key. Its
// faults, if it has any, replace those that were there. On an Error `experiment` is as it was. A [sweep]
// (training/sweep.h) is an Error, or not looked at; so is a [daemon] (training/daemon_table.h).
enum class Sweeps : std::uint8_t { refused, accepted };
enum class DaemonTable : std::uint8_t { refused, passed_over };
Status read_file(Experiment& experiment, const std::string& path, Sweeps sweeps = Sweeps::refused,
                 DaemonTable daemon = DaemonTable::refused);
inline constexpr std::size_t kLargestExperimentFile = 1 << 20;  // bytes; an experiment is a page

// Sets one key of a fault: peer, a kind, from, to, other, every, length, back_after, or one of link's or
// churn's, such as link.latency. The sentence does not repeat the key.
Status set_fault(Fault& fault, const std::string& key, const std::string& value);

// Sets one key of a [[peer]]: number, or a setting of [training] that is each peer's own, such as workers. The sentence
// begins with the key.
Status set_own(OwnSettings& own, const std::string& key, const std::string& value);

// Reads STARLING_* variables over `experiment`. `lookup` is std::getenv in the program. Empty variables and
// unknown STARLING_ names are not seen. (data.source is STARLING_DATA_SOURCE: STARLING_DATA is the folder of
// data sets.)
Status read_environment(Experiment& experiment, const std::function<const char*(const char*)>& lookup);

// Whether what is set for the optimizer is something that it has.
Status check_optimizer(const Experiment& experiment);

// Whether rule, payload and pace go together, and, of all-reduce, whether it can be done at all with what else
// is set: the faults too.
Status check_rule(const Experiment& experiment);

// What fits no single key, and every key's own limits again for an experiment that was not read: a network's
// name, check_optimizer(), make_schedule(), check_rule(), a device or several, fault peers that exist, times that run forwards,
// factors of 1 and more, poisons and links that can be.
Status check(const Experiment& experiment);

// The whole experiment as a TOML file that reads back to the same value. REQUIRES: check() is content.
std::string to_toml(const Experiment& experiment);

// What the peers of one run share, as a manifest carries it, the pace resolved; `apply_shared` is its inverse
// and checks like a file: afterwards every shared setting is as it was where the list was made, unset ones
// but the pace included, and those that are not listed because they have their default. An Error changes
// nothing.
std::vector<std::pair<std::string, std::string>> shared_settings(const Experiment& experiment);
Status apply_shared(Experiment& experiment, const std::vector<std::pair<std::string, std::string>>& values);

}  // namespace starling::training
