// oneDNN as this back end uses it: primitive descriptors, with one interface for versions 2 and 3 of the
// library, and a Primitive that runs without building argument lists. Only onednn.cc knows the differences
// between the versions.
//
// oneDNN uses OpenMP. A worker of Starling is one thread, so every thread that makes or runs a primitive
// first calls keep_to_one_thread().
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

// Sets the calling thread's number of OpenMP threads to one.
void keep_to_one_thread();

// The geometry of a convolution for all three passes.
struct ConvolutionGeometry {
  memory::dims strides, padding_begin, padding_end;
  // Requests Winograd's minimal filtering (Lavin and Gray, "Fast algorithms for convolutional neural
  // networks", CVPR 2016) if the library has it: F(4x4, 3x3) needs a quarter of the multiplications and has
  // slightly larger rounding errors.
  bool winograd = false;
};
enum class PoolKind { average, max };
struct PoolGeometry {
  PoolKind kind;
  memory::dims window;  // and stride
};

// A format may be `any`, so that the library chooses. A bias may be the empty descriptor, for none.
// Scratchpads are the user's (Primitive owns them). With `relu`, the output is max(0, .).
using ConvForward = dnnl::convolution_forward::primitive_desc;
using ConvBackwardData = dnnl::convolution_backward_data::primitive_desc;
using ConvBackwardWeights = dnnl::convolution_backward_weights::primitive_desc;
ConvForward make_convolution_forward(bool training, const memory::desc& x, const memory::desc& weight,
                                     const memory::desc& bias, const memory::desc& y,
                                     const ConvolutionGeometry& geometry, bool relu);
ConvBackwardData make_convolution_backward_data(const memory::desc& dx, const memory::desc& weight,
                                                const memory::desc& dy, const ConvolutionGeometry& geometry,
                                                const ConvForward& hint);
ConvBackwardWeights make_convolution_backward_weights(const memory::desc& x, const memory::desc& dweight,
                                                      const memory::desc& dbias, const memory::desc& dy,
                                                      const ConvolutionGeometry& geometry,
                                                      const ConvForward& hint);

using LinearForward = dnnl::inner_product_forward::primitive_desc;
using LinearBackwardData = dnnl::inner_product_backward_data::primitive_desc;
using LinearBackwardWeights = dnnl::inner_product_backward_weights::primitive_desc;
LinearForward make_linear_forward(bool training, const memory::desc& x, const memory::desc& weight,
                                  const memory::desc& bias, const memory::desc& y, bool relu);
LinearBackwardData make_linear_backward_data(const memory::desc& dx, const memory::desc& weight,
                                             const memory::desc& dy, const LinearForward& hint);
LinearBackwardWeights make_linear_backward_weights(const memory::desc& x, const memory::desc& dweight,
                                                   const memory::desc& dbias, const memory::desc& dy,
                                                   const LinearForward& hint);

using PoolForward = dnnl::pooling_forward::primitive_desc;
using PoolBackward = dnnl::pooling_backward::primitive_desc;
PoolForward make_pool_forward(bool training, const memory::desc& x, const memory::desc& y,
                              const PoolGeometry& geometry);
PoolBackward make_pool_backward(const memory::desc& dx, const memory::desc& dy, const PoolGeometry& geometry,
                                const PoolForward& hint);

// x Phi(x) elementwise in the format of x.
using GeluForward = dnnl::eltwise_forward::primitive_desc;
using GeluBackward = dnnl::eltwise_backward::primitive_desc;
GeluForward make_gelu_forward(bool training, const memory::desc& x);
GeluBackward make_gelu_backward(const memory::desc& x, const GeluForward& hint);

// Whose memory a primitive uses: its own, or scratch_floats() floats at set_scratch().
enum class Scratchpad { own, shared };

// Throws std::bad_alloc unless there is address space for the code that the library generates when a
// primitive is made, and at its first run. Without it the library crashes.
void require_room();

// One primitive and its arguments, whose pointers may change from run to run.
class Primitive {
 public:
  Primitive() = default;
  template <class PrimitiveDesc>
  explicit Primitive(const PrimitiveDesc& desc, Scratchpad whose = Scratchpad::own)
      : Primitive((require_room(), dnnl::primitive(desc.get())), desc.scratchpad_desc(), whose) {}

  explicit operator bool() const { return primitive_.get(true) != nullptr; }

  std::size_t scratch_floats() const { return scratch_floats_; }
  void set_scratch(float* scratch);

  // Declares an argument (DNNL_ARG_SRC...). run()'s list has the order of the declarations.
  Primitive& argument(int kind, const memory::desc& desc);

  // One pointer for each declared argument. Inputs are not written.
  void run(std::initializer_list<const float*> pointers);

  std::size_t workspace_bytes() const { return scratchpad_.bytes(); }

 private:
  Primitive(dnnl::primitive primitive, const memory::desc& scratchpad, Scratchpad whose);

  dnnl::primitive primitive_;
  std::vector<memory> memories_;            // of arguments_
  std::vector<dnnl_exec_arg_t> arguments_;  // the scratchpad first, then as declared
  std::size_t scratch_floats_ = 0;
  bool has_run_ = false;
  Buffer scratchpad_;
};

// Converts between two formats with a reorder through a buffer; does nothing if they are equal. The buffer
// may be at set_scratch(); its values are then valid until another user of the scratch runs.
class Reorder {
 public:
  Reorder() = default;
  Reorder(const memory::desc& from, const memory::desc& to, Scratchpad whose = Scratchpad::own);

  std::size_t scratch_floats() const { return scratch_floats_; }
  void set_scratch(float* scratch);

  bool needed() const { return static_cast<bool>(primitive_); }

  // The values of `from` in the other format: `from` itself, or the buffer, which is valid until the next
  // call.
  const float* convert(const float* from);
  const float* converted(const float* from) const { return needed() ? values_ : from; }
  void convert(const float* from, float* to);

  // The reverse use: a primitive writes the first format to target(out); then finish(out) writes the second
  // format to `out`.
  float* target(float* out) { return needed() ? values_ : out; }
  void finish(float* out);

  std::size_t workspace_bytes() const { return buffer_.bytes() + primitive_.workspace_bytes(); }

 private:
  Primitive primitive_;
  std::size_t scratch_floats_ = 0;
  Buffer buffer_;
  float* values_ = nullptr;  // in buffer_ or in the scratch
};

// The size of a descriptor's memory in floats, rounded up.
std::size_t floats(const memory::desc& desc);

// Descriptors for float32 or bfloat16 values.
using Type = memory::data_type;
memory::desc any_format(const memory::dims& dims, Type type = Type::f32);
memory::desc plain_format(const memory::dims& dims, Type type = Type::f32);  // 1 to 5 dimensions
Type type_of(const memory::desc& desc);
// The same layout with another type of values. REQUIRES: channel_blocks() is not nullopt.
memory::desc in_type(const memory::desc& desc, Type type);
memory::dims image_dims(const Shape& shape);  // [batch, channels, height, width]

// The layout of a descriptor of [batch, channels, height, width]: the strides of its four dimensions; the
// channels' stride is between blocks of `block` adjacent channels. nullopt if other dimensions are blocked.
struct ChannelBlocks {
  std::array<std::ptrdiff_t, 4> strides;
  int block;  // 1 if not blocked
};
std::optional<ChannelBlocks> channel_blocks(const memory::desc& desc);

}  // namespace starling::kernels::cpu
