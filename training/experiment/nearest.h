// What to say about a key that does not exist: the nearest one that does, and those that stand beside it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace starling::training {

// "unknown key 'training.batchsize'; did you mean batch_size? [training] accepts batch_size, ...". `known`
// holds dotted keys; those of the same table are listed, or where there is no such table, the tables.
std::string unknown_key(std::string_view key, const std::vector<std::string>& known);

}  // namespace starling::training
