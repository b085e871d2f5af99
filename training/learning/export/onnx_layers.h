// The layers of a network as nodes of an ONNX graph: one overload of write() for each type (onnx_layers.cc).
#pragma once

#include <span>

#include "models/spec.h"
#include "training/learning/export/onnx_graph.h"

namespace starling::training {

// Appends the nodes of all layers. `input` is normalized: [batch, channels, height, width], [batch, features]
// if height and width are 1, or tokens as whole numbers [batch, length], where `length` is at most the
// network's context. Returns the logits, [batch, classes] or [batch, length, classes].
OnnxGraph::Value write_layers(OnnxGraph& graph, const models::Plan& plan, std::span<const float> parameters,
                              const OnnxGraph::Value& input);

}  // namespace starling::training
