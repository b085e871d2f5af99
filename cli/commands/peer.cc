// starling peer: one peer, which begins a run or joins one.
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "base/text.h"
#include "cli/commands/checkpoint_flags.h"
#include "cli/commands/commands.h"
#include "cli/commands/token.h"
#include "cli/commands/experiment_flags.h"
#include "cli/commands/key.h"
#include "cli/shell/log.h"
#include "cli/commands/sources.h"
#include "node/all_reduce/all_reduce.h"
#include "node/all_reduce/collective.h"
#include "node/daemon.h"
#include "training/experiment/experiment_file.h"
#include "training/experiment/settings.h"

namespace starling::cli {
namespace {

constexpr const char* kDefaultListen = "127.0.0.1:7100";
constexpr std::size_t kLongestName = 64;
// In the short help; the others are in `--help all`.
constexpr std::array<std::string_view, 12> kCommonFlags = {"--listen", "--join",   "--advertise", "--name",
                                                           "--swarm",  "--key",    "--config",    "--out",
                                                           "--http",   "--state",  "--checkpoints", "--resume"};

// What is not about the training.
std::vector<Flag> own_flags() {
  std::vector<Flag> flags = {
      {"--listen", "ADDR:PORT",
       std::string("where other peers reach this one (default ") + kDefaultListen + ")"},
      {"--join", "ADDR:PORT", "a peer of the run to join; model, rule and rates come from there", true},
      {"--advertise", "HOST:PORT", "what others should dial (default: the address that it listens on)"},
      {"--name", "NAME", "this peer's name (default: the host's and the port)"},
      {"--swarm", "NAME", "peers of another swarm are refused (default starling)"},
      key_flag(),
      {"--config", "FILE", "an experiment file with the training flags"},
      {"--out", "DIR", "folder for NAME.safetensors, the replica at the end"},
      {"--http", "ADDR:PORT", "a live page, metrics, and answers to `starling status` and others (default: nowhere)"},
      {"--tensorboard", "DIR", "write its figures for TensorBoard here"},
      {"--token-file", "FILE", "take orders over HTTP from other machines too, where they name its token"},
      {"--state", "DIR", "remember the swarm in this folder, and find it again after a crash"},
  };
  for (Flag& flag : checkpoint_flags()) flags.push_back(std::move(flag));
  name_sources(flags);
  for (Flag& flag : flags) {
    flag.section = "Peer";
    flag.common = std::find(kCommonFlags.begin(), kCommonFlags.end(), flag.name) != kCommonFlags.end();
  }
  return flags;
}

// What [daemon] may have.
std::vector<Flag> own_options() {
  std::vector<Flag> flags = own_flags();
  for (const Flag& flag : shared_flags()) {
    flags.push_back(flag);
    flags.back().key = flag.name == "--log-format" ? "daemon.log_format" : "daemon.log_level";
  }
  return flags;
}

Result<Address> read_address(const std::string& flag, const std::string& text) {
  Result<Address> address = Address::parse(text);
  if (!address) return Error{flag + ": " + address.error().message};
  return address;
}

// Names become file names and lie in other peers' tables.
Status check_name(const std::string& flag, const std::string& name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.');
  });
  if (plain && !name.empty() && name.size() <= kLongestName && name.front() != '.') return Done{};
  return Error{flag + ": '" + name.substr(0, 80) + "' is not 1 to " + std::to_string(kLongestName) +
               " letters, digits, '-', '_' and '.', the first no '.'"};
}

// "K/N"
Result<std::pair<std::uint32_t, std::uint32_t>> read_slot(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash != std::string::npos) {
    const auto slot = parse_number<std::uint32_t>(text.substr(0, slash));
    const auto slots = parse_number<std::uint32_t>(text.substr(slash + 1));
    if (slot && slots && *slot < *slots && *slots <= 100'000) return std::pair(*slot, *slots);
  }
  return Error{"--slot: '" + text + "' is not K/N with K below N"};
}

// A joiner is told by the swarm what the run is; only these may be said again, to be compared.
Status refuse_shared(const Arguments& arguments) {
  const std::vector<std::string> given = given_keys(arguments);
  for (const training::Setting& setting : training::settings()) {
    if (!setting.shared || setting.key == "model.name" || setting.key == "data.source") continue;
    if (std::find(given.begin(), given.end(), setting.key) == given.end()) continue;
    const std::string name = arguments.has(setting.flag) ? setting.flag : "--set " + setting.key;
    return Error{name + " does not go with " + "--join: a joiner takes it from the swarm"};
  }
  return Done{};
}

