#include "lab/simulate/divided_peer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "training/learning/slices/slice_plan.h"
#include "training/learning/split.h"
#include "training/planner/partition.h"
#include "training/planner/profiling/operations.h"

namespace starling::lab {
namespace {

using training::Channels;
using training::Experiment;
using training::SliceInput;
using training::SlicePlan;
using training::SliceRun;
using training::Split;

double floats_per_channel(const models::Shape& shape) {
  return static_cast<double>(shape.size()) / static_cast<double>(shape.channels);
}

// The times of the runs of a network's layers that each part computes without the others.
class SlicedBatch {
 public:
  SlicedBatch(const models::Plan& network, const SimulatedDevices& devices, std::uint32_t samples,
              double step)
      : network_(network),
        devices_(devices),
        samples_(samples),
        slices_(training::slice_layers(network, devices.speeds.size())),
        profile_(training::profile_by_operations(network, samples, step)) {}

  SliceTimes times() {
    std::vector<bool> trained(network_.layers.size());  // by the last layer of a run
    for (const SliceRun& run : slices_.runs) {
      bool trains = false;
      for (int layer = run.begin; layer < run.end; ++layer) trains = trains || info(layer).parameters > 0;
      for (const SliceInput& input : run.inputs) {
        if (input.layer < 0) continue;
        const bool source_trains = trained[static_cast<std::size_t>(input.layer)];
        trains = trains || source_trains;
        if (input.gathered) add_transfer(input.layer, input.needs, source_trains);
      }
      trained[static_cast<std::size_t>(run.end) - 1] = trains;
      add_computing(run);
    }
    const int last = slices_.runs.back().end - 1;
    std::vector<Channels> loss(devices_.speeds.size());  // the first part computes it
    loss[0] = {{0, info(last).output.channels}};
    add_transfer(last, loss, trained[static_cast<std::size_t>(last)]);
    return times_;
  }

 private:
  const models::LayerInfo& info(int layer) const { return network_.layers[static_cast<std::size_t>(layer)]; }
  const std::vector<Channels>& channels_of(int layer) const {
    return slices_.layers[static_cast<std::size_t>(layer)].channels;
  }

  void add_computing(const SliceRun& run) {
    double slowest = 0;
    for (std::size_t part = 0; part < devices_.speeds.size(); ++part) {
      double seconds = 0;
      for (int layer = run.begin; layer < run.end; ++layer) {
        const auto& its = profile_.layers[static_cast<std::size_t>(layer)];
        seconds += (its.forward + its.backward) * training::count_of(channels_of(layer)[part]) /
                   info(layer).output.channels;
      }
      slowest = std::max(slowest, seconds / devices_.speeds[part]);
    }
    times_.computing += slowest;
  }

  // Of a layer's output to the parts that need more of it than they computed, and of its gradient back.
  void add_transfer(int layer, const std::vector<Channels>& needs, bool backward) {
    const double plane = floats_per_channel(info(layer).output);
    double all = 0, most = 0;
    for (std::size_t part = 0; part < needs.size(); ++part) {
      double own = 0;
      for (const auto& piece : training::common_pieces(channels_of(layer)[part], needs[part], 1))
        own += static_cast<double>(piece.count);
      const double bytes = (training::count_of(needs[part]) - own) * plane * samples_ * sizeof(float);
      all += bytes;
      most = std::max(most, bytes);
    }
    if (all == 0) return;
    times_.gathered += all;
    times_.reduced += backward ? all : 0;
    times_.transfers += (most / devices_.bandwidth + devices_.latency) * (backward ? 2 : 1);
  }

