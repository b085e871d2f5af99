#include "node/peer/settings.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "datasets/inputs.h"
#include "node/front/http_rules.h"
#include "node/front/token_file.h"
#include "training/runs/experiment/settings/quantities.h"
#include "training/runs/experiment/settings/setting_kinds.h"
#include "training/runs/experiment/settings/settings.h"
#include "training/runs/records/files.h"
#include "wire/messages.h"

namespace starling::node {
namespace {

namespace fs = std::filesystem;
using training::in_quotes;
using PeerSettings = std::vector<PeerSetting>;

constexpr std::uint64_t kPeersMax = 100'000;
constexpr std::uint64_t kKeepMax = 100'000;
constexpr double kRelayMin = 8e3, kRelayMax = 1e12;  // bits per second

// A field of a group of options.
template <class Group, class T>
auto in(Group DaemonOptions::*group, T Group::*member) {
  return [=](DaemonOptions& options) -> T& { return options.*group.*member; };
}

// What a row says besides its field and parser.
struct PeerRow {
  std::string word, placeholder, help;
  bool common = false;
  bool repeatable = false;
  std::string needs{};
};

template <class Set>
PeerSetting own(const PeerRow& row, Set set) {
  PeerSetting setting;
  training::name_setting(setting, "daemon." + row.word);
  setting.placeholder = row.placeholder;
  setting.help = row.help;
  setting.common = row.common;
  setting.repeatable = row.repeatable;
  setting.needs = row.needs;
  setting.set = std::move(set);
  return setting;
}

template <class Set>
PeerSetting of_launcher(const PeerRow& row, Set set) {
  PeerSetting setting = own(row, std::move(set));
  setting.key.clear();
  setting.environment.clear();
  setting.of_launcher = true;
  return setting;
}

template <class Field, class Parse>
auto to(Field field, Parse parse) {
  return training::setter<DaemonOptions>(field, parse);
}
template <class Field>
auto whole_to(Field field, std::uint64_t low, std::uint64_t high) {
  return to(field, [low, high](std::string_view text) { return training::parse_whole(text, low, high); });
}
// Adds the parsed value to a list.
template <class List, class Parse>
auto added_to(List field, Parse parse, std::size_t most = SIZE_MAX) {
  return [=](DaemonOptions& options, std::string_view text) -> Status {
    auto value = parse(text);
    if (!value) return value.error();
    auto& list = std::invoke(field, options);
    if (list.size() == most) return Error{"more than " + std::to_string(most) + " addresses"};
    list.push_back(std::move(*value));
    return Done{};
  };
}

Result<std::string> parse_path(std::string_view text) {
  if (text.empty()) return Error{"the path is empty"};
  return std::string(text);
}

// Others dial this address, so port 0 is an error.
Result<Address> parse_dialed(std::string_view text) {
  auto address = Address::parse(text);
  if (address && address->port == 0)
    return Error{"port 0 cannot be dialed; give the port that the peer listens on"};
  return address;
}

Result<Address> parse_listen(std::string_view text) {
  if (text == "none") return Address{};
  return Address::parse(text);
}

Result<std::uint64_t> parse_relay(std::string_view text) {
  const auto rate = parse_bandwidth(text);
  if (!rate) return rate.error();
  if (*rate < kRelayMin || *rate > kRelayMax)
    return Error{in_quotes(text) + " is not between 8kbit/s and 1000Gbit/s"};
  return static_cast<std::uint64_t>(*rate);
}

// Names become file names and are listed by other peers.
Result<std::string> parse_plain_name(std::string_view text) {
  if (is_plain_name(text)) return std::string(text);
  return Error{in_quotes(text) + " is not 1 to " + std::to_string(kNameBytesMax) +
               " letters, digits, '-', '_' and '.' without a leading '.'"};
}

Result<transport::AllowList> read_allowed(std::string_view path) {
  datasets::note_input(std::string(path));
  return transport::AllowList::read(std::string(path));
}

Result<Pace> parse_checkpoint_pace(std::string_view text) {
  using Kind = Pace::Kind;
  const auto every = parse_pace(text);
  if (every && (every->kind == Kind::steps || (every->kind == Kind::time && every->time.count() > 0)))
    return *every;
  return Error{in_quotes(text) + " is neither a time such as 30s nor a number of steps such as '1000 steps'"};
}

// A file that can be written, or none.
Result<std::string> parse_export(std::string_view text) {
  if (text == "none") return std::string();
  const std::string file(text);
  std::error_code ignored;
  const fs::path folder = fs::absolute(file, ignored).parent_path();
  if (file.empty() || fs::is_directory(file, ignored))
    return Error{"expected the path of a file such as model.safetensors, or none, got '" + file + "'"};
  if (!fs::is_directory(folder, ignored)) return Error{"the folder " + folder.string() + " does not exist"};
  if (Status accepted = training::check_target(file); !accepted) return accepted.error();
  return file;
}

// "K/N" with K < N.
Result<std::pair<std::uint32_t, std::uint32_t>> parse_slot(std::string_view text) {
  const std::size_t slash = std::min(text.find('/'), text.size());
  const auto slot = parse_number<std::uint32_t>(text.substr(0, slash));
  const auto slots = parse_number<std::uint32_t>(text.substr(std::min(slash + 1, text.size())));
  if (!slot || !slots || *slot >= *slots || *slots > kPeersMax)
    return Error{in_quotes(text) + " is not K/N with K below N"};
  return std::pair(*slot, *slots);
}

Result<std::string> read_token(std::string_view path) { return read_command_token(std::string(path)); }

PeerSettings reach_settings() {
  using Reach = DaemonOptions::Reach;
  return {
      own({"listen", "ADDR:PORT|none",
           std::string("address for other peers (default ") + kDefaultListen + "); none: dial only", true},
          to(in(&DaemonOptions::reach, &Reach::listen), parse_listen)),
      own({"join", "ADDR:PORT", "a peer of the run to join, which sends model, rule and rates", true, true},
          added_to(&DaemonOptions::join, parse_dialed)),
      own({"join_timeout", "TIME", "fail if no member lets this peer in within this time (default: none)"},
          to(in(&DaemonOptions::reach, &Reach::join_timeout), training::parse_time)),
      own({"expect", "N", "begin together: train when so many peers have the parameters (docs/INSTALL.md)"},
          whole_to(in(&DaemonOptions::process, &ProcessOptions::expected), 1, kPeersMax)),
      own({"discover", "", "find the swarm on this network by mDNS, or begin a run; be found there"},
          to(&DaemonOptions::discover, training::parse_truth)),
      own({"advertise", "HOST:PORT", "address that others dial (default: the --listen address)", true, true},
          added_to(in(&DaemonOptions::reach, &Reach::advertise), parse_dialed, 1 + wire::kAlsoMax)),
      own({"relay", "RATE", "pass on up to this much, such as 10Mbit/s, between peers that cannot be dialed"},
          to(in(&DaemonOptions::reach, &Reach::relay), parse_relay)),
  };
}

PeerSettings swarm_settings() {
  // The command reads it before.
  PeerSetting config = own({"config", "FILE", "an experiment file with the training flags", true},
                           [](DaemonOptions&, std::string_view) -> Status { return Done{}; });
  config.key.clear();  // a file cannot name a file
  return {
      own({"name", "NAME", "this peer's name (default: host name and port)", true},
          to(&DaemonOptions::name, parse_plain_name)),
      own({"swarm", "NAME", "name of the swarm; peers of other swarms are rejected (default starling)", true},
          to(&DaemonOptions::swarm, parse_plain_name)),
      own({"key", "FILE", "the swarm's key, for encryption; peers without it are rejected", true},
          to(&DaemonOptions::key_file, parse_path)),
      own({"allow", "FILE", "connect only with the peers whose ids are in this file, one on each line"},
          to(&DaemonOptions::allow, read_allowed)),
      std::move(config),
  };
}

PeerSettings output_settings() {
  using Outside = DaemonOptions::Outside;
  using Token = DaemonOptions::Token;
  return {
      own({"out", "DIR", "folder for NAME.safetensors, the replica at the end", true},
          to(in(&DaemonOptions::process, &ProcessOptions::out), parse_path)),
      own({"http", "ADDR:PORT", "serve the live page, metrics and `starling status` here (default: off)",
           true},
          to(&DaemonOptions::http, Address::parse)),
      own({"tensorboard", "DIR", "write event files for TensorBoard to DIR/NAME"},
          to(&DaemonOptions::tensorboard, parse_path)),
      own({"trainer", "SOCKET", "let another program make the steps: a trainer that attaches at this socket"},
          to(in(&DaemonOptions::trainer, &Outside::socket), parse_path)),
      own({"token_file", "FILE", "accept HTTP commands from other machines that send this file's token"},
          to(in(&DaemonOptions::token, &Token::text), read_token)),
      own({"token_always", "", "HTTP commands from this machine need the token of --token-file too", false,
           false, "--token-file FILE"},
          to(in(&DaemonOptions::token, &Token::always), training::parse_truth)),
  };
}

PeerSettings storage_settings() {
  const std::string folder = "--checkpoints DIR";
  return {
      own({"state", "DIR", "folder of its identity and of members' addresses, to rejoin after a crash", true},
          to(&DaemonOptions::state, parse_path)),
      own({"checkpoints", "DIR", "write checkpoints to this folder, as NAME.STEPS.safetensors", true},
          to(in(&DaemonOptions::checkpoints, &CheckpointOptions::folder), parse_path)),
      own({"checkpoint_every", "WHEN", "interval: a time such as 30s, or '1000 steps' (default 5m)", false,
           false, folder},
          to(in(&DaemonOptions::checkpoints, &CheckpointOptions::every), parse_checkpoint_pace)),
      own({"keep", "N", "number of checkpoints to keep (default 3)", false, false, folder},
          whole_to(in(&DaemonOptions::checkpoints, &CheckpointOptions::keep), 1, kKeepMax)),
      own({"resume", "FILE|DIR", "resume from a checkpoint, or from the newest complete one of a folder",
           true},
          to(&DaemonOptions::resume, parse_path)),
      own({"export", "FILE", "the file for the model at the end, or none (default NAME.safetensors here)"},
          to(&DaemonOptions::export_to, parse_export)),
  };
}

PeerSettings launcher_settings() {
  using AllReduce = DaemonOptions::AllReduce;
  using training::parse_time;
  return {
      of_launcher({"slot", "K/N", "the shard of the data"}, to(&DaemonOptions::slot, parse_slot)),
      of_launcher({"control_fd", "FD", "socket to the launcher"},
                  whole_to(in(&DaemonOptions::process, &ProcessOptions::control_fd), 3, INT_MAX)),
      of_launcher({"parent", "PID", "process that started this peer: leave when it has ended"},
                  whole_to(in(&DaemonOptions::process, &ProcessOptions::parent), 1, INT_MAX)),
      of_launcher(
          {"parent_folder", "DIR", "folder of --parent and this peer, removed when --parent has ended"},
          to(in(&DaemonOptions::process, &ProcessOptions::parent_folder), parse_path)),
      of_launcher({"snapshots", "N", "number of snapshots to write per epoch of the swarm"},
                  whole_to(in(&DaemonOptions::process, &ProcessOptions::snapshots), 0, UINT32_MAX)),
      of_launcher({"cache_interval", "TIME", "time between two writes of --state"},
                  to(in(&DaemonOptions::cache, &DaemonOptions::Cache::interval), parse_time)),
      of_launcher({"begin_after", "TIME", "time to wait for a stored swarm before the run is begun again"},
                  to(in(&DaemonOptions::cache, &DaemonOptions::Cache::begin_after), parse_time)),
      of_launcher(
          {"trainer_grace", "TIME", "time to wait for another trainer after one has ended (default 60s)"},
          to(in(&DaemonOptions::trainer, &DaemonOptions::Outside::grace), parse_time)),
      of_launcher({"rendezvous", "DIR", "folder where the peers of an all-reduce meet"},
                  to(in(&DaemonOptions::all_reduce, &AllReduce::rendezvous), parse_path)),
      of_launcher({"patience", "TIME", "time to wait for the other peers of an all-reduce"},
                  to(in(&DaemonOptions::all_reduce, &AllReduce::patience), parse_time)),
  };
}

}  // namespace

const std::vector<PeerSetting>& peer_settings() {
  static const PeerSettings table = [] {
    PeerSettings all;
    for (const auto section :
         {reach_settings, swarm_settings, output_settings, storage_settings, launcher_settings})
      for (PeerSetting& setting : section()) all.push_back(std::move(setting));
    return all;
  }();
  return table;
}

const PeerSetting& peer_setting(std::string_view key) {
  const auto at = std::ranges::find(peer_settings(), key, &PeerSetting::key);
  STARLING_CHECK(at != peer_settings().end());
  return *at;
}

Status check_peer_options(const DaemonOptions& options) {
  const DaemonOptions::Reach& reach = options.reach;
  const std::string rule(traits(options.experiment.gossip.rule).name);
  const bool all_at_once = traits(options.experiment.gossip.rule).all_at_once();
  if (!reach.listen && !reach.advertise.empty())
    return Error{"--advertise has no effect with --listen none: nobody can dial this peer"};
  if (!reach.listen && reach.relay > 0)
    return Error{"--relay has no effect with --listen none: a relay must be dialed"};
  // Peers that are discovered dial each other over the network.
  if (options.discover && reach.listen && is_loopback(reach.listen.host)) {
    return Error{"--discover: other machines cannot dial " + to_string(reach.listen) +
                 "; listen on an address of this network, for example --listen 0.0.0.0:7100"};
  }
  if (options.discover && all_at_once) return Error{"--discover cannot be combined with gossip.rule " + rule};
  if (!options.trainer.socket.empty()) {
    // A trainer brings its own model and data.
    for (const training::Setting& setting : training::settings()) {
      const bool own = setting.key.starts_with("model.") || setting.key == "data.source" ||
                       setting.key == "data.partition" || setting.key == "training.device" ||
                       setting.key == "training.devices" || setting.key == "training.workers";
      if (own && std::ranges::find(options.given, setting.key) != options.given.end())
        return Error{setting.flag + " cannot be combined with --trainer: the trainer decides it"};
    }
    if (all_at_once) return Error{"--trainer cannot be combined with gossip.rule " + rule};
  }
  if (options.experiment.model.init && !options.resume.empty())
    return Error{"--init cannot be combined with --resume: a checkpoint has the parameters"};
  return Done{};
}

}  // namespace starling::node
