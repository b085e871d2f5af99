#include "training/learning/export/onnx.h"

#include "training/learning/export/onnx_graph.h"
#include "training/learning/export/onnx_layers.h"
#include "training/runs/records/json.h"

namespace starling::training {
namespace {

using Type = OnnxGraph::Type;
using Value = OnnxGraph::Value;

std::vector<OnnxGraph::Extent> extents_of(const datasets::Description& data) {
  if (data.is_text) return {"batch", "length"};
  if (data.is_rows()) return {"batch", data.shape.channels};
  return {"batch", data.shape.channels, data.shape.height, data.shape.width};
}

// Rows are numbers in double precision, because an offset is subtracted before they are rounded.
Type type_of_values(const datasets::Description& data) {
  if (data.is_text) return Type::whole;
  if (!data.floats) return Type::bytes;
  return data.is_rows() ? Type::doubles : Type::floats;
}

// The mean or the deviation of each channel.
Value statistic(OnnxGraph& graph, const datasets::Description& data, const char* name,
                float datasets::Normalization::*member) {
  std::vector<float> values;
  for (const datasets::Normalization& n : data.normalization) values.push_back(n.*member);
  const auto channels = static_cast<std::int64_t>(values.size());
  return graph.tensor(name, values,
                      data.is_rows() ? std::vector{channels} : std::vector<std::int64_t>{channels, 1, 1});
}

Value normalized(OnnxGraph& graph, const datasets::Description& data, Value x) {
  graph.begin("normalization");
  if (!data.offsets.empty()) x = graph.node("Sub", {x, graph.doubles("normalization.offset", data.offsets)});
  x = graph.cast(x, Type::floats);
  constexpr double kByteMax = 255;
  if (!data.floats) x = graph.node("Div", {x, graph.number(kByteMax)});
  if (data.normalization.empty()) return x;
  x = graph.node("Sub", {x, statistic(graph, data, "normalization.mean", &datasets::Normalization::mean)});
  return graph.node(
      "Div", {x, statistic(graph, data, "normalization.deviation", &datasets::Normalization::deviation)});
}

std::string list_of(const std::vector<std::string>& names) {
  return Json(names).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Result<std::string> to_onnx(const models::Plan& plan, std::span<const float> parameters,
                            const datasets::Description& data, const Facts& facts) {
  OnnxGraph graph;
  const Value input = graph.input({"input", type_of_values(data), extents_of(data)});
  const Value logits =
      write_layers(graph, plan, parameters, data.is_text ? input : normalized(graph, data, input));
  graph.begin("output");
  const OnnxGraph::Extent classes = std::int64_t{plan.classes};
  if (data.is_text) {
    graph.output({"logits", Type::floats, {"batch", "length", classes}}, logits);
  } else {
    graph.output({"logits", Type::floats, {"batch", classes}}, logits);
  }
  if (!data.class_names.empty()) graph.fact("class_names", list_of(data.class_names));
  if (!data.columns.empty()) graph.fact("columns", list_of(data.columns));
  for (const auto& [key, value] : facts) graph.fact(key, value);
  return graph.bytes();
}

}  // namespace starling::training
