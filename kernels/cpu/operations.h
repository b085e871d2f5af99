// The operations of this back end through oneDNN, or by loops of our own on any of its formats, a file each;
// sequences/operations.h has those for text. Each keeps the format of its input unless stated otherwise. With
// `relu` it also computes the ReLU behind it.
#pragma once

#include <memory>

#include "kernels/cpu/onednn/onednn.h"
#include "kernels/operation.h"

namespace starling::kernels::cpu {

// With Type::bf16 it multiplies bfloat16, and its output is bfloat16: in oneDNN's format or, if `stacked`, in
// the format of tiles/stack.h.
std::unique_ptr<Operation> make_convolution(const ConvolutionSpec& spec, const Activation& input,
                                            Passes passes, bool relu, Type type, bool stacked);
// The weights are read as the arena stores them. The output is plain, of y_type; with Type::bf16 it
// multiplies bfloat16.
std::unique_ptr<Operation> make_linear(const LinearSpec& spec, const Activation& input, Passes passes,
                                       bool relu, Type type, Type y_type);
std::unique_ptr<Operation> make_average_pool(const AveragePoolSpec& spec, const Activation& input,
                                             Passes passes);
std::unique_ptr<Operation> make_max_pool(const MaxPoolSpec& spec, const Activation& input, Passes passes);
// The output is plain.
std::unique_ptr<Operation> make_global_average_pool(const Activation& input);
std::unique_ptr<Operation> make_batch_norm(const BatchNormSpec& spec, const Activation& input, Passes passes,
                                           bool relu);
std::unique_ptr<Operation> make_group_norm(const GroupNormSpec& spec, const Activation& input, bool relu);
// Of vectors; the output is plain.
std::unique_ptr<Operation> make_rms_norm(const RmsNormSpec& spec, const Activation& input);
std::unique_ptr<Operation> make_dropout(const DropoutSpec& spec, const Activation& input, Passes passes);
std::unique_ptr<Operation> make_gelu(const GeluSpec& spec, const Activation& input, Passes passes);
// A ReLU that no other operation computes.
std::unique_ptr<Operation> make_relu(const Activation& input);

// Only changes the format, to plain. REQUIRES: the input has another one.
std::unique_ptr<Operation> make_exit(const Activation& input);

// The sum of two branches, and its ReLU, in one pass over the stored values.
std::unique_ptr<Sum> make_sum(const Activation& a, const Activation& b, bool relu);

// A batch has few logits, so the reference's loop in double is fast enough.
std::unique_ptr<Loss> make_softmax_cross_entropy(const Activation& logits);

}  // namespace starling::kernels::cpu
