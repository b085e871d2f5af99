// oneDNN as this back end uses it: primitive descriptors made the same way for versions 2 and 3 of the
// library, and a Primitive that runs without building argument lists. onednn.cc is the only file that knows
// the versions' differences.
//
// oneDNN parallelises through OpenMP; a worker of Starling is
// one thread, so every thread that makes or runs a primitive is first told to keep to itself
// (keep_to_one_thread).
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "kernels/buffer.h"
#include "kernels/operation.h"

namespace starling::kernels::cpu {

using dnnl::memory;

const dnnl::engine& engine();

// Sets OpenMP's number of threads of the calling thread to one, once.
void keep_to_one_thread();

// What a convolution's or linear layer's descriptors say, for all three passes.
struct ConvolutionGeometry {
  memory::dims strides, padding_begin, padding_end;
  // Asks for Winograd's minimal filtering (Lavin and Gray, "Fast algorithms for convolutional neural
  // networks", CVPR 2016) where the library has it: F(4x4, 3x3) needs a quarter of the multiplications, and
  // rounds a little more.
  bool winograd = false;
};
enum class PoolKind { average, max };
struct PoolGeometry {
  PoolKind kind;
  memory::dims window;  // and stride
};

// Formats may be `any` where the library shall choose. A bias may be the empty descriptor, for none.
// Scratchpads are the user's (Primitive owns them). With `relu`, the output is max(0, .).
using ConvForward = dnnl::convolution_forward::primitive_desc;
using ConvBackwardData = dnnl::convolution_backward_data::primitive_desc;
using ConvBackwardWeights = dnnl::convolution_backward_weights::primitive_desc;
ConvForward convolution_forward(bool training, const memory::desc& x, const memory::desc& weight,
                                const memory::desc& bias, const memory::desc& y,
                                const ConvolutionGeometry& geometry, bool relu);
ConvBackwardData convolution_backward_data(const memory::desc& dx, const memory::desc& weight,
                                           const memory::desc& dy, const ConvolutionGeometry& geometry,
                                           const ConvForward& hint);
ConvBackwardWeights convolution_backward_weights(const memory::desc& x, const memory::desc& dweight,
                                                 const memory::desc& dbias, const memory::desc& dy,
                                                 const ConvolutionGeometry& geometry,
                                                 const ConvForward& hint);

using LinearForward = dnnl::inner_product_forward::primitive_desc;
using LinearBackwardData = dnnl::inner_product_backward_data::primitive_desc;
using LinearBackwardWeights = dnnl::inner_product_backward_weights::primitive_desc;
LinearForward linear_forward(bool training, const memory::desc& x, const memory::desc& weight,
                             const memory::desc& bias, const memory::desc& y, bool relu);
LinearBackwardData linear_backward_data(const memory::desc& dx, const memory::desc& weight,
                                        const memory::desc& dy, const LinearForward& hint);
LinearBackwardWeights linear_backward_weights(const memory::desc& x, const memory::desc& dweight,
                                              const memory::desc& dbias, const memory::desc& dy,
                                              const LinearForward& hint);

using PoolForward = dnnl::pooling_forward::primitive_desc;
using PoolBackward = dnnl::pooling_backward::primitive_desc;
PoolForward pool_forward(bool training, const memory::desc& x, const memory::desc& y,
                         const PoolGeometry& geometry);
PoolBackward pool_backward(const memory::desc& dx, const memory::desc& dy, const PoolGeometry& geometry,
                           const PoolForward& hint);

// x Phi(x) elementwise, in x's format; the gradient in dx's.
using GeluForward = dnnl::eltwise_forward::primitive_desc;
using GeluBackward = dnnl::eltwise_backward::primitive_desc;
GeluForward gelu_forward(bool training, const memory::desc& x);
GeluBackward gelu_backward(const memory::desc& x, const GeluForward& hint);

// Whose memory a primitive works in: its own, or what set_scratch() says, scratch_floats() of them.
enum class Scratchpad { own, shared };

// One primitive and its arguments. Handles of the arguments may change from run to run.
class Primitive {
 public:
  Primitive() = default;
  template <class PrimitiveDesc>
  explicit Primitive(const PrimitiveDesc& desc, Scratchpad whose = Scratchpad::own)
      : Primitive(dnnl::primitive(desc.get()), desc.scratchpad_desc(), whose) {}

  explicit operator bool() const { return primitive_.get(true) != nullptr; }

  std::size_t scratch_floats() const { return scratch_floats_; }
  void set_scratch(float* scratch);

  // Declares an argument (DNNL_ARG_SRC...); its place in run()'s list is the order of declaration.
  Primitive& argument(int kind, const memory::desc& desc);

  // One pointer for each declared argument; they are only read where the primitive only reads.
  void run(std::initializer_list<const float*> pointers);

  std::size_t workspace_bytes() const { return scratchpad_.bytes(); }

 private:
  Primitive(dnnl::primitive primitive, const memory::desc& scratchpad, Scratchpad whose);

  dnnl::primitive primitive_;
  std::vector<memory> memories_;            // of arguments_
  std::vector<dnnl_exec_arg_t> arguments_;  // the scratchpad first, then as declared
  std::size_t scratch_floats_ = 0;
  Buffer scratchpad_;
};

// The way between two formats: nothing where they are equal, else a reorder through a buffer. The buffer too
// may be what set_scratch() says: then it keeps its values only as long as nobody else works there.
class Reorder {
 public:
  Reorder() = default;
  Reorder(const memory::desc& from, const memory::desc& to, Scratchpad whose = Scratchpad::own);

  std::size_t scratch_floats() const { return scratch_floats_; }
  void set_scratch(float* scratch);

  bool needed() const { return static_cast<bool>(primitive_); }

  // The values of `from` in the other format: `from` itself, or the buffer, which keeps them until the next
  // call.
  const float* convert(const float* from);
  const float* converted(const float* from) const { return needed() ? values_ : from; }
  void convert(const float* from, float* to);

  // The other way about: a primitive writes the first format to target(out), then finish(out) leaves the
  // second at `out`.
  float* target(float* out) { return needed() ? values_ : out; }
  void finish(float* out);

  std::size_t workspace_bytes() const { return buffer_.bytes() + primitive_.workspace_bytes(); }

 private:
  Primitive primitive_;
  std::size_t scratch_floats_ = 0;
  Buffer buffer_;
  float* values_ = nullptr;  // in buffer_ or in the scratch
};

// Floats that a memory of this descriptor takes.
std::size_t floats(const memory::desc& desc);

// Of float32 values, or bfloat16.
using Type = memory::data_type;
memory::desc any_format(const memory::dims& dims, Type type = Type::f32);
memory::desc plain_format(const memory::dims& dims, Type type = Type::f32);  // 1 to 5 dimensions
Type type_of(const memory::desc& desc);
// The same places with values of another type. REQUIRES: channel_blocks() says how it lies.
memory::desc in_type(const memory::desc& desc, Type type);
memory::dims image_dims(const Shape& shape);  // [batch, channels, height, width]

// How a descriptor of [batch, channels, height, width] lies in memory: `strides` of its four dimensions,
// those of the channels between blocks of `block` of them that lie together. Nothing where other dimensions
// are in blocks too.
struct ChannelBlocks {
  std::array<std::ptrdiff_t, 4> strides;
  int block;  // 1 where there are none
};
std::optional<ChannelBlocks> channel_blocks(const memory::desc& desc);

}  // namespace starling::kernels::cpu
