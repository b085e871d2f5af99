// What `starling doctor` finds out about the machine that it runs on: what its processor can do, whether the
// CUDA back end is there, and which GPUs can be used. Nothing of that is an error: a machine without a GPU is a
// sound one. What a peer needs beside them is cli/checkup.h's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/commands/checkup.h"
#include "kernels/cpu/processor.h"
#include "kernels/cuda_module.h"

namespace starling::cli {

struct Findings {
  std::string version;  // of this program

  std::string processor;
  unsigned processors = 0, processors_usable = 0;  // online, and those that this process may use
  std::vector<kernels::cpu::InstructionSet> instructions;
  std::string bf16_problem;  // why a processor's peer cannot compute in it; empty: it can
  std::string onednn;        // its version

  std::vector<std::string> module_places;
  std::optional<std::string> module_path;  // the first of these that there is
  std::string module_problem;              // why it is not loaded; empty: it is
  std::string module_libraries;            // where it is loaded
  std::string devices_problem;             // why it has no devices
  std::vector<kernels::CudaDevice> devices;

  std::string device_auto;  // what --device auto takes

  std::vector<Check> checks;  // of ports, clock, names, data, space, and another peer
};

Findings examine();

// "9.0"
std::string capability(const kernels::CudaDevice& device);

}  // namespace starling::cli
