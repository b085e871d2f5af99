#include "training/runs/experiment/settings/pipeline_settings.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/text.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/experiment/settings/quantities.h"
#include "training/runs/experiment/settings/setting_kinds.h"

namespace starling::training {
namespace {

constexpr std::uint64_t kDeviceMemoryMax = std::uint64_t{1} << 50;

template <class T>
auto of_pipeline(T PipelineSettings::*member) {
  return [=](auto& experiment) -> auto& { return experiment.pipeline.*member; };
}

Effect with_stages() {
  return {"training.split", {"stages", "auto"}, [](const Experiment& it) {
            return it.training.split == Split::stages || it.training.split == Split::automatic;
          }};
}

std::optional<std::string> comma_list(const std::vector<int>& numbers) {
  return numbers.empty() ? std::nullopt : std::optional(joined(texts_of(numbers), ","));
}

// Devices with divided layers hold an unknown part of what the network needs.
Effect with_bounded_devices() {
  return {"training.split", {"data", "stages", "auto"}, [](const Experiment& it) {
            return it.training.devices.size() > 1 && it.training.split != Split::layers;
          }};
}

}  // namespace

std::vector<Setting> pipeline_settings(const Effect& several) {
  return {
      one_named({"pipeline.schedule", "NAME",
                 "the order of passes in stages: " + joined(names_of(kPipelineSchedules), ", "), per_peer,
                 with_stages()},
                of_pipeline(&PipelineSettings::schedule), kPipelineSchedules),
      make({"pipeline.micro_batches", "N",
            "the parts of a batch that pass through the stages; auto: at most four for each stage; for "
            "pipedream the batches for each update, auto: 1",
            per_peer, with_stages()},
           of_pipeline(&PipelineSettings::micro_batches),
           automatic([](std::string_view text) { return parse_whole(text, 1, 65'536); }),
           automatic_text([](std::uint64_t n) { return std::to_string(n); })),
      truth({"pipeline.vertical_sync",
             "",
             "pipedream: all stages compute a batch with parameters of equally many updates",
             per_peer,
             {"pipeline.schedule",
              {"pipedream"},
              [](const Experiment& it) { return it.pipeline.schedule == PipelineSchedule::pipedream; }}},
            of_pipeline(&PipelineSettings::vertical_sync)),
      make({"pipeline.cuts", "LAYERS",
            "the numbers of the layers, from 0, at which the second and later stages begin; without them "
            "the stages have about equal work",
            per_peer, with_stages()},
           of_pipeline(&PipelineSettings::cuts), parse_cuts, comma_list),
      make({"pipeline.stage_replicas", "COUNTS",
            "the devices of each stage, for example 2,1,1: they share the micro-batches; without it each "
            "stage has one",
            per_peer, with_stages()},
           of_pipeline(&PipelineSettings::stage_replicas), parse_replicas, comma_list),
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
