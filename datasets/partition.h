// Which training samples are whose: splits a training set into slots, one for a peer (or several: slots are
// taken modulo their number). Every peer computes its own share from the same seed, and nothing is sent.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "datasets/dataset.h"

namespace starling::datasets {

// The indices of slot `slot` mod `slots`. All but "whole" give each sample to exactly one slot and leave no
// slot empty; fewer samples than slots are an Error, as are slots < 1, slot < 0 and an unknown name (it lists
// what is accepted).
//   iid                  a shuffle, cut into slots whose sizes differ by one at most
//   whole                everything, for every slot
//   by-label             sorted by label and cut like iid: a slot sees one or two classes
//   dirichlet:alpha=0.1  each class is shared out by proportions drawn from Dirichlet(alpha) over the slots
//                        (Yurochkin et al., "Bayesian nonparametric federated learning of neural networks",
//                        ICML 2019, section 4): the smaller alpha, the less alike the slots
Result<std::vector<std::uint32_t>> partition(const Dataset& train, std::string_view name, int slots, int slot,
                                             std::uint64_t seed);

// Whether `name` is one that partition() accepts, for checking an experiment before any data is loaded.
Status check_partition_name(std::string_view name);

struct PartitionEntry {
  const char* name;
  const char* description;
};
std::span<const PartitionEntry> partition_names();

}  // namespace starling::datasets
