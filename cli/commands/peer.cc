// starling peer: one peer, which begins a run or joins one.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <filesystem>
#include <string_view>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/experiment_flags.h"
#include "cli/commands/flag_values.h"
#include "cli/commands/idle_settings.h"
#include "cli/commands/secrets.h"
#include "cli/commands/sources.h"
#include "cli/shell/log.h"
#include "cli/shell/on_end.h"
#include "node/all_reduce/all_reduce.h"
#include "node/all_reduce/collective.h"
#include "node/daemon.h"
#include "node/front/answers.h"
#include "node/front/http_client.h"
#include "node/front/http_rules.h"
#include "training/experiment/experiment_file.h"
#include "training/experiment/settings.h"
#include "training/records/files.h"
#include "wire/frame.h"

namespace starling::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultListen = "127.0.0.1:7100";
constexpr std::uint32_t kKeepMax = 100'000;
constexpr double kRelayMin = 8e3, kRelayMax = 1e12;  // bits per second
// The flags of the short help.
constexpr std::array<std::string_view, 12> kCommonFlags = {
    "--listen", "--join", "--advertise", "--name",  "--swarm",       "--key",
    "--config", "--out",  "--http",      "--state", "--checkpoints", "--resume"};

// The flags that do not describe the training.
std::vector<Flag> own_flags() {
  std::vector<Flag> flags = {
      {"--listen", "ADDR:PORT|none",
       std::string("address for other peers (default ") + kDefaultListen + "); none: dial only"},
      {"--join", "ADDR:PORT", "a peer of the run to join, which sends model, rule and rates", true},
      {"--discover", "", "find the swarm on this network by mDNS, or begin a run; be found there"},
      {"--advertise", "HOST:PORT", "address that others dial (default: the --listen address)", true},
      {"--relay", "RATE", "pass on up to this much, such as 10Mbit/s, between peers that cannot be dialed"},
      {"--name", "NAME", "this peer's name (default: host name and port)"},
      {"--swarm", "NAME", "name of the swarm; peers of other swarms are rejected (default starling)"},
      key_flag(),
      {"--allow", "FILE", "connect only with the peers whose ids are in this file, one on each line"},
      {"--config", "FILE", "an experiment file with the training flags"},
      {"--out", "DIR", "folder for NAME.safetensors, the replica at the end"},
      {"--http", "ADDR:PORT", "serve the live page, metrics and `starling status` here (default: off)"},
      {"--tensorboard", "DIR", "write event files for TensorBoard to this folder"},
      {"--trainer", "SOCKET", "let another program make the steps: a trainer that attaches at this socket"},
      {"--token-file", "FILE", "accept HTTP commands from other machines that send this file's token"},
      {"--token-always", "", "HTTP commands from this machine need the token of --token-file too"},
      {"--state", "DIR", "folder of its identity and of members' addresses, to rejoin after a crash"},
      {"--checkpoints", "DIR", "write checkpoints to this folder, as NAME.STEPS.safetensors"},
      {"--checkpoint-every", "WHEN", "interval: a time such as 30s, or '1000 steps' (default 5m)"},
      {"--keep", "N", "number of checkpoints to keep (default 3)"},
      {"--resume", "FILE|DIR", "resume from a checkpoint, or from the newest complete one of a folder"},
      {"--export", "FILE", "the file for the model at the end, or none (default NAME.safetensors here)"},
  };
  name_sources(flags);
  flags.push_back(on_end_flag());  // after name_sources(): a file must not name a command to run
  for (Flag& flag : flags) {
    flag.section = "Peer";
    flag.common = std::ranges::find(kCommonFlags, flag.name) != kCommonFlags.end();
  }
  return flags;
}

// The flags with a key in [daemon].
std::vector<Flag> own_options() {
  std::vector<Flag> flags = own_flags();
  for (const Flag& flag : shared_flags()) {
    flags.push_back(flag);
    flags.back().key = flag.name == "--log-format" ? "daemon.log_format" : "daemon.log_level";
  }
  return flags;
}

// Others dial an address that is `dialed`, so port 0 is an error.
Result<Address> parse_address(const std::string& flag, const std::string& text, bool dialed) {
  Result<Address> address = Address::parse(text);
  if (!address) return Error{flag + ": " + address.error().message};
  if (dialed && address->port == 0)
    return Error{flag + ": port 0 cannot be dialed; give the port that the peer listens on"};
  return address;
}

