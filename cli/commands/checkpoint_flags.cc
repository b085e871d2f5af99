#include "cli/commands/checkpoint_flags.h"

#include <filesystem>

#include "base/text.h"

namespace starling::cli {
namespace {

constexpr std::uint32_t kKeepMax = 100'000;

}  // namespace

std::vector<Flag> checkpoint_flags() {
  return {
      {"--checkpoints", "DIR", "write checkpoints of this peer to this folder, as NAME.STEPS.safetensors"},
      {"--checkpoint-every", "WHEN", "how often: a time such as 30s, or '1000 steps' (default 5m)"},
      {"--keep", "N", "so many of the latest checkpoints stay (default 3)"},
      {"--resume", "FILE|DIR", "go on from a checkpoint, of a folder the latest that is whole"},
      {"--export", "FILE", "write the parameters at the end there, for inference"},
  };
}

Status read_checkpoint_flags(node::PeerOptions& options, const Arguments& arguments) {
  if (const auto folder = arguments.get("--checkpoints")) {
    if (folder->empty()) return Error{"--checkpoints: a folder's path is wanted, not nothing"};
    options.checkpoints.folder = *folder;
  }
  if (const auto path = arguments.get("--resume")) {
    if (path->empty()) return Error{"--resume: a checkpoint's path is wanted, or a folder's, not nothing"};
    options.resume = *path;
  }
  if (const auto file = arguments.get("--export")) {
    std::error_code ignored;
    const std::filesystem::path folder = std::filesystem::absolute(*file, ignored).parent_path();
    if (file->empty() || std::filesystem::is_directory(*file, ignored))
      return Error{"--export: a file's path is wanted, such as model.safetensors, not '" + *file + "'"};
    if (!std::filesystem::is_directory(folder, ignored))
      return Error{"--export: there is no folder " + folder.string() + " that the file could be written to"};
    options.export_to = *file;
  }
  for (const char* flag : {"--checkpoint-every", "--keep"}) {
    if (arguments.has(flag) && options.checkpoints.folder.empty())
      return Error{std::string(flag) + " says nothing without --checkpoints DIR"};
  }
  if (const auto text = arguments.get("--checkpoint-every")) {
    using Kind = Pace::Kind;
    const auto every = parse_pace(*text);
    const bool fits =
        every && (every->kind == Kind::steps || (every->kind == Kind::time && every->time.count() > 0));
    if (!fits)
      return Error{"--checkpoint-every: '" + text->substr(0, 80) +
                   "' is neither a time such as 30s nor a number of "
                   "steps such as '1000 steps'"};
    options.checkpoints.every = *every;
  }
  if (const auto text = arguments.get("--keep")) {
    const auto keep = parse_number<std::uint32_t>(*text);
    if (!keep || *keep == 0 || *keep > kKeepMax)
      return Error{"--keep: '" + text->substr(0, 80) + "' is not a whole number from 1 to " +
                   std::to_string(kKeepMax)};
    options.checkpoints.keep = *keep;
  }
  return Done{};
}

}  // namespace starling::cli
