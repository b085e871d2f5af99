// starling doctor: what this machine offers a peer, and how to fix what is missing.
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "base/program.h"
#include "cli/commands/commands.h"
#include "cli/commands/look/ask.h"
#include "cli/commands/look/checkup.h"
#include "cli/commands/run/experiment_flags.h"
#include "cli/commands/run/secrets.h"
#include "cli/shell/output.h"
#include "kernels/by_name/backends.h"
#include "kernels/cpu/onednn/version.h"
#include "kernels/cpu/processor.h"
#include "kernels/cuda_module.h"
#include "training/runs/records/json.h"

namespace starling::cli {
namespace {

using training::Json;

// A problem is one sentence, and empty if there is none. A machine without a GPU has no problem.
struct Findings {
  std::string processor;
  unsigned processors = 0, processors_usable = 0;  // online; usable by this process
  std::vector<kernels::cpu::InstructionSet> instructions;
  std::string bf16_problem;  // why the processor cannot compute in bfloat16

  std::vector<std::string> module_places;
  std::optional<std::string> module_path;  // the first place that exists
  std::string module_problem;              // why the CUDA back end is not loaded
  std::string module_libraries;            // its libraries, if it is loaded
  std::string devices_problem;             // why it has no devices
  std::vector<kernels::CudaDevice> devices;

