// An Averager for any devices: it copies the vectors to the host and adds them there.
#pragma once

#include <memory>
#include <vector>

#include "kernels/averager.h"
#include "kernels/backend.h"

namespace starling::kernels {

// The devices' own (Backend::make_averager) or, if they have none, this one. The back ends outlive it.
std::unique_ptr<Averager> make_averager(const std::vector<const Backend*>& backends);

}  // namespace starling::kernels
