#include "cli/commands/json.h"

#include <fmt/format.h>

#include <algorithm>

#include "training/runs/records/json.h"

namespace starling::cli {
namespace {

using training::Json;
using training::or_null;
using training::to_line;

Json shape_json(const models::Shape& shape) {
  return Json::array({shape.channels, shape.height, shape.width});
}

Json topology_object(const std::string& name, const topologies::Analysis& analysis) {
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

int print_list(const Arguments& arguments, const std::string& title, const std::vector<Described>& entries) {
  Json list = Json::array();
  std::size_t width = 0;
  for (const Described& entry : entries) {
    list.push_back({{"name", entry.name}, {"description", entry.description}});
    width = std::max(width, entry.name.size());
  }
  if (arguments.has("--json")) return print_out(to_line({{title, std::move(list)}}));
  std::string text;
  for (const Described& entry : entries) {
    text += fmt::format("{:<{}}  {}\n", entry.name, width, entry.description);
    if (!entry.more.empty()) text += fmt::format("{:<{}}  {}\n", "", width, entry.more);
  }
  return print_out(text);
}

Command list_command(const std::string& group, const std::string& summary, int (*run)(const Arguments&)) {
  const std::string path = group + " list";
  return {path, summary, {}, {kJsonFlag}, run, "starling " + path};
}

std::string layer_name(const models::Plan& plan, int index) {
  return index == models::LayerInfo::kInput ? "input" : plan.layers.at(static_cast<std::size_t>(index)).name;
}

double flops_of(const models::Plan& plan) {
  double flops = 0;
  for (const models::LayerInfo& layer : plan.layers) flops += layer.flops_forward;
  return flops;
}

std::optional<double> flops_per_token(const models::Plan& plan) {
  if (plan.spec.input.tokens == 0) return std::nullopt;
  return 3 * flops_of(plan) / plan.spec.input.tokens;
}

std::string model_json(const models::Plan& plan, const training::TrainingMemory& memory,
                       const training::PeerMemory& peer) {
  Json layers = Json::array();
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    const models::LayerInfo& layer = plan.layers[i];
    const training::LayerBytes& bytes = memory.layers[i];
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
                  {"flops_forward", flops_of(plan)},
                  {"flops_per_token", training::or_null(flops_per_token(plan))},
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

std::string fetched_json(const std::string& name, const std::string& folder,
                         const datasets::Fetched& fetched) {
  return to_line({{"name", name},
                  {"folder", folder},
                  {"files", fetched.files},
                  {"files_already_there", fetched.already_there},
                  {"bytes_fetched", fetched.bytes}});
}

std::string data_json(const datasets::Info& info) {
  // A number for one channel, else an array.
  const auto by_channel = [](const Json& list) { return list.size() == 1 ? list[0] : list; };
  const auto with_origin = [&info](Json object) {
    for (const auto& [key, value] : {std::pair("source", &info.source), std::pair("label", &info.label)})
      if (!value->empty()) object[key] = *value;
    if (!info.columns.empty()) object["columns"] = info.columns;
    if (!info.class_names.empty()) object["class_names"] = info.class_names;
    object["decisions"] = info.decisions;
    object["notes"] = info.notes;
    object["fingerprint"] = to_string(PeerId{info.fingerprint});
    return to_line(object);
  };
  if (info.text) {
    const datasets::TextInfo& text = *info.text;
    const auto part = [](const datasets::TextInfo::Part& its) -> Json {
      return {{"characters", its.characters ? Json(*its.characters) : Json()},
              {"tokens", its.tokens},
              {"documents", its.documents}};
    };
    return with_origin({{"name", info.name},
                        {"tokenizer", text.tokenizer.empty() ? Json() : Json(text.tokenizer)},
                        {"vocabulary", info.classes},
                        {"train", part(text.train)},
                        {"test", part(text.test)},
                        {"memory_bytes", info.memory_bytes}});
  }
  return with_origin({{"name", info.name},
                      {"shape", Json::array({info.shape.channels, info.shape.height, info.shape.width})},
                      {"classes", info.classes},
                      {"train_samples", info.train_samples},
                      {"test_samples", info.test_samples},
                      {"train_per_class", info.train_per_class},
                      {"test_per_class", info.test_per_class},
                      {"mean", by_channel(datasets::means_of(info))},
                      {"deviation", by_channel(datasets::deviations_of(info))},
                      {"memory_bytes", info.memory_bytes}});
}

std::string topology_json(const std::string& name, const topologies::Analysis& analysis,
                          const std::optional<ModelTraffic>& traffic) {
  Json object = topology_object(name, analysis);
  if (traffic) {
    object["model"] = traffic->model;
    object["parameters"] = traffic->parameters;
    object["bytes_per_round"] = traffic->bytes_per_round;
    object["bytes_per_exchange"] = traffic->bytes_per_exchange;
  }
  return to_line(object);
}

std::string compare_json(std::uint32_t peers, bool measured, const std::vector<ComparedRow>& rows) {
  Json list = Json::array();
  for (const ComparedRow& row : rows) {
    Json entry = topology_object(row.compared.name, row.compared.analysis);
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

}  // namespace starling::cli