  std::string device_auto;  // what --device auto selects
  Checks checks;
};

unsigned count_usable(unsigned online) {
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails if the machine has more processors than the set has room for; then all count as usable.
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<unsigned>(CPU_COUNT(&set)) : online;
}

void find_processor(Findings& found) {
  found.processor = kernels::cpu::processor_name();
  found.processors = static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  found.processors_usable = count_usable(found.processors);
  found.instructions = kernels::cpu::instruction_sets();
  if (const auto bf16 = kernels::make_backend("cpu", kernels::Precision::bf16); !bf16)
    found.bf16_problem = bf16.error().message;
  else if (!kernels::has_matrix_tiles())
    found.bf16_problem = "bf16 is computed in f32, for lack of matrix tiles (AMX)";
}

void find_gpus(Findings& found) {
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

const char* outcome_name(Check::Outcome outcome) {
  return outcome == Check::Outcome::good ? "good" : outcome == Check::Outcome::note ? "note" : "bad";
}

std::string capability(const kernels::CudaDevice& device) {
  return fmt::format("{}.{}", device.major, device.minor);  // "9.0"
}

std::string device_text(const kernels::CudaDevice& device) {
  const std::string name = device.name.empty() ? "a GPU" : device.name;
  if (!device.problem.empty()) return fmt::format("{}, not usable: {}", name, device.problem);
  return fmt::format("{}, compute capability {}, {} of {} free; f32, tf32 and bf16 precision", name,
                     capability(device), format_bytes(device.free_bytes), format_bytes(device.memory_bytes));
}

std::string text_of(const Findings& found) {
  std::string text;
  auto out = std::back_inserter(text);
  const auto line = [&](std::string_view title, std::string_view what) {
    if (!what.empty()) fmt::format_to(out, "{:<14}{}\n", title, what);
  };
  line("program", fmt::format("starling {}, oneDNN {}", version(), kernels::cpu::onednn_version()));
  const std::string usable =
      found.processors_usable == found.processors
          ? ""
          : fmt::format(", {} of them usable by this process", found.processors_usable);
  line("processor", fmt::format("{}, {} processors{}", found.processor, found.processors, usable));
  line("instructions", list_instructions(found.instructions, true));
  line("  missing", list_instructions(found.instructions, false));
  line("precision", found.bf16_problem.empty() ? "f32 and bf16" : "f32; " + found.bf16_problem);

  fmt::format_to(out, "\n");
  line("CUDA", found.module_problem.empty()
                   ? fmt::format("{}: {}", found.module_path.value_or(found.module_places.front()),
                                 found.module_libraries)
                   : found.module_problem);
  line("GPUs", found.devices_problem);
  for (const auto& device : found.devices) line(fmt::format("cuda:{}", device.number), device_text(device));
  fmt::format_to(out, "\nA peer with --device auto trains on {}.\n\n",
                 found.device_auto == "cpu" ? "this processor" : found.device_auto);
  for (const Check& check : found.checks.all) {
    const bool good = check.outcome == Check::Outcome::good;
    fmt::format_to(out, "{:<6}{:<8}{}\n", good ? "ok" : outcome_name(check.outcome), check.topic, check.what);
    if (!check.remedy.empty()) fmt::format_to(out, "{:<14}{}\n", "", check.remedy);
  }
  return text;
}

std::string findings_json(const Findings& found) {
  const auto text_or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  Json instructions = Json::object();
  for (const auto& set : found.instructions) instructions[set.name] = set.there;
  Json devices = Json::array();
  for (const kernels::CudaDevice& device : found.devices) {
    devices.push_back({{"device", "cuda:" + std::to_string(device.number)},
                       {"name", device.name},
                       {"compute_capability", capability(device)},
                       {"memory_bytes", device.memory_bytes},
                       {"free_bytes", device.free_bytes},
                       {"usable", device.problem.empty()},
                       {"problem", text_or_null(device.problem)}});
  }
  Json checks = Json::array();
  for (const Check& check : found.checks.all) {
    checks.push_back({{"topic", check.topic},
                      {"outcome", outcome_name(check.outcome)},
                      {"what", check.what},
                      {"remedy", text_or_null(check.remedy)}});
  }
  return training::to_line({{"version", version()},
                            {"onednn", kernels::cpu::onednn_version()},
                            {"processor",
                             {{"name", found.processor},
                              {"processors", found.processors},
                              {"processors_usable", found.processors_usable},
                              {"instructions", std::move(instructions)},
                              {"bf16", found.bf16_problem.empty()},
                              {"bf16_problem", text_or_null(found.bf16_problem)}}},
                            {"cuda",
                             {{"places", found.module_places},
                              {"module", training::or_null(found.module_path)},
                              {"loaded", found.module_problem.empty()},
                              {"problem", text_or_null(found.module_problem.empty() ? found.devices_problem
                                                                                    : found.module_problem)},
                              {"libraries", text_or_null(found.module_libraries)},
                              {"devices", std::move(devices)}}},
                            {"device_auto", found.device_auto},
                            {"checks", std::move(checks)}});
}

Status check_all(Arguments& arguments, Checks& checks) {
  Address listen{"127.0.0.1", 7100};
  if (const auto text = arguments.get("--listen")) {
    const auto address = Address::parse(*text);
    if (!address) return Error{"--listen: " + address.error().message};
    listen = *address;
  }
  const auto peer = peer_to_ask(arguments);
  if (!peer) return peer.error();
  const bool has_peer = !peer->is_default;
  for (const char* flag : {"--swarm", "--model", "--data"}) {
    if (arguments.has(flag) && !has_peer)
      return Error{std::string(flag) + " is compared with a running peer; name one with --at"};
  }
  auto key = read_swarm_keys(arguments);
  if (!key) return key.error();

  check_port(listen, arguments.has("--listen"), checks);
  check_reach(checks);
  check_mdns(checks);
  check_clock(checks);
  check_names(arguments.all("--resolve"), checks);
  check_data(data_root(), checks);
  bool named = false;
  for (const char* flag : {"--out", "--state", "--checkpoints"}) {
    if (const auto folder = arguments.get(flag)) {
      check_space(flag, *folder, checks);
      named = true;
    }
  }
  if (!named) check_space("--out", "runs", checks);
  check_memory(checks);
  if (has_peer) {
    check_peer(peer->at,
               {.swarm = arguments.get("--swarm").value_or("starling"),
                .key = std::move(*key),
                .key_file = key_file(arguments),
                .model = arguments.get("--model"),
                .data = arguments.get("--data"),
                .data_root = data_root(),
                .listen = listen},
               checks);
  }
  return Done{};
}

int run_doctor(Arguments arguments) {
  Findings found;
  if (Status checked = check_all(arguments, found.checks); !checked)
    return refuse(arguments, checked.error());
  find_processor(found);
  find_gpus(found);
  found.device_auto = kernels::best_device(0);
  print_out(arguments.has("--json") ? findings_json(found) : text_of(found));
  const auto is_bad = [](const Check& check) { return check.outcome == Check::Outcome::bad; };
  return std::ranges::any_of(found.checks.all, is_bad) ? kExitRunFailed : kExitDone;
}

}  // namespace

Command doctor_command() {
  Flag key = key_flag();
  key.help = "with --at: check that it has the same key (or STARLING_KEY)";
  return {"doctor",
          "check what this machine offers a peer, and how to fix what is missing",
          {},
          {{"--listen", "ADDR:PORT", "check that a peer can listen there (default 127.0.0.1:7100)"},
           {"--resolve", "HOST", "check that this name resolves", true},
           {"--out", "DIR", "check that the folder can be written and has space (default runs)"},
           {"--state", "DIR", "the same for this folder"},
           {"--checkpoints", "DIR", "the same for this folder"},
           {.name = "--at",
            .placeholder = "ADDR:PORT",
            .help = "a running peer's --http address: check that it would accept this machine's",
            .environment = "STARLING_AT"},
           {"--swarm", "NAME", "with --at: the name of its swarm (default starling)"},
           key,
           {"--model", "NAME-OR-FILE", "with --at: check that it trains this model"},
           {"--data", "NAME-OR-PATH", "with --at: where its data is on this machine"},
           kJsonFlag},
          run_doctor,
          "starling doctor\nstarling doctor --listen 0.0.0.0:7100 --state ~/north --at 10.0.0.7:7180"};
}

}  // namespace starling::cli
