#include "training/experiment.h"

#include <algorithm>

#include "base/text.h"
#include "models/spec_text.h"
#include "training/quantities.h"
#include "training/schedule.h"

namespace starling::training {
namespace {

// The default step size of SGD, of all workers on a replica together.
constexpr double kRatePerReplica = 0.05;
// How far workers may go together: the sum of their step sizes over 1 - momentum. One worker goes 0.5 by
// default; 1 cost LeNet nothing with two workers, 2 did not learn at all with four (docs/CPU.md).
constexpr double kFarthestReach = 1;

}  // namespace

Result<Every> parse_every(std::string_view text) {
  if (text == "always") return Every{.kind = Every::Kind::always};
  std::string_view count = text;
  for (const std::string_view unit : {" steps", " step"}) {
    if (count.ends_with(unit)) {
      count.remove_suffix(unit.size());
      break;
    }
  }
  if (const auto steps = parse_number<std::uint64_t>(count); steps && *steps > 0 && *steps <= 1'000'000'000) {
    return Every{.steps = *steps};
  }
  constexpr std::string_view kPoisson = "poisson ";
  const bool poisson = text.starts_with(kPoisson);
  const auto time = parse_time(poisson ? text.substr(kPoisson.size()) : text);
  if (time.ok() && *time > Duration{0}) {
    return Every{.kind = poisson ? Every::Kind::poisson : Every::Kind::time, .time = *time};
  }
  return Error{"'" + std::string(text.substr(0, 80)) +
               "' does not say how often; expected at least '1 steps' (8 steps), a time above zero (200ms), "
               "random moments so far apart in the mean (poisson 200ms), or always"};
}

std::string format_every(const Every& every) {
  switch (every.kind) {
    case Every::Kind::steps:
      return std::to_string(every.steps) + " steps";
    case Every::Kind::time:
      return format_duration(every.time);
    case Every::Kind::poisson:
      return "poisson " + format_duration(every.time);
    case Every::Kind::always:
      break;
  }
  return "always";
}

double resolved_learning_rate(const Experiment& experiment) {
  if (experiment.learning_rate) return *experiment.learning_rate;
  return experiment.optimizer == "adamw" ? 0.001 : kRatePerReplica / experiment.workers;
}

std::string warning_of_workers(const Experiment& experiment) {
  const double rate = resolved_learning_rate(experiment);
  const double reach = experiment.workers * rate / (1 - experiment.momentum);
  if (experiment.optimizer != "sgd" || experiment.workers <= 2 || reach <= kFarthestReach) return "";
  return std::to_string(experiment.workers) + " workers that each take SGD steps at the learning rate " +
         format_number(rate) + " may go too far together to learn; their default is " +
         format_number(kRatePerReplica / experiment.workers);
}

std::string join_devices(const std::vector<std::string>& devices) {
  std::string text;
  for (const std::string& device : devices) text += (text.empty() ? "" : ",") + device;
  return text;
}

bool has_servers(const Experiment& experiment) {
  return experiment.rule == "parameter-server" || experiment.rule == "ssp";
}

std::uint32_t servers_in_all(const Experiment& experiment) {
  return has_servers(experiment) ? experiment.servers + experiment.racks : 0;
}

std::string peer_name(const Experiment& experiment, std::uint32_t number) {
  if (number < experiment.peers) return "p" + std::to_string(number);
  return "s" + std::to_string(number - experiment.peers);
}

Every resolved_every(const Experiment& experiment) {
  if (experiment.every) return *experiment.every;
  if (experiment.rule == "noloco") return {.steps = 50};
  if (experiment.rule == "d-psgd" || experiment.rule == kAllReduce || has_servers(experiment)) return {.steps = 1};
  if (experiment.rule == "push-sum")
    return {.kind = Every::Kind::time, .time = std::chrono::milliseconds(200)};
  return {.steps = 8};
}

const char* name(Fault::Kind kind) {
  switch (kind) {
    case Fault::Kind::slow:
      return "slow";
    case Fault::Kind::pause:
      return "pause";
    case Fault::Kind::crash:
      return "crash";
    case Fault::Kind::leave:
      return "leave";
    case Fault::Kind::poison:
      return "poison";
    case Fault::Kind::link:
      return "link";
    case Fault::Kind::join:
      break;
  }
  return "join";
}

bool lasts(Fault::Kind kind) {
  return kind == Fault::Kind::slow || kind == Fault::Kind::pause || kind == Fault::Kind::poison ||
         kind == Fault::Kind::link;
}

const std::vector<std::string>& poisons() {
  static const std::vector<std::string> kPoisons = {"nan", "inf", "huge", "noise", "sign-flip", "frozen"};
  return kPoisons;
}

Result<std::uint32_t> parse_fault_peer(std::string_view text) {
  if (text == "all") return Fault::kAll;
  const auto peer = parse_whole(text, 0, 99'999);
  if (!peer) return Error{peer.error().message + ", or all"};
  return static_cast<std::uint32_t>(*peer);
}

std::string format_fault_peer(std::uint32_t peer) {
  return peer == Fault::kAll ? "all" : std::to_string(peer);
}

Result<Fault> parse_slow(std::string_view text) {
  const auto refuse = [text](const std::string& why) {
    return Error{"'" + std::string(text.substr(0, 80)) + "': " + why +
                 "; expected PEER=FACTOR or PEER=FACTOR@FROM..TO, for example 3=10@5s..60s or all=log-normal:sigma=1"};
  };
  const auto equals = text.find('=');
  if (equals == std::string_view::npos) return refuse("there is no '='");
  Fault fault;
  const auto peer = parse_fault_peer(text.substr(0, equals));
  if (!peer) return refuse("the peer " + peer.error().message);
  fault.peer = *peer;

  std::string_view rest = text.substr(equals + 1);
  const auto at = rest.find('@');
  const auto factor = Slowness::parse(rest.substr(0, at));
  if (!factor) return refuse("the factor " + factor.error().message);
  fault.factor = *factor;
  if (at == std::string_view::npos) return fault;

  rest = rest.substr(at + 1);
  const auto dots = rest.find("..");
  if (dots == std::string_view::npos) return refuse("there is no '..' between the times");
  const auto from = parse_seconds(rest.substr(0, dots));
  if (!from) return refuse(from.error().message);
  fault.from = *from;
  if (rest.size() == dots + 2) return fault;
  const auto to = parse_seconds(rest.substr(dots + 2));
  if (!to) return refuse(to.error().message);
  if (*to <= fault.from) return refuse("the times do not run forwards");
  fault.to = *to;
  return fault;
}

std::string format_slow(const Fault& fault) {
  STARLING_CHECK(fault.kind == Fault::Kind::slow);
  std::string text = format_fault_peer(fault.peer) + "=" + fault.factor.text();
  if (fault.from == Duration{0} && !fault.to) return text;
  text += "@" + format_duration(fault.from) + "..";
  if (fault.to) text += format_duration(*fault.to);
  return text;
}

namespace {

// Whether layers go with their name.
Status check_model(const Experiment& experiment) {
  if (experiment.layers.empty()) return Done{};
  if (Status fine = models::check_model_name(experiment.model); !fine)
    return Error{"model.name: " + fine.error().message};
  return Done{};
}

}  // namespace

Status settle_model(Experiment& experiment, bool name_given, bool layers_given) {
  if (layers_given && !name_given) experiment.model = models::kUnnamedModel;
  if (name_given && !layers_given) experiment.layers.clear();
  return check_model(experiment);
}

Status check_optimizer(const Experiment& experiment) {
  if (experiment.optimizer != "adamw") return Done{};
  if (experiment.nesterov) return Error{"training.nesterov: Nesterov's momentum goes with the optimizer sgd"};
  if (experiment.quasi_global_momentum)
    return Error{"training.quasi_global_momentum: it goes with the optimizer sgd"};
  return Done{};
}

namespace {

// What says how gossip goes, such as a topology, has no meaning here and is not looked at: the same file
// serves both. What would train otherwise than it says is refused.
Status check_all_reduce(const Experiment& experiment) {
  if (experiment.payload != "f32")
    return Error{"gossip.payload: all-reduce sums gradients in f32, not in " + experiment.payload};
  if (experiment.workers != 1)
    return Error{"training.workers: all-reduce has one worker in each peer, as a step is one of all at once"};
  if (experiment.quasi_global_momentum)
    return Error{"training.quasi_global_momentum: all-reduce has one momentum, that of all peers"};
  if (experiment.devices.size() > 1)
    return Error{"training.devices: with all-reduce each device is a peer of its own"};
  for (const Fault& fault : experiment.faults) {
    if (fault.kind != Fault::Kind::join && fault.kind != Fault::Kind::leave &&
        fault.kind != Fault::Kind::poison)
      continue;
    const std::string why = fault.kind == Fault::Kind::poison
                                ? "all-reduce exchanges no parameters to poison"
                                : "all-reduce needs every peer from the first step to the last";
    return Error{std::string("the fault ") + name(fault.kind) + " of peer " + format_fault_peer(fault.peer) +
                 ": " + why};
  }
  return Done{};
}

}  // namespace

Status check_rule(const Experiment& experiment) {
  const std::string& rule = experiment.rule;
  if (rule == kAllReduce) return check_all_reduce(experiment);
  if (experiment.payload == "top-k" && rule != "pairwise" && rule != "choco" && rule != "none") {
    return Error{"gossip.payload: top-k goes with the rules pairwise and choco; " + rule +
                 " has f32, bf16 and int8"};
  }
  if (rule == "push-sum" && resolved_every(experiment).kind == Every::Kind::steps) {
    return Error{
        "gossip.every: the rule push-sum is paced by time (200ms, poisson 200ms), not by steps: a peer "
        "that makes fewer of them would keep more weight than the others"};
  }
  if (rule == "ssp" && resolved_every(experiment).kind != Every::Kind::steps) {
    return Error{
        "gossip.every: the rule ssp bounds by how many steps a peer is ahead, so it is paced by steps ('1 step'), not "
        "by time"};
  }
  if (experiment.racks > 0 && rule != "parameter-server")
    return Error{"gossip.racks: only the rule parameter-server has racks; " + rule + " has none"};
  return Done{};
}

namespace {

// What belongs to some kinds of faults alone. A sentence without the fault's name.
Status check_kind(const Fault& fault) {
  const bool poison = fault.kind == Fault::Kind::poison;
  if (poison && std::find(poisons().begin(), poisons().end(), fault.poison) == poisons().end())
    return Error{"there is no poison '" + fault.poison.substr(0, 80) + "'"};
  if (!poison && !fault.poison.empty()) return Error{"only poison has a poison"};
  const Fault::Link& link = fault.link;
  if (fault.kind != Fault::Kind::link) {
    if (link != Fault::Link{}) return Error{"only link has a latency, a bandwidth and a drop"};
    return Done{};
  }
  if (link == Fault::Link{}) return Error{"a link needs a latency, a bandwidth or a drop"};
  if (link.latency && (*link.latency < Duration{0} || *link.latency > kLongestTime))
    return Error{"latency is not between 0s and " + format_duration(kLongestTime)};
  if (link.bandwidth && !(*link.bandwidth >= 1 && *link.bandwidth <= 1e15))
    return Error{"bandwidth is not from 1bit/s to 1000000Gbit/s"};
  if (!(link.drop >= 0 && link.drop < 1)) return Error{"drop is not a number from 0 to below 1"};
  return Done{};
}

}  // namespace

Status check(const Experiment& experiment) {
  Experiment scratch;
  for (const auto& setting : settings()) {
    const auto value = setting.get(experiment);
    if (!value) continue;
    if (Status status = setting.set(scratch, *value); !status) {
      return Error{setting.key + ": " + status.error().message};
    }
  }
  if (Status status = check_model(experiment); !status) return status;
  if (Status status = check_optimizer(experiment); !status) return status;
  if (const auto schedule = make_schedule(experiment); !schedule) return schedule.error();
  if (Status status = check_rule(experiment); !status) return status;
  if (!experiment.devices.empty() && experiment.device != "auto")
    return Error{"training.devices and training.device: a peer trains on the one or on the others, not on both"};
  for (std::size_t i = 0; i < experiment.faults.size(); ++i) {
    const Fault& fault = experiment.faults[i];
    const std::string which = "fault " + std::to_string(i + 1) + " (" + name(fault.kind) + " of peer " +
                              format_fault_peer(fault.peer) + "): ";
    if (fault.peer == Fault::kAll) {
      if (fault.kind != Fault::Kind::slow && fault.kind != Fault::Kind::pause && fault.kind != Fault::Kind::link)
        return Error{which + "only slow, pause and link may befall all peers"};
    } else if (fault.peer >= experiment.peers) {
      return Error{which + "there is no such peer; " + std::to_string(experiment.peers) +
                   " peers are numbered from 0 to " + std::to_string(experiment.peers - 1)};
    }
    if (const auto factor = Slowness::parse(fault.factor.text()); !factor)
      return Error{which + factor.error().message};
    if (fault.kind != Fault::Kind::slow && fault.factor != Slowness()) return Error{which + "only slow has a factor"};
    if (Status fine = check_kind(fault); !fine) return Error{which + fine.error().message};
    if (fault.from < Duration{0} || fault.from > kLongestTime || (fault.to && *fault.to > kLongestTime)) {
      return Error{which + "its times must lie between 0s and " + format_duration(kLongestTime)};
    }
    if (!fault.to) continue;
    if (!lasts(fault.kind)) return Error{which + "'to' belongs to slow, pause, poison and link alone"};
    if (*fault.to <= fault.from) {
      return Error{which + "from " + format_duration(fault.from) + " to " + format_duration(*fault.to) +
                   " does not run forwards"};
    }
  }
  return Done{};
}

}  // namespace starling::training
