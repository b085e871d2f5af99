// starling key new: a secret for a swarm, in a file.
#include "cli/commands/key.h"

#include <cstdio>
#include <cstdlib>

#include "cli/commands/commands.h"

namespace starling::cli {
namespace {

constexpr const char* kVariable = "STARLING_KEY";

// How a sentence about the key's file begins.
std::string said(const Arguments& arguments) {
  return arguments.has("--key") ? "--key: " : std::string(kVariable) + ": ";
}

int run(const Arguments& arguments) {
  const std::string path = *arguments.get("FILE");
  const Result<transport::SwarmKey> key = transport::SwarmKey::draw();
  if (!key) return fail(arguments, key.error().message);
  if (const Status written = key->write(path); !written) return refuse(arguments, written.error().message);
  std::printf("%s holds a new key; copy it to each machine, and start every peer of the swarm with --key\n",
              path.c_str());
  return kExitDone;
}

}  // namespace

Flag key_flag() {
  return {"--key", "FILE",
          "the swarm's key: connections are encrypted, and nobody without it gets in",
          false, false, "", false, kVariable};
}

std::string key_file(const Arguments& arguments) {
  if (const auto path = arguments.get("--key")) return path->empty() ? "''" : *path;
  const char* path = std::getenv(kVariable);
  return path == nullptr ? "" : path;
}

Result<std::optional<transport::SwarmKey>> read_swarm_key(const Arguments& arguments) {
  const std::string path = key_file(arguments);
  if (path.empty()) return std::optional<transport::SwarmKey>();
  auto key = transport::SwarmKey::read(path);
  if (!key) return Error{said(arguments) + key.error().message};
  return std::optional(std::move(*key));
}

Result<std::shared_ptr<const transport::TlsContext>> read_key(const Arguments& arguments,
                                                              const std::string& swarm) {
  const auto key = read_swarm_key(arguments);
  if (!key) return key.error();
  if (!*key) return std::shared_ptr<const transport::TlsContext>();
  auto context = transport::TlsContext::make(**key, swarm);
  if (!context) return Error{said(arguments) + context.error().message};
  return std::move(*context);
}

Command key_new_command() {
  Command command{"key new", "write a new key for a swarm into a file that its owner alone can read"};
  command.positionals = {{"FILE", "a path where no file is yet"}};
  command.run = run;
  command.example = "starling key new swarm.key";
  return command;
}

}  // namespace starling::cli
