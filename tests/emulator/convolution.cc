#include "tests/emulator/convolution.h"

#include <algorithm>
#include <vector>

#include "tests/emulator/multiply.h"

namespace starling::emulator {

namespace {

using Floats = std::vector<float>;

// One sample and one group of a convolution.
class Part {
 public:
  Part(const Convolution& all, int sample, int group)
      : all_(all),
        n_(sample),
        first_in_(group * all.w.extent[1]),
        outs_(all.w.extent[0] / all.groups),
        first_out_(group * outs_) {}

  int reads() const { return all_.w.extent[1] * all_.w.extent[2] * all_.w.extent[3]; }
  int places() const { return all_.y.extent[2] * all_.y.extent[3]; }
  int outs() const { return outs_; }

  // Calls f(matrix row, output position, channel, row, column) for every image value read.
  template <class F>
  void each(const F& f) const {
    int row = 0;
    for (int c = 0; c < all_.w.extent[1]; ++c) {
      for (int u = 0; u < all_.w.extent[2]; ++u) {
        for (int v = 0; v < all_.w.extent[3]; ++v, ++row) {
          for (int i = 0; i < all_.y.extent[2]; ++i) {
            const int in_i = i * all_.stride[0] + u - all_.padding[0];
            if (in_i < 0 || in_i >= all_.x.extent[2]) continue;
            for (int j = 0; j < all_.y.extent[3]; ++j) {
              const int in_j = j * all_.stride[1] + v - all_.padding[1];
              if (in_j < 0 || in_j >= all_.x.extent[3]) continue;
              f(row, i * all_.y.extent[3] + j, c, in_i, in_j);
            }
          }
        }
      }
    }
  }

  float rounded(float value) const { return all_.tf32 ? to_tf32(value) : value; }

  // [outs, reads]
  Floats weights(const void* values) const {
    Floats dense;
    for_weights([&](std::size_t at) { dense.push_back(rounded(load(all_.w.number, values, at))); });
    return dense;
  }
  template <class F>
  void for_weights(const F& f) const {
    for (int o = 0; o < outs_; ++o) {
      for (int c = 0; c < all_.w.extent[1]; ++c) {
        for (int u = 0; u < all_.w.extent[2]; ++u) {
          for (int v = 0; v < all_.w.extent[3]; ++v) f(all_.w.at(first_out_ + o, c, u, v));
        }
      }
    }
  }
  // [outs, places]
  template <class F>
  void for_outputs(const F& f) const {
    for (int o = 0; o < outs_; ++o) {
      for (int i = 0; i < all_.y.extent[2]; ++i) {
        for (int j = 0; j < all_.y.extent[3]; ++j) f(all_.y.at(n_, first_out_ + o, i, j));
      }
    }
  }
  std::size_t input_at(int c, int i, int j) const { return all_.x.at(n_, first_in_ + c, i, j); }

 private:
  const Convolution& all_;
  int n_, first_in_, outs_, first_out_;
};

std::size_t area(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

}  // namespace

std::size_t Convolution::column_floats() const {
  const Part part(*this, 0, 0);
  return area(part.reads(), part.places());
}

void Convolution::forward(float alpha, const void* x_values, const void* w_values, float* columns, float beta,
                          void* y_values) const {
  for (int g = 0; g < groups; ++g) {
    const Floats weights = Part(*this, 0, g).weights(w_values);
    for (int n = 0; n < x.extent[0]; ++n) {
      const Part part(*this, n, g);
      std::fill_n(columns, column_floats(), 0.0F);
      part.each([&](int row, int place, int c, int i, int j) {
        columns[area(row, part.places()) + place] =
            part.rounded(load(x.number, x_values, part.input_at(c, i, j)));
      });
      Floats sums(area(part.outs(), part.places()));
      multiply(part.outs(), part.places(), part.reads(), weights.data(), columns, sums.data());
      const float* next = sums.data();
      part.for_outputs([&](std::size_t at) { blend(y.number, y_values, at, alpha, *next++, beta); });
    }
  }
}

void Convolution::backward_data(float alpha, const void* w_values, const void* dy_values, float* columns,
                                float beta, void* dx_values) const {
  for (int g = 0; g < groups; ++g) {
    const Floats weights = Part(*this, 0, g).weights(w_values);
    for (int n = 0; n < x.extent[0]; ++n) {
      const Part part(*this, n, g);
      Floats transposed(weights.size()), dy;
      for (int o = 0; o < part.outs(); ++o) {
        for (int r = 0; r < part.reads(); ++r) {
          transposed[area(r, part.outs()) + o] = weights[area(o, part.reads()) + r];
        }
      }
      part.for_outputs([&](std::size_t at) { dy.push_back(part.rounded(load(y.number, dy_values, at))); });
      std::fill_n(columns, column_floats(), 0.0F);
      multiply(part.reads(), part.places(), part.outs(), transposed.data(), dy.data(), columns);

      Floats sums(area(w.extent[1], x.extent[2] * x.extent[3]));
      const auto sum_at = [&](int c, int i, int j) -> float& {
        return sums[area(c * x.extent[2] + i, x.extent[3]) + j];
      };
      part.each([&](int row, int place, int c, int i, int j) {
        sum_at(c, i, j) += columns[area(row, part.places()) + place];
      });
      for (int c = 0; c < w.extent[1]; ++c) {
        for (int i = 0; i < x.extent[2]; ++i) {
          for (int j = 0; j < x.extent[3]; ++j) {
            blend(x.number, dx_values, part.input_at(c, i, j), alpha, sum_at(c, i, j), beta);
          }
        }
      }
    }
  }
}

void Convolution::backward_filter(float alpha, const void* x_values, const void* dy_values, float* columns,
                                  float beta, void* dw_values) const {
  for (int g = 0; g < groups; ++g) {
    const Part any(*this, 0, g);
    Floats sums(area(any.outs(), any.reads()));
    for (int n = 0; n < x.extent[0]; ++n) {
      const Part part(*this, n, g);
      Floats dy;
      part.for_outputs([&](std::size_t at) { dy.push_back(part.rounded(load(y.number, dy_values, at))); });
      std::fill_n(columns, column_floats(), 0.0F);
      part.each([&](int row, int place, int c, int i, int j) {
        columns[area(place, part.reads()) + row] =
            part.rounded(load(x.number, x_values, part.input_at(c, i, j)));
      });
      multiply(part.outs(), part.reads(), part.places(), dy.data(), columns, sums.data());
    }
    const float* next = sums.data();
    any.for_weights([&](std::size_t at) { blend(w.number, dw_values, at, alpha, *next++, beta); });
  }
}

}  // namespace starling::emulator
