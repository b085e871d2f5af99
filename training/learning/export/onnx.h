// A model as an ONNX file, for programs such as ONNX Runtime. The graph contains the normalization: its
// `input` are the values as the user's files have them. docs/MODELS.md describes inputs, outputs and facts.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "datasets/description.h"
#include "models/spec.h"
#include "training/runs/records/safetensors.h"

namespace starling::training {

// The file of a plan with these parameters, arena_size() floats. `facts` are added to its metadata. An Error
// if the file would be too large. REQUIRES: the plan is of the shape and classes of `data`.
Result<std::string> to_onnx(const models::Plan& plan, std::span<const float> parameters,
                            const datasets::Description& data, const Facts& facts);

}  // namespace starling::training
