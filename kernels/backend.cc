#include "kernels/backend.h"

#include "base/text.h"
#include "kernels/cpu/backend.h"
#include "kernels/reference/backend.h"

namespace starling::kernels {

const std::vector<std::string>& backend_names() {
  static const std::vector<std::string> names{"cpu", "reference"};
  return names;
}

Result<std::unique_ptr<Backend>> make_backend(std::string_view name) {
  if (name == "cpu") return cpu::make_backend();
  if (name == "reference") return reference::make_backend();
  return Error{"there is no back end \"" + std::string(name) + "\"; accepted are " + one_of(backend_names())};
}

}  // namespace starling::kernels
