// The loops over channels for every instruction set of this processor, and their formats.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/channels/layout.h"
#include "kernels/cpu/formats/format.h"
#include "kernels/cpu/onednn/version.h"
#include "tests/catch.h"
#include "tests/kernels/near.h"
#include "tests/kernels/run.h"

namespace starling::kernels::cpu::channels {
namespace {

struct RunCase {
  Run run;
  std::size_t floats;
};
RunCase draw_run(Random& random) {
  Run run{static_cast<int>(random.below(20)), kRow, kRow, 0};
  if (random.chance(0.3)) run.lanes = 1 + static_cast<int>(random.below(16));
  run.step += static_cast<std::ptrdiff_t>(random.below(2) * random.below(40));
  if (random.chance(0.5)) run.tail = static_cast<int>(random.below(16));
  const std::ptrdiff_t sample = (run.rows + 1) * run.step;
  run.samples = 1 + static_cast<int>(random.below(4));
  run.sample_step = sample + static_cast<std::ptrdiff_t>(random.below(9));
  return {run, static_cast<std::size_t>(run.samples * run.sample_step)};
}

// Calls f(offset, position) for every float of the run.
template <class F>
void for_floats(const Run& run, const F& f) {
  for (int n = 0; n < run.samples; ++n) {
    for (int row = 0; row <= run.rows; ++row) {
      const int count = row < run.rows ? run.lanes : run.tail;
      for (int place = 0; place < count; ++place) {
        f(static_cast<std::size_t>(n * run.sample_step + row * run.step + place),
          static_cast<std::size_t>(place));
      }
    }
  }
}

using Values = std::vector<float>;

void check_equal(const Values& actual, const Values& expected, double tolerance = 1e-5) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!near(actual[i], expected[i], tolerance))
      FAIL("float " << i << " is " << actual[i] << ", not " << expected[i]);
  }
}

// Every format of activations.
std::vector<memory::desc> formats(const Shape& shape) {
  using tag = memory::format_tag;
  std::vector<memory::desc> list;
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const tag it : {tag::abcd, tag::acdb, tag::aBcd16b, tag::aBcd8b, tag::aBcd4b})
      list.emplace_back(image_dims(shape), type, it);
    const memory::dim image = shape.channels, column = shape.batch * image, row = shape.width * column;
    list.emplace_back(image_dims(shape), type,
                      memory::dims{image, 1, row, column});  // interleaved images per pixel
  }
  return list;
}

}  // namespace

namespace {

// Converts values to T and back.
template <class T>
std::vector<T> stored_as(const Values& values) {
  std::vector<T> out(values.size());
  std::transform(values.begin(), values.end(), out.begin(), [](float value) {
    if constexpr (std::is_same_v<T, float>) {
      return value;
    } else {
      return T::round(value);
    }
  });
  return out;
}
template <class T>
Values floats_of(const std::vector<T>& values) {
  Values out(values.size());
  std::transform(values.begin(), values.end(), out.begin(), [](T value) {
    if constexpr (std::is_same_v<T, float>) {
      return value;
    } else {
      return value.value();
    }
  });
  return out;
}

template <class T>
void check_row_loops(double tolerance) {
  Random random(51);
  for (int round = 0; round < 150; ++round) {
    const auto [run, size] = draw_run(random);
    const std::vector<T> stored_x = stored_as<T>(random_values(random, size));
    const std::vector<T> stored_dy = stored_as<T>(random_values(random, size));
    const Values x = floats_of(stored_x), dy = floats_of(stored_dy);
    const Values origin = random_values(random, kRow), a = random_values(random, kRow),
                 b = random_values(random, kRow);
    const Values p = random_values(random, kRow), q = random_values(random, kRow),
                 r = random_values(random, kRow);
    const Affine map{origin.data(), a.data(), b.data(), random.chance(0.5)};
    Values moments(2 * kRow, 1), sums(2 * kRow, 1), y(size, 9), dx(size, 9), filled(size, 9);
    for_floats(run, [&](std::size_t i, std::size_t k) {
      const float off = x[i] - origin[k], result = off * a[k] + b[k];
      const float d = map.relu && result <= 0 ? 0 : dy[i];
      moments[k] += off;
      moments[kRow + k] += off * off;
      y[i] = map.relu ? std::max(result, 0.0F) : result;
      sums[k] += d;
      sums[kRow + k] += d * off;
      dx[i] = p[k] * d + q[k] * off + r[k];
      filled[i] = p[k];
    });
    for (const Loops* const* all = all_loops(); *all != nullptr; ++all) {
      INFO("round " << round << ", instruction set " << all - all_loops());
      const RowLoops<T>& loops = (*all)->rows<T>();
      Values actual_moments(2 * kRow, 1), actual_sums(2 * kRow, 1);
      loops.moments(run, stored_x.data(), origin.data(), actual_moments.data());
      check_equal(actual_moments, moments, 1e-5);
      loops.gradient_sums(run, stored_x.data(), stored_dy.data(), map, actual_sums.data());
      check_equal(actual_sums, sums, 1e-5);
      const auto check_written = [&](const Values& expected, const auto& write) {
        std::vector<T> out = stored_as<T>(Values(size, 9));
        write(out.data());
        check_equal(floats_of(out), expected, tolerance);
      };
      check_written(y, [&](T* out) { loops.affine(run, stored_x.data(), map, out); });
      check_written(dx, [&](T* out) {
        loops.gradient(run, stored_x.data(), stored_dy.data(), map, p.data(), q.data(), r.data(), out);
      });
      check_written(filled, [&](T* out) { loops.fill(run, p.data(), out); });
    }
  }
}

}  // namespace

