#include "kernels/cpu/onednn/onednn.h"

#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "base/check.h"

namespace starling::kernels::cpu {
namespace {

dnnl::stream& stream() {
  thread_local dnnl::stream instance(engine());
  return instance;
}

dnnl::prop_kind forward_kind(bool training) {
  return training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
}

dnnl::primitive_attr attributes(bool relu) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (relu) {
    dnnl::post_ops post;
#if DNNL_VERSION_MAJOR >= 3
    post.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
#else
    post.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
#endif
    attr.set_post_ops(post);
  }
  return attr;
}

// Version 2: PrimitiveDesc(Desc(arguments), attributes, engine, hint...); version 3 has no Desc:
// PrimitiveDesc(engine, arguments, hint..., attributes).
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc describe(const dnnl::primitive_attr& attr, const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(engine(), arguments..., attr);
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), attr, engine());
#endif
}

template <class Primitive, class Hint, class... Arguments>
typename Primitive::primitive_desc describe_backward(const Hint& hint, const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(engine(), arguments..., hint, attributes(false));
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), attributes(false),
                                            engine(), hint);
#endif
}

// make(algorithm) with the geometry's algorithm. Version 3 has no Winograd for our processors, and version 2
// not for all of them; the library then reports an error.
template <class Make>
auto by_algorithm(const ConvolutionGeometry& geometry, const Make& make) {
  if (geometry.winograd) {
    try {
      return make(dnnl::algorithm::convolution_winograd);
    } catch (const dnnl::error&) {
    }
  }
  return make(dnnl::algorithm::convolution_direct);
}

const memory::dims kNothing2{0, 0};

// Version 3's pools have one more argument.
#if DNNL_VERSION_MAJOR >= 3
#define STARLING_POOL_DILATION kNothing2,
#else
#define STARLING_POOL_DILATION
#endif

}  // namespace

