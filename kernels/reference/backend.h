// The reference back end: the plain loops of this folder behind the Backend interface. Correct and slow;
// tests compare all other back ends with it.
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace starling::kernels::reference {

std::unique_ptr<Backend> make_backend();

}  // namespace starling::kernels::reference
