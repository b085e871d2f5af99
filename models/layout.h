// The table of an arena: which tensor lies where. Its fingerprint (a hash of names, shapes and dtypes, in
// order) says whether two peers can exchange parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace starling::models {

struct Tensor {
  std::string name;                 // "conv1.weight"
  std::vector<std::int64_t> shape;  // plain order: convolution [out, in, height, width], linear [out, in]
  std::size_t offset;               // in floats from the arena's start, a multiple of 16 (64 bytes)
  std::size_t size;                 // in floats
};

class Layout {
 public:
  // Appends a tensor behind the last one, at the next multiple of 16 floats (the gap stays zero for ever).
  const Tensor& append(std::string name, std::vector<std::int64_t> shape);

  const std::vector<Tensor>& tensors() const { return tensors_; }
  std::size_t arena_size() const;       // floats, gaps included, a multiple of 16
  std::size_t parameter_count() const;  // floats, gaps excluded
  std::uint64_t fingerprint() const;

 private:
  std::vector<Tensor> tensors_;
};

}  // namespace starling::models
