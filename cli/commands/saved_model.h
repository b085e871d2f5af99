// A saved model and the data that it is held against: what `evaluate` and `predict` begin with.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/shell/arguments.h"
#include "datasets/dataset.h"
#include "models/spec.h"
#include "models/spec_text.h"

namespace starling::cli {

struct SavedModel {
  std::string path;
  models::ModelText model;
  datasets::DataPair data;
  models::Plan plan;
  std::vector<float> parameters;  // as the plan's layout says
};

// --checkpoint, --data and --model, and `more`.
std::vector<Flag> saved_model_flags(std::vector<Flag> more);
// A full checkpoint or a file of parameters alone, which of the two does not matter.
Result<SavedModel> load_saved_model(const Arguments& arguments);

}  // namespace starling::cli
