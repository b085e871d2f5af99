#include "models/layout.h"

#include <algorithm>

#include "base/check.h"
#include "base/hash.h"

namespace starling::models {
namespace {

constexpr std::size_t kGrain = 16;  // floats in 64 bytes

std::size_t round_up(std::size_t n) { return (n + kGrain - 1) / kGrain * kGrain; }

}  // namespace

const Tensor& Layout::append(Tensor tensor) {
  STARLING_CHECK(!tensor.trained || tensors_.empty() || tensors_.back().trained);
  tensor.size = 1;
  for (const std::int64_t extent : tensor.shape) {
    STARLING_CHECK(extent > 0);
    tensor.size *= static_cast<std::size_t>(extent);
  }
  tensor.offset = arena_size();
  return tensors_.emplace_back(std::move(tensor));
}

const Tensor& Layout::append(std::string name, std::vector<std::int64_t> shape) {
  return append(Tensor{std::move(name), std::move(shape), 0, 0});
}

std::size_t Layout::arena_size() const {
  return tensors_.empty() ? 0 : round_up(tensors_.back().offset + tensors_.back().size);
}

std::size_t Layout::trained_size() const {
  const auto statistic = std::ranges::find(tensors_, false, &Tensor::trained);
  return statistic == tensors_.end() ? arena_size() : statistic->offset;
}

std::size_t Layout::parameter_count() const {
  std::size_t count = 0;
  for (const Tensor& tensor : tensors_) count += tensor.trained ? tensor.size : 0;
  return count;
}

std::size_t Layout::room(std::size_t index) const {
  const std::size_t end = index + 1 < tensors_.size() ? tensors_[index + 1].offset : arena_size();
  return end - tensors_.at(index).offset;
}

Layout Layout::only(std::span<const std::size_t> kept) const {
  Layout part = *this;
  std::size_t end = 0;
  for (std::size_t i = 0; i < part.tensors_.size(); ++i) {
    Tensor& tensor = part.tensors_[i];
    if (!std::ranges::binary_search(kept, i)) tensor.size = 0;
    tensor.offset = end;
    end = round_up(end + tensor.size);
  }
  return part;
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
