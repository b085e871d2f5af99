// What a network is made of, below the models: operations for fixed shapes. An OperationSpec says what to
// compute; a back end turns it into an Operation, which owns its primitives and workspaces and then runs
// without allocating. kernels/reference defines what each one computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <variant>

namespace starling::kernels {

// A batch of images, or of vectors (height = width = 1).
struct Shape {
  int batch = 1, channels = 1, height = 1, width = 1;

  std::size_t sample_size() const {
    return static_cast<std::size_t>(channels) * static_cast<std::size_t>(height) *
           static_cast<std::size_t>(width);
  }
  std::size_t size() const { return static_cast<std::size_t>(batch) * sample_size(); }
  friend bool operator==(const Shape&, const Shape&) = default;
};

// The specs. `weight`, `bias` and so on are offsets, in floats, into the parameters and into the gradient
// that an Operation is given when it runs; they lie there in plain order, bias [out] and weight as said
// below.

// The offset of what is not there.
inline constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

// y[n,o,i,j] = bias[o] + sum over c,u,v of weight[o,c,u,v] x[n, first(o) + c, i stride + u - padding, j
// stride + v - padding], where x is 0 outside, for `height` x `width` outputs. They may be fewer than the
// input has room for in a caller's larger image, but leave fewer than `stride` of the input's last rows and
// columns unread (the caller passes the part that is read). An output reads the in / groups channels of its
// group, first(o) being its first.
struct Convolution {
  int channels;  // out
  int kernel;    // square
  int stride;
  int padding;  // above and left; below and right, whatever the output's extent needs
  int height, width;
  std::size_t weight;  // [out, in / groups, kernel, kernel]
  std::size_t bias;    // or kNone
  int groups = 1;      // divides the channels in and out
};
// Windows of size x size, side by side; rows and columns left over at the end are not read.
struct AveragePool {
  int size;
};
// A tie goes to the first in reading order.
struct MaxPool {
  int size;
};
// y[n,c] = the mean of x[n,c,i,j] over i and j: 1x1 whatever came in.
struct GlobalAveragePool {};
// y[n,o] = bias[o] + sum over i of weight[o,i] x[n,i], the input flattened as channel, row, column.
struct Linear {
  int features;        // out
  std::size_t weight;  // [out, in]
  std::size_t bias;
};
// y = max(x, 0); the derivative at 0 is 0.
struct Relu {};
// y = x Phi(x), Phi being the standard normal distribution function: the exact form of Hendrycks and Gimpel,
// "Gaussian error linear units" (2016).
struct Gelu {};
// y[n,c,i,j] = scale[c] (x[n,c,i,j] - m[c]) / sqrt(v[c] + epsilon) + shift[c] (Ioffe and Szegedy, "Batch
// normalization", ICML 2015). Built for training, m and v are the mean and the (biased) variance of the
// batch's channel over n, i and j; without a backward pass they are the running ones that lie among the
// parameters, and a negative v (averages of replicas may overshoot) counts as 0. The running ones are
// nobody's parameters: in their places of the gradient backward() leaves what is to be added to them,
// momentum (the batch's - the running), where the batch's variance is the unbiased one (of a single value:
// 0), as in PyTorch.
struct BatchNorm {
  std::size_t scale, shift;    // [channels]
  std::size_t mean, variance;  // [channels], the running ones
  float epsilon = 1e-5F;
  float momentum = 0.1F;
};
// The same with m and v of one sample's `groups` groups of neighboring channels each, always (Wu and He,
// "Group normalization", ECCV 2018). With one group over a vector it is layer normalization (Ba, Kiros and
// Hinton, 2016).
struct GroupNorm {
  int groups;                // divides the channels
  std::size_t scale, shift;  // [channels]
  float epsilon = 1e-5F;
};
// Each value is 0 with probability `rate`, else divided by 1 - rate (Srivastava et al., JMLR 2014). Every
// forward() draws anew, from `seed` and the count of draws before; without a backward pass y = x.
struct Dropout {
  float rate;  // in [0, 1)
  std::uint64_t seed;
};
using OperationSpec = std::variant<Convolution, AveragePool, MaxPool, GlobalAveragePool, Linear, Relu, Gelu,
                                   BatchNorm, GroupNorm, Dropout>;

// REQUIRES: the spec fits the input.
Shape output_shape(const OperationSpec& spec, const Shape& input);

// How a back end lays out an activation in memory; only that back end can read it.
class Format {
 public:
  virtual ~Format() = default;
};

// A batch as it travels from one operation to the next; its gradient lies in the same format.
struct Activation {
  Shape shape;
  std::shared_ptr<const Format> format;
  std::size_t floats = 0;  // storage, padding included, in floats whatever the values' number format is
};

// Which passes an operation is built for.
struct Passes {
  bool backward = true;
  bool input_gradient = true;  // the first layer of a network needs none
};

// One or several consecutive specs, ready to run on one thread at a time. Pointers are to memory of the back
// end's device; activations are 64-byte aligned and in the formats agreed on.
class Operation {
 public:
  virtual ~Operation() = default;

  const Activation& output() const { return output_; }
  // How many specs, from the first that it was offered, this operation does: 0 where it only changes the
  // format.
  int covers() const { return covers_; }

  // y = f(x). `parameters` may change meanwhile.
  virtual void forward(const float* parameters, const float* x, float* y) = 0;
  // The last forward() once more, its chance included: for those that keep no activations.
  virtual void forward_again(const float* parameters, const float* x, float* y) { forward(parameters, x, y); }

  // Given x and y of the last forward and dy: dx, and d/d(weight) and d/d(bias) at their places in
  // `gradient`. dy is scratch afterwards. dx is null where no input gradient was asked for. REQUIRES: built
  // with Passes::backward.
  virtual void backward(const float* parameters, const float* x, const float* y, float* dy, float* dx,
                        float* gradient) = 0;

  // Of one with chance of its own: it goes on as after so many calls of forward(). The others have none to set.
  virtual void set_draws(std::uint64_t) {}

  // Bytes of the operation's own workspaces.
  virtual std::size_t workspace_bytes() const { return 0; }

  // Memory that it needs while it runs and that may hold anything before and after: one for all operations of
  // a thread. Where scratch_floats() is not 0, set_scratch() is called before the first run.
  virtual std::size_t scratch_floats() const { return 0; }
  virtual void set_scratch(float*) {}

 protected:
  Operation(Activation output, int covers) : output_(std::move(output)), covers_(covers) {}

 private:
  Activation output_;
  int covers_;
};

// Two branches become one: y = a + b, or max(a + b, 0). Like an Operation otherwise.
class Sum {
 public:
  virtual ~Sum() = default;

  const Activation& output() const { return output_; }

  virtual void forward(const float* a, const float* b, float* y) = 0;
  // da = db = dy, or 0 where a ReLU's y is not positive; da is in a's format and may be dy where that is y's,
  // db in b's.
  virtual void backward(const float* y, const float* dy, float* da, float* db) = 0;

  virtual std::size_t workspace_bytes() const { return 0; }

 protected:
  explicit Sum(Activation output) : output_(std::move(output)) {}

 private:
  Activation output_;
};

}  // namespace starling::kernels
