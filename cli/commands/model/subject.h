// The samples for which a command builds a network that is not trained.
#pragma once

#include <optional>

#include "base/result.h"
#include "cli/shell/arguments.h"
#include "datasets/catalogue.h"
#include "models/spec.h"
#include "models/spec_text.h"

namespace starling::cli {

// The input and the number of classes: --input and --classes, or from --data, which is then loaded.
struct Subject {
  models::Shape input;
  int classes = 0;
  std::optional<datasets::DataPair> data;
};
Result<Subject> read_subject(const Arguments& arguments, const models::ModelText& model);

}  // namespace starling::cli
