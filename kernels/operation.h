// The operations of networks, for fixed shapes. An OperationSpec says what to compute; a back end makes an
// Operation from it, which owns its primitives and workspaces and runs without allocating. kernels/reference
// defines what each one computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <variant>

namespace starling::kernels {

// A batch of images, or of vectors (height = width = 1). A sequence of tokens is as many vectors, one after
// the other, so a batch of sequences has batch = sequences x context, where context is the length of each.
struct Shape {
  int batch = 1, channels = 1, height = 1, width = 1;

  std::size_t sample_size() const {
    return static_cast<std::size_t>(channels) * static_cast<std::size_t>(height) *
           static_cast<std::size_t>(width);
  }
  std::size_t size() const { return static_cast<std::size_t>(batch) * sample_size(); }
  friend bool operator==(const Shape&, const Shape&) = default;
};

// The specs. `weight`, `bias` and so on are offsets, in floats, into the parameters and the gradient that an
// Operation receives when it runs. These are in plain order, bias [out] and weight as stated below.

// The offset of an absent tensor.
inline constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

// y[n,o,i,j] = bias[o] + sum over c,u,v of weight[o,c,u,v] x[n, first(o) + c, i stride + u - padding, j
// stride + v - padding], where x is 0 outside, for `height` x `width` outputs. An output reads the in /
// groups channels of its group, beginning with first(o). There may be fewer outputs than the input has room
// for, if they leave fewer than `stride` of its last rows and columns unread (the caller passes the part that
// is read).
struct ConvolutionSpec {
  int channels;  // out
  int kernel;    // square
  int stride;
  int padding;  // above and left; below and right as the output's extent needs
  int height, width;
  std::size_t weight;  // [out, in / groups, kernel, kernel]
  std::size_t bias;    // or kNone
  int groups = 1;      // divides the channels in and out
};
// Windows of size x size, side by side. Remaining rows and columns at the end are not read.
struct AveragePoolSpec {
  int size;
};
// A tie goes to the first place in reading order.
struct MaxPoolSpec {
  int size;
};
// y[n,c] = the mean of x[n,c,i,j] over i and j.
struct GlobalAveragePoolSpec {};
// y[n,o] = bias[o] + sum over i of weight[o,i] x[n,i], the input flattened as channel, row, column.
struct LinearSpec {
  int features;         // out
  std::size_t weight;   // [out, in]
  std::size_t bias;     // or kNone
  bool tokens = false;  // a hint: the batch consists of the tokens of sequences
};
// y[n] = weight[x[n]], where x[n] is the number of a token, stored as a float. REQUIRES: 0 <= x[n] < tokens,
// and that the input needs no gradient.
struct EmbeddingSpec {
  int tokens, features;
  std::size_t weight;  // [tokens, features]
  // Another operation has the same weight, and its backward() runs before: the gradient is added to.
  bool shared = false;
};
// y[n,c] = x[n,c] + weight[n mod context, c]: learned positions (Gehring et al., "Convolutional sequence to
// sequence learning", ICML 2017).
struct PositionSpec {
  int context;
  std::size_t weight;  // [context, channels]
};
// Causal attention (Vaswani et al., "Attention is all you need", NIPS 2017, section 3.2) within each sequence
// of `context` vectors. A vector has `heads` queries, then `groups` keys, then `groups` values, each of d =
// channels / (heads + 2 groups) floats; head h uses key and value h / (heads / groups) (Ainslie et al.,
// "GQA", EMNLP 2023). Of head h, position i:
//   y[i] = sum over j <= i of drop(p[i,j]) v[j],  p[i,.] = softmax over j of q[i] . k[j] / sqrt(d).
// With `rotary_base` > 0, q[i] and k[i] are first rotated (Su et al., "RoFormer", 2021): for each f < d/2,
// the pair of their floats (f, f + d/2) by the angle i rotary_base^(-2f/d). drop() is dropout at this rate;
// its draw has the index of p[i,j] in [sequence, head, i, j].
struct AttentionSpec {
  int context, heads, groups;  // groups divides heads
  float rotary_base = 0;       // if > 0, d is even
  float dropout = 0;           // in [0, 1)
  std::uint64_t seed = 0;      // of dropout
  // If these are some of the heads of a layer: the number of the first one, and of all. Draws are as in the
  // whole layer.
  int first_head = 0, all_heads = 0;  // 0: these are all

