// The text of the loops; kernels_avx2.cc and kernels_avx512.cc include it after defining a vector: V, kLanes,
// kGroup, kSums, load, load_any, store, store_any, broadcast, positive_bits, keep, add_sums4.
// Everything is static, so that code for a wider processor is never linked into another file.
//
// Letters: o output channels, c input channels, i rows, j columns, u and v rows and columns of the
// convolution's kernel, r the channels of a group, p the positions that are computed together.

#define INLINE __attribute__((always_inline)) inline

// to[j][i] = from[i][j] for 8 x 8 floats; the steps are floats between rows.
static inline void transpose8(const float* from, std::ptrdiff_t from_step, float* to,
                              std::ptrdiff_t to_step) {
  __m256 pair[8], four[8];
  for (int i = 0; i < 8; i += 2) {
    const __m256 a = _mm256_loadu_ps(from + i * from_step), b = _mm256_loadu_ps(from + (i + 1) * from_step);
    pair[i] = _mm256_unpacklo_ps(a, b);
    pair[i + 1] = _mm256_unpackhi_ps(a, b);
  }
  for (int i = 0; i < 8; i += 4) {
    four[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
    four[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xee);
    four[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
    four[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xee);
  }
  for (int j = 0; j < 4; ++j) {
    _mm256_storeu_ps(to + j * to_step, _mm256_permute2f128_ps(four[j], four[j + 4], 0x20));
    _mm256_storeu_ps(to + (j + 4) * to_step, _mm256_permute2f128_ps(four[j], four[j + 4], 0x31));
  }
}

// What one group of channels sums over: x[c][u][v + p], with `x_c` and `x_u` floats between channels and
// rows, times weight[c][u][v][r], with steps `w_c` and `w_u`.
struct SumWindow {
  int channels, rows, columns;
  std::ptrdiff_t x_c, x_u, w_c, w_u;
};

// out[r][p] = bias[r] (or 0 if bias is null) + sum over c, u, v of weight * x. A separate function with all
// loops over the sums unrolled, because GCC keeps all sums in registers only if nothing else is alive.
template <int R, int P>
__attribute__((noinline)) static void window_sums(const SumWindow& window, const float* x,
                                                  const float* weight, const float* bias, V (&out)[R][P]) {
  V acc[R][P];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) acc[r][p] = bias == nullptr ? V{} : broadcast(bias + r);
  }
  for (int c = 0; c < window.channels; ++c) {
    for (int u = 0; u < window.rows; ++u) {
      const float* at = x + c * window.x_c + u * window.x_u;
      const float* w = weight + c * window.w_c + u * window.w_u;
      for (int v = 0; v < window.columns; ++v, at += kLanes, w += R) {
        V value[P];
#pragma GCC unroll 8
        for (int p = 0; p < P; ++p) value[p] = load(at + p * kLanes);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
          const V factor = broadcast(w + r);
#pragma GCC unroll 8
          for (int p = 0; p < P; ++p) acc[r][p] += factor * value[p];
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) out[r][p] = acc[r][p];
  }
}

INLINE V positive_part(V value) { return value > 0 ? value : V{}; }

// Calls f with the group's size, 1 to Group, as a compile-time constant.
template <int Group, class F>
INLINE void for_group(int size, const F& f) {
  if constexpr (Group > 0) {
    if (size == Group) {
      f.template operator()<Group>();
    } else {
      for_group<Group - 1>(size, f);
    }
  }
}

// A convolution's window on its input, for a group of R channels.
INLINE SumWindow forward_window(const ConvShape& s, int R) {
  const std::ptrdiff_t x_u = std::ptrdiff_t{s.width + s.kernel - 1} * kLanes,
                       w_u = std::ptrdiff_t{s.kernel} * R;
  return {s.in, s.kernel, s.kernel, (s.height + s.kernel - 1) * x_u, x_u, s.kernel * w_u, w_u};
}

static void conv_forward(const ConvShape& s, const float* x, const float* weight, const float* bias,
                         bool relu, float* y) {
  const std::ptrdiff_t plane = std::ptrdiff_t{s.height} * s.width * kLanes;
  for (int o = 0, size; o < s.out; o += size) {
    size = next_group(s.out - o, kGroup);
    for_group<kGroup>(size, [&]<int R>() {
      const SumWindow window = forward_window(s, R);
      const auto columns = [&]<int P>(int i, int j) {
        V sums[R][P];
        window_sums<R, P>(window, x + i * window.x_u + j * kLanes, weight, bias + o, sums);
        float* to = y + o * plane + (std::ptrdiff_t{i} * s.width + j) * kLanes;
        for (int r = 0; r < R; ++r) {
          for (int p = 0; p < P; ++p)
            store(to + r * plane + p * kLanes, relu ? positive_part(sums[r][p]) : sums[r][p]);
        }
      };
      for (int i = 0; i < s.height; ++i) {
        int j = 0;
        for (; j + 2 <= s.width; j += 2) columns.template operator()<2>(i, j);
        if (j < s.width) columns.template operator()<1>(i, j);
      }
      weight += s.in * window.w_c;
    });
  }
}

static void conv_forward_pooled(const ConvShape& s, const float* x, const float* weight, const float* bias,
                                float* y, unsigned short* positive) {
  const std::ptrdiff_t plane = std::ptrdiff_t{s.height} * s.width;
  const V quarter = V{} + 0.25F;
  for (int o = 0, size; o < s.out; o += size) {
    size = next_group(s.out - o, kGroup);
    for_group<kGroup>(size, [&]<int R>() {
      const SumWindow window = forward_window(s, R);
      for (int i = 0; i < s.height; ++i) {
        for (int j = 0; j < s.width; j += 2) {
          V sums[R][2];
          window_sums<R, 2>(window, x + i * window.x_u + j * kLanes, weight, bias + o, sums);
          unsigned short* bits = positive + o * plane + std::ptrdiff_t{i} * s.width + j;
          float* to = y + (o * plane / 4 + std::ptrdiff_t{i / 2} * (s.width / 2) + j / 2) * kLanes;
          for (int r = 0; r < R; ++r, bits += plane, to += plane / 4 * kLanes) {
            bits[0] = positive_bits(sums[r][0]);
            bits[1] = positive_bits(sums[r][1]);
            const V half = (positive_part(sums[r][0]) + positive_part(sums[r][1])) * quarter;
            store(to, i % 2 == 0 ? half : load(to) + half);  // the even row comes first
          }
        }
      }
      weight += s.in * window.w_c;
    });
  }
}

INLINE void add_sum(V value, float* to) {
  V values[4] = {value, V{}, V{}, V{}};
  float sums[4] = {};
  add_sums4(values, sums);
  *to += sums[0];
}

static void spread(int channels, int height, int width, const float* y, const float* dy, float* spread,
                   float* dbias) {
  for (int o = 0; o < channels; ++o) {
    V sum{};
    for (int i = 0; i < height; ++i) {
      store(spread, V{});
      spread += kMargin * kLanes;
      for (int j = 0; j < width; ++j, dy += kLanes, spread += kLanes) {
        V value = load(dy);
        if (y != nullptr) {
          value = load(y) > 0 ? value : V{};
          y += kLanes;
        }
        sum += value;
        store(spread, value);
      }
      store(spread, V{});
      spread += kMargin * kLanes;
    }
    add_sum(sum, dbias + o);
  }
}

static void spread_pooled(int channels, int height, int width, const unsigned short* positive,
                          const float* dy, float* spread, float* dbias) {
  const V quarter = V{} + 0.25F;
  const std::ptrdiff_t row = std::ptrdiff_t{width + 2 * kMargin} * kLanes;
  for (int o = 0; o < channels; ++o) {
    V sum{};
    for (int i = 0; i < height; i += 2) {
      const std::ptrdiff_t margins[4] = {0, row - kLanes, row, 2 * row - kLanes};
      for (const std::ptrdiff_t at : margins) store(spread + at, V{});
      float* upper = spread + kMargin * kLanes;
      for (int j = 0; j < width; j += 2, dy += kLanes, positive += 2, upper += 2 * kLanes) {
        const V value = load(dy) * quarter;
        const V a = keep(value, positive[0]), b = keep(value, positive[1]);
        const V c = keep(value, positive[width]), d = keep(value, positive[width + 1]);
        store(upper, a);
        store(upper + kLanes, b);
        store(upper + row, c);
        store(upper + row + kLanes, d);
        sum += (a + b) + (c + d);
      }
      positive += width;
      spread += 2 * row;
    }
    add_sum(sum, dbias + o);
  }
}

// dx = the correlation of the spread gradient, with kernel - 1 zeros around it, and the rotated kernels. Rows
// and columns of the kernel that would only multiply these zeros are omitted. The margin is for two columns
// that are computed together: one may need a column of the kernel that the other does not.
static void conv_backward_data(const ConvShape& s, const float* spread, const float* weight, float* dx) {
  const int K = s.kernel, height = s.height + K - 1, width = s.width + K - 1;
  const std::ptrdiff_t d_u = std::ptrdiff_t{s.width + 2 * kMargin} * kLanes;
  const std::ptrdiff_t plane = std::ptrdiff_t{height} * width * kLanes;
  for (int c = 0, size; c < s.in; c += size) {
    size = next_group(s.in - c, kGroup);
    for_group<kGroup>(size, [&]<int R>() {
      const std::ptrdiff_t w_u = std::ptrdiff_t{K} * R;
      const auto columns = [&]<int P>(int i, int j) {
        const int first_u = K - 1 - i, last_u = s.height + K - 1 - i;
        const int u0 = first_u > 0 ? first_u : 0, u1 = last_u < K ? last_u : K;
        const int first_v = K - 1 - (j + P - 1), last_v = s.width + K - 1 - j;
        const int v0 = first_v > 0 ? first_v : 0, v1 = last_v < K ? last_v : K;
        const SumWindow window{s.out, u1 - u0, v1 - v0, s.height * d_u, d_u, K * w_u, w_u};
        V sums[R][P];
        window_sums<R, P>(window, spread + (i - (K - 1) + u0) * d_u + (kMargin + j - (K - 1) + v0) * kLanes,
                          weight + u0 * w_u + v0 * R, nullptr, sums);
        float* to = dx + c * plane + (std::ptrdiff_t{i} * width + j) * kLanes;
        for (int r = 0; r < R; ++r) {
          for (int p = 0; p < P; ++p) store(to + r * plane + p * kLanes, sums[r][p]);
        }
      };
      for (int i = 0; i < height; ++i) {
        int j = 0;
        for (; j + 2 <= width; j += 2) columns.template operator()<2>(i, j);
        if (j < width) columns.template operator()<1>(i, j);
      }
      weight += s.out * K * w_u;
    });
  }
}

// dweight[o][c][u][v] += sum over the lanes of sum over i, j of spread[o][i][j] * x[c][i + u][j + v], for O
// outputs and all v of a row of the kernel at once.
template <int O, int K>
INLINE void weight_rows(const ConvShape& s, const float* x, const float* spread, float* dweight) {
  const std::ptrdiff_t x_u = std::ptrdiff_t{s.width + K - 1} * kLanes, x_c = (s.height + K - 1) * x_u;
  const std::ptrdiff_t d_u = std::ptrdiff_t{s.width + 2 * kMargin} * kLanes, d_o = s.height * d_u;
  for (int c = 0; c < s.in; ++c) {
    for (int u = 0; u < K; ++u) {
      V acc[(O * K + 3) / 4 * 4] = {};
      for (int i = 0; i < s.height; ++i) {
        const float* at = x + c * x_c + (i + u) * x_u;
        const float* d = spread + i * d_u + kMargin * kLanes;
        for (int j = 0; j < s.width; ++j, at += kLanes, d += kLanes) {
          V gradient[O];
#pragma GCC unroll 8
          for (int o = 0; o < O; ++o) gradient[o] = load(d + o * d_o);
#pragma GCC unroll 8
          for (int v = 0; v < K; ++v) {
            const V value = load(at + v * kLanes);
#pragma GCC unroll 8
            for (int o = 0; o < O; ++o) acc[o * K + v] += gradient[o] * value;
          }
        }
      }
      float sums[(O * K + 3) / 4 * 4] = {};
#pragma GCC unroll 8
      for (int k = 0; k < O * K; k += 4) add_sums4(acc + k, sums + k);
      for (int o = 0; o < O; ++o) {
        float* to = dweight + ((std::ptrdiff_t{o} * s.in + c) * K + u) * K;
        for (int v = 0; v < K; ++v) to[v] += sums[o * K + v];
      }
    }
  }
}

template <int K>
static void weight_kernel(const ConvShape& s, int channels, const float* x, const float* spread,
                          float* dweight) {
  constexpr int kO = kSums / K > 4 ? 4 : kSums / K;
  const std::ptrdiff_t d_o = std::ptrdiff_t{s.height} * (s.width + 2 * kMargin) * kLanes;
  for (int o = 0, size; o < channels; o += size) {
    size = next_group(channels - o, kO);
    for_group<kO>(size, [&]<int O>() {
      weight_rows<O, K>(s, x, spread + o * d_o, dweight + std::ptrdiff_t{o} * s.in * K * K);
    });
  }
}

static void conv_backward_weight(const ConvShape& s, int channels, const float* x, const float* spread,
                                 float* dweight) {
  static_assert(kKernelMax == 7);
  switch (s.kernel) {
    case 1:
      return weight_kernel<1>(s, channels, x, spread, dweight);
    case 2:
      return weight_kernel<2>(s, channels, x, spread, dweight);
    case 3:
      return weight_kernel<3>(s, channels, x, spread, dweight);
    case 4:
      return weight_kernel<4>(s, channels, x, spread, dweight);
    case 5:
      return weight_kernel<5>(s, channels, x, spread, dweight);
    case 6:
      return weight_kernel<6>(s, channels, x, spread, dweight);
    case 7:
      return weight_kernel<7>(s, channels, x, spread, dweight);
    default:
      return;
  }
}

// M x N outputs of a Product at once, as in window_sums. The step of w from m to m is a constant if it is 1.
template <int M, int N, bool Contiguous>
__attribute__((noinline)) static void product_sums(const Product& it, const float* w, const float* x,
                                                   const float* first, V (&out)[M][N]) {
  const std::ptrdiff_t w_m = Contiguous ? 1 : it.w_m, w_c = it.w_c, x_c = it.x_c, x_n = it.x_n;
  V acc[M][N];
#pragma GCC unroll 16
  for (int r = 0; r < M; ++r) {
#pragma GCC unroll 8
    for (int q = 0; q < N; ++q) acc[r][q] = first == nullptr ? V{} : broadcast(first + r);
  }
  for (int c = it.c; c > 0; --c, w += w_c, x += x_c) {
    V value[N];
#pragma GCC unroll 8
    for (int q = 0; q < N; ++q) value[q] = load_any(x + q * x_n);
#pragma GCC unroll 16
    for (int r = 0; r < M; ++r) {
      const V factor = broadcast(w + r * w_m);
#pragma GCC unroll 8
      for (int q = 0; q < N; ++q) acc[r][q] += factor * value[q];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < M; ++r) {
#pragma GCC unroll 8
    for (int q = 0; q < N; ++q) out[r][q] = acc[r][q];
  }
}

template <int M, int N, bool Contiguous>
INLINE void product_tile(const Product& it, int m, int n) {
  V sums[M][N];
  product_sums<M, N, Contiguous>(it, it.w + m * (Contiguous ? 1 : it.w_m), it.x + n * it.x_n,
                                 it.start == nullptr ? nullptr : it.start + m, sums);
  for (int r = 0; r < M; ++r) {
    for (int q = 0; q < N; ++q) {
      const V value = it.relu ? positive_part(sums[r][q]) : sums[r][q];
      float* to = it.out + (m + r) * it.out_m + (n + q) * it.out_n;
      if (n + q + 1 == it.n && it.last < kLanes) {
        for (int k = 0; k < it.last; ++k) to[k] = value[k];
      } else {
        store_any(to, value);
      }
    }
  }
}

template <bool Contiguous>
static void product_loops(const Product& it) {
  const auto tile = [&](int m, int size, int n) {
    for_group<kGroup>(size, [&]<int M>() {
      if (n + 2 <= it.n) {
        product_tile<M, 2, Contiguous>(it, m, n);
      } else {
        product_tile<M, 1, Contiguous>(it, m, n);
      }
    });
  };
  if (it.n_outermost) {
    for (int n = 0; n < it.n; n += 2) {
      for (int m = 0, size; m < it.m; m += size) tile(m, size = next_group(it.m - m, kGroup), n);
    }
  } else {
    for (int m = 0, size; m < it.m; m += size) {
      size = next_group(it.m - m, kGroup);
      for (int n = 0; n < it.n; n += 2) tile(m, size, n);
    }
  }
}

static void product(const Product& it) { it.w_m == 1 ? product_loops<true>(it) : product_loops<false>(it); }

static void pack(const float* from, std::ptrdiff_t sample_stride, int samples, int count, float* to) {
  int k = 0;
  if (samples == kLanes) {
    for (; k + 8 <= count; k += 8) {
      for (int lane = 0; lane < kLanes; lane += 8) {
        transpose8(from + lane * sample_stride + k, sample_stride, to + k * kLanes + lane, kLanes);
      }
    }
  }
  for (; k < count; ++k) {
    for (int lane = 0; lane < kLanes; ++lane) {
      to[k * kLanes + lane] = lane < samples ? from[lane * sample_stride + k] : 0.0F;
    }
  }
}

static void unpack(const float* from, int samples, int count, float* to, std::ptrdiff_t sample_stride) {
  int k = 0;
  if (samples == kLanes) {
    for (; k + 8 <= count; k += 8) {
      for (int lane = 0; lane < kLanes; lane += 8) {
        transpose8(from + k * kLanes + lane, kLanes, to + lane * sample_stride + k, sample_stride);
      }
    }
  }
  for (; k < count; ++k) {
    for (int lane = 0; lane < samples; ++lane) to[lane * sample_stride + k] = from[k * kLanes + lane];
  }
}

static void relu(std::size_t count, const float* x, float* y) {
  for (std::size_t k = 0; k < count * kLanes; k += kLanes) store(y + k, positive_part(load(x + k)));
}

static void relu_backward(std::size_t count, const float* y, const float* dy, float* dx) {
  for (std::size_t k = 0; k < count * kLanes; k += kLanes)
    store(dx + k, load(y + k) > 0 ? load(dy + k) : V{});
}

const Kernels kKernels{kLanes,
                       kGroup,
                       pack,
                       unpack,
                       conv_forward,
                       conv_forward_pooled,
                       spread,
                       spread_pooled,
                       conv_backward_data,
                       conv_backward_weight,
                       product,
                       relu,
                       relu_backward};

#undef INLINE
