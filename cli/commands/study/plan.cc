// starling plan: how a network is divided among several devices, and what that takes.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/flag_values.h"
#include "cli/commands/model/subject.h"
#include "cli/commands/named_files.h"
#include "cli/commands/study/paper_format.h"
#include "cli/commands/study/plan_output.h"
#include "cli/shell/output.h"
#include "kernels/by_name/backends.h"
#include "kernels/memory.h"
#include "lab/plot/draw.h"
#include "training/learning/stages/stage_memory.h"
#include "training/planner/prediction.h"
#include "training/planner/profiling/measured_profile.h"
#include "training/runs/experiment/settings/quantities.h"
#include "training/runs/experiment/settings/setting_kinds.h"
#include "training/runs/records/files.h"

namespace starling::cli {
namespace {

using training::PipelineSchedule;

constexpr int kDevicesMax = 1024;
constexpr int kBatchMax = 65'536;
constexpr int kUsualBatch = 64, kUsualMicroBatches = 8;
constexpr std::size_t kProfileBytesMax = std::size_t{16} << 20;
constexpr std::uint64_t kMemoryMax = std::uint64_t{1} << 50;
constexpr double kChartWidth = 7.2, kChartDpi = 200;  // inches, and of a PNG
constexpr const char* kUsualBandwidth = "1Gbit/s";

// The devices of --devices: a number, or names of equal devices.
struct DeviceNames {
  int count = 0;
  std::vector<std::string> names;
};

Result<DeviceNames> read_devices(const std::string& text) {
  if (const auto count = parse_number<int>(text)) {
    if (*count >= 1 && *count <= kDevicesMax) return DeviceNames{*count, {}};
    return Error{"--devices: '" + text + "' is not a number from 1 to " + std::to_string(kDevicesMax)};
  }
  const Error wrong{"--devices: " + training::in_quotes(text) +
                    " is neither a number nor a list of different devices of one kind, such as cpu:0,cpu:1 "
                    "or cuda:0,cuda:1"};
  DeviceNames devices;
  for (const std::string_view part : split(text, ',')) {
    const bool core = part.starts_with("cpu:") && parse_number<std::uint16_t>(part.substr(4));
    const bool gpu = part.starts_with("cuda:") && training::parse_device(part);
    const bool same_kind =
        devices.names.empty() || devices.names.front().starts_with("cpu") == part.starts_with("cpu");
    if (!(core || gpu || part == "cpu") || !same_kind ||
        std::ranges::find(devices.names, part) != devices.names.end())
      return wrong;
    devices.names.emplace_back(part);
  }
  devices.count = static_cast<int>(devices.names.size());
  return devices;
}

// "2-1-1".
Result<std::vector<int>> read_replicas(const std::string& text) {
  std::vector<int> replicas;
  for (const std::string_view part : split(text, '-')) {
    const auto count = parse_number<int>(part);
    if (!count || *count < 1 || *count > kDevicesMax) {
      return Error{"--replicas: " + training::in_quotes(text) +
                   " does not give each stage its number of replicas, from 1 to " +
                   std::to_string(kDevicesMax) + ", for example 2-1-1"};
    }
    replicas.push_back(*count);
  }
  return replicas;
}

// "4x8": racks, and the devices of each.
Result<std::pair<int, int>> read_racks(const std::string& text) {
  const std::size_t x = std::min(text.find('x'), text.size());
  const auto racks = parse_number<int>(text.substr(0, x));
  const auto devices = x < text.size() ? parse_number<int>(text.substr(x + 1)) : std::nullopt;
  if (racks && devices && *racks >= 1 && *devices >= 1 && *racks <= kDevicesMax / *devices)
    return std::pair(*racks, *devices);
  return Error{"--racks: " + training::in_quotes(text) + " is not RACKSxDEVICES, at most " +
               std::to_string(kDevicesMax) + " devices in all, for example 2x4"};
}

// Bytes per second within and between racks; --bandwidth has one or both.
Result<std::pair<double, double>> read_bandwidths(const Arguments& arguments) {
  const std::string text = arguments.get("--bandwidth").value_or(kUsualBandwidth);
  std::vector<double> rates;
  for (const std::string_view part : split(text, ',')) {
    const auto rate = training::parse_rate(part);
    if (!rate) return Error{"--bandwidth: " + rate.error().message};
    // The planner accepts from 1 to 1e15 bytes per second.
    if (*rate < 8) return Error{"--bandwidth: " + training::in_quotes(part) + " is less than 8bit/s"};
    rates.push_back(*rate / 8);
  }
  if (rates.size() > (arguments.has("--racks") ? 2U : 1U)) {
    return Error{"--bandwidth: " + training::in_quotes(text) +
                 " has too many rates; expected one, or with --racks two: within and between racks"};
  }
  return std::pair(rates.front(), rates.back());
}

Status read_levels(const Arguments& arguments, const std::optional<DeviceNames>& devices,
                   training::PlanRequest& request) {
  const auto bandwidths = read_bandwidths(arguments);
  if (!bandwidths) return bandwidths.error();
  int count = devices ? devices->count : 0;
  if (const auto text = arguments.get("--racks")) {
    const auto racks = read_racks(*text);
    if (!racks) return racks.error();
    const int all = racks->first * racks->second;
    if (count > 0 && count != all) {
      return Error{"--racks: " + *text + " has " + std::to_string(all) + " devices, and --devices " +
                   std::to_string(count)};
    }
    request.levels = {{racks->second, bandwidths->first}, {racks->first, bandwidths->second}};
    return Done{};
  }
  if (count == 0) count = std::accumulate(request.replicas.begin(), request.replicas.end(), 0);
  if (count == 0)
    return Error{
        "--devices is missing: a number, or names such as cpu:0,cpu:1; or give --racks or --replicas"};
  request.levels = {{count, bandwidths->first}};
  return Done{};
}

Result<PipelineSchedule> find_schedule(const Arguments& arguments) {
  const bool paper = arguments.has("--profile") || arguments.has("--as-published");
  const auto name = arguments.get("--pipeline");
  if (!name) return paper ? PipelineSchedule::pipedream : PipelineSchedule::one_f_one_b;
  std::vector<std::string_view> names;
  for (const training::PipelineTraits& traits : training::kPipelineSchedules) names.push_back(traits.name);
  const auto at = std::ranges::find(names, *name);
  if (at == names.end())
    return Error{"--pipeline: " + training::in_quotes(*name) + " is unknown; expected " + one_of(names)};
  return static_cast<PipelineSchedule>(at - names.begin());
}

// Reads --pipeline and --micro-batches. `batch`: the samples of a mini-batch, if they are known.
Status read_schedule(const Arguments& arguments, std::optional<int> batch, training::PlanRequest& request) {
  const auto schedule = find_schedule(arguments);
  if (!schedule) return schedule.error();
  const training::PipelineTraits& traits = training::pipeline_traits(*schedule);
  int micro_batches = !traits.splits || !traits.flushes ? 1 : std::gcd(kUsualMicroBatches, batch.value_or(0));
  if (Status read = read_number(arguments, "--micro-batches", 1, kBatchMax, micro_batches); !read)
    return read;
  if (!traits.splits && micro_batches > 1) {
    return Error{"--micro-batches: the schedule " + std::string(traits.name) +
                 " does not divide a mini-batch, so it has 1 micro-batch and not " +
                 std::to_string(micro_batches)};
  }
  if (batch && *batch % micro_batches != 0) {
    return Error{"--micro-batches: " + std::to_string(*batch) +
                 " samples (--batch-size) cannot be divided into " + std::to_string(micro_batches) +
                 " micro-batches of equal size"};
  }
  request.schedule = {*schedule, micro_batches};
  if (traits.splits) return Done{};
  if (std::ranges::any_of(request.replicas, [](int count) { return count > 1; }))
    return Error{"--replicas: the schedule layer-wise has one replica of each stage"};
  if (!request.replicas.empty()) return Done{};
  if (request.levels.size() > 1)
    return Error{"--racks: the schedule layer-wise has one replica of each stage, which racks are not for"};
  request.replicas.assign(static_cast<std::size_t>(request.levels[0].count), 1);
  return Done{};
}

Status check_combination(const Arguments& arguments) {
  const bool from_file = arguments.has("--profile");
  if (from_file == arguments.has("MODEL")) {
    return Error{from_file ? "MODEL and --profile exclude each other: a profile is of a network already"
                           : "MODEL is missing: a name of `model list` or a .toml file; or give --profile"};
  }
  for (const char* flag : {"--data", "--batch-size"}) {
    if (from_file && arguments.has(flag))
      return Error{std::string(flag) + " has no effect with --profile, whose times are for one mini-batch"};
  }
  for (const char* flag : {"--no-overlap", "--pipeline", "--micro-batches"}) {
    if (arguments.has("--as-published") && arguments.has(flag)) {
      return Error{std::string(flag) +
                   " cannot be combined with --as-published, which computes as PipeDream's planner did"};
    }
  }
  return Done{};
}

// All but what is to be planned.
Result<training::PlanRequest> read_plan_request(const Arguments& arguments,
                                                const std::optional<DeviceNames>& devices,
                                                std::optional<int> batch) {
  using training::StageCost;
  training::PlanRequest request{.levels = {},
                                .cost = arguments.has("--as-published") ? StageCost::added_without_transfers
                                        : arguments.has("--no-overlap") ? StageCost::added
                                                                        : StageCost::overlapped,
                                .counts_current = true};
  if (const auto text = arguments.get("--replicas")) {
    auto replicas = read_replicas(*text);
    if (!replicas) return replicas.error();
    request.replicas = *std::move(replicas);
    if (arguments.has("--racks"))
      return Error{"--replicas cannot be combined with --racks: it is for devices with equal links"};
  }
  if (Status read = read_levels(arguments, devices, request); !read) return read.error();
  if (Status read = read_schedule(arguments, batch, request); !read) return read.error();
  if (const auto text = arguments.get("--memory")) {
    const auto bytes = training::parse_size(*text, 1, kMemoryMax);
    if (!bytes) return Error{"--memory: " + bytes.error().message};
    request.memory = static_cast<double>(*bytes);
  }
  return request;
}

Result<training::PipelineProfile> read_profile(const std::string& path) {
  const auto text = training::read_text(path, kProfileBytesMax);
  if (!text) return Error{"--profile: " + text.error().message};
  auto profile = training::read_pipedream_profile(*text);
  if (!profile) return Error{"--profile: " + path + ": " + profile.error().message};
  return profile;
}

Result<models::Plan> read_network(const Arguments& arguments) {
  const auto model = resolve_model(*arguments.get("MODEL"));
  if (!model) return model.error();
  const auto subject = read_subject(arguments, *model);
  if (!subject) return subject.error();
  auto plan = models::make_model(*model, subject->input, subject->classes);
  if (plan && plan->layers.size() > training::kMostProfiledLayers) {
    return Error{"the network has " + std::to_string(plan->layers.size()) + " layers; at most " +
                 std::to_string(training::kMostProfiledLayers) + " can be planned"};
  }
  return plan;
}

// The first of the devices, after all of them were found.
Result<std::unique_ptr<kernels::Backend>> find_device(const DeviceNames& devices, std::string& name) {
  std::unique_ptr<kernels::Backend> first;
  const std::vector<std::string> names =
      devices.names.empty() ? std::vector{kernels::best_device(0)} : devices.names;
  for (const std::string& device : names) {
    const std::string backend_name = device.substr(0, 3) == "cpu" ? "cpu" : device;
    if (first && backend_name == "cpu") continue;
    auto backend = kernels::make_backend(backend_name);
    if (!backend) return Error{"--devices: " + backend.error().message};
    if (!first) {
      first = std::move(*backend);
      name = backend_name;
    }
  }
  return first;
}

// A network on a device of this machine.
struct PlannedNetwork {
  models::Plan network;
  std::unique_ptr<kernels::Backend> backend;
};

Result<PlannedNetwork> find_network(const Arguments& arguments, const DeviceNames& devices,
                                    PlanReport& report) {
  auto network = read_network(arguments);
  if (!network) return network.error();
  auto backend = find_device(devices, report.device);
  if (!backend) return backend.error();
  report.name = network->spec.name;
  return PlannedNetwork{std::move(*network), std::move(*backend)};
}

Error device_error(const PlanReport& report, const kernels::DeviceError& error) {
  return Error{"--devices: " + report.device + ": " + error.what()};
}

// Sets the report's profile: how long it takes.
Result<training::PipelineProfile> measure(const PlannedNetwork& subject, PlanReport& report) {
  try {
    auto measured = training::measure_profile(subject.network, *subject.backend, *report.samples);
    report.whole = measured.whole;
    report.by_layers = measured.by_layers;
    return std::move(measured.profile);
  } catch (const kernels::DeviceError& error) {
    return device_error(report, error);
  }
}

// Replaces the planner's estimates of memory by what the stages of the plan take.
Status find_memory(const PlannedNetwork& subject, PlanReport& report) {
  auto& stages = report.prediction.plan.stages;
  training::StagedOptions options{.schedule = report.prediction.shape.schedule,
                                  .micro_batches = report.prediction.shape.micro_batches};
  for (std::size_t s = 1; s < stages.size(); ++s)
    options.cuts.push_back(static_cast<int>(stages[s].layers.front()));
  try {
    const auto memory = training::predict_stage_memory(subject.network, *subject.backend, *report.samples,
                                                       report.prediction.shape, options);
    // On a device the parameters are a copy, which is counted, and the gradient of a batch is on the host.
    const double more = subject.backend->memory().on_host() ? 2 : 0;
    for (std::size_t s = 0; s < stages.size(); ++s)
      stages[s].memory = static_cast<double>(memory[s].total()) + more * stages[s].parameters;
  } catch (const kernels::DeviceError& error) {
    return device_error(report, error);
  }
  return Done{};
}

// Plans, and finds what the stages take.
Status plan_within(const training::PlanRequest& request, const training::PipelineProfile& profile,
                   const std::optional<PlannedNetwork>& subject, PlanReport& report) {
  auto prediction = training::predict_pipeline(profile, request);
  if (!prediction) return prediction.error();
  report.prediction = *std::move(prediction);
  return subject ? find_memory(*subject, report) : Status(Done{});
}

double most_memory(const PlanReport& report) {
  return std::ranges::max(report.prediction.plan.stages, {}, &training::PipelineStage::memory).memory;
}

// The plan, whose stages take no more than --memory. The planner counts only the bytes of borders between
// layers, so if they take more, it gets a smaller bound: the largest one with which they fit.
Status find_plan(const training::PipelineProfile& profile, const std::optional<PlannedNetwork>& subject,
                 PlanReport& report) {
  constexpr int kMostPlans = 8;
  training::PlanRequest request = report.request;
  if (Status planned = plan_within(request, profile, subject, report); !planned) return planned;
  if (!request.memory || most_memory(report) <= *request.memory) return Done{};
  const double bound = *request.memory;
  double least = most_memory(report), fails = bound, impossible = 0;
  std::optional<PlanReport> fitting;
  for (int k = 0; k < kMostPlans; ++k) {
    request.memory = (impossible + fails) / 2;
    PlanReport tried = report;
    if (!plan_within(request, profile, subject, tried)) {
      impossible = *request.memory;
      continue;
    }
    least = std::min(least, most_memory(tried));
    const bool fits = most_memory(tried) <= bound;
    (fits ? impossible : fails) = *request.memory;
    if (fits) fitting = std::move(tried);
  }
  if (!fitting)
    return Error{"--memory: each plan that was found takes more than " + format_bytes(bound) +
                 " on a device, at least " + format_bytes(least) +
                 "; allow more, or use more devices or a smaller --batch-size"};
  report = std::move(*fitting);
  return Done{};
}

// The Gantt chart of the schedule.
Status write_chart(const std::string& path, const PlanReport& report) {
  const auto format = paper_format("--chart", path);
  if (!format) return format.error();
  const training::PipelinePrediction& it = report.prediction;
  const std::string name = std::filesystem::path(report.name).filename().string() + ", " +
                           std::string(training::pipeline_traits(it.shape.schedule).name) + " with " +
                           std::to_string(it.shape.micro_batches) +
                           (it.shape.micro_batches == 1 ? " micro-batch" : " micro-batches");
  const auto document =
      lab::draw_gantt(lab::make_gantt(it.trace, name, it.bubble),
                      {.width = kChartWidth, .height = 0, .format = *format, .dpi = kChartDpi});
  if (!document) return Error{"--chart: " + document.error().message};
  if (Status written = training::write_text(path, *document); !written)
    return Error{"--chart: " + written.error().message};
  return Done{};
}

int plan_stages(const Arguments& arguments) {
  if (const auto path = arguments.get("--chart")) {
    if (const auto format = paper_format("--chart", *path); !format) return refuse(arguments, format.error());
  }
  if (Status sound = check_combination(arguments); !sound) return refuse(arguments, sound.error());
  std::optional<DeviceNames> devices;
  if (const auto text = arguments.get("--devices")) {
    const auto read = read_devices(*text);
    if (!read) return refuse(arguments, read.error());
    devices = *read;
  }
  std::optional<int> batch;
  if (arguments.has("MODEL")) {
    batch = kUsualBatch;
    if (Status read = read_number(arguments, "--batch-size", 1, kBatchMax, *batch); !read)
      return refuse(arguments, read.error());
  }
  auto request = read_plan_request(arguments, devices, batch);
  if (!request) return refuse(arguments, request.error());

  PlanReport report;
  report.asked_micro_batches = request->schedule.micro_batches;
  report.request = *request;
  if (batch) report.samples = *batch / request->schedule.micro_batches;
  const auto path = arguments.get("--profile");
  std::optional<PlannedNetwork> subject;
  if (!path) {
    auto found = find_network(arguments, devices.value_or(DeviceNames{}), report);
    if (!found) return refuse(arguments, found.error());
    subject = std::move(*found);
  }
  const auto profile = path ? read_profile(*path) : measure(*subject, report);
  if (!profile) return refuse(arguments, profile.error());
  if (path) report.name = *path;
  for (const training::ProfiledLayer& layer : profile->layers) report.layers.push_back(layer.name);
  if (Status found = find_plan(*profile, subject, report); !found) return refuse(arguments, found.error());
  std::string text = arguments.has("--json") ? plan_json(report) : plan_text(report);
  if (const auto chart = arguments.get("--chart")) {
    if (Status written = write_chart(*chart, report); !written) return refuse(arguments, written.error());
    if (!arguments.has("--json")) text += "\nchart: " + *chart + "\n";
  }
  return print_out(text);
}

}  // namespace

Command plan_command() {
  return {"plan",
          "divide a network among several devices, and predict what that takes",
          {{"MODEL", "a name of `model list`, or a .toml file with layers; its layers are measured", false}},
          {{"--data", "NAME-OR-PATH", "a data set: the shape of its samples, and its classes"},
           {"--devices", "N|LIST", "how many equal devices, or which: cpu:0,cpu:1 or cuda:0,cuda:1"},
           {"--racks", "RxN", "R racks of N devices each, instead of --devices"},
           {"--bandwidth", "RATE", "of each link (default 1Gbit/s); with racks also 16Gbit/s,1Gbit/s"},
           {"--memory", "BYTES", "of each device, such as 512MiB or 500MB (default: no bound)"},
           {"--replicas", "N-N", "replicas of each stage, such as 2-1-1 (default: the fastest)"},
           {"--batch-size", "N", "samples of a mini-batch (default 64)"},
           {"--micro-batches", "N", "parts of a mini-batch (default 8 for 1f1b and gpipe, else 1)"},
           {.name = "--pipeline",
            .placeholder = "NAME",
            .help = "1f1b (default), gpipe, layer-wise or pipedream (default for profiles)",
            .formerly = "--schedule"},
           {"--no-overlap", "", "a stage computes and synchronizes one after the other"},
           {"--profile", "FILE", "a profile in PipeDream's text form, instead of MODEL"},
           {"--as-published", "", "as PipeDream's published planner: the same, and transfers are free"},
           {"--chart", "FILE", "draw the schedule as a Gantt chart: .svg, .pdf or .png"},
           kJsonFlag},
          plan_stages,
          "starling plan lenet --devices 2 --bandwidth 10Gbit/s"};
}

}  // namespace starling::cli