const dnnl::engine& engine() {
  static const dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

void keep_to_one_thread() {
  thread_local const bool done = (omp_set_num_threads(1), true);
  static_cast<void>(done);
}

ConvForward make_convolution_forward(bool training, const memory::desc& x, const memory::desc& weight,
                                     const memory::desc& bias, const memory::desc& y,
                                     const ConvolutionGeometry& geometry, bool relu) {
  return by_algorithm(geometry, [&](dnnl::algorithm algorithm) {
    return describe<dnnl::convolution_forward>(attributes(relu), forward_kind(training), algorithm, x, weight,
                                               bias, y, geometry.strides, geometry.padding_begin,
                                               geometry.padding_end);
  });
}

ConvBackwardData make_convolution_backward_data(const memory::desc& dx, const memory::desc& weight,
                                                const memory::desc& dy, const ConvolutionGeometry& geometry,
                                                const ConvForward& hint) {
  return by_algorithm(geometry, [&](dnnl::algorithm algorithm) {
    return describe_backward<dnnl::convolution_backward_data>(
        hint, algorithm, dx, weight, dy, geometry.strides, geometry.padding_begin, geometry.padding_end);
  });
}

ConvBackwardWeights make_convolution_backward_weights(const memory::desc& x, const memory::desc& dweight,
                                                      const memory::desc& dbias, const memory::desc& dy,
                                                      const ConvolutionGeometry& geometry,
                                                      const ConvForward& hint) {
  return by_algorithm(geometry, [&](dnnl::algorithm algorithm) {
    return describe_backward<dnnl::convolution_backward_weights>(hint, algorithm, x, dweight, dbias, dy,
                                                                 geometry.strides, geometry.padding_begin,
                                                                 geometry.padding_end);
  });
}

LinearForward make_linear_forward(bool training, const memory::desc& x, const memory::desc& weight,
                                  const memory::desc& bias, const memory::desc& y, bool relu) {
  return describe<dnnl::inner_product_forward>(attributes(relu), forward_kind(training), x, weight, bias, y);
}

LinearBackwardData make_linear_backward_data(const memory::desc& dx, const memory::desc& weight,
                                             const memory::desc& dy, const LinearForward& hint) {
  return describe_backward<dnnl::inner_product_backward_data>(hint, dx, weight, dy);
}

LinearBackwardWeights make_linear_backward_weights(const memory::desc& x, const memory::desc& dweight,
                                                   const memory::desc& dbias, const memory::desc& dy,
                                                   const LinearForward& hint) {
  return describe_backward<dnnl::inner_product_backward_weights>(hint, x, dweight, dbias, dy);
}

namespace {

dnnl::algorithm algorithm_of(PoolKind kind) {
  return kind == PoolKind::max ? dnnl::algorithm::pooling_max : dnnl::algorithm::pooling_avg_exclude_padding;
}

}  // namespace

PoolForward make_pool_forward(bool training, const memory::desc& x, const memory::desc& y,
                              const PoolGeometry& geometry) {
  return describe<dnnl::pooling_forward>(attributes(false), forward_kind(training),
                                         algorithm_of(geometry.kind), x, y, geometry.window, geometry.window,
                                         STARLING_POOL_DILATION kNothing2, kNothing2);
}

PoolBackward make_pool_backward(const memory::desc& dx, const memory::desc& dy, const PoolGeometry& geometry,
                                const PoolForward& hint) {
  return describe_backward<dnnl::pooling_backward>(hint, algorithm_of(geometry.kind), dx, dy, geometry.window,
                                                   geometry.window, STARLING_POOL_DILATION kNothing2,
                                                   kNothing2);
}

GeluForward make_gelu_forward(bool training, const memory::desc& x) {
  constexpr auto kGelu = dnnl::algorithm::eltwise_gelu_erf;
#if DNNL_VERSION_MAJOR >= 3
  return describe<dnnl::eltwise_forward>(attributes(false), forward_kind(training), kGelu, x, x, 0.0F, 0.0F);
#else
  return describe<dnnl::eltwise_forward>(attributes(false), forward_kind(training), kGelu, x);
#endif
}

GeluBackward make_gelu_backward(const memory::desc& x, const GeluForward& hint) {
  constexpr auto kGelu = dnnl::algorithm::eltwise_gelu_erf;
#if DNNL_VERSION_MAJOR >= 3
  return describe_backward<dnnl::eltwise_backward>(hint, kGelu, x, x, x, 0.0F, 0.0F);
#else
  return describe_backward<dnnl::eltwise_backward>(hint, kGelu, x, x);
#endif
}

void require_room() {
  constexpr std::size_t kRoom = std::size_t{32} << 20;
  void* const room = ::mmap(nullptr, kRoom, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  ::munmap(room, kRoom);
}

Primitive::Primitive(dnnl::primitive primitive, const memory::desc& scratchpad, Scratchpad whose)
    : primitive_(std::move(primitive)), scratch_floats_(floats(scratchpad)) {
  argument(DNNL_ARG_SCRATCHPAD, scratchpad);
  if (whose == Scratchpad::shared) return;
  scratchpad_ = Buffer(scratch_floats_);
  set_scratch(scratchpad_.data());
}

void Primitive::set_scratch(float* scratch) {
  if (!memories_.empty()) memories_[0].set_data_handle(scratch);
}

Primitive& Primitive::argument(int kind, const memory::desc& desc) {
  memories_.emplace_back(desc, engine(), static_cast<void*>(nullptr));
  arguments_.push_back({kind, memories_.back().get()});
  return *this;
}

void Primitive::run(std::initializer_list<const float*> pointers) {
  STARLING_CHECK(pointers.size() + 1 == memories_.size());
  keep_to_one_thread();
  if (!std::exchange(has_run_, true)) require_room();
  auto memory = memories_.begin() + 1;  // behind the scratchpad
  for (const float* pointer : pointers) {
    // The library's interface has no pointers to const. Setting a handle makes version 2 clear the padding
    // again.
    float* handle = const_cast<float*>(pointer);
    if (memory->get_data_handle() != handle) memory->set_data_handle(handle);
    ++memory;
  }
  const dnnl_status_t status = dnnl_primitive_execute(primitive_.get(), stream().get(),
                                                      static_cast<int>(arguments_.size()), arguments_.data());
  STARLING_CHECK(status == dnnl_success);
}

Reorder::Reorder(const memory::desc& from, const memory::desc& to, Scratchpad whose) {
  if (from == to) return;
  const dnnl::reorder::primitive_desc desc(engine(), from, engine(), to, attributes(false));
  primitive_ = Primitive(desc);
  primitive_.argument(DNNL_ARG_FROM, from).argument(DNNL_ARG_TO, to);
  const std::size_t size = std::max(floats(from), floats(to));
  if (whose == Scratchpad::shared) {
    scratch_floats_ = size;
  } else {
    buffer_ = Buffer(size);
    values_ = buffer_.data();
  }
}

void Reorder::set_scratch(float* scratch) {
  if (scratch_floats_ > 0) values_ = scratch;
}

const float* Reorder::convert(const float* from) {
  if (!needed()) return from;
  primitive_.run({from, values_});
  return values_;
}

void Reorder::convert(const float* from, float* to) {
  STARLING_CHECK(needed());
  primitive_.run({from, to});
}

void Reorder::finish(float* out) {
  if (needed()) primitive_.run({values_, out});
}

std::size_t floats(const memory::desc& desc) { return (desc.get_size() + sizeof(float) - 1) / sizeof(float); }

memory::desc any_format(const memory::dims& dims, Type type) { return {dims, type, memory::format_tag::any}; }

memory::desc plain_format(const memory::dims& dims, Type type) {
  using tag = memory::format_tag;
  constexpr tag kTags[] = {tag::a, tag::ab, tag::abc, tag::abcd, tag::abcde};
  STARLING_CHECK(!dims.empty() && dims.size() <= std::size(kTags));
  return {dims, type, kTags[dims.size() - 1]};
}

Type type_of(const memory::desc& desc) {
#if DNNL_VERSION_MAJOR >= 3
  return desc.get_data_type();
#else
  return desc.data_type();
#endif
}

memory::desc in_type(const memory::desc& desc, Type type) {
  // The library cannot change the type of a format in general, only of these two kinds.
  const auto lies = channel_blocks(desc);
  STARLING_CHECK(lies.has_value());
#if DNNL_VERSION_MAJOR >= 3
  const memory::dims dims = desc.get_dims();
#else
  const memory::dims dims = desc.dims();
#endif
  if (lies->block == 1) return {dims, type, memory::dims(lies->strides.begin(), lies->strides.end())};
  using tag = memory::format_tag;
  const memory::desc blocked(dims, type,
                             lies->block == 16  ? tag::nChw16c
                             : lies->block == 8 ? tag::nChw8c
                                                : tag::nChw4c);
  STARLING_CHECK(channel_blocks(blocked)->strides == lies->strides);
  return blocked;
}

memory::dims image_dims(const Shape& shape) {
  return {shape.batch, shape.channels, shape.height, shape.width};
}

std::optional<ChannelBlocks> channel_blocks(const memory::desc& desc) {
  ChannelBlocks result{};
#if DNNL_VERSION_MAJOR >= 3
  if (desc.get_format_kind() != memory::format_kind::blocked || desc.get_ndims() != 4) return std::nullopt;
  const memory::dims strides = desc.get_strides(), blocks = desc.get_inner_blks(), of = desc.get_inner_idxs();
  const int count = desc.get_inner_nblks();
#else
  const dnnl_memory_desc_t& data = desc.data;
  if (data.format_kind != dnnl_blocked || data.ndims != 4) return std::nullopt;
  const auto& [strides, count, blocks, of] = data.format_desc.blocking;
#endif
  if (count > 1 || (count == 1 && of[0] != 1)) return std::nullopt;
  for (std::size_t d = 0; d < 4; ++d) result.strides[d] = strides[d];
  result.block = count == 1 ? static_cast<int>(blocks[0]) : 1;
  return result;
}

}  // namespace starling::kernels::cpu
