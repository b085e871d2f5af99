// Converts between any two of this back end's formats of one shape, through a buffer; does nothing if they
// are equal.
#pragma once

#include "kernels/cpu/onednn/onednn.h"
#include "kernels/operation.h"

namespace starling::kernels::cpu {

class Conversion {
 public:
  Conversion() = default;
  // REQUIRES: one shape.
  Conversion(const Activation& from, const Activation& to);

  bool needed() const { return needed_; }

  // The values in the other format: `from` itself, or the buffer, which is valid until the next call.
  const float* convert(const float* from);
  const float* converted(const float* from) const { return needed_ ? buffer_.data() : from; }
  void convert(const float* from, float* to);

  // The reverse use: write the first format to target(out); then finish(out) writes the second format to
  // `out`.
  float* target(float* out) { return needed_ ? buffer_.data() : out; }
  void finish(float* out);

  std::size_t workspace_bytes() const {
    return buffer_.bytes() + plain_.bytes() + reorder_.workspace_bytes();
  }

 private:
  Activation from_, to_, plain_format_;
  bool needed_ = false, from_lanes_ = false, to_lanes_ = false;
  Reorder reorder_;  // from or to plain if the other format is lanes
  Buffer plain_;     // between lanes and a format of oneDNN
  Buffer buffer_;
};

}  // namespace starling::kernels::cpu
