// The operations of this back end, mostly a file each. Inputs are dense, in either format (format.h), unless
// stated otherwise; outputs are in the input's format. `stream` outlives them. Operations allocate only when
// they are made, report that in workspace_bytes(), and can be recorded in a graph.
#pragma once

#include <memory>
#include <span>

#include "kernels/backend.h"
#include "kernels/cuda/format.h"
#include "kernels/cuda/runtime.h"

namespace starling::kernels::cuda {

// convolution.cc: with the ReLU behind it where `relu`. `tf32`: float32 convolutions may round their inputs
// to 10 bits of mantissa.
std::unique_ptr<Operation> make_convolution(Stream& stream, const ConvolutionSpec& spec,
                                            const Activation& input, Passes passes, bool relu, bool tf32);
// linear.cc: the output is float32 where `float_output`.
std::unique_ptr<Operation> make_linear(Stream& stream, const LinearSpec& spec, const Activation& input,
                                       Passes passes, bool relu, bool float_output, bool tf32);

// pool.cu, global_pool.cu
std::unique_ptr<Operation> make_average_pool(Stream& stream, const AveragePoolSpec& spec,
                                             const Activation& input);
std::unique_ptr<Operation> make_max_pool(Stream& stream, const MaxPoolSpec& spec, const Activation& input);
std::unique_ptr<Operation> make_global_average_pool(Stream& stream, const Activation& input);

// pointwise.cu, gates.cu, dropout.cu
std::unique_ptr<Operation> make_relu(Stream& stream, const Activation& input);
std::unique_ptr<Operation> make_gelu(Stream& stream, const GeluSpec& spec, const Activation& input);
std::unique_ptr<Operation> make_swiglu(Stream& stream, const Activation& input);
std::unique_ptr<Operation> make_dropout(Stream& stream, const DropoutSpec& spec, const Activation& input,
                                        Passes passes);

// embedding.cu: the output of an embedding is float32.
std::unique_ptr<Operation> make_embedding(Stream& stream, const EmbeddingSpec& spec, const Activation& input,
                                          Passes passes);
std::unique_ptr<Operation> make_position(Stream& stream, const PositionSpec& spec, const Activation& input,
                                         Passes passes);
// attention.cu. Throws DeviceError for heads of more than 128 values.
std::unique_ptr<Operation> make_attention(Stream& stream, const AttentionSpec& spec, const Activation& input,
                                          Passes passes);

// sum.cu: a and b may be windows and have different formats; outside a window the gradient is zero.
std::unique_ptr<Sum> make_sum(Stream& stream, const Activation& a, const Activation& b, bool relu);
// gradient += more, both in the activation's format.
void accumulate(Stream& stream, const Activation& activation, float* gradient, const float* more);

// bias.cu
// x = max(x + bias, 0) or x + bias, [batch, channels, places]; `bias` null: none.
void add_bias(Stream& stream, const Activation& activation, const float* bias, bool relu, float* x);
// If `relu`: dy = 0 where y is not positive. Then, if `dbias` is not null: dbias[c] = the sum of dy over
// batch and places. `partial`: partial_floats(activation) floats of scratch on the device.
void gather_bias(Stream& stream, const Activation& activation, bool relu, const float* y, float* dy,
                 float* dbias, float* partial);
std::size_t partial_floats(const Activation& activation);

// normalizations.cu: with the ReLU behind it where `relu`.
std::unique_ptr<Operation> make_batch_norm(Stream& stream, const BatchNormSpec& spec, const Activation& input,
                                           Passes passes, bool relu);
std::unique_ptr<Operation> make_group_norm(Stream& stream, const GroupNormSpec& spec, const Activation& input,
                                           Passes passes, bool relu);
// vector_norm.cu: of vectors; the output is bfloat16 where `bf16`. REQUIRES: bf16, or a float32 input.
std::unique_ptr<Operation> make_layer_norm(Stream& stream, const GroupNormSpec& spec, const Activation& input,
                                           Passes passes, bool bf16);
std::unique_ptr<Operation> make_rms_norm(Stream& stream, const RmsNormSpec& spec, const Activation& input,
                                         Passes passes, bool bf16);

// conversion.cu
// Converts a plain window to the dense format (covers() == 0).
std::unique_ptr<Operation> make_entrance(Stream& stream, const Activation& input, bool bf16);
// From [batch, channels, height, width] to [batch, channels x height x width, 1, 1] in the order channel,
// row, column. REQUIRES: bfloat16.
std::unique_ptr<Operation> make_flatten(Stream& stream, const Activation& input);
// Between plain floats and the activation's format, on the device; plain windows included.
void pack(Stream& stream, const Activation& activation, const float* plain, float* stored);
void unpack(Stream& stream, const Activation& activation, const float* stored, float* plain);

// loss.cu: logits are plain. `value` is written by the device itself.
std::unique_ptr<Loss> make_softmax_cross_entropy(Stream& stream, const Activation& logits);

// weights.cu
// to[i] = from[i], rounded to the nearest.
void to_bf16(Stream& stream, const float* from, Bfloat16* to, std::size_t n);
// Between filters [out, in, k, k] and [out, k, k, in], the order in which cuDNN reads them for channels-last
// images. `in`: the channels of a group; `places`: k x k.
void filters_to_bf16(Stream& stream, const float* from, Bfloat16* to, int out, int in, int places);
void filters_from_bf16(Stream& stream, const Bfloat16* from, float* to, int out, int in, int places);
// Copies `inner` into `outer`, `above` rows and `left` columns from its corner, with zeros around it; and
// back, without what is around it. Both in one number format.
void enclose(Stream& stream, const Activation& inner, const float* from, const Activation& outer, int above,
             int left, float* to);
void cut_out(Stream& stream, const Activation& outer, const float* from, const Activation& inner, int above,
             int left, float* to);

// samples.cu: copies the samples to the device, bytes as bytes, and returns when they are there. Throws
// DeviceError if the device has too little memory.
std::unique_ptr<Samples> make_samples(int device, const SampleView& samples);

// backend.cc: the back end of one NVIDIA GPU, with cuDNN's convolutions, cuBLAS's products, and our own
// kernels for everything else. Precisions: float32; tf32, where the tensor cores of convolutions and linear
// layers round factors to 10 bits of mantissa; bfloat16 between layers, with loss and parameters in float32.
// Throws DeviceError if the device cannot be used.
std::unique_ptr<Backend> make_backend(int device, Precision precision);

}  // namespace starling::kernels::cuda
