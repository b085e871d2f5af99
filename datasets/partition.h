// Splits a training set into slots, one or several for each peer (slots are taken modulo their number). Every
// peer computes its own share from the same seed, so nothing is sent.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "datasets/dataset.h"

namespace starling::datasets {

// The indices of slot `slot` mod `slots`. All partitions but "whole" assign each sample to exactly one slot
// and leave no slot empty. Errors: fewer samples than slots, slots < 1, slot < 0, an unknown name.
//   iid                  shuffled and cut into slots whose sizes differ by at most one
//   whole                all samples for every slot
//   by-label             sorted by label and cut like iid: a slot has one or two classes
//   dirichlet:alpha=0.1  each class is divided in proportions drawn from Dirichlet(alpha) over the slots
//                        (Yurochkin et al., "Bayesian nonparametric federated learning of neural networks",
//                        ICML 2019, section 4): with a smaller alpha the slots are less alike
Result<std::vector<std::uint32_t>> partition(const Dataset& train, std::string_view name, int slots, int slot,
                                             std::uint64_t seed);

// An Error unless partition() accepts `name`; checks an experiment before any data is loaded.
Status check_partition_name(std::string_view name);

}  // namespace starling::datasets
