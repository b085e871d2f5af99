// Linear layers by cuBLAS, whose matrices are column-major: what is [rows, columns] here is its transpose
// there. In bfloat16 the weights are rounded once per step; sums, the weights' gradient and the output before
// the loss are float32.

#include "kernels/buffer.h"
#include "kernels/cuda/format.h"
#include "kernels/cuda/operations.h"

namespace starling::kernels::cuda {
namespace {

Activation linear_output(const LinearSpec& spec, const Activation& input, bool float_output) {
  const Shape shape{input.shape.batch, spec.features, 1, 1};
  return float_output ? plain_activation(shape) : activation_like(input, shape);
}

cudaDataType_t type(bool bf16) { return bf16 ? CUDA_R_16BF : CUDA_R_32F; }

class BlasLinear final : public Operation {
 public:
  BlasLinear(Stream& stream, const LinearSpec& spec, const Activation& input, Passes passes, bool relu,
             bool float_output, bool tf32)
      : Operation(linear_output(spec, input, float_output), relu ? 2 : 1),
        stream_(stream),
        spec_(spec),
        relu_(relu),
        bf16_(is_bf16(input)),
        out_bf16_(is_bf16(output())),
        batch_(input.shape.batch),
        in_(static_cast<int>(input.shape.sample_size())),
        compute_(tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F),
        memory_(stream.device()) {
    stream.blas();
    const std::size_t weights = static_cast<std::size_t>(in_) * static_cast<std::size_t>(spec.features);
    if (bf16_) weight_ = Buffer((weights + 1) / 2, memory_);
    if (bf16_ && !out_bf16_ && passes.backward) dy_ = Buffer((output().shape.size() + 1) / 2, memory_);
    if (passes.backward) scratch_ = partial_floats(output());
  }

  void forward(const float* parameters, const float* x, float* y) override {
    const float* weight = parameters + spec_.weight;
    if (bf16_) {
      to_bf16(stream_, weight, values<Bfloat16>(weight_.data()), weight_count());
      weight = weight_.data();
    }
    // y [batch, out] = x [batch, in] weight^T
    multiply(CUBLAS_OP_T, CUBLAS_OP_N, spec_.features, batch_, in_, weight, in_, x, in_, y, out_bf16_);
    add_bias(stream_, output(), bias_of(parameters), relu_, y);
  }

  void backward(const float* parameters, const float* x, const float* y, float* dy, float* dx,
                float* gradient) override {
    gather_bias(stream_, output(), relu_, y, dy, spec_.bias == kNone ? nullptr : gradient + spec_.bias,
                scratch_memory_);
    const float* factor = dy;
    if (bf16_ && !out_bf16_) {
      to_bf16(stream_, dy, values<Bfloat16>(dy_.data()), output().shape.size());
      factor = dy_.data();
    }
    // weight' [out, in] = dy^T x
    multiply(CUBLAS_OP_N, CUBLAS_OP_T, in_, spec_.features, batch_, x, in_, factor, spec_.features,
             gradient + spec_.weight, false);
    if (dx == nullptr) return;
    // dx [batch, in] = dy weight; in bfloat16 with the weights of the forward pass
    const float* weight = bf16_ ? weight_.data() : parameters + spec_.weight;
    multiply(CUBLAS_OP_N, CUBLAS_OP_N, in_, batch_, spec_.features, weight, in_, factor, spec_.features, dx,
             bf16_);
  }

  std::size_t workspace_bytes() const override { return weight_.bytes() + dy_.bytes(); }
  std::size_t scratch_floats() const override { return scratch_; }
  void set_scratch(float* scratch) override { scratch_memory_ = scratch; }

 private:
  // c [m, n] = op(a) op(b), column-major, over k; a and b have the input's number format.
  void multiply(cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k, const float* a,
                int a_step, const float* b, int b_step, float* c, bool c_bf16) {
    constexpr float kAlpha = 1, kBeta = 0;
    check(cublasGemmEx(stream_.blas(), op_a, op_b, m, n, k, &kAlpha, a, type(bf16_), a_step, b, type(bf16_),
                       b_step, &kBeta, c, type(c_bf16), m, compute_, CUBLAS_GEMM_DEFAULT),
          "cublasGemmEx");
  }

  const float* bias_of(const float* parameters) const {
    return spec_.bias == kNone ? nullptr : parameters + spec_.bias;
  }
  std::size_t weight_count() const {
    return static_cast<std::size_t>(in_) * static_cast<std::size_t>(spec_.features);
  }

  Stream& stream_;
  LinearSpec spec_;
  bool relu_, bf16_, out_bf16_;
  int batch_, in_;
  cublasComputeType_t compute_;
  DeviceMemory memory_;
  Buffer weight_, dy_;  // in bfloat16
  std::size_t scratch_ = 0;
  float* scratch_memory_ = nullptr;
};

}  // namespace

std::unique_ptr<Operation> make_linear(Stream& stream, const LinearSpec& spec, const Activation& input,
                                       Passes passes, bool relu, bool float_output, bool tf32) {
  return std::make_unique<BlasLinear>(stream, spec, input, passes, relu, float_output,
                                      tf32 && !is_bf16(input));
}

}  // namespace starling::kernels::cuda
