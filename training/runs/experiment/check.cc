#include "training/runs/experiment/check.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "base/text.h"
#include "training/runs/experiment/schedule.h"
#include "training/runs/experiment/settings/settings.h"

namespace starling::training {
namespace {

// Settings of gossip, such as the topology, have no meaning without gossip and are ignored, so that one file
// serves all rules. Settings that would have another effect than they say are rejected.
Status check_all_at_once(const Experiment& experiment) {
  const RuleTraits& rule = traits(experiment.gossip.rule);
  const std::string name_of_rule(rule.name);
  if (experiment.training.workers != 1) {
    return Error{"training.workers: " + name_of_rule +
                 " has one worker in each peer, because all peers step together"};
  }
  if (experiment.optimizer.quasi_global_momentum)
    return Error{"training.quasi_global_momentum: " + name_of_rule + " has no exchanges of two peers"};
  if (experiment.training.devices.size() > 1) {
    return Error{"training.devices: with " + name_of_rule +
                 " each device is a peer; set peers and training.device"};
  }
  for (const OwnSettings& own : experiment.own) {
    for (const auto& [key, value] : own.values) {
      if ((key == "training.workers" && value != "1") || key == "training.devices")
        return Error{"[[peer]]: with " + name_of_rule + " no peer has several workers or devices"};
    }
  }
  for (const Fault& fault : experiment.faults) {
    if (fault.kind != Fault::Kind::join && fault.kind != Fault::Kind::leave &&
        fault.kind != Fault::Kind::poison && fault.kind != Fault::Kind::churn && !fault.back_after)
      continue;
    const std::string why = fault.kind == Fault::Kind::poison
                                ? " has no exchanges of two peers to poison"
                                : " needs every peer from the first step to the last";
    return Error{std::string("the fault ") + name(fault.kind) + " of peer " + fault.peer.text() + ": " +
                 name_of_rule + why};
  }
  return Done{};
}

Status check_own(const OwnSettings& own, std::uint32_t peers) {
  if (own.peers.largest() >= peers) {
    return Error{"peer " + std::to_string(own.peers.largest()) + " does not exist; " + std::to_string(peers) +
                 " peers are numbered from 0 to " + std::to_string(peers - 1)};
  }
  bool device = false, devices = false;
  for (const auto& [key, value] : own.values) {
    const Setting* setting = find_setting(key);
    if (setting == nullptr || !is_own_setting(*setting))
      return Error{key + " cannot be set for a single peer"};
    Experiment scratch;
    if (Status set = setting->set(scratch, value); !set) return Error{key + ": " + set.error().message};
    device = device || key == "training.device";
    devices = devices || key == "training.devices";
  }
  if (device && devices) return Error{"a peer trains on device or on devices, not on both"};
  return Done{};
}

// Whether there are as many stages and replicas of stages as cuts and devices.
Status check_stage_counts(const Experiment& experiment) {
  const std::vector<int>& replicas = experiment.pipeline.stage_replicas;
  const std::size_t devices = experiment.training.devices.size(), cuts = experiment.pipeline.cuts.size();
  const auto in_all = static_cast<std::size_t>(std::accumulate(replicas.begin(), replicas.end(), 0));
  if (!replicas.empty() && in_all != devices) {
    return Error{"pipeline.stage_replicas: " + std::to_string(in_all) +
                 " replicas in all, but training.devices has " + std::to_string(devices) + " devices"};
  }
  if (cuts == 0 || cuts + 1 == (replicas.empty() ? devices : replicas.size())) return Done{};
  return Error{"pipeline.cuts: " + std::to_string(cuts) + " cuts make " + std::to_string(cuts + 1) +
               " stages, but " +
               (replicas.empty() ? "training.devices has " + std::to_string(devices) + " devices"
                                 : "pipeline.stage_replicas has " + std::to_string(replicas.size()))};
}

// Stages and parts of layers may share a device, whole replicas may not.
Status check_repeated_devices(const TrainingSettings& training) {
  if (training.split == Split::stages || training.split == Split::layers) return Done{};
  std::vector<std::string> sorted = training.devices;
  std::ranges::sort(sorted);
  const auto repeated = std::ranges::adjacent_find(sorted);
  if (repeated == sorted.end()) return Done{};
  return Error{"training.devices: " + *repeated +
               " occurs twice, which needs training.split = stages or layers; name different devices"};
}

// Several devices that hold one replica together.
Status check_split(const Experiment& experiment) {
  const TrainingSettings& training = experiment.training;
  const bool stages = training.split == Split::stages || training.split == Split::automatic;
  if (training.devices.size() < 2) {
    if (training.recompute != Recomputation::except_last) return Done{};
    return Error{"training.recompute: except-last needs stages; set training.devices and training.split"};
  }
  if (const std::size_t speeds = experiment.pipeline.speeds.size();
      speeds > 0 && speeds != training.devices.size()) {
    return Error{"pipeline.speeds: " + std::to_string(speeds) + " speeds, but training.devices has " +
                 std::to_string(training.devices.size()) + " devices"};
  }
  if (Status divided = check_repeated_devices(training); !divided) return divided;
  if (training.split == Split::data) return Done{};
  if (training.workers != 1) {
    return Error{
        "training.workers: devices that hold one replica together (training.split) are one worker; "
        "set it to 1"};
  }
  if (training.split == Split::layers && training.recompute != Recomputation::never)
    return Error{"training.recompute: divided layers (training.split) keep all activations; set it to never"};
  if (Status fits = stages ? check_stage_counts(experiment) : Done{}; !fits) return fits;
  const bool flushes = pipeline_traits(experiment.pipeline.schedule).flushes;
  if (stages && !flushes && experiment.optimizer.clip_norm > 0) {
    return Error{
        "training.clip_norm: the schedule pipedream updates each stage by itself, so no gradient is "
        "known as a whole; choose 1f1b or gpipe, or set it to 0"};
  }
  if (stages && !flushes && experiment.optimizer.quasi_global_momentum) {
    return Error{
        "training.quasi_global_momentum: the schedule pipedream updates each stage by itself; choose "
        "1f1b or gpipe"};
  }
  if (const std::uint32_t parts = experiment.pipeline.micro_batches;
      stages && flushes && parts > 0 && training.batch_size % parts != 0) {
    return Error{"pipeline.micro_batches: a batch of " + std::to_string(training.batch_size) +
                 " samples cannot be divided into " + std::to_string(parts) + " micro-batches of equal size"};
  }
  return Done{};
}

// Every key's own limits: a setting must be able to read what it writes.
Status check_values(const Experiment& experiment) {
  Experiment scratch;
  for (const auto& setting : settings()) {
    const auto value = setting.get(experiment);
    if (!value) continue;
    if (Status status = setting.set(scratch, *value); !status)
      return Error{setting.key + ": " + status.error().message};
  }
  return Done{};
}

Status check_owns_and_faults(const Experiment& experiment) {
  for (std::size_t i = 0; i < experiment.own.size(); ++i) {
    if (Status fine = check_own(experiment.own[i], experiment.peers); !fine)
      return Error{"[[peer]] " + std::to_string(i + 1) + ": " + fine.error().message};
  }
  for (std::size_t i = 0; i < experiment.faults.size(); ++i) {
    const Fault& fault = experiment.faults[i];
    if (Status fine = check_fault(fault, experiment.peers); !fine) {
      return Error{"fault " + std::to_string(i + 1) + " (" + name(fault.kind) + " of peer " +
                   fault.peer.text() + "): " + fine.error().message};
    }
  }
  return Done{};
}

}  // namespace

Status check_optimizer(const Experiment& experiment) {
  if (experiment.optimizer.name != "adamw") return Done{};
  if (experiment.optimizer.nesterov)
    return Error{"training.nesterov: Nesterov momentum requires the optimizer sgd"};
  if (experiment.optimizer.quasi_global_momentum)
    return Error{"training.quasi_global_momentum: it requires the optimizer sgd"};
  return Done{};
}

Status check_rule(const Experiment& experiment) {
  if (Status fine = check_payload(experiment.gossip.rule, experiment.gossip.payload); !fine) return fine;
  const RuleTraits& rule = traits(experiment.gossip.rule);
  const Pace pace = resolved_every(experiment);
  if (rule.is_paced()) {
    if (Status fine = check_pace(rule, pace); !fine) return fine;
  }
  if (Status fine = check_fragments(rule, pace, experiment.gossip.fragments); !fine) return fine;
  if (rule.all_at_once()) return check_all_at_once(experiment);
  return check_racks(experiment.gossip.rule, experiment.gossip.racks);
}

Status check(const Experiment& experiment) {
  for (const auto part : {check_values, check_model, check_optimizer})
    if (Status fine = part(experiment); !fine) return fine;
  if (Status fine = check_schedule(experiment); !fine) return fine;
  if (Status fine = check_rule(experiment); !fine) return fine;
  if (!experiment.training.devices.empty() && experiment.training.device != "auto")
    return Error{"training.devices and training.device cannot be combined; set only one of them"};
  if (has_target(experiment.end) && resolved_looks(experiment) == 0) {
    return Error{"looks: training." +
                 std::string(experiment.end.target_accuracy ? "target_accuracy" : "target_loss") +
                 " needs evaluations during the run; set looks above 0 (20 per epoch are usual)"};
  }
  if (Status fine = check_split(experiment); !fine) return fine;
  if (Status fine = check_owns_and_faults(experiment); !fine) return fine;
  for (const OwnSettings& own : experiment.own) {
    const Experiment of_one = of_peer(experiment, own.peers.is_all() ? 0 : own.peers.largest());
    if (Status fine = check_split(of_one); !fine) return Error{"[[peer]]: " + fine.error().message};
  }
  return Done{};
}

std::string warning_of_vertical_sync(const Experiment& experiment) {
  // The age of a gradient, in updates, times the step size over 1 - momentum. LeNet with two stages is at 0.5
  // by default and does not learn reliably; at 0.2 it does (docs/PIPELINES.md).
  constexpr double kFarthestReach = 0.2;
  const auto warning = [](const Experiment& its) -> std::string {
    const std::vector<int>& replicas = its.pipeline.stage_replicas;
    const std::size_t stages = replicas.empty() ? its.training.devices.size() : replicas.size();
    if (!has_stages(its) || !its.pipeline.vertical_sync || its.optimizer.name != "sgd" || stages < 2 ||
        its.pipeline.schedule != PipelineSchedule::pipedream)
      return "";
    const std::size_t batches = std::max<std::size_t>(1, its.pipeline.micro_batches);  // of an update
    const std::size_t age = (stages - 1 + batches - 1) / batches;
    const double rate = resolved_learning_rate(its);
    const double needed = kFarthestReach * (1 - its.optimizer.momentum) / static_cast<double>(age);
    if (rate <= needed * (1 + 1e-9)) return "";
    return "with vertical_sync gradients are " + std::to_string(age) + (age == 1 ? " update" : " updates") +
           " old in all stages, and at the learning rate " + format_number(rate) + " with momentum " +
           format_number(its.optimizer.momentum) + " the network may not learn; it needs about " +
           format_number(std::round(1e5 * needed) / 1e5);
  };
  std::string text = warning(experiment);
  for (const OwnSettings& own : experiment.own)
    if (text.empty()) text = warning(of_peer(experiment, own.peers.is_all() ? 0 : own.peers.largest()));
  return text;
}

std::string warning_of_workers(const Experiment& experiment) {
  // The sum of the workers' step sizes over 1 - momentum. One worker has 0.5 by default. At 1, LeNet with two
  // workers lost nothing; at 2, it did not learn at all with four (docs/CPU.md).
  constexpr double kFarthestReach = 1;
  const double rate = resolved_learning_rate(experiment);
  std::uint32_t workers = experiment.training.workers;  // of the peer that has most
  for (const OwnSettings& own : experiment.own)
    workers =
        std::max(workers, of_peer(experiment, own.peers.is_all() ? 0 : own.peers.largest()).training.workers);
  const double reach = workers * rate / (1 - experiment.optimizer.momentum);
  if (experiment.optimizer.name != "sgd" || workers <= 2 || reach <= kFarthestReach) return "";
  return std::to_string(workers) + " workers that each take SGD steps at the learning rate " +
         format_number(rate) + " may together step too far to learn; their default is " +
         format_number(default_sgd_rate(workers));
}

std::string warning_of_late_faults(const Experiment& experiment, double seconds) {
  std::size_t late = 0;
  const Fault* first = nullptr;
  for (const Fault& fault : experiment.faults) {
    if (to_seconds(fault.from) <= seconds) continue;
    ++late;
    if (first == nullptr || fault.from < first->from) first = &fault;
  }
  if (first == nullptr) return "";
  const std::string kind = kFaultKinds.at(static_cast<std::size_t>(first->kind));
  return std::to_string(late) + (late == 1 ? " fault has" : " faults have") +
         " not happened, as the run took " + format_number(std::round(1e3 * seconds) / 1e3) + " s: " + kind +
         " begins at " + format_duration(first->from);
}

}  // namespace starling::training