  const models::Plan& network_;
  const SimulatedDevices& devices_;
  const double samples_;
  const SlicePlan slices_;
  const training::PipelineProfile profile_;
  SliceTimes times_;
};

// Whether a device has the memory for a replica that trains.
Status check_memory_of_replicas(const models::Plan& network, const SimulatedDevices& devices,
                                std::uint32_t samples) {
  if (!devices.memory) return Done{};
  training::PlanRequest request{.levels = {{1, 1e9}}, .memory = devices.memory, .counts_current = true};
  request.replicas = {1};
  request.schedule = {training::PipelineSchedule::layer_wise, 1};
  const auto plan = training::plan_pipeline(training::profile_by_operations(network, samples, 1), request);
  return plan ? Status(Done{}) : Status(plan.error());
}

Result<DividedPeer> replicated_peer(const Experiment& own, const models::Plan& network) {
  const SimulatedDevices devices = simulated_devices(own);
  if (Status fits = check_memory_of_replicas(network, devices, own.training.batch_size); !fits)
    return Error{"training.split: " + fits.error().message};
  DividedPeer peer{own};
  peer.settled.training.split = Split::data;
  peer.replicas = replica_times(network, devices, to_seconds(virtual_step(own)), own.training.average_every);
  peer.step = peer.replicas->interval();
  return peer;
}

// The planner's, for these links and this memory. Those of a real peer do not know them.
Status plan_cuts(Experiment& its, const models::Plan& network) {
  const auto planned =
      pipelined_peer(network, simulated_devices(its), its.training.batch_size, to_seconds(virtual_step(its)));
  if (!planned) return Error{"training.split: " + planned.error().message};
  its.pipeline.cuts.clear();
  for (const std::size_t cut : planned->devices.cuts) its.pipeline.cuts.push_back(static_cast<int>(cut));
  return Done{};
}

Result<DividedPeer> staged_peer(const Experiment& own, const models::Plan& network) {
  DividedPeer peer{own};
  peer.settled.training.split = Split::stages;
  if (own.training.split == Split::automatic && own.pipeline.cuts.empty()) {
    if (Status planned = plan_cuts(peer.settled, network); !planned) return planned.error();
  }
  auto pipeline = pipeline_of(peer.settled, network);
  if (!pipeline) return pipeline.error();
  peer.pipeline = std::move(*pipeline);
  peer.step = peer.pipeline->step;
  peer.settled.pipeline.micro_batches = peer.pipeline->devices.micro_batches;
  peer.settled.pipeline.cuts.clear();
  for (const std::size_t cut : peer.pipeline->devices.cuts)
    peer.settled.pipeline.cuts.push_back(static_cast<int>(cut));
  return peer;
}

Result<DividedPeer> sliced_peer(const Experiment& own, const models::Plan& network) {
  const auto settled = training::settle_split(own, network, nullptr);
  if (!settled) return settled.error();
  DividedPeer peer{*settled};
  const SliceTimes times =
      slice_times(network, simulated_devices(own), own.training.batch_size, to_seconds(virtual_step(own)));
  peer.step = times.computing + times.transfers;
  return peer;
}

std::string in_milliseconds(double seconds) { return fmt::format("{:.3g} ms", seconds * 1e3); }

Result<DividedPeer> faster_peer(const Experiment& own, const models::Plan& network) {
  auto replicas = replicated_peer(own, network), stages = staged_peer(own, network);
  if (!replicas && !stages) return stages.error();
  const bool divides = stages.ok() && (!replicas || stages->step < replicas->step);
  DividedPeer chosen = divides ? std::move(*stages) : std::move(*replicas);
  const auto other = divides ? replicas : stages;
  const char* const name = divides ? "data" : "stages";
  chosen.text = "; a batch every " + in_milliseconds(chosen.step) +
                (other ? ", with " + std::string(name) + " every " + in_milliseconds(other->step)
                       : ", and " + std::string(name) + " is impossible");
  return chosen;
}

}  // namespace

double ReplicaTimes::interval() const {
  double per_second = 0;
  for (const double step : steps) per_second += 1 / step;
  const double batches = static_cast<double>(average_every) * static_cast<double>(steps.size());
  return 1 / per_second + average / batches;
}

ReplicaTimes replica_times(const models::Plan& network, const SimulatedDevices& devices, double step,
                           std::uint32_t average_every) {
  ReplicaTimes times{.steps = {}, .average_every = average_every};
  for (const double speed : devices.speeds) times.steps.push_back(step / speed);
  const auto count = static_cast<double>(devices.speeds.size());
  const double part = static_cast<double>(network.layout.arena_size() * sizeof(float)) / count;
  times.average = 2 * (count - 1) * (part / devices.bandwidth + devices.latency);
  return times;
}

SliceTimes slice_times(const models::Plan& network, const SimulatedDevices& devices, std::uint32_t samples,
                       double step) {
  return SlicedBatch(network, devices, samples, step).times();
}

Result<std::optional<DividedPeer>> divided_peer(const Experiment& own, const models::Plan& network) {
  if (own.training.devices.size() < 2) return std::optional<DividedPeer>();
  const auto divide = own.training.split == Split::data     ? replicated_peer
                      : own.training.split == Split::stages ? staged_peer
                      : own.training.split == Split::layers ? sliced_peer
                                                            : faster_peer;
  auto peer = divide(own, network);
  if (!peer) return peer.error();
  const bool open = own.training.split == Split::automatic;
  peer->text = (open ? "auto: " : "") + training::split_text(peer->settled, network) + peer->text;
  return std::optional(std::move(*peer));
}

}  // namespace starling::lab
