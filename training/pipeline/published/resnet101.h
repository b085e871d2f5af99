// ResNet-101 (He et al., "Deep residual learning", CVPR 2016) for images of 224x224 and 1000 classes, with
// the stride of a block in its 3x3 convolution, as today's programs have it. The first pool has windows of
// 2x2 instead of overlapping ones of 3x3.
#pragma once

#include "models/spec.h"

namespace starling::training {

models::Plan resnet101_plan();

}  // namespace starling::training
