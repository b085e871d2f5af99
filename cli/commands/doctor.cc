// starling doctor: what this machine offers a peer, and in a sentence why not, where something is missing.
#include "cli/commands/doctor.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>

#include "cli/commands/commands.h"
#include "cli/commands/experiment_flags.h"
#include "cli/commands/json.h"
#include "cli/commands/key.h"
#include "cli/shell/output.h"
#include "kernels/backends.h"
#include "kernels/cpu/onednn/version.h"

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
  fmt::format_to(out, "\nA peer with --device auto trains on {}.\n\n",
                 found.device_auto == "cpu" ? "this processor" : found.device_auto);
  for (const Check& check : found.checks) {
    const bool good = check.outcome == Check::Outcome::good;
    fmt::format_to(out, "{:<6}{:<8}{}\n", good ? "ok" : outcome_name(check.outcome), check.topic, check.what);
    if (!check.remedy.empty()) fmt::format_to(out, "{:<14}{}\n", "", check.remedy);
  }
  return text;
}

struct Questions {
  Address listen{"127.0.0.1", 7100};
  std::optional<Address> peer;
  std::string key_file;
  std::optional<transport::SwarmKey> key;
};

Status read_questions(const Arguments& arguments, Questions& questions) {
  if (const auto text = arguments.get("--listen")) {
    const auto address = Address::parse(*text);
    if (!address) return Error{"--listen: " + address.error().message};
    questions.listen = *address;
  }
  if (const auto text = arguments.get("--at")) {
    const auto address = Address::parse(*text);
    if (!address) return Error{"--at: " + address.error().message};
    if (address->port == 0) return Error{"--at: port 0 cannot be dialed; give the peer's --http address"};
    questions.peer = *address;
  }
  questions.key_file = key_file(arguments);
  auto key = read_swarm_key(arguments);
  if (!key) return key.error();
  questions.key = std::move(*key);
  for (const char* flag : {"--swarm", "--model", "--data"}) {
    if (arguments.has(flag) && !questions.peer)
      return Error{std::string(flag) + " is compared with a peer's; name one with --at"};
  }
  return Done{};
}

std::vector<Check> check_all(const Arguments& arguments, const Questions& questions) {
  std::vector<Check> checks = {check_port(questions.listen, arguments.has("--listen"))};
  const auto add = [&checks](std::vector<Check> more) {
    checks.insert(checks.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  add(check_clock());
  add(check_names(arguments.all("--resolve")));
  add(check_data(data_root()));
  bool named = false;
  for (const char* flag : {"--out", "--state", "--checkpoints"}) {
    if (const auto folder = arguments.get(flag)) {
      checks.push_back(check_space(flag, *folder));
      named = true;
    }
  }
  if (!named) checks.push_back(check_space("--out", "runs"));
  if (questions.peer) {
    Wanted wanted;
    wanted.swarm = arguments.get("--swarm").value_or(wanted.swarm);
    wanted.key = questions.key;
    wanted.key_file = questions.key_file;
    wanted.model = arguments.get("--model");
    wanted.data = arguments.get("--data");
    wanted.data_root = data_root();
    add(check_peer(*questions.peer, wanted));
  }
  return checks;
}

int run(const Arguments& arguments) {
  Questions questions;
  if (Status read = read_questions(arguments, questions); !read) return refuse(arguments, read.error().message);
  Findings found = examine();
  found.checks = check_all(arguments, questions);
  std::fputs((arguments.has("--json") ? findings_json(found) : text_of(found)).c_str(), stdout);
  const bool sound = std::none_of(found.checks.begin(), found.checks.end(),
                                  [](const Check& check) { return check.outcome == Check::Outcome::bad; });
  return sound ? kExitDone : kExitRunFailed;
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

Flag key_flag_of_doctor() {
  Flag flag = key_flag();
  flag.help = "with --at: has it the same key? (or STARLING_KEY)";
  return flag;
}

Command doctor_command() {
  return {"doctor",
          "what this machine offers a peer, what is missing, and what to do about it",
          {},
          {{"--listen", "ADDR:PORT", "could a peer listen there? (default 127.0.0.1:7100)"},
           {"--resolve", "HOST", "does this name resolve?", true},
           {"--out", "DIR", "can it be written, and has it room? (default runs)"},
           {"--state", "DIR", "the same"},
           {"--checkpoints", "DIR", "the same"},
           {"--at", "ADDR:PORT", "a running peer's --http address: would it have this machine's?"},
           {"--swarm", "NAME", "with --at: as which swarm's (default starling)"},
           key_flag_of_doctor(),
           {"--model", "NAME-OR-FILE", "with --at: does it train this?"},
           {"--data", "NAME-OR-PATH", "with --at: where its data lies here"},
           {"--json", "", "print one JSON object"}},
          run,
          "starling doctor\nstarling doctor --listen 0.0.0.0:7100 --state ~/north --at 10.0.0.7:7180"};
}

}  // namespace starling::cli
