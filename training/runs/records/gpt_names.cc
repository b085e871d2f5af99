#include "training/runs/records/gpt_names.h"

#include <string_view>

namespace starling::training {
namespace {

using Shape = std::vector<std::int64_t>;

// Takes the tensors one by one, and fails for good at the first that does not fit.
class GptReader {
 public:
  explicit GptReader(std::span<const NamedShape> tensors) : left_(tensors) {}

  bool at(std::string_view prefix, std::string_view suffix, const Shape& shape) const {
    return !left_.empty() && left_.front().first.starts_with(prefix) &&
           left_.front().first.ends_with(suffix) && left_.front().second == shape;
  }
  void take(std::string_view prefix, const Shape& shape, const std::string& name, bool linear = false) {
    ok_ = ok_ && at(prefix, ".weight", shape);
    if (!ok_) return;
    found_.push_back({name + ".weight", linear});
    left_ = left_.subspan(1);
    if (!at(prefix, ".bias", {shape.front()})) return;
    found_.push_back({name + ".bias", false});
    left_ = left_.subspan(1);
  }
  void block(std::size_t number, std::int64_t features) {
    const std::string name = "h." + std::to_string(number) + ".";
    take("ln", {features}, name + "ln_1");
    take("fc", {3 * features, features}, name + "attn.c_attn", true);
    take("fc", {features, features}, name + "attn.c_proj", true);
    take("ln", {features}, name + "ln_2");
    const std::int64_t hidden =
        left_.empty() || left_.front().second.empty() ? 0 : left_.front().second.front();
    take("fc", {hidden, features}, name + "mlp.c_fc", true);
    take("fc", {features, hidden}, name + "mlp.c_proj", true);
  }

  bool ok() const { return ok_; }
  std::size_t left() const { return left_.size(); }
  std::vector<GptTensor> found() && { return std::move(found_); }

 private:
  std::span<const NamedShape> left_;
  std::vector<GptTensor> found_;
  bool ok_ = true;
};

}  // namespace

std::optional<std::vector<GptTensor>> gpt_tensors(std::span<const NamedShape> tensors) {
  if (tensors.size() < 2 || tensors[0].second.size() != 2 || tensors[1].second.size() != 2)
    return std::nullopt;
  const Shape& embedding = tensors[0].second;
  const std::int64_t features = embedding[1];
  GptReader reader(tensors);
  reader.take("embedding", embedding, "wte");
  reader.take("position", {tensors[1].second[0], features}, "wpe");
  constexpr std::size_t kAfterBlocks = 3;  // at most: the last normalization and an output layer of its own
  for (std::size_t number = 0; reader.ok() && reader.left() > kAfterBlocks; ++number)
    reader.block(number, features);
  reader.take("ln", {features}, "ln_f");
  if (reader.ok() && reader.at("fc", ".weight", embedding)) reader.take("fc", embedding, "lm_head");
  if (!reader.ok() || reader.left() > 0) return std::nullopt;
  return std::move(reader).found();
}

void transpose_weights(std::span<const float> from, std::size_t rows, std::size_t columns, float* to) {
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
  }
}

bool is_attention_mask(const NamedShape& tensor) {
  const auto& [name, shape] = tensor;
  if (name.ends_with(".attn.masked_bias")) return shape.empty();
  return name.ends_with(".attn.bias") && shape.size() == 4 && shape[0] == 1 && shape[1] == 1 &&
         shape[2] == shape[3];
}

}  // namespace starling::training
