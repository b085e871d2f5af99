// The format of a drawing that a command writes, by the end of the file's name.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "lab/plot/canvas.h"
#include "training/runs/records/files.h"

namespace starling::cli {

// An Error names the flag, also if the file cannot be written.
inline Result<lab::PaperFormat> paper_format(const std::string& flag, const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension().string();
  if (ending != ".svg" && ending != ".pdf" && ending != ".png")
    return Error{flag + ": '" + path + "' does not end in .svg, .pdf or .png, which choose the format"};
  if (const Status accepted = training::check_target(path); !accepted)
    return Error{flag + ": " + accepted.error().message};
  if (ending == ".svg") return lab::PaperFormat::svg;
  return ending == ".pdf" ? lab::PaperFormat::pdf : lab::PaperFormat::png;
}

}  // namespace starling::cli
