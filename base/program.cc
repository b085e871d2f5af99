#include "base/program.h"

#include <system_error>

namespace starling {

std::filesystem::path program_path() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

}  // namespace starling