// Everything but the experiment.
Status read_own_flags(node::PeerOptions& options, const Arguments& arguments) {
  Result<Address> listen = read_address("--listen", arguments.get("--listen").value_or(kDefaultListen));
  if (!listen) return listen.error();
  options.listen = *listen;
  if (const auto text = arguments.get("--advertise")) {
    Result<Address> advertise = read_address("--advertise", *text);
    if (!advertise) return advertise.error();
    if (advertise->port == 0)
      return Error{"--advertise: port 0 cannot be dialed; give the port that others reach"};
    options.advertise = *advertise;
  }
  for (const std::string& text : arguments.all("--join")) {
    Result<Address> join = read_address("--join", text);
    if (!join) return join.error();
    if (join->port == 0)
      return Error{"--join: port 0 cannot be dialed; give the port that the peer listens on"};
    options.join.push_back(*join);
  }
  if (const auto name = arguments.get("--name")) {
    if (Status plain = check_name("--name", *name); !plain) return plain;
    options.name = *name;
  }
  if (const auto swarm = arguments.get("--swarm")) {
    if (Status plain = check_name("--swarm", *swarm); !plain) return plain;
    options.swarm = *swarm;
  }
  auto tls = read_key(arguments, options.swarm);
  if (!tls) return tls.error();
  options.tls = std::move(*tls);
  if (const auto text = arguments.get("--slot")) {
    const auto slot = read_slot(*text);
    if (!slot) return slot.error();
    options.slot = *slot;
  }
  if (const auto text = arguments.get("--control-fd")) {
    const auto fd = parse_number<int>(*text);
    if (!fd || *fd < 3) return Error{"--control-fd: '" + *text + "' is not a file descriptor above 2"};
    options.control_fd = *fd;
  }
  if (const auto text = arguments.get("--snapshots")) {
    const auto snapshots = parse_number<std::uint32_t>(*text);
    if (!snapshots) return Error{"--snapshots: '" + *text + "' is not a whole number"};
    options.snapshots = *snapshots;
  }
  if (const auto text = arguments.get("--http")) {
    Result<Address> http = read_address("--http", *text);
    if (!http) return http.error();
    options.http = *http;
  }
  if (const auto folder = arguments.get("--tensorboard")) {
    if (folder->empty()) return Error{"--tensorboard: a folder's path is wanted, not nothing"};
    options.tensorboard = *folder;
  }
  if (const auto file = arguments.get("--token-file")) {
    Result<std::string> token = read_token(*file);
    if (!token) return Error{"--token-file: " + token.error().message};
    options.token = std::move(*token);
  }
  if (const auto folder = arguments.get("--state")) {
    if (folder->empty()) return Error{"--state: a folder's path is wanted, not nothing"};
    options.state = *folder;
  }
  if (Status read = read_checkpoint_flags(options, arguments); !read) return read;
  for (const auto& [flag, duration] : {std::pair("--cache-interval", &options.cache_interval),
                                       std::pair("--begin-after", &options.begin_after)}) {
    const auto text = arguments.get(flag);
    if (!text) continue;
    const Result<Duration> read = parse_duration(*text);
    if (!read) return Error{std::string(flag) + ": " + read.error().message};
    *duration = *read;
  }
  return Done{};
}

// A run by all-reduce begins with all its peers at once, so a launcher starts them.
Status check_all_reduce_place(const Arguments& arguments, const node::PeerOptions& options) {
  if (!arguments.has("--rendezvous") || !options.slot) {
    return Error{"gossip.rule: all-reduce is for peers that all begin together, which 'starling swarm --rule all-reduce' "
                 "starts; a peer by itself has the rules of gossip"};
  }
  if (options.tls) return Error{kKeylessRule};
  return node::check_collectives();
}

// REQUIRES: check_all_reduce_place() is content.
node::PeerOutcome run_all_reduce(const Arguments& arguments, const node::PeerOptions& options) {
  node::AllReduceOptions all_reduce;
  all_reduce.experiment = options.experiment;
  all_reduce.number = options.slot->first;
  all_reduce.name = options.name;
  all_reduce.data_root = options.data_root;
  all_reduce.out = options.out;
  all_reduce.control_fd = options.control_fd;
  all_reduce.snapshots = options.snapshots;
  all_reduce.rendezvous = *arguments.get("--rendezvous");
  if (const auto text = arguments.get("--patience")) {
    const Result<Duration> patience = parse_duration(*text);
    if (!patience) return {kExitBadInput, "--patience: " + patience.error().message};
    all_reduce.patience = *patience;
  }
  return node::run_all_reduce_peer(all_reduce);
}

