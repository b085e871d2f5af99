#include "cli/commands/model_name.h"

#include <filesystem>

#include "training/records/files.h"

namespace starling::cli {
namespace {

constexpr std::size_t kLargestFile = 1 << 20;  // bytes, as of an experiment

}  // namespace

Result<models::ModelText> resolve_model(const std::string& name) {
  if (!models::is_model_file(name)) return models::ModelText{name};
  const auto text = training::read_text(name, kLargestFile);
  if (!text) return Error{"the network's file " + text.error().message};
  auto model = models::read_model(*text, std::filesystem::path(name).stem().string());
  if (!model)
    return Error{name + ", line " + std::to_string(model.error().line) + ": " + model.error().message};
  return std::move(*model);
}

}  // namespace starling::cli
