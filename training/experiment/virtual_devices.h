// The settings of the devices of simulated peers, a part of the table of settings.h.
#pragma once

#include <vector>

#include "training/experiment/setting.h"

namespace starling::training {

// `effect`: when they have one.
std::vector<Setting> virtual_device_settings(const Effect& effect);

}  // namespace starling::training
