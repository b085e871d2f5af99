// What `data info` and `model show` print about data (data.cc).
#pragma once

#include <string>

#include "datasets/description.h"

namespace starling::cli {

// Source, features, labels, names of classes, decisions, notes and fingerprint: a line for each that is
// known.
std::string origin_text(const datasets::Description& data);

// "mean 0.1307, deviation 0.3081", per channel.
std::string normalization_text(const datasets::Description& data);

}  // namespace starling::cli
