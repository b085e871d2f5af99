#include "kernels/cpu/formats/conversion.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/cpu/formats/format.h"
#include "kernels/cpu/lanes/format.h"

namespace starling::kernels::cpu {

Conversion::Conversion(const Activation& from, const Activation& to)
    : from_(from),
      to_(to),
      plain_format_(plain_activation(from.shape)),
      from_lanes_(lanes::is_lanes(from)),
      to_lanes_(lanes::is_lanes(to)) {
  STARLING_CHECK(from.shape == to.shape);
  if (from_lanes_ && to_lanes_) return;
  if (from_lanes_ && as_plain(to) == nullptr) reorder_ = Reorder(describe(plain_format_), describe(to));
  if (to_lanes_ && as_plain(from) == nullptr) reorder_ = Reorder(describe(from), describe(plain_format_));
  if (!from_lanes_ && !to_lanes_) reorder_ = Reorder(describe(from), describe(to));
  needed_ = from_lanes_ || to_lanes_ || reorder_.needed();
  if (!needed_) return;
  if ((from_lanes_ || to_lanes_) && reorder_.needed()) plain_ = Buffer(plain_format_.floats);
  // Beside lanes the buffer never has a window of larger images.
  const auto floats = [&](const Activation& it) {
    return (from_lanes_ || to_lanes_) && as_plain(it) != nullptr ? it.shape.size() : it.floats;
  };
  buffer_ = Buffer(std::max(floats(from), floats(to)));
}

const float* Conversion::convert(const float* from) {
  if (!needed_) return from;
  convert(from, buffer_.data());
  return buffer_.data();
}

void Conversion::convert(const float* from, float* to) {
  STARLING_CHECK(needed_);
  if (from_lanes_) {
    if (!reorder_.needed()) return lanes::unpack(to_, from, to);
    lanes::unpack(plain_format_, from, plain_.data());
    reorder_.convert(plain_.data(), to);
  } else if (to_lanes_) {
    if (!reorder_.needed()) return lanes::pack(from_, from, to);
    reorder_.convert(from, plain_.data());
    lanes::pack(plain_format_, plain_.data(), to);
  } else {
    reorder_.convert(from, to);
  }
}

void Conversion::finish(float* out) {
  if (needed_) convert(buffer_.data(), out);
}

}  // namespace starling::kernels::cpu
