// starling export: the parameters of a checkpoint alone, for inference.
#include "cli/commands/commands.h"
#include "training/records/checkpoint.h"

namespace starling::cli {
namespace {

int run(const Arguments& arguments) {
  for (const char* flag : {"--checkpoint", "--out"}) {
    if (!arguments.has(flag))
      return refuse(arguments, std::string(flag) + " is missing; see `starling export --help`");
  }
  const Status written = training::export_parameters(*arguments.get("--checkpoint"), *arguments.get("--out"));
  return written ? kExitDone : refuse(arguments, written.error().message);
}

}  // namespace

Command export_command() {
  return {"export",
          "the parameters of a checkpoint alone, as safetensors",
          {},
          {{"--checkpoint", "FILE", "a checkpoint of a peer"}, {"--out", "FILE", "the file to write"}},
          run,
          "starling export --checkpoint ckpt/p0.1200.safetensors --out model.safetensors"};
}

}  // namespace starling::cli
