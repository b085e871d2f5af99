#include "models/layout.h"

#include "base/check.h"
#include "base/hash.h"

namespace starling::models {
namespace {

constexpr std::size_t kGrain = 16;  // floats in 64 bytes

std::size_t round_up(std::size_t n) {
  return (n + kGrain - 1) / kGrain * kGrain;
}

}  // namespace

const Tensor& Layout::append(std::string name, std::vector<std::int64_t> shape) {
  std::size_t size = 1;
  for (const std::int64_t extent : shape) {
    STARLING_CHECK(extent > 0);
    size *= static_cast<std::size_t>(extent);
  }
  const std::size_t offset = arena_size();
  return tensors_.emplace_back(Tensor{std::move(name), std::move(shape), offset, size});
}

std::size_t Layout::arena_size() const {
  return tensors_.empty() ? 0 : round_up(tensors_.back().offset + tensors_.back().size);
}

std::size_t Layout::parameter_count() const {
  std::size_t count = 0;
  for (const Tensor& tensor : tensors_) count += tensor.size;
  return count;
}

std::uint64_t Layout::fingerprint() const {
  std::string text;
  for (const Tensor& tensor : tensors_) {
    text += tensor.name;
    for (const std::int64_t extent : tensor.shape) text += ' ' + std::to_string(extent);
    text += " f32\n";
  }
  return hash64(text);
}

}  // namespace starling::models
