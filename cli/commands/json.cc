#include "cli/commands/json.h"

#include "training/records/json.h"

namespace starling::cli {
namespace {

using json = training::Json;
using training::or_null;
using training::to_line;

json shape_json(const models::Shape& shape) {
  return json::array({shape.channels, shape.height, shape.width});
}

json topology_object(const std::string& name, const topologies::Analysis& analysis) {
  return {{"name", name},
          {"peers", analysis.nodes},
          {"edges", analysis.edges},
          {"directed", analysis.directed},
          {"degree_min", analysis.degree_min},
          {"degree_max", analysis.degree_max},
          {"degree_mean", analysis.degree_mean},
          {"connected", analysis.connected},
          {"bipartite", analysis.bipartite},
          {"diameter", or_null(analysis.diameter)},
          {"period", analysis.period},
          {"mixing", to_string(analysis.mixing)},
          {"mean_preserved", analysis.mean_preserved},
          {"sends_per_round", analysis.sends_per_round},
          {"spectral_gap", or_null(analysis.spectral_gap)},
          {"round_factor", or_null(analysis.round_factor)},
          {"rounds_to_tenth", or_null(analysis.rounds_to_tenth)},
          {"exact_after", or_null(analysis.exact_after)},
          {"consensus_factor", or_null(analysis.consensus_factor)},
          {"consensus_bound", or_null(analysis.consensus_bound)},
          {"exchanges_to_tenth", or_null(analysis.exchanges_to_tenth)}};
}

}  // namespace

std::string list_json(const std::string& title,
                      const std::vector<std::pair<std::string, std::string>>& entries) {
  json list = json::array();
  for (const auto& [name, description] : entries)
    list.push_back({{"name", name}, {"description", description}});
  return to_line({{title, list}});
}

std::string layer_name(const models::Plan& plan, int index) {
  return index == models::LayerInfo::kInput ? "input" : plan.layers.at(static_cast<std::size_t>(index)).name;
}

std::string model_json(const models::Plan& plan, const training::TrainingMemory& memory,
                       const training::PeerMemory& peer) {
  json layers = json::array();
  double flops = 0;
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    const models::LayerInfo& layer = plan.layers[i];
    const training::LayerBytes& bytes = memory.layers[i];
    flops += layer.flops_forward;
    layers.push_back({{"name", layer.name},
                      {"kind", layer.kind},
                      {"from", layer_name(plan, layer.from)},
                      {"input", shape_json(layer.input)},
                      {"output", shape_json(layer.output)},
                      {"parameters", layer.parameters},
                      {"flops_forward", layer.flops_forward},
                      {"weights_bytes", bytes.weights},
                      {"gradients_bytes", bytes.gradients},
                      {"optimizer_bytes", bytes.optimizer},
                      {"activations_bytes", bytes.activations},
                      {"activations_at", layer_name(plan, bytes.counted_at)},
                      {"workspace_bytes", bytes.workspace}});
    if (layer.other != models::LayerInfo::kNone) layers.back()["other"] = layer_name(plan, layer.other);
  }
  return to_line({{"name", plan.spec.name},
                  {"input", shape_json(plan.spec.input)},
                  {"classes", plan.classes},
                  {"parameters", plan.layout.parameter_count()},
                  {"flops_forward", flops},
                  {"batch_size", memory.batch_size},
                  {"workers", memory.workers},
                  {"bytes_per_parameter",
                   {{"weight", memory.parameter.weight},
                    {"gradient", memory.parameter.gradient},
                    {"optimizer", memory.parameter.optimizer}}},
                  {"weights_bytes", memory.weights},
                  {"gradients_bytes", memory.gradients},
                  {"optimizer_bytes", memory.optimizer},
                  {"activations_bytes", memory.activations()},
                  {"kept_bytes", memory.kept},
                  {"kept_without_recompute_bytes", memory.kept_of_all},
                  {"batch_bytes", memory.batch},
                  {"activation_gradients_bytes", memory.backward},
                  {"scratch_bytes", memory.scratch},
                  {"workspace_bytes", memory.workspace},
                  {"memory_bytes", memory.total()},
                  {"peer",
                   {{"training_bytes", peer.training},
                    {"evaluation_bytes", peer.evaluation},
                    {"exchange_bytes", peer.exchange},
                    {"data_bytes", peer.data},
                    {"process_bytes", peer.process},
                    {"peak_bytes", peer.peak()}}},
                  {"layers", layers}});
}

std::string fetched_json(const std::string& name, const std::string& folder, const datasets::Fetched& fetched) {
  return to_line({{"name", name},
                  {"folder", folder},
                  {"files", fetched.files},
                  {"files_already_there", fetched.already_there},
                  {"bytes_fetched", fetched.bytes}});
}

