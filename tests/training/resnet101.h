// ResNet-101 (He et al., "Deep residual learning", CVPR 2016) for images of 224x224 and 1000 classes, with
// the stride of a block in its 3x3 convolution, as today's programs have it. The first pool has windows of
// 2x2 instead of overlapping ones of 3x3.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "models/spec.h"
#include "tests/catch.h"

namespace starling::training {

inline models::Layer bottleneck(int channels, int stride, bool same_shape) {
  using models::BatchNorm, models::Convolution, models::Relu;
  constexpr int kExpansion = 4;  // of the channels at the end of a block
  models::Residual block{{Convolution{channels, 1, 1, 0, 1, false}, BatchNorm{}, Relu{},
                          Convolution{channels, 3, stride, 1, 1, false}, BatchNorm{}, Relu{},
                          Convolution{kExpansion * channels, 1, 1, 0, 1, false}, BatchNorm{}}};
  if (!same_shape) block.shortcut = {Convolution{kExpansion * channels, 1, stride, 0, 1, false}, BatchNorm{}};
  return block;
}

inline models::Plan resnet101_plan() {
  using models::BatchNorm, models::Convolution, models::Relu;
  std::vector<models::Layer> layers{Convolution{64, 7, 2, 3, 1, false}, BatchNorm{}, Relu{},
                                    models::MaxPool{2}};
  constexpr std::array<std::pair<int, int>, 4> kStages{{{64, 3}, {128, 4}, {256, 23}, {512, 3}}};
  for (const auto& [channels, blocks] : kStages) {
    for (int i = 0; i < blocks; ++i) {
      layers.push_back(bottleneck(channels, channels == 64 || i > 0 ? 1 : 2, i > 0));
      layers.push_back(Relu{});
    }
  }
  layers.insert(layers.end(), {models::GlobalAveragePool{}, models::Linear{1000}});
  auto plan = models::make_plan({"resnet101", {3, 224, 224}, std::move(layers)});
  REQUIRE(plan.ok());
  return *std::move(plan);
}

}  // namespace starling::training
