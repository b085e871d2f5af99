#include "training/experiment/experiment.h"

#include <algorithm>

#include "base/text.h"
#include "models/spec_text.h"
#include "training/experiment/quantities.h"
#include "training/experiment/schedule.h"

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
  std::uint32_t workers = experiment.workers;  // of the peer that has most
  for (const OwnSettings& own : experiment.own)
    workers = std::max(workers, of_peer(experiment, own.peers.is_all() ? 0 : own.peers.largest()).workers);
  const double reach = workers * rate / (1 - experiment.momentum);
  if (experiment.optimizer != "sgd" || workers <= 2 || reach <= kFarthestReach) return "";
  return std::to_string(workers) + " workers that each take SGD steps at the learning rate " +
         format_number(rate) + " may go too far together to learn; their default is " +
         format_number(kRatePerReplica / workers);
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

std::uint32_t resolved_looks(const Experiment& experiment) {
  return experiment.looks.value_or(20);
}

Every resolved_every(const Experiment& experiment) {
  if (experiment.every) return *experiment.every;
  if (experiment.rule == "noloco") return {.steps = 50};
  if (experiment.rule == "d-psgd" || experiment.rule == kAllReduce || has_servers(experiment)) return {.steps = 1};
  if (experiment.rule == "push-sum")
    return {.kind = Every::Kind::time, .time = std::chrono::milliseconds(200)};
  return {.steps = 8};
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
  for (const OwnSettings& own : experiment.own) {
    for (const auto& [key, value] : own.values) {
      if ((key == "training.workers" && value != "1") || key == "training.devices")
        return Error{"[[peer]]: with all-reduce no peer has several workers or devices"};
    }
  }
  for (const Fault& fault : experiment.faults) {
    if (fault.kind != Fault::Kind::join && fault.kind != Fault::Kind::leave &&
        fault.kind != Fault::Kind::poison && fault.kind != Fault::Kind::churn && !fault.back_after)
      continue;
    const std::string why = fault.kind == Fault::Kind::poison
                                ? "all-reduce exchanges no parameters to poison"
                                : "all-reduce needs every peer from the first step to the last";
    return Error{std::string("the fault ") + name(fault.kind) + " of peer " + fault.peer.text() +
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

bool is_own_setting(const Setting& setting) {
  return setting.key.starts_with("training.") && !setting.shared;
}

Experiment of_peer(const Experiment& experiment, std::uint32_t peer) {
  Experiment its = experiment;
  its.own.clear();
  its.learning_rate = resolved_learning_rate(experiment);  // the run's, however many workers the peer has
  for (const OwnSettings& own : experiment.own) {
    if (!own.peers.contains(peer)) continue;
    for (const auto& [key, value] : own.values) {
      // One device or several: the one that is said last.
      if (key == "training.device") its.devices.clear();
      if (key == "training.devices") its.device = "auto";
      for (const Setting& setting : settings())
        if (setting.key == key) STARLING_CHECK(setting.set(its, value).ok());
    }
  }
  return its;
}

namespace {

Status check_own(const Experiment& experiment) {
  for (std::size_t i = 0; i < experiment.own.size(); ++i) {
    const OwnSettings& own = experiment.own[i];
    const std::string which = "[[peer]] " + std::to_string(i + 1) + ": ";
    if (own.peers.largest() >= experiment.peers) {
      return Error{which + "there is no peer " + std::to_string(own.peers.largest()) + "; " +
                   std::to_string(experiment.peers) + " peers are numbered from 0 to " +
                   std::to_string(experiment.peers - 1)};
    }
    bool device = false, devices = false;
    for (const auto& [key, value] : own.values) {
      const auto setting = std::find_if(settings().begin(), settings().end(),
                                        [&key = key](const Setting& it) { return it.key == key; });
      if (setting == settings().end() || !is_own_setting(*setting))
        return Error{which + key + " is not a peer's own setting"};
      Experiment scratch;
      if (Status set = setting->set(scratch, value); !set)
        return Error{which + key + ": " + set.error().message};
      device = device || key == "training.device";
      devices = devices || key == "training.devices";
    }
    if (device && devices) return Error{which + "a peer trains on device or on devices, not on both"};
  }
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
  if (experiment.target_accuracy && resolved_looks(experiment) == 0)
    return Error{"looks: with 0 nobody sees that training.target_accuracy is reached; 20 looks in an epoch are usual"};
  if (Status status = check_own(experiment); !status) return status;
  for (std::size_t i = 0; i < experiment.faults.size(); ++i) {
    const Fault& fault = experiment.faults[i];
    if (Status fine = check_fault(fault, experiment.peers); !fine) {
      return Error{"fault " + std::to_string(i + 1) + " (" + name(fault.kind) + " of peer " +
                   fault.peer.text() + "): " + fine.error().message};
    }
  }
  return Done{};
}

}  // namespace starling::training
