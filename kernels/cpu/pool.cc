#include "kernels/cpu/operations.h"

#include "kernels/cpu/formats/format.h"

namespace starling::kernels::cpu {
namespace {

// `in` is the format that oneDNN reads: the input's own unless that is a window of larger images.
class OneDnnPool final : public Operation {
 public:
  OneDnnPool(const Shape& output, const Activation& input, const memory::desc& in, const PoolForward& forward,
             const PoolGeometry& geometry, Passes passes)
      : Operation(activation(output, forward.dst_desc()), 1),
        max_(geometry.kind == PoolKind::max),
        x_(describe(input), in),
        dx_(in, describe(input)),
        forward_(forward) {
    forward_.argument(DNNL_ARG_SRC, in).argument(DNNL_ARG_DST, forward.dst_desc());
    // For training, max pooling writes to the workspace which elements were the largest.
    max_ = max_ && passes.backward;
    if (max_) {
      forward_.argument(DNNL_ARG_WORKSPACE, forward.workspace_desc());
      winners_ = Buffer(floats(forward.workspace_desc()));
    }
    if (!passes.backward || !passes.input_gradient) return;
    backward_ = Primitive(make_pool_backward(in, forward.dst_desc(), geometry, forward));
    backward_.argument(DNNL_ARG_DIFF_DST, forward.dst_desc()).argument(DNNL_ARG_DIFF_SRC, in);
    if (max_) backward_.argument(DNNL_ARG_WORKSPACE, forward.workspace_desc());
  }

  void forward(const float*, const float* x, float* y) override {
    if (max_) {
      forward_.run({x_.convert(x), y, winners_.data()});
    } else {
      forward_.run({x_.convert(x), y});
    }
  }

  void backward(const float*, const float*, const float*, float* dy, float* dx, float*) override {
    if (dx == nullptr) return;
    if (max_) {
      backward_.run({dy, dx_.target(dx), winners_.data()});
    } else {
      backward_.run({dy, dx_.target(dx)});
    }
    dx_.finish(dx);
  }

  std::size_t workspace_bytes() const override {
    return forward_.workspace_bytes() + backward_.workspace_bytes() + x_.workspace_bytes() +
           dx_.workspace_bytes() + winners_.bytes();
  }

 private:
  bool max_;  // and built for training
  Reorder x_, dx_;
  Primitive forward_, backward_;
  Buffer winners_;
};

std::unique_ptr<Operation> make_pool(PoolKind kind, int size, const Activation& input, Passes passes) {
  const PoolGeometry geometry{kind, {size, size}};
  const Shape& shape = input.shape;
  const Shape output{shape.batch, shape.channels, shape.height / size, shape.width / size};
  const memory::desc in = dense_format(input);
  const PoolForward forward =
      make_pool_forward(passes.backward, in, any_format(image_dims(output), type_of(in)), geometry);
  return std::make_unique<OneDnnPool>(output, input, in, forward, geometry, passes);
}

}  // namespace

std::unique_ptr<Operation> make_average_pool(const AveragePoolSpec& spec, const Activation& input,
                                             Passes passes) {
  return make_pool(PoolKind::average, spec.size, input, passes);
}

std::unique_ptr<Operation> make_max_pool(const MaxPoolSpec& spec, const Activation& input, Passes passes) {
  return make_pool(PoolKind::max, spec.size, input, passes);
}

}  // namespace starling::kernels::cpu