TEST_CASE("the loops of every instruction set are correct and write nothing else") {
  check_row_loops<float>(1e-5);
}

TEST_CASE("the bfloat16 loops give the same results, rounded") { check_row_loops<Bfloat16>(0x1p-8); }

TEST_CASE("the loops round like Bfloat16, including infinities and NaNs") {
  Random random(54);
  const float zeros[kRow] = {}, ones[kRow] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  for (const Loops* const* all = all_loops(); *all != nullptr; ++all) {
    for (int round = 0; round < 2000; ++round) {
      alignas(64) float row[kRow];
      for (float& value : row) value = std::bit_cast<float>(static_cast<std::uint32_t>(random.bits()));
      if (round % 10 == 0) row[3] = std::numeric_limits<float>::quiet_NaN();
      if (round % 10 == 1) row[3] = -std::numeric_limits<float>::infinity();
      if (round % 10 == 2) row[3] = std::bit_cast<float>(0x7fffffffU);
      Bfloat16 out[kRow];
      const Run run{1, kRow, kRow, 0};
      (*all)->bf16.fill(run, row, out);
      for (std::size_t i = 0; i < kRow; ++i) {
        if (out[i].bits != Bfloat16::round(row[i]).bits) FAIL(row[i] << " became " << out[i].value());
      }
      // They also read the same values.
      float sums[2 * kRow] = {};
      (*all)->bf16.gradient_sums(run, out, out, {zeros, ones, zeros, false}, sums);
      for (std::size_t i = 0; i < kRow; ++i) {
        if (std::isnan(out[i].value()) ? !std::isnan(sums[i]) : sums[i] != out[i].value())
          FAIL(i << " is misread");
      }
    }
  }
}

TEST_CASE("the vector loops are correct on every instruction set") {
  Random random(52);
  for (int n = 1; n < 100; n += 1 + n / 20) {
    const auto size = static_cast<std::size_t>(n);
    const Values x = random_values(random, size), dy = random_values(random, size);
    const Values scale = random_values(random, size), shift = random_values(random, size);
    const float origin = 0.3F, factor = 1.7F, p = 0.4F, q = -0.6F, r = 0.2F;
    Values y(size), dscale(size, 1), dshift(size, 1), dx(size), sums(2, 0), moments(3, 0);
    for (std::size_t i = 0; i < size; ++i) {
      const float off = x[i] - origin, g = scale[i] * dy[i];
      y[i] = off * factor * scale[i] + shift[i];
      dscale[i] += dy[i] * off * factor;
      dshift[i] += dy[i];
      moments[0] += x[i] / static_cast<float>(n);
      moments[1] += off;
      moments[2] += off * off;
      sums[0] += g;
      sums[1] += g * off;
      dx[i] = p * g + q * off + r;
    }
    for (const Loops* const* loops = all_loops(); *loops != nullptr; ++loops) {
      INFO(n << " features, instruction set " << loops - all_loops());
      Values out(size), actual_dscale(size, 1), actual_dshift(size, 1);
      const VectorLoops& vectors = (*loops)->vectors;
      const auto [first, second] = vectors.moments(n, x.data(), origin);
      check_equal({vectors.mean(n, x.data()), first, second}, moments);
      vectors.affine(n, x.data(), origin, factor, scale.data(), shift.data(), out.data());
      check_equal(out, y);
      const auto [g, g_off] = vectors.gradient_sums(n, x.data(), dy.data(), origin, factor, scale.data(),
                                                    actual_dscale.data(), actual_dshift.data());
      check_equal({g, g_off}, sums);
      check_equal(actual_dscale, dscale);
      check_equal(actual_dshift, dshift);
      vectors.gradient(n, x.data(), dy.data(), origin, scale.data(), p, q, r, out.data());
      check_equal(out, dx);
    }
  }
}

