// The processor and its instruction sets, for `starling doctor`.
#pragma once

#include <string>
#include <vector>

namespace starling::kernels::cpu {

struct InstructionSet {
  std::string name;  // "avx512"
  bool there = false;
  std::string use;  // in a few words
};
// The relevant ones, the oldest first; empty except on x86-64.
std::vector<InstructionSet> instruction_sets();

// The system's name for it, or "unknown".
std::string processor_name();

}  // namespace starling::kernels::cpu