// How others reach this peer, and whom it helps to reach others. REQUIRES: the addresses are read.
Status read_reach(const Arguments& arguments, node::PeerOptions& options) {
  if (options.reach.advertise.size() > 1 + wire::kAlsoMax)
    return Error{"--advertise: more than " + std::to_string(1 + wire::kAlsoMax) + " addresses"};
  if (!options.reach.listen && !options.reach.advertise.empty())
    return Error{"--advertise has no effect with --listen none: nobody can dial this peer"};
  const auto text = arguments.get("--relay");
  if (!text) return Done{};
  if (!options.reach.listen) return Error{"--relay has no effect with --listen none: a relay must be dialed"};
  const auto rate = parse_bandwidth(*text);
  if (!rate) return Error{"--relay: " + rate.error().message};
  if (*rate < kRelayMin || *rate > kRelayMax)
    return Error{"--relay: '" + text->substr(0, 80) + "' is not between 8kbit/s and 1000Gbit/s"};
  options.reach.relay = static_cast<std::uint64_t>(*rate);
  return Done{};
}

Status read_addresses(const Arguments& arguments, node::PeerOptions& options) {
  const std::string where = arguments.get("--listen").value_or(kDefaultListen);
  if (where == "none") {
    options.reach.listen = {};
  } else {
    const auto listen = parse_address("--listen", where, false);
    if (!listen) return listen.error();
    options.reach.listen = *listen;
  }
  for (const std::string& text : arguments.all("--join")) {
    const auto join = parse_address("--join", text, true);
    if (!join) return join.error();
    options.join.push_back(*join);
  }
  for (const std::string& text : arguments.all("--advertise")) {
    const auto advertise = parse_address("--advertise", text, true);
    if (!advertise) return advertise.error();
    options.reach.advertise.push_back(*advertise);
  }
  if (arguments.has("--http")) {
    const auto http = parse_address("--http", *arguments.get("--http"), false);
    if (!http) return http.error();
    options.http = *http;
  }
  return read_reach(arguments, options);
}

// Names become file names and are listed by other peers.
Status read_names(const Arguments& arguments, node::PeerOptions& options) {
  for (const auto& [flag, name] :
       {std::pair("--name", &options.name), std::pair("--swarm", &options.swarm)}) {
    const auto text = arguments.get(flag);
    if (!text) continue;
    if (!is_plain_name(*text)) {
      return Error{std::string(flag) + ": '" + text->substr(0, 80) + "' is not 1 to " +
                   std::to_string(kNameBytesMax) +
                   " letters, digits, '-', '_' and '.' without a leading '.'"};
    }
    *name = *text;
  }
  return Done{};
}