int run(const Arguments& flags) {
  Arguments arguments = flags;
  // A launcher has said everything; what the environment says was said to the launcher.
  if (!arguments.has("--control-fd")) {
    if (Status added = add_sources(arguments, own_options()); !added) return refuse(arguments, added.error().message);
    if (Status set = set_log(arguments.get("--log-format"), arguments.get("--log-level")); !set)
      return refuse(arguments, set.error().message);
  }
  node::PeerOptions options;
  options.data_root = data_root();
  if (Status read = read_own_flags(options, arguments); !read) return refuse(arguments, read.error().message);
  // No source can say an empty name, so afterwards it is known whether one said any.
  options.experiment.data.clear();
  if (Status read = read_experiment(options.experiment, arguments, arguments.get("--config")); !read) {
    return refuse(arguments, read.error().message);
  }
  const bool data_is_said = !options.experiment.data.empty();
  if (!data_is_said) options.experiment.data = training::Experiment{}.data;
  if (arguments.has("--print-config")) {
    std::fputs((training::to_toml(options.experiment) + daemon_table(arguments, own_options())).c_str(), stdout);
    return kExitDone;
  }
  // A fault names its peer by slot, so a peer that knows its slot knows how many there are.
  if (options.slot) options.experiment.peers = options.slot->second;

  if (options.join.empty()) {
    options.experiment.target_accuracy.reset();  // a peer does not look at the test set
    if (Status sound = check_experiment(options.experiment, options.slot.has_value()); !sound)
      return refuse(arguments, sound.error().message);
  } else {
    if (Status own = refuse_shared(arguments); !own) return refuse(arguments, own.error().message);
  }
  if (options.experiment.init && !options.resume.empty())
    return refuse(arguments, "--init does not go with --resume: a checkpoint has the parameters");
  // Of a joiner alone; a peer with a state folder may turn out to be one.
  const std::vector<std::string> given = given_keys(arguments);
  const auto is_given = [&](const char* key) {
    return std::find(given.begin(), given.end(), key) != given.end();
  };
  options.given = given;
  if (is_given("model.name")) options.expected_model = options.experiment.model;
  if (data_is_said) options.data = options.experiment.data;
  if (const auto out = arguments.get("--out")) {
    std::error_code problem;
    std::filesystem::create_directories(*out, problem);
    if (problem || !std::filesystem::is_directory(*out)) {
      return refuse(arguments, "--out: the folder " + *out + " cannot be made" +
                                   (problem ? ": " + problem.message() : std::string()));
    }
    options.out = *out;
  }

  const bool all_reduce = options.join.empty() && traits(options.experiment.rule).all_at_once();
  if (all_reduce) {
    for (const char* flag : {"--checkpoints", "--resume", "--export"})
      if (arguments.has(flag)) return refuse(arguments, std::string(flag) + ": not with gossip.rule all-reduce");
    if (Status placed = check_all_reduce_place(arguments, options); !placed)
      return refuse(arguments, placed.error().message);
  }
  const node::PeerOutcome outcome =
      all_reduce ? run_all_reduce(arguments, options) : node::run_peer(options);
  if (outcome.exit_code == kExitDone) return kExitDone;
  if (outcome.exit_code == kExitBadInput) return refuse(arguments, outcome.error);
  fail(arguments, outcome.error);
  return outcome.exit_code;
}

}  // namespace

Command peer_command() {
  Command command{"peer", "run one peer: begin a run, or join one with --join"};
  command.flags = own_flags();
  command.flags.push_back(print_config_flag("Peer"));
  for (Flag& flag : experiment_flags(Audience::peer)) command.flags.push_back(std::move(flag));
  command.flags.push_back({"--slot", "K/N", "the shard of the data", false, true});
  command.flags.push_back({"--control-fd", "FD", "socket to the launcher", false, true});
  command.flags.push_back({"--snapshots", "N", "leave so many snapshots in an epoch of the swarm", false, true});
  command.flags.push_back({"--cache-interval", "TIME", "how often --state is written", false, true});
  command.flags.push_back({"--begin-after", "TIME", "patience with a remembered swarm", false, true});
  command.flags.push_back({"--rendezvous", "DIR", "where the peers of an all-reduce meet", false, true});
  command.flags.push_back({"--patience", "TIME", "with the other peers of an all-reduce", false, true});
  command.run = run;
  command.example =
      "starling peer --listen 127.0.0.1:7100 --model lenet --data glyphs --epochs 3\n"
      "starling peer --listen 127.0.0.1:7101 --join 127.0.0.1:7100";
  return command;
}

}  // namespace starling::cli
