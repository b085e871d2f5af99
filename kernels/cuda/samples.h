// Samples in a device's memory (kernels/samples.h): bytes stay bytes there, a quarter of what floats take.
#pragma once

#include <memory>

#include "kernels/samples.h"

namespace starling::kernels::cuda {

// Copies the samples to the device, and returns when they are there. Throws DeviceError where it has not the
// room.
std::unique_ptr<Samples> make_samples(int device, const SampleView& samples);

}  // namespace starling::kernels::cuda
