// The settings of stages and of the devices of simulated peers, a part of the table of settings.h.
#pragma once

#include <vector>

#include "training/runs/experiment/settings/setting.h"

namespace starling::training {

// `several`: when a peer has several devices.
std::vector<Setting> pipeline_settings(const Effect& several);

}  // namespace starling::training
