// What a network is made of, below the models: operations for fixed shapes. An OperationSpec says what to
// compute; a back end turns it into an Operation, which owns its primitives and workspaces and then runs
// without allocating. kernels/reference defines what each one computes.
#pragma once

#include <cstddef>
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

// The specs. `weight` and `bias` are offsets, in floats, into the parameters and into the gradient that an
// Operation is given when it runs; both lie there in plain order, bias [out] and weight as said below.

// y[n,o,i,j] = bias[o] + sum over c,u,v of weight[o,c,u,v] x[n, c, i stride + u - padding, j stride + v -
// padding], where x is 0 outside, for `height` x `width` outputs. They may be fewer than the input has room
// for in a caller's larger image, but must read as far as the input's last row and column (the caller passes
// the part that is read).
struct Convolution {
  int channels;  // out
  int kernel;    // square
  int stride;
  int padding;  // above and left; below and right, whatever the output's extent needs
  int height, width;
  std::size_t weight;  // [out, in, kernel, kernel]
  std::size_t bias;
};
// Windows of size x size, side by side; rows and columns left over at the end are not read.
struct AveragePool {
  int size;
};
// A tie goes to the first in reading order.
struct MaxPool {
  int size;
};
// y[n,o] = bias[o] + sum over i of weight[o,i] x[n,i], the input flattened as channel, row, column.
struct Linear {
  int features;        // out
  std::size_t weight;  // [out, in]
  std::size_t bias;
};
// y = max(x, 0); the derivative at 0 is 0.
struct Relu {};
using OperationSpec = std::variant<Convolution, AveragePool, MaxPool, Linear, Relu>;

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
  std::size_t floats = 0;  // storage, padding included
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

  // Given x and y of the last forward and dy: dx, and d/d(weight) and d/d(bias) at their places in
  // `gradient`. dy is scratch afterwards. dx is null where no input gradient was asked for. REQUIRES: built
  // with Passes::backward.
  virtual void backward(const float* parameters, const float* x, const float* y, float* dy, float* dx,
                        float* gradient) = 0;

  // Bytes of the operation's own workspaces.
  virtual std::size_t workspace_bytes() const { return 0; }

 protected:
  Operation(Activation output, int covers) : output_(std::move(output)), covers_(covers) {}

 private:
  Activation output_;
  int covers_;
};

}  // namespace starling::kernels