// "K/N" with K < N.
Status read_slot(const Arguments& arguments, node::PeerOptions& options) {
  const auto text = arguments.get("--slot");
  if (!text) return Done{};
  const std::size_t slash = std::min(text->find('/'), text->size() - 1);
  const auto slot = parse_number<std::uint32_t>(text->substr(0, slash));
  const auto slots = parse_number<std::uint32_t>(text->substr(slash + 1));
  if (!slot || !slots || *slot >= *slots || *slots > 100'000)
    return Error{"--slot: '" + *text + "' is not K/N with K below N"};
  options.slot = std::pair(*slot, *slots);
  return Done{};
}

// Unless something else keeps it, the model goes to NAME.safetensors in the current folder.
Status read_export(const Arguments& arguments, node::PeerOptions& options) {
  const auto file = arguments.get("--export");
  if (!file) {
    const bool kept =
        arguments.has("--out") || arguments.has("--checkpoints") || arguments.has("--control-fd");
    if (!kept && ::access(".", W_OK) == 0) options.export_to = "./";
    return Done{};
  }
  if (*file == "none") return Done{};
  std::error_code ignored;
  const fs::path folder = fs::absolute(*file, ignored).parent_path();
  if (file->empty() || fs::is_directory(*file, ignored))
    return Error{"--export: expected the path of a file such as model.safetensors, or none, got '" + *file +
                 "'"};
  if (!fs::is_directory(folder, ignored))
    return Error{"--export: the folder " + folder.string() + " does not exist"};
  if (Status accepted = training::check_target(*file); !accepted)
    return Error{"--export: " + accepted.error().message};
  options.export_to = *file;
  return Done{};
}

Status read_paths(const Arguments& arguments, node::PeerOptions& options) {
  for (const auto& [flag, path] : {std::pair("--tensorboard", &options.tensorboard),
                                   {"--state", &options.state},
                                   {"--checkpoints", &options.checkpoints.folder},
                                   {"--resume", &options.resume},
                                   {"--trainer", &options.trainer.socket}}) {
    if (!arguments.has(flag)) continue;
    *path = *arguments.get(flag);
    if (path->empty()) return Error{std::string(flag) + ": the path is empty"};
  }
  return read_export(arguments, options);
}

Status read_allowed(const Arguments& arguments, node::PeerOptions& options) {
  const auto file = arguments.get("--allow");
  if (!file) return Done{};
  auto list = transport::AllowList::read(*file);
  if (!list) return Error{"--allow: " + list.error().message};
  options.allow = std::move(*list);
  return Done{};
}

Status read_durations(const Arguments& arguments,
                      std::initializer_list<std::pair<const char*, Duration*>> durations) {
  for (const auto& [flag, duration] : durations) {
    if (!arguments.has(flag)) continue;
    const Result<Duration> read = parse_duration(*arguments.get(flag));
    if (!read) return Error{std::string(flag) + ": " + read.error().message};
    *duration = *read;
  }
  return Done{};
}

Status read_checkpoint_pace(const Arguments& arguments, node::PeerOptions& options) {
  for (const char* flag : {"--checkpoint-every", "--keep"}) {
    if (arguments.has(flag) && options.checkpoints.folder.empty())
      return Error{std::string(flag) + " has no effect without --checkpoints DIR"};
  }
  if (const auto text = arguments.get("--checkpoint-every")) {
    using Kind = Pace::Kind;
    const auto every = parse_pace(*text);
    if (!every || (every->kind != Kind::steps && (every->kind != Kind::time || every->time.count() <= 0))) {
      return Error{"--checkpoint-every: '" + text->substr(0, 80) +
                   "' is neither a time such as 30s nor a number of steps such as '1000 steps'"};
    }
    options.checkpoints.every = *every;
  }
  return read_number<std::uint32_t>(arguments, "--keep", 1, kKeepMax, options.checkpoints.keep);
}

// Variables and files give a switch a value.
Status read_switch(const Arguments& arguments, const std::string& flag, bool& on) {
  const std::string value = arguments.get(flag).value_or("false");
  if (value != "true" && value != "false")
    return Error{flag + ": '" + value.substr(0, 80) + "' is neither true nor false"};
  on = value == "true";
  return Done{};
}

Status read_command_token(const Arguments& arguments, node::PeerOptions& options) {
  auto token = read_token(arguments);
  if (!token) return token.error();
  options.token.text = std::move(*token);
  if (Status read = read_switch(arguments, "--token-always", options.token.always); !read) return read;
  if (options.token.always && options.token.text.empty())
    return Error{"--token-always has no effect without --token-file FILE"};
  return Done{};
}

// Everything but the experiment.
Status read_own_flags(const Arguments& arguments, node::PeerOptions& options) {
  for (const auto read : {read_addresses, read_names, read_slot, read_paths, read_allowed,
                          read_checkpoint_pace, read_command_token})
    if (Status done = read(arguments, options); !done) return done;
  auto tls = read_key(arguments, options.swarm);
  if (!tls) return tls.error();
  options.tls = std::move(*tls);
  options.key_file = key_file(arguments);
  if (Status read = read_switch(arguments, "--discover", options.discover); !read) return read;
  if (Status read = read_number(arguments, "--control-fd", 3, INT_MAX, options.process.control_fd); !read)
    return read;
  if (Status read =
          read_number<std::uint32_t>(arguments, "--snapshots", 0, UINT32_MAX, options.process.snapshots);
      !read)
    return read;
  if (Status read = read_number<std::uint32_t>(arguments, "--expect", 1, 100'000, options.process.expected);
      !read)
    return read;
  return read_durations(arguments, {{"--cache-interval", &options.cache_interval},
                                    {"--begin-after", &options.begin_after},
                                    {"--trainer-grace", &options.trainer.grace}});
}

// A joiner takes shared settings from the swarm. Only model and data may be given, to be compared.
Status refuse_shared(const Arguments& arguments, const node::PeerOptions& options) {
  for (const training::Setting& setting : training::settings()) {
    if (!setting.shared || setting.key == "model.name" || setting.key == "data.source") continue;
    if (std::ranges::find(options.given, setting.key) == options.given.end()) continue;
    const std::string name = arguments.has(setting.flag) ? setting.flag : "--set " + setting.key;
    return Error{name + " cannot be combined with --join: a joiner takes it from the swarm"};
  }
  return Done{};
}

// A launcher starts the peers of a run by all-reduce, because all must begin together.
Status check_all_reduce(const Arguments& arguments, const node::PeerOptions& options) {
  const std::string rule(traits(options.experiment.gossip.rule).name);
  for (const char* flag : {"--checkpoints", "--resume", "--export"})
    if (arguments.has(flag) && arguments.get(flag) != "none")
      return Error{std::string(flag) + " cannot be combined with gossip.rule " + rule};
  if (!arguments.has("--rendezvous") || !options.slot) {
    return Error{"gossip.rule: the peers of a run by " + rule +
                 " must begin together: start them with `starling swarm --rule " + rule +
                 "`, or choose another rule"};
  }
  if (options.tls) return Error{keyless_rule(rule)};
  return node::check_collectives();
}

// REQUIRES: check_all_reduce() succeeds.
node::PeerOutcome run_all_reduce(const Arguments& arguments, const node::PeerOptions& options) {
  node::AllReduceOptions all_reduce{.experiment = options.experiment,
                                    .number = options.slot->first,
                                    .name = options.name,
                                    .data_root = options.data_root,
                                    .process = options.process,
                                    .rendezvous = *arguments.get("--rendezvous")};
  if (Status read = read_durations(arguments, {{"--patience", &all_reduce.patience}}); !read)
    return {kExitBadInput, read.error().message};
  return node::run_all_reduce_peer(all_reduce);
}

Status create_out(const Arguments& arguments, node::PeerOptions& options) {
  const auto out = arguments.get("--out");
  if (!out) return Done{};
  std::error_code problem;
  fs::create_directories(*out, problem);
  if (problem || !fs::is_directory(*out)) {
    return Error{"--out: cannot create the folder " + *out +
                 (problem ? ": " + problem.message() : std::string())};
  }
  options.process.out = *out;
  return Done{};
}

// Reads the experiment.
Status read_options(const Arguments& arguments, node::PeerOptions& options) {
  options.data_root = data_root();
  if (Status read = read_own_flags(arguments, options); !read) return read;
  // No source can set an empty name, so afterwards it is known whether one has set the data.
  options.experiment.data.source.clear();
  if (Status read = read_experiment(options.experiment, arguments, arguments.get("--config")); !read)
    return read;
  if (options.experiment.data.source.empty())
    options.experiment.data.source = training::Experiment{}.data.source;
  else
    options.data = options.experiment.data.source;
  options.given = given_keys(arguments);
  return Done{};
}

// Peers that are discovered dial each other over the network.
Status check_discover(const node::PeerOptions& options) {
  if (!options.discover) return Done{};
  const Address& listen = options.reach.listen;
  if (listen && node::is_loopback(listen.host)) {
    return Error{"--discover: other machines cannot dial " + to_string(listen) +
                 "; listen on an address of this network, for example --listen 0.0.0.0:7100"};
  }
  if (traits(options.experiment.gossip.rule).all_at_once())
    return Error{"--discover cannot be combined with gossip.rule " +
                 std::string(traits(options.experiment.gossip.rule).name)};
  return Done{};
}

// A trainer brings its own model and data.
Status check_trainer(const node::PeerOptions& options) {
  if (options.trainer.socket.empty()) return Done{};
  for (const training::Setting& setting : training::settings()) {
    const bool own = setting.key.starts_with("model.") || setting.key == "data.source" ||
                     setting.key == "data.partition" || setting.key == "training.device" ||
                     setting.key == "training.devices" || setting.key == "training.workers";
    if (own && std::ranges::find(options.given, setting.key) != options.given.end())
      return Error{setting.flag + " cannot be combined with --trainer: the trainer decides it"};
  }
  if (traits(options.experiment.gossip.rule).all_at_once())
    return Error{"--trainer cannot be combined with gossip.rule " +
                 std::string(traits(options.experiment.gossip.rule).name)};
  return Done{};
}

// Checks what depends on several flags.
Status check_options(const Arguments& arguments, node::PeerOptions& options) {
  if (Status possible = check_discover(options); !possible) return possible;
  if (Status possible = check_trainer(options); !possible) return possible;
  // A fault names its peer by slot, so a peer that knows its slot also knows the number of peers.
  if (options.slot) options.experiment.peers = options.slot->second;
  if (options.join.empty()) {
    options.experiment.end.target_accuracy.reset();  // a peer does not use the test set
    options.experiment.end.target_loss.reset();
    if (Status sound = check_experiment(options.experiment, options.slot.has_value()); !sound) return sound;
  } else {
    if (Status own = refuse_shared(arguments, options); !own) return own;
  }
  if (options.experiment.model.init && !options.resume.empty())
    return Error{"--init cannot be combined with --resume: a checkpoint has the parameters"};
  // For joiners; a peer with a state folder may turn out to be one.
  if (std::ranges::find(options.given, "model.name") != options.given.end())
    options.expected_model = options.experiment.model.name;
  return create_out(arguments, options);
}

// If the peer could not join because an address of --join is a peer's HTTP address, says where that peer
// listens.
std::string explain_join(const node::PeerOptions& options, const std::string& error) {
  if (!error.ends_with(wire::kAnswersInHttp)) return error;
  for (const Address& join : options.join) {
    const auto answer = node::http_request(join, "GET", "/api/v1/status");
    if (!answer) continue;
    const auto status = node::parse_status(answer->body);
    if (status && Address::parse(status->address))
      return "--join: " + to_string(join) + " is an HTTP port; its peer listens at " + status->address;
  }
  return error + "; --join takes a peer's --listen address, not its --http address";
}

int run_peer_command(Arguments arguments) {
  // A launcher gives everything by flags; the environment was meant for the launcher.
  if (!arguments.has("--control-fd")) {
    if (Status added = add_sources(arguments, own_options()); !added) return refuse(arguments, added.error());
    if (Status set = set_log(arguments.get("--log-format"), arguments.get("--log-level")); !set)
      return refuse(arguments, set.error());
  }
  node::PeerOptions options;
  if (Status read = read_options(arguments, options); !read) return refuse(arguments, read.error());
  if (arguments.has("--print-config"))
    return print_out(training::to_toml(options.experiment) + daemon_table(arguments, own_options()));
  if (Status checked = check_options(arguments, options); !checked) return refuse(arguments, checked.error());
  if (!arguments.has("--control-fd"))
    warn_of_idle_settings(arguments, options.experiment, arguments.get("--config"));

  const bool all_reduce = options.join.empty() && traits(options.experiment.gossip.rule).all_at_once();
  if (all_reduce) {
    if (Status checked = check_all_reduce(arguments, options); !checked)
      return refuse(arguments, checked.error());
  }
  const node::PeerOutcome outcome = all_reduce ? run_all_reduce(arguments, options) : node::run_peer(options);
  if (outcome.exit_code == kExitBadInput)
    refuse(arguments, explain_join(options, outcome.error));
  else if (outcome.exit_code != kExitDone)
    fail(arguments, outcome.error);
  return on_end(arguments, {outcome.exit_code, outcome.left ? "left" : "", options.name});
}

}  // namespace

Command peer_command() {
  Command command{"peer", "run one peer: begin a run, or join one with --join"};
  command.flags = own_flags();
  command.flags.push_back(print_config_flag("Peer"));
  for (Flag& flag : experiment_flags(Audience::peer)) command.flags.push_back(std::move(flag));
  for (const Flag& flag :
       {Flag{"--slot", "K/N", "the shard of the data"},
        {"--control-fd", "FD", "socket to the launcher"},
        {"--expect", "N", "number of peers that begin the run together"},
        {"--snapshots", "N", "number of snapshots to write per epoch of the swarm"},
        {"--cache-interval", "TIME", "time between two writes of --state"},
        {"--begin-after", "TIME", "time to wait for a stored swarm before the run is begun again"},
        {"--trainer-grace", "TIME", "time to wait for another trainer after one has ended (default 60s)"},
        {"--rendezvous", "DIR", "folder where the peers of an all-reduce meet"},
        {"--patience", "TIME", "time to wait for the other peers of an all-reduce"}}) {
    command.flags.push_back(flag);
    command.flags.back().hidden = true;
  }
  command.run = run_peer_command;
  command.example =
      "starling peer --listen 127.0.0.1:7100 --model lenet --data glyphs --epochs 3\n"
      "starling peer --listen 127.0.0.1:7101 --join 127.0.0.1:7100";
  return command;
}

}  // namespace starling::cli