  int head_size(const Shape& input) const { return input.channels / (heads + 2 * groups); }
  int drawn_head(int sequence, int head) const {
    return sequence * (all_heads > 0 ? all_heads : heads) + first_head + head;
  }
};
// y = max(x, 0); the derivative at 0 is 0.
struct ReluSpec {};
// y = x Phi(x), where Phi is the standard normal distribution function: the exact form of Hendrycks and
// Gimpel, "Gaussian error linear units" (2016). With `tanh`, the approximation in its section 2:
// y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
struct GeluSpec {
  bool tanh = false;
};
// y[n,c] = a sigmoid(a) b with a = x[n,c] and b = x[n, channels/2 + c], for half the channels (Shazeer, "GLU
// variants improve Transformer", 2020).
struct SwigluSpec {};
// y[n,c,i,j] = scale[c] (x[n,c,i,j] - m[c]) / sqrt(v[c] + epsilon) + shift[c] (Ioffe and Szegedy, "Batch
// normalization", ICML 2015). For training, m and v are the mean and the (biased) variance of the batch's
// channel over n, i and j. Without a backward pass they are the running ones among the parameters, and a
// negative v, which averages of replicas may have, counts as 0. backward() writes to the running ones' places
// in the gradient what must be added to them, momentum (the batch's - the running), where the batch's
// variance is the unbiased one (0 for a single value), as in PyTorch.
struct BatchNormSpec {
  std::size_t scale, shift;    // [channels]
  std::size_t mean, variance;  // [channels], the running ones
  float epsilon = 1e-5F;
  float momentum = 0.1F;
};
// The same with m and v of `groups` groups of neighboring channels of one sample (Wu and He, "Group
// normalization", ECCV 2018). With one group over a vector it is layer normalization (Ba, Kiros and Hinton,
// 2016).
struct GroupNormSpec {
  int groups;                // divides the channels
  std::size_t scale, shift;  // [channels]; shift may be kNone
  float epsilon = 1e-5F;
};
// y[n,c] = scale[c] x[n,c] / sqrt(mean over c of x[n,c]^2 + epsilon), of vectors (Zhang and Sennrich, "Root
// mean square layer normalization", NeurIPS 2019).
struct RmsNormSpec {
  std::size_t scale;  // [channels]
  float epsilon = 1e-5F;
};
// Each value is 0 with probability `rate`, else divided by 1 - rate (Srivastava et al., JMLR 2014). Every
// forward() draws from `seed` and the number of draws before. Without a backward pass y = x.
struct DropoutSpec {
  float rate;  // in [0, 1)
  std::uint64_t seed;
  // If these are some of the channels of a layer: the number of the first one, and of all. Draws are as in
  // the whole layer.
  int first_channel = 0, all_channels = 0;  // 0: these are all

  // The index of the draw for a sample's first value.
  std::uint32_t first_draw(const Shape& shape, int sample) const {
    const std::uint32_t plane =
        static_cast<std::uint32_t>(shape.height) * static_cast<std::uint32_t>(shape.width);
    const auto channels = static_cast<std::uint32_t>(all_channels > 0 ? all_channels : shape.channels);
    return (static_cast<std::uint32_t>(sample) * channels + static_cast<std::uint32_t>(first_channel)) *
           plane;
  }
};
using OperationSpec = std::variant<ConvolutionSpec, AveragePoolSpec, MaxPoolSpec, GlobalAveragePoolSpec,
                                   LinearSpec, ReluSpec, GeluSpec, BatchNormSpec, GroupNormSpec, DropoutSpec,
                                   EmbeddingSpec, PositionSpec, AttentionSpec, SwigluSpec, RmsNormSpec>;

// REQUIRES: the spec fits the input.
Shape output_shape(const OperationSpec& spec, const Shape& input);

// The layout of an activation in memory, known only to its back end.
class Format {
 public:
  virtual ~Format() = default;
};

// A batch between two operations; its gradient has the same format.
struct Activation {
  Shape shape;
  std::shared_ptr<const Format> format;
  std::size_t floats = 0;  // of storage, padding included, in units of a float for any number format
};

// The passes for which an operation is built.
struct Passes {
  bool backward = true;
  bool input_gradient = true;  // false for the first layer of a network
};

// One or several consecutive specs, ready to run on one thread at a time. Pointers are to the back end's
// memory. Activations are 64-byte aligned and in the agreed formats.
class Operation {
 public:
  virtual ~Operation() = default;

