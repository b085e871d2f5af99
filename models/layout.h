// The table of an arena's tensors. Peers can exchange parameters if its fingerprint (a hash of names, shapes
// and types, in order) is equal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace starling::models {

struct Tensor {
  std::string name;                 // "conv1.weight"
  std::vector<std::int64_t> shape;  // plain order: convolution [out, in, height, width], linear [out, in]
  std::size_t offset;               // in floats from the arena's start, a multiple of 16 (64 bytes)
  std::size_t size;                 // in floats
  bool trained = true;              // false: a statistic, which no optimizer changes
  // The initial values: uniform in +-bound, normal with the deviation `bound`, or all equal to bound.
  enum class Start : std::uint8_t { uniform, constant, normal } start = Start::constant;
  double bound = 0;
};

class Layout {
 public:
  // Appends a tensor at the next multiple of 16 floats (the gap stays zero) and sets its offset and size.
  // REQUIRES: no trained tensor follows one that is not trained.
  const Tensor& append(Tensor tensor);
  const Tensor& append(std::string name, std::vector<std::int64_t> shape);  // trained, starting from 0

  const std::vector<Tensor>& tensors() const { return tensors_; }
  std::size_t arena_size() const;       // floats, gaps included, a multiple of 16
  std::size_t trained_size() const;     // the same for the trained tensors, which precede all others
  std::size_t parameter_count() const;  // trained floats, gaps excluded
  // Floats from the tensor with this index to the next one, including the gap. Their sum is arena_size().
  std::size_t room(std::size_t index) const;
  std::uint64_t fingerprint() const;

  // The layout of an arena that holds only the tensors with these indices, which ascend: the others have size
  // 0.
  Layout only(std::span<const std::size_t> kept) const;

 private:
  std::vector<Tensor> tensors_;
};

}  // namespace starling::models
