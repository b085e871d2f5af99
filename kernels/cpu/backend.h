// The back end for processors: oneDNN, and loops of our own. Everything runs on the calling thread alone.
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace starling::kernels::cpu {

std::unique_ptr<Backend> make_backend();

}  // namespace starling::kernels::cpu
