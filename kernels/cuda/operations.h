// The operations of this back end, a file each. Inputs are dense, in either format (format.h), unless said
// otherwise; outputs are in the input's. `stream` outlives them. None allocates once it is made: whatever an
// operation needs beside its arguments it takes from the device when it is made, and tells in
// workspace_bytes(); all of it can be recorded in a graph.
#pragma once

#include <memory>
#include <span>

#include "kernels/cuda/runtime.h"
#include "kernels/loss.h"
#include "kernels/operation.h"

namespace starling::kernels::cuda {

// convolution.cc: with the ReLU behind it where `relu`. `tf32`: float32 convolutions may round their inputs to
// 10 bits of mantissa.
std::unique_ptr<Operation> make_convolution(Stream& stream, const Convolution& spec, const Activation& input,
                                            Passes passes, bool relu, bool tf32);
// linear.cc: the output is float32 where `float_output`.
std::unique_ptr<Operation> make_linear(Stream& stream, const Linear& spec, const Activation& input,
                                       Passes passes, bool relu, bool float_output, bool tf32);

// pool.cu, global_pool.cu
std::unique_ptr<Operation> make_average_pool(Stream& stream, const AveragePool& spec, const Activation& input);
std::unique_ptr<Operation> make_max_pool(Stream& stream, const MaxPool& spec, const Activation& input);
std::unique_ptr<Operation> make_global_average_pool(Stream& stream, const Activation& input);

// pointwise.cu, dropout.cu
std::unique_ptr<Operation> make_relu(Stream& stream, const Activation& input);
std::unique_ptr<Operation> make_gelu(Stream& stream, const Activation& input);
std::unique_ptr<Operation> make_dropout(Stream& stream, const Dropout& spec, const Activation& input,
                                        Passes passes);

// sum.cu: a and b may be windows, and of different formats; what lies outside a window gets a zero gradient.
std::unique_ptr<Sum> make_sum(Stream& stream, const Activation& a, const Activation& b, bool relu);
// gradient += more, both in the activation's format.
void accumulate(Stream& stream, const Activation& activation, float* gradient, const float* more);

// bias.cu
// x = max(x + bias, 0) or x + bias, [batch, channels, places]; `bias` null: none.
void add_bias(Stream& stream, const Activation& activation, const float* bias, bool relu, float* x);
// dy = 0 where y is not positive, if `relu`; then, `dbias` not null: dbias[c] = the sum of dy over batch and
// places. `partial`: partial_floats(activation) floats on the device, scratch.
void gather_bias(Stream& stream, const Activation& activation, bool relu, const float* y, float* dy,
                 float* dbias, float* partial);
std::size_t partial_floats(const Activation& activation);

// batch_norm.cu, group_norm.cu: with the ReLU behind it where `relu`.
std::unique_ptr<Operation> make_batch_norm(Stream& stream, const BatchNorm& spec, const Activation& input,
                                           Passes passes, bool relu);
std::unique_ptr<Operation> make_group_norm(Stream& stream, const GroupNorm& spec, const Activation& input,
                                           Passes passes, bool relu);

// format.cu
// Changes no value but its place and number format (covers() == 0): from a plain window to the dense format.
std::unique_ptr<Operation> make_entrance(Stream& stream, const Activation& input, bool bf16);
// From [batch, channels, height, width] to [batch, channels x height x width, 1, 1] in the order channel, row,
// column. REQUIRES: bfloat16.
std::unique_ptr<Operation> make_flatten(Stream& stream, const Activation& input);
// Between plain floats and the activation's format, on the device; plain windows included.
void pack(Stream& stream, const Activation& activation, const float* plain, float* stored);
void unpack(Stream& stream, const Activation& activation, const float* stored, float* plain);

// loss.cu: logits are plain. `value` is written by the device itself.
std::unique_ptr<Loss> make_softmax_cross_entropy(Stream& stream, const Activation& logits);

}  // namespace starling::kernels::cuda
