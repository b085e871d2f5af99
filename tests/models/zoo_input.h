// A shape that a network of the zoo accepts.
#pragma once

#include <string>

#include "models/spec_text.h"

namespace starling::models {

inline Shape zoo_input(const std::string& name) {
  const int context = context_of(ModelText{name});
  return context > 0 ? Shape{1, 1, 1, context} : Shape{3, 32, 32};
}

}  // namespace starling::models
