#include "cli/commands/run/secrets.h"

#include <cstdlib>

#include "cli/commands/commands.h"
#include "cli/commands/run/experiment_flags.h"
#include "datasets/inputs.h"
#include "node/front/token_file.h"
#include "node/peer/settings.h"

namespace starling::cli {
namespace {

constexpr const char* kVariable = "STARLING_KEY";

Error key_error(const Arguments& arguments, const Error& error) {
  return Error{(arguments.has("--key") ? std::string("--key: ") : std::string(kVariable) + ": ") +
               error.message};
}

int new_key(const Arguments& arguments) {
  const std::string path = *arguments.get("FILE");
  const Result<transport::SwarmKey> key = transport::SwarmKey::draw();
  if (!key) return fail(arguments, key.error());
  if (const Status written = transport::SwarmKeys(*key).create(path); !written)
    return refuse(arguments, written.error());
  return print_out(
      path + " holds a new key; copy it to each machine, and start every peer of the swarm with --key\n");
}

int rotate_key(const Arguments& arguments) {
  using Step = transport::SwarmKeys::Step;
  const std::string path = *arguments.get("FILE");
  auto keys = transport::SwarmKeys::read(path);
  if (!keys) return refuse(arguments, keys.error());
  const auto step = keys->rotate();
  if (!step) return fail(arguments, step.error());
  if (const Status written = keys->replace(path); !written) return refuse(arguments, written.error());
  constexpr const char* kThenAgain = "copy the file to each machine, and then run this command again to ";
  switch (*step) {
    case Step::added:
      return print_out("step 1 of 3: " + path + " holds a new key, which peers accept and do not use yet; " +
                       kThenAgain + "use it\n");
    case Step::promoted:
      return print_out("step 2 of 3: peers connect with the new key, and still accept the former one; " +
                       std::string(kThenAgain) + "drop the former one\n");
    case Step::dropped:
      return print_out("step 3 of 3: the former key is dropped; copy the file to each machine\n");
  }
  return EXIT_FAILURE;
}

}  // namespace

Flag key_flag() {
  Flag flag = flag_of(node::peer_setting("daemon.key"));
  flag.key.clear();
  return flag;
}

std::string keyless_rule(const std::string& rule) {
  return "--key cannot be combined with --rule " + rule +
         ": its peers use Gloo's own connections, which are not encrypted";
}

std::string key_file(const Arguments& arguments) {
  if (const auto path = arguments.get("--key")) return path->empty() ? "''" : *path;
  const char* path = std::getenv(kVariable);
  return path == nullptr ? "" : path;
}

Result<std::optional<transport::SwarmKeys>> read_swarm_keys(const Arguments& arguments) {
  const std::string path = key_file(arguments);
  if (path.empty()) return std::optional<transport::SwarmKeys>();
  auto keys = transport::SwarmKeys::read(path);
  if (!keys) return key_error(arguments, keys.error());
  datasets::note_input(path);
  return std::optional(std::move(*keys));
}

Result<std::shared_ptr<transport::TlsContext>> read_key(const Arguments& arguments,
                                                        const std::string& swarm) {
  const auto keys = read_swarm_keys(arguments);
  if (!keys) return keys.error();
  if (!*keys) return std::shared_ptr<transport::TlsContext>();
  auto context = transport::TlsContext::make(**keys, swarm);
  if (!context) return key_error(arguments, context.error());
  return std::move(*context);
}

Result<std::string> read_token(const Arguments& arguments) {
  const auto path = arguments.get("--token-file");
  if (!path) return std::string();
  auto token = node::read_command_token(*path);
  if (!token) return Error{"--token-file: " + token.error().message};
  return token;
}

Command key_new_command() {
  return {"key new",
          "write a new key for a swarm to a file that only its owner can read",
          {{"FILE", "path of a file that does not exist yet"}},
          {},
          new_key,
          "starling key new swarm.key"};
}

Command key_rotate_command() {
  return {"key rotate",
          "take the next of three steps that change a running swarm's key",
          {{"FILE", "path of the key file"}},
          {},
          rotate_key,
          "starling key rotate swarm.key"};
}

}  // namespace starling::cli
