// The reference back end: the plain loops of this folder, behind the Backend interface. It is right and slow;
// tests hold every other back end against it.
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace starling::kernels::reference {

std::unique_ptr<Backend> make_backend();

}  // namespace starling::kernels::reference