namespace {

// Values that bfloat16 represents exactly.
Values representable(const Values& values) { return floats_of(stored_as<Bfloat16>(values)); }

}  // namespace

TEST_CASE("an operation's values and gradients do not depend on the input's format") {
  Random random(53);
  const auto on = cpu::make_backend(Precision::f32, cpu::Choice::onednn);
  for (int round = 0; round < 60; ++round) {
    const int channels = round % 3 == 0 ? 32 : 1 + static_cast<int>(random.below(37));
    const Shape shape{4 + static_cast<int>(random.below(6)), channels, 1 + static_cast<int>(random.below(7)),
                      1 + static_cast<int>(random.below(7))};
    const auto c = static_cast<std::size_t>(channels);
    const OperationSpec specs[] = {BatchNormSpec{0, c, 2 * c, 3 * c, 1e-3F},
                                   ReluSpec{},
                                   GroupNormSpec{channels % 2 == 0 ? 2 : 1, 0, c, 1e-3F},
                                   DropoutSpec{0.4F, random.bits()},
                                   GeluSpec{},
                                   GlobalAveragePoolSpec{}};
    const Values parameters = random_values(random, 4 * c, 0.5, 1.5),
                 x = representable(random_values(random, shape.size()));
    for (std::size_t i = 0; i < std::size(specs); ++i) {
      const auto rest = std::span(specs).subspan(i, i == 0 ? 2 : 1);
      const Values dy = representable(random_values(random, output_shape(specs[i], shape).size()));
      const auto outcome = [&](const Backend& by, const Activation& input) {
        Chain chain(by, host_queue(), rest, input);
        by.pack(host_queue(), input, x.data(), chain.x().data());
        Outcome result;
        result.gradient.assign(4 * c, 7.0F);
        chain.forward(parameters.data());
        by.pack(host_queue(), chain.output(), dy.data(), chain.dy().data());
        chain.backward(parameters.data(), result.gradient.data());
        // Block padding must be zero.
        result.y = unpack(by, host_queue(), chain.output(), chain.y());
        Values again(chain.output().floats);
        by.pack(host_queue(), chain.output(), result.y.data(), again.data());
        CHECK(again == Values(chain.y().data(), chain.y().data() + again.size()));
        result.dx = unpack(by, host_queue(), input, chain.dx());
        again.assign(input.floats, 0);
        by.pack(host_queue(), input, result.dx.data(), again.data());
        CHECK(again == Values(chain.dx().data(), chain.dx().data() + again.size()));
        return result;
      };
      const Outcome expected = outcome(*backend("reference"), plain_activation(shape));
      int format = 0;
      for (const memory::desc& it : formats(shape)) {
        INFO("round " << round << ", spec " << i << ", format " << format++ << ", " << channels
                      << " channels, " << shape.height << "x" << shape.width);
        const Activation input = activation(shape, it);
        if (i == 4 && is_bf16(input) && !cpu::has_bf16()) continue;  // oneDNN has no GELU for it then
        const double tolerance = is_bf16(input) ? 0.03 : 1e-4;
        if (i != 4) CHECK(layout_of(input).has_value());
        const Outcome actual = outcome(*on, input);
        check_equal(actual.y, expected.y, tolerance);
        check_equal(actual.dx, expected.dx, tolerance);
        check_equal(actual.gradient, expected.gradient, tolerance);
      }
    }
  }
}

}  // namespace starling::kernels::cpu::channels
