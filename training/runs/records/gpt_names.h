// The tensors of GPT-2's architecture in files of others: nanoGPT's checkpoints as safetensors, and the
// common files of GPT-2, whose linear layers are stored [in, out] instead of [out, in].
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace starling::training {

enum class TensorNames : std::uint8_t { starling, nanogpt, gpt2 };

struct GptTensor {
  std::string name;     // below "transformer.", as "h.0.attn.c_attn.weight"; or "lm_head.weight"
  bool linear = false;  // in a block: [in, out] in GPT-2's files
};

// A tensor's name in this network, and its shape.
using NamedShape = std::pair<std::string, std::vector<std::int64_t>>;

// The names of a network's tensors there, in the same order. nullopt unless it is an embedding, learned
// positions, blocks of attention and of a perceptron of two linear layers, a normalization, and a linear
// layer unless that is tied (models/gpt.h without rms, swiglu, rotary and groups). `tensors`: in a layout's
// order.
std::optional<std::vector<GptTensor>> gpt_tensors(std::span<const NamedShape> tensors);

inline constexpr const char* kGptHead = "lm_head.weight";
inline constexpr const char* kGptPrefix = "transformer.";

// [rows, columns] to [columns, rows].
void transpose_weights(std::span<const float> from, std::size_t rows, std::size_t columns, float* to);

// Whether the tensor is the causal mask of attention, which PyTorch's modules keep as a buffer, and no
// parameter: "h.0.attn.bias" of [1, 1, n, n], or "h.0.attn.masked_bias" of one value.
bool is_attention_mask(const NamedShape& tensor);

}  // namespace starling::training
