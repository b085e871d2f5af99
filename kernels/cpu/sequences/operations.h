// Layers for sequences. The outputs are plain.
#pragma once

#include <memory>

#include "kernels/operation.h"

namespace starling::kernels::cpu {

std::unique_ptr<Operation> make_embedding(const EmbeddingSpec& spec, const Activation& input);
std::unique_ptr<Operation> make_position(const PositionSpec& spec, const Activation& input);
std::unique_ptr<Operation> make_attention(const AttentionSpec& spec, const Activation& input, Passes passes);
std::unique_ptr<Operation> make_swiglu(const Activation& input);
// A linear layer in float32, faster than make_linear() if it suits. The weights are read as the arena stores
// them.
bool suits_text_linear(const LinearSpec& spec, const Activation& input);
std::unique_ptr<Operation> make_text_linear(const LinearSpec& spec, const Activation& input, Passes passes,
                                            bool relu);

}  // namespace starling::kernels::cpu
