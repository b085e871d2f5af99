// starling doctor: what this machine offers a peer, and in a sentence why not, where something is missing.
#include "cli/doctor.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/output.h"
#include "kernels/backend.h"
#include "kernels/cpu/backend.h"

namespace starling::cli {
namespace {

unsigned count_usable(unsigned online) {
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails where the machine has more than the set has room for; then all are taken to be usable.
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<unsigned>(CPU_COUNT(&set)) : online;
}

void look_at_processor(Findings& found) {
  found.processor = kernels::cpu::processor_name();
  found.processors = static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  found.processors_usable = count_usable(found.processors);
  found.instructions = kernels::cpu::instruction_sets();
  found.onednn = kernels::cpu::onednn_version();
  if (const auto bf16 = kernels::make_backend("cpu", kernels::Precision::bf16); !bf16)
    found.bf16_problem = bf16.error().message;
}

void look_at_gpus(Findings& found) {
  found.module_places = kernels::cuda_module_places();
  for (const std::string& path : found.module_places) {
    std::error_code error;
    if (!found.module_path && std::filesystem::exists(path, error)) found.module_path = path;
  }
  const auto module = kernels::cuda_module();
  if (!module) {
    found.module_problem = module.error().message;
    return;
  }
  found.module_libraries = (*module)->libraries();
  auto devices = (*module)->devices();
  if (devices) {
    found.devices = std::move(*devices);
  } else {
    found.devices_problem = devices.error().message;
  }
}

std::string list_instructions(const std::vector<kernels::cpu::InstructionSet>& sets, bool there) {
  std::vector<std::string> words;
  for (const auto& set : sets) {
    if (set.there == there) words.push_back(there ? fmt::format("{} ({})", set.name, set.use) : set.name);
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string device_text(const kernels::CudaDevice& device) {
  const std::string name = device.name.empty() ? "a GPU" : device.name;
  if (!device.problem.empty()) return fmt::format("{}, not usable: {}", name, device.problem);
  return fmt::format("{}, compute capability {}, {} of {} free; f32, tf32 and bf16 precision", name,
                     capability(device), format_bytes(static_cast<double>(device.free_bytes)),
                     format_bytes(static_cast<double>(device.memory_bytes)));
}

std::string text_of(const Findings& found) {
  std::string text;
  auto out = std::back_inserter(text);
  const auto line = [&](std::string_view title, std::string_view what) {
    if (!what.empty()) fmt::format_to(out, "{:<14}{}\n", title, what);
  };
  line("program", fmt::format("starling {}, oneDNN {}", found.version, found.onednn));
  const std::string usable = found.processors_usable == found.processors
                                 ? ""
                                 : fmt::format(", {} of them for this process", found.processors_usable);
  line("processor", fmt::format("{}, {} processors{}", found.processor, found.processors, usable));
  line("instructions", list_instructions(found.instructions, true));
  line("  not there", list_instructions(found.instructions, false));
  line("precision", found.bf16_problem.empty() ? "f32 and bf16" : "f32; " + found.bf16_problem);

  fmt::format_to(out, "\n");
  line("CUDA", found.module_problem.empty()
                   ? fmt::format("{}: {}", found.module_path.value_or(found.module_places.front()),
                                 found.module_libraries)
                   : found.module_problem);
  line("GPUs", found.devices_problem);
  for (const auto& device : found.devices) line(fmt::format("cuda:{}", device.number), device_text(device));
  fmt::format_to(out, "\nA peer with --device auto trains on {}.\n",
                 found.device_auto == "cpu" ? "this processor" : found.device_auto);
  return text;
}

int run(const Arguments& arguments) {
  const Findings found = examine();
  std::fputs((arguments.has("--json") ? findings_json(found) : text_of(found)).c_str(), stdout);
  return kExitDone;
}

}  // namespace

Findings examine() {
  Findings found;
  found.version = STARLING_VERSION;
  look_at_processor(found);
  look_at_gpus(found);
  found.device_auto = kernels::best_device(0);
  return found;
}

std::string capability(const kernels::CudaDevice& device) {
  return fmt::format("{}.{}", device.major, device.minor);
}

Command doctor_command() {
  return {"doctor",
          "what this machine offers a peer: processor, GPUs, and what is missing",
          {},
          {{"--json", "", "print one JSON object"}},
          run,
          "starling doctor"};
}

}  // namespace starling::cli
