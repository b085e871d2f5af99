#include "lab/swarm/peer_command.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace starling::lab {
namespace {

using training::Experiment;
using training::Fault;

std::vector<std::string> place_arguments(const Experiment& experiment, const PeerPlace& place) {
  const bool serves = place.number >= experiment.peers;  // a server uses no data: any slot does
  std::vector<std::string> arguments = {
      "peer",
      "--listen",
      "127.0.0.1:0",
      "--name",
      training::peer_name(experiment, place.number),
      "--slot",
      std::to_string(serves ? 0 : place.number) + "/" + std::to_string(experiment.peers),
      "--out",
      place.out,
      "--control-fd",
      std::to_string(place.control_fd)};
  if (place.snapshots > 0)
    arguments.insert(arguments.end(), {"--snapshots", std::to_string(place.snapshots)});
  if (place.expected > 0) arguments.insert(arguments.end(), {"--expect", std::to_string(place.expected)});
  if (!place.key.empty()) arguments.insert(arguments.end(), {"--key", place.key});
  if (!place.http.empty()) arguments.insert(arguments.end(), {"--http", place.http});
  if (!place.rendezvous.empty()) {
    arguments.insert(arguments.end(),
                     {"--rendezvous", place.rendezvous, "--patience", format_duration(place.patience)});
  }
  for (Fault fault : experiment.faults) {
    if (fault.kind != Fault::Kind::slow || serves || !fault.concerns(place.number)) continue;
    fault.peer = place.number;
    if (fault.to && *fault.to <= place.late) continue;
    fault.from = std::max(fault.from - place.late, Duration{0});
    if (fault.to) *fault.to -= place.late;
    arguments.insert(arguments.end(), {"--slow", training::format_slow(fault)});
  }
  return arguments;
}

void append_setting(std::vector<std::string>& arguments, const training::Setting& setting,
                    const Experiment& experiment) {
  const std::optional<std::string> value = setting.get(experiment);
  if (!value) return;
  if (!setting.placeholder.empty()) {
    arguments.insert(arguments.end(), {setting.flag, *value});
  } else if (*value == "true") {
    arguments.push_back(setting.flag);
  }
}

}  // namespace

bool is_peer_setting(const training::Setting& setting) {
  static constexpr std::array kOfLaunchers = {"name",
                                              "peers",
                                              "looks",
                                              "start",
                                              "training.target_accuracy",
                                              "training.target_loss",
                                              "network.port",
                                              "pipeline.speeds",
                                              "pipeline.bandwidth",
                                              "pipeline.latency",
                                              "pipeline.memory"};
  return std::ranges::find(kOfLaunchers, setting.key) == kOfLaunchers.end();
}

std::vector<std::string> beginner_arguments(const Experiment& experiment, const PeerPlace& place) {
  std::vector<std::string> arguments = place_arguments(experiment, place);
  for (const training::Setting& setting : training::settings()) {
    if (is_peer_setting(setting)) append_setting(arguments, setting, experiment);
  }
  return arguments;
}

std::vector<std::string> joiner_arguments(const Experiment& experiment, const PeerPlace& place,
                                          const std::vector<std::string>& addresses) {
  std::vector<std::string> arguments = place_arguments(experiment, place);
  for (const std::string& address : addresses) arguments.insert(arguments.end(), {"--join", address});
  for (const training::Setting& setting : training::settings()) {
    if (setting.key == "data.source" || (!setting.shared && is_peer_setting(setting))) {
      append_setting(arguments, setting, experiment);
    }
  }
  return arguments;
}

}  // namespace starling::lab
