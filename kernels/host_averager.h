// An Averager for any devices: it copies the vectors to the host and adds them there.
#pragma once

#include <memory>
#include <vector>

#include "kernels/averager.h"
#include "kernels/backend.h"

namespace starling::kernels {

// The back ends outlive the averager. make_averager() prefers the devices' own (Backend::make_averager).
std::unique_ptr<Averager> make_averager(const std::vector<const Backend*>& backends);
std::unique_ptr<Averager> make_host_averager(const std::vector<const Backend*>& backends);

}  // namespace starling::kernels
