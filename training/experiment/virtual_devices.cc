#include "training/experiment/virtual_devices.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/text.h"
#include "training/experiment/experiment.h"
#include "training/experiment/quantities.h"
#include "training/experiment/setting_kinds.h"

namespace starling::training {
namespace {

constexpr std::uint64_t kDeviceMemoryMax = std::uint64_t{1} << 50;

template <class T>
auto of_pipeline(T PipelineSettings::*member) {
  return [=](auto& experiment) -> auto& { return experiment.pipeline.*member; };
}

// Devices with divided layers hold an unknown part of what the network needs.
Effect with_bounded_devices() {
  return {"training.split", {"data", "stages", "auto"}, [](const Experiment& it) {
            return it.training.devices.size() > 1 && it.training.split != Split::layers;
          }};
}

}  // namespace

std::vector<Setting> virtual_device_settings(const Effect& several) {
  return {
      make({"pipeline.speeds", "SPEEDS",
            "how fast the devices of a simulated peer are, such as 1,1,0.25, where 1 is the speed of a peer "
            "with one device",
            per_peer, several},
           of_pipeline(&PipelineSettings::speeds), parse_speeds,
           [](const std::vector<double>& speeds) {
             return speeds.empty() ? std::nullopt : std::optional(joined(texts_of(speeds), ","));
           }),
      make({"pipeline.bandwidth", "RATE",
            "of each direction between two devices of a simulated peer; without it transfers take no time",
            per_peer, several},
           of_pipeline(&PipelineSettings::bandwidth), parse_rate, format_rate),
      make({"pipeline.latency", "TIME", "of a transfer between two devices of a simulated peer", per_peer,
            several},
           of_pipeline(&PipelineSettings::latency), parse_time, format_duration),
      make(
          {"pipeline.memory", "SIZE",
           "of each device of a simulated peer, for its parameters and activations; without it no bound",
           per_peer, with_bounded_devices()},
          of_pipeline(&PipelineSettings::memory),
          [](std::string_view text) { return parse_size(text, 1, kDeviceMemoryMax); }, format_size),
  };
}

}  // namespace starling::training
