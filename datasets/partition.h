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
// and leave no slot empty. The samples of a text are its windows. Errors: fewer samples (or documents) than
// slots, slots < 1, slot < 0, an unknown name, a partition by labels of a text, one by documents of other
// data.
//   iid                  shuffled and cut into slots whose sizes differ by at most one
//   whole                all samples for every slot
//   contiguous           cut like iid, in the order of the files: each slot has neighboring samples
//   by-label             sorted by label and cut like iid: a slot has one or two classes
//   dirichlet:alpha=0.1  each class is divided in proportions drawn from Dirichlet(alpha) over the slots
//                        (Yurochkin et al., "Bayesian nonparametric federated learning of neural networks",
//                        ICML 2019, section 4): with a smaller alpha the slots are less alike
//   by-document          whole documents of a text, the longest first, each to the slot with the fewest
//   windows
//                        so far, equally long ones in a shuffled order; a window belongs to the document in
//                        which it begins
Result<std::vector<std::uint32_t>> partition(const Dataset& train, std::string_view name, int slots, int slot,
                                             std::uint64_t seed);

// An Error unless partition() accepts `name`; checks an experiment before any data is loaded.
Status check_partition_name(std::string_view name);

}  // namespace starling::datasets
