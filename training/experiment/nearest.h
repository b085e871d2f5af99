// The message for an unknown key: the nearest known key, and the keys of its table.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace starling::training {

// "unknown key 'training.batchsize'; did you mean batch_size? [training] accepts batch_size, ...". `known`
// holds dotted keys. Those of the same table are listed, or the tables if there is no such table.
std::string unknown_key(std::string_view key, const std::vector<std::string>& known);

// "latency, bandwidth and drop"
std::string and_list(const std::vector<std::string>& names);

}  // namespace starling::training
