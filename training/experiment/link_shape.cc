#include "training/experiment/link_shape.h"

#include <algorithm>
#include <cmath>

namespace starling::training {

LinkShape worse(const LinkShape& a, const LinkShape& b) {
  LinkShape both = a;
  if (b.latency) both.latency = std::max(a.latency.value_or(*b.latency), *b.latency);
  if (b.bandwidth) both.bandwidth = std::min(a.bandwidth.value_or(*b.bandwidth), *b.bandwidth);
  both.drop = std::min(a.drop + b.drop - a.drop * b.drop, std::nextafter(1.0, 0.0));
  return both;
}

}  // namespace starling::training