std::string data_json(const datasets::Info& info) {
  // A number of gray images, an array by channel of others.
  const auto by_channel = [&](float datasets::Normalization::*member) {
    json list = json::array();
    for (const datasets::Normalization& n : info.normalization)
      list.push_back(static_cast<double>(n.*member));
    return list.size() == 1 ? list[0] : list;
  };
  return to_line({{"name", info.name},
                  {"shape", json::array({info.shape.channels, info.shape.height, info.shape.width})},
                  {"classes", info.classes},
                  {"train_samples", info.train_samples},
                  {"test_samples", info.test_samples},
                  {"train_per_class", info.train_per_class},
                  {"test_per_class", info.test_per_class},
                  {"mean", by_channel(&datasets::Normalization::mean)},
                  {"deviation", by_channel(&datasets::Normalization::deviation)},
                  {"memory_bytes", info.memory_bytes}});
}

std::string topology_json(const std::string& name, const topologies::Analysis& analysis,
                          const std::optional<Traffic>& traffic) {
  json object = topology_object(name, analysis);
  if (traffic) {
    object["model"] = traffic->model;
    object["parameters"] = traffic->parameters;
    object["bytes_per_round"] = traffic->bytes_per_round;
    object["bytes_per_exchange"] = traffic->bytes_per_exchange;
  }
  return to_line(object);
}

std::string compare_json(std::uint32_t peers, bool measured, const std::vector<ComparedRow>& rows) {
  json list = json::array();
  for (const ComparedRow& row : rows) {
    json entry = topology_object(row.compared.name, row.compared.analysis);
    if (measured) {
      const auto& lock_step = row.compared.lock_step;
      const auto& pairwise = row.compared.pairwise;
      entry["measured"] = {{"round_factor", or_null(lock_step.factor)},
                           {"round_deviation_percent", or_null(row.round_deviation_percent)},
                           {"exact_after", or_null(lock_step.exact_after)},
                           {"period_error", lock_step.period_error},
                           {"consensus_factor", or_null(pairwise.factor)},
                           {"consensus_deviation_percent", or_null(row.consensus_deviation_percent)},
                           {"consensus_error_percent", 100 * pairwise.rate_error},
                           {"seeds", pairwise.seeds}};
    }
    list.push_back(std::move(entry));
  }
  return to_line({{"peers", peers}, {"topologies", std::move(list)}});
}

std::string evaluation_json(const Evaluated& evaluated) {
  return to_line({{"checkpoint", evaluated.checkpoint},
                  {"model", evaluated.model},
                  {"data", evaluated.data},
                  {"parameters", evaluated.parameters},
                  {"samples", evaluated.samples},
                  {"accuracy", evaluated.score.accuracy},
                  {"loss", evaluated.score.loss}});
}

std::string prediction_json_head(const std::string& checkpoint, const std::string& model, const std::string& data) {
  const json head = {{"checkpoint", checkpoint}, {"model", model}, {"data", data}, {"predictions", json::array()}};
  std::string text = to_line(head);
  return text.substr(0, text.rfind(']'));
}

std::string prediction_json(const training::Prediction& it) {
  const std::string line =
      to_line({{"sample", it.sample}, {"class", it.guess}, {"probability", it.probability}, {"label", it.label}});
  return line.substr(0, line.size() - 1);
}

std::string findings_json(const Findings& findings) {
  // What goes wrong is a sentence, and null where nothing does.
  const auto text_or_null = [](const std::string& sentence) {
    return sentence.empty() ? json(nullptr) : json(sentence);
  };
  json instructions = json::object();
  for (const auto& set : findings.instructions) instructions[set.name] = set.there;
  json devices = json::array();
  for (const kernels::CudaDevice& device : findings.devices) {
    devices.push_back({{"device", "cuda:" + std::to_string(device.number)},
                       {"name", device.name},
                       {"compute_capability", capability(device)},
                       {"memory_bytes", device.memory_bytes},
                       {"free_bytes", device.free_bytes},
                       {"usable", device.problem.empty()},
                       {"problem", text_or_null(device.problem)}});
  }
  json checks = json::array();
  for (const Check& check : findings.checks) {
    checks.push_back({{"topic", check.topic},
                      {"outcome", outcome_name(check.outcome)},
                      {"what", check.what},
                      {"remedy", text_or_null(check.remedy)}});
  }
  return to_line({{"version", findings.version},
                  {"onednn", findings.onednn},
                  {"processor",
                   {{"name", findings.processor},
                    {"processors", findings.processors},
                    {"processors_usable", findings.processors_usable},
                    {"instructions", std::move(instructions)},
                    {"bf16", findings.bf16_problem.empty()},
                    {"bf16_problem", text_or_null(findings.bf16_problem)}}},
                  {"cuda",
                   {{"places", findings.module_places},
                    {"module", or_null(findings.module_path)},
                    {"loaded", findings.module_problem.empty()},
                    {"problem", text_or_null(findings.module_problem.empty() ? findings.devices_problem
                                                                             : findings.module_problem)},
                    {"libraries", text_or_null(findings.module_libraries)},
                    {"devices", std::move(devices)}}},
                  {"device_auto", findings.device_auto},
                  {"checks", std::move(checks)}});
}

}  // namespace starling::cli
