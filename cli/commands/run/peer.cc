// starling peer: one peer, which begins a run or joins one.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <spdlog/spdlog.h>

#include "cli/commands/commands.h"
#include "cli/commands/named_files.h"
#include "cli/commands/run/contents.h"
#include "cli/commands/run/experiment_flags.h"
#include "cli/commands/run/idle_settings.h"
#include "cli/commands/run/secrets.h"
#include "cli/commands/run/sources.h"
#include "cli/shell/log.h"
#include "cli/shell/on_end.h"
#include "node/all_reduce/all_reduce.h"
#include "node/all_reduce/collective.h"
#include "node/daemon.h"
#include "node/front/answers.h"
#include "node/front/http_client.h"
#include "node/peer/settings.h"
#include "training/runs/experiment/experiment_file.h"
#include "training/runs/experiment/settings/settings.h"
#include "training/runs/records/files.h"
#include "wire/frame.h"

namespace starling::cli {
namespace {

namespace fs = std::filesystem;

// The flags that do not describe the training, in the order of the help, without a launcher's.
std::vector<Flag> own_flags() {
  std::vector<Flag> flags;
  for (const node::PeerSetting& setting : node::peer_settings()) {
    if (setting.of_launcher) continue;
    flags.push_back(flag_of(setting, "Peer"));
    flags.back().common = setting.common;
    flags.back().repeatable = setting.repeatable;
  }
  flags.push_back(on_end_flag("Peer"));
  return flags;
}

std::vector<Flag> launcher_flags() {
  std::vector<Flag> flags;
  for (const node::PeerSetting& setting : node::peer_settings()) {
    if (!setting.of_launcher) continue;
    flags.push_back(flag_of(setting));
    flags.back().hidden = flags.back().only_on_the_command_line = true;
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

Status read_own_setting(const Arguments& arguments, const node::PeerSetting& setting,
                        node::DaemonOptions& options) {
  for (const std::string& value : arguments.all(setting.flag))
    if (Status set = setting.set(options, value); !set)
      return Error{setting.flag + ": " + set.error().message};
  const std::string needed = setting.needs.substr(0, setting.needs.find(' '));
  if (!needed.empty() && !arguments.has(needed) && arguments.get(setting.flag) != "false")
    return Error{setting.flag + " has no effect without " + setting.needs};
  return Done{};
}

// Creates and removes a file: on a read-only file system, and for root, permissions say too little.
Status try_to_write_in(const std::string& folder) {
  std::string file = folder + "/.starling.XXXXXX";
  const int descriptor = ::mkostemp(file.data(), O_CLOEXEC);
  if (descriptor < 0) return Error{"cannot write to the folder " + folder + ": " + std::strerror(errno)};
  ::close(descriptor);
  ::unlink(file.c_str());
  return Done{};
}

bool says_where_the_model_goes(const Arguments& arguments, const node::DaemonOptions& options) {
  return !options.process.out.empty() || !options.checkpoints.folder.empty() ||
         options.process.control_fd >= 0 || arguments.has("--export");
}

// Everything but the experiment.
Status read_own_settings(const Arguments& arguments, node::DaemonOptions& options) {
  options.reach.listen = *Address::parse(node::kDefaultListen);
  for (const node::PeerSetting& setting : node::peer_settings()) {
    if (!arguments.has(setting.flag)) continue;
    if (Status read = read_own_setting(arguments, setting, options); !read) return read;
  }
  auto tls = read_key(arguments, options.swarm);
  if (!tls) return tls.error();
  options.tls = std::move(*tls);
  options.key_file = key_file(arguments);  // --key, or STARLING_KEY
  // Unless something else keeps it, the model goes to NAME.safetensors in the current folder.
  if (!says_where_the_model_goes(arguments, options) && try_to_write_in(".").ok()) options.export_to = "./";
  return Done{};
}

// A joiner takes shared settings from the swarm. Only model and data may be given, to be compared.
Status refuse_shared(const Arguments& arguments, const node::DaemonOptions& options) {
  for (const training::Setting& setting : training::settings()) {
    if (!setting.shared || setting.key == "model.name" || setting.key == "data.source") continue;
    if (std::ranges::find(options.given, setting.key) == options.given.end()) continue;
    const std::string name = arguments.has(setting.flag) ? setting.flag : "--set " + setting.key;
    return Error{name + " cannot be combined with --join: a joiner takes it from the swarm"};
  }
  return Done{};
}

// A launcher starts the peers of a run by all-reduce, because all must begin together.
Status check_all_reduce(const Arguments& arguments, const node::DaemonOptions& options) {
  const std::string rule(traits(options.experiment.gossip.rule).name);
  for (const char* flag : {"--checkpoints", "--resume", "--export"})
    if (arguments.has(flag) && arguments.get(flag) != "none")
      return Error{std::string(flag) + " cannot be combined with gossip.rule " + rule};
  if (options.all_reduce.rendezvous.empty() || !options.slot) {
    return Error{"gossip.rule: the peers of a run by " + rule +
                 " must begin together: start them with `starling swarm --rule " + rule +
                 "`, or choose another rule"};
  }
  if (options.tls) return Error{keyless_rule(rule)};
  return node::check_collectives();
}

// REQUIRES: check_all_reduce() succeeds.
node::PeerOutcome run_all_reduce(const node::DaemonOptions& options) {
  node::AllReduceOptions all_reduce{.experiment = options.experiment,
                                    .number = options.slot->first,
                                    .name = options.name,
                                    .data_root = options.data_root,
                                    .process = options.process,
                                    .rendezvous = options.all_reduce.rendezvous};
  if (options.all_reduce.patience) all_reduce.patience = *options.all_reduce.patience;
  return node::run_all_reduce_peer(all_reduce);
}

// A peer with too few descriptors would wait in vain for links.
Status check_open_files() {
  constexpr rlim_t kLeast = 32, kUsual = 1024;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kLeast) return Done{};
  const rlim_t given = limit.rlim_cur;
  limit.rlim_cur = std::min(kUsual, limit.rlim_max);
  if (limit.rlim_cur >= kLeast && ::setrlimit(RLIMIT_NOFILE, &limit) == 0) return Done{};
  return Error{"a process may open only " + std::to_string(given) + " files here, and a peer needs " +
               std::to_string(kLeast) + " or more; raise the limit (ulimit -n)"};
}

Status create_out(const std::string& out) {
  if (out.empty()) return Done{};
  std::error_code problem;
  fs::create_directories(out, problem);
  if (problem || !fs::is_directory(out))
    return Error{"--out: cannot create the folder " + out +
                 (problem ? ": " + problem.message() : std::string())};
  if (const Status written = try_to_write_in(out); !written)
    return Error{"--out: " + written.error().message};
  return Done{};
}

// Reads the experiment.
Status read_options(const Arguments& arguments, node::DaemonOptions& options) {
  options.data_root = data_root();
  if (Status read = read_own_settings(arguments, options); !read) return read;
  // No source can set an empty name, so afterwards it is known whether one has set the data.
  options.experiment.data.source.clear();
  if (Status read = read_experiment(options.experiment, arguments, arguments.get("--config")); !read)
    return read;
  if (options.experiment.data.source.empty())
    options.experiment.data.source =
        options.experiment.data.own_data.value_or(training::Experiment{}.data.source);
  else
    options.data = options.experiment.data.source;
  options.given = given_keys(arguments);
  return Done{};
}

// Checks what depends on several flags.
Status check_options(const Arguments& arguments, node::DaemonOptions& options) {
  if (Status possible = node::check_peer_options(options); !possible) return possible;
  // A fault names its peer by slot, so a peer that knows its slot also knows the number of peers.
  if (options.slot) options.experiment.peers = options.slot->second;
  if (options.join.empty()) {
    options.experiment.end.target_accuracy.reset();  // a peer does not use the test set
    options.experiment.end.target_loss.reset();
    if (Status sound = check_experiment(options.experiment, options.slot.has_value()); !sound) return sound;
  } else {
    if (Status own = refuse_shared(arguments, options); !own) return own;
  }
  // For joiners; a peer with a state folder may turn out to be one.
  if (std::ranges::find(options.given, "model.name") != options.given.end())
    options.expected_model = options.experiment.model.name;
  return create_out(options.process.out);
}

// If the peer could not join because an address of --join is a peer's HTTP address, says where that peer
// listens.
std::string explain_join(const node::DaemonOptions& options, const std::string& error) {
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

// The file of an earlier run names the contents of its data. What cannot be read is refused later.
void warn_of_other_contents(const Arguments& arguments, const training::Experiment& experiment) {
  if (experiment.contents.empty()) return;
  Result<Materials> materials = gather_materials(experiment);
  if (!materials) return;
  if (const auto now = contents_now(experiment, *materials))
    warn_of_changes(experiment, *now, arguments.get("--config").value_or(""));
}

int run_peer_command(Arguments arguments) {
  // A launcher gives everything by flags; the environment was meant for the launcher.
  if (!arguments.has("--control-fd")) {
    if (Status added = add_sources(arguments, own_options()); !added) return refuse(arguments, added.error());
    if (Status set = set_log(arguments.get("--log-format"), arguments.get("--log-level")); !set)
      return refuse(arguments, set.error());
  }
  if (Status enough = check_open_files(); !enough) return refuse(arguments, enough.error());
  node::DaemonOptions options;
  if (Status read = read_options(arguments, options); !read) return refuse(arguments, read.error());
  if (arguments.has("--print-config"))
    return print_out(training::to_toml(options.experiment) + daemon_table(arguments, own_options()));
  if (Status checked = check_options(arguments, options); !checked) return refuse(arguments, checked.error());
  if (options.join.empty() && !arguments.has("--control-fd")) tell_graph(options.experiment.gossip.topology);
  if (!says_where_the_model_goes(arguments, options) && options.export_to.empty())
    spdlog::warn("the current folder cannot be written, so the model is not kept; --out DIR keeps it");
  if (!arguments.has("--control-fd"))
    warn_of_idle_settings(arguments, options.experiment, arguments.get("--config"));
  if (options.join.empty()) warn_of_other_contents(arguments, options.experiment);

  const bool all_reduce = options.join.empty() && traits(options.experiment.gossip.rule).all_at_once();
  if (all_reduce) {
    if (Status checked = check_all_reduce(arguments, options); !checked)
      return refuse(arguments, checked.error());
  }
  const auto last_words = [&](const node::PeerOutcome& outcome) {
    if (outcome.exit_code == kExitBadInput)
      refuse(arguments, explain_join(options, outcome.error));
    else if (outcome.exit_code != kExitDone)
      fail(arguments, outcome.error);
    return on_end(arguments, {outcome.exit_code, outcome.left ? "left" : "", options.name});
  };
  return all_reduce ? last_words(run_all_reduce(options)) : node::run_peer(options, last_words);
}

}  // namespace

Command peer_command() {
  Command command{"peer", "run one peer: begin a run, or join one with --join"};
  command.flags = own_flags();
  command.flags.push_back(print_config_flag("Peer"));
  for (Flag& flag : experiment_flags(Audience::peer)) command.flags.push_back(std::move(flag));
  for (Flag& flag : launcher_flags()) command.flags.push_back(std::move(flag));
  command.run = run_peer_command;
  command.example =
      "starling peer --listen 127.0.0.1:7100 --model lenet --data glyphs --epochs 3\n"
      "starling peer --listen 127.0.0.1:7101 --join 127.0.0.1:7100";
  return command;
}

}  // namespace starling::cli
