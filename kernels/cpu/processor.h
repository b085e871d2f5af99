// What this processor is, and which of its instruction sets this back end's loops are made for: for people
// who want to know why a machine is as fast as it is.
#pragma once

#include <string>
#include <vector>

namespace starling::kernels::cpu {

struct InstructionSet {
  std::string name;  // "avx512"
  bool there = false;
  std::string use;  // what a machine with it does, in a few words
};
// Those that matter, the oldest first; none but on x86-64.
std::vector<InstructionSet> instruction_sets();

// As the system calls it, or "unknown".
std::string processor_name();

}  // namespace starling::kernels::cpu