  const Activation& output() const { return output_; }
  // The number of specs that this operation computes; 0 if it only changes the format.
  int covers() const { return covers_; }

  // y = f(x). Other threads may change `parameters` meanwhile.
  virtual void forward(const float* parameters, const float* x, float* y) = 0;
  // Repeats the last forward() with the same random draws, if activations are not kept.
  virtual void forward_again(const float* parameters, const float* x, float* y) { forward(parameters, x, y); }

  // Computes dx from x and y of the last forward() and dy, and writes d/d(weight) and d/d(bias) to their
  // places in `gradient`. May overwrite dy. dx is null if no input gradient is needed. REQUIRES: built with
  // Passes::backward.
  virtual void backward(const float* parameters, const float* x, const float* y, float* dy, float* dx,
                        float* gradient) = 0;

  // For gradients that share memory: whether dx may be dy in backward(), and whether dy is otherwise left as
  // it is.
  virtual bool works_in_place() const { return false; }
  virtual bool keeps_dy() const { return false; }

  // Continues random draws as after this number of calls of forward(), if the operation draws.
  virtual void set_draws(std::uint64_t) {}

  // Bytes of the operation's own workspaces.
  virtual std::size_t workspace_bytes() const { return 0; }

  // Memory that the operation uses only while it runs, shared by all operations of a thread. If
  // scratch_floats() is not 0, set_scratch() is called before the first run.
  virtual std::size_t scratch_floats() const { return 0; }
  virtual void set_scratch(float*) {}

 protected:
  Operation(Activation output, int covers) : output_(std::move(output)), covers_(covers) {}

 private:
  Activation output_;
  int covers_;
};

// The sum of two branches: y = a + b, or max(a + b, 0).
class Sum {
 public:
  virtual ~Sum() = default;

  const Activation& output() const { return output_; }

  virtual void forward(const float* a, const float* b, float* y) = 0;
  // da = db = dy, or 0 where a ReLU's y is not positive. da is in the format of a and may be dy if that is
  // the format of y; db is in the format of b.
  virtual void backward(const float* y, const float* dy, float* da, float* db) = 0;
  // Whether da and db may both be dy.
  virtual bool works_in_place() const { return false; }

  virtual std::size_t workspace_bytes() const { return 0; }

 protected:
  explicit Sum(Activation output) : output_(std::move(output)) {}

 private:
  Activation output_;
};

struct LossValue {
  double sum = 0;            // of the samples' losses
  std::int64_t correct = 0;  // samples whose largest logit is their label's; a tie goes to the lower class
};

// Softmax cross-entropy, -log softmax(logits)[label], of the first `count` samples of a batch. Logits, labels
// and dlogits are in the back end's memory. `value` is in its staging memory and valid when the queue is
// done.
class Loss {
 public:
  virtual ~Loss() = default;

  // REQUIRES: 0 <= labels[i] < classes, count <= batch.
  virtual void evaluate(const float* logits, const std::int32_t* labels, int count, LossValue* value) = 0;
  // For the whole batch; also writes d(mean loss)/d(logits), in the format of the logits.
  virtual void train(const float* logits, const std::int32_t* labels, float* dlogits, LossValue* value) = 0;
};

}  // namespace starling::kernels
