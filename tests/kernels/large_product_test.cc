// The large products of every instruction set against sums in double.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/sequences/loops.h"
#include "tests/catch.h"
#include "tests/kernels/problems.h"

namespace starling::kernels {
namespace {

using cpu::sequences::all_loops;
using cpu::sequences::LargeProduct;
using cpu::sequences::Loops;

// A matrix whose rows, or whose columns, are contiguous, with a gap behind each.
struct Strided {
  int rows, columns;
  std::ptrdiff_t row, column;
  std::vector<float> values;

  Strided(Random& random, int row_count, int column_count) : rows(row_count), columns(column_count) {
    const bool turned = random.chance(0.5);
    const std::ptrdiff_t step = (turned ? rows : columns) + between(random, 0, 9);
    row = turned ? 1 : step;
    column = turned ? step : 1;
    values = random_values(random, static_cast<std::size_t>(step * (turned ? columns : rows)));
  }
  float& at(int i, int j) { return values[static_cast<std::size_t>(i * row + j * column)]; }
  double value(int i, int j) const { return values[static_cast<std::size_t>(i * row + j * column)]; }
};

// c = a b, with a gap behind each row, where it must write nothing.
class Result {
 public:
  Result(const Loops& loops, Random& random, const Strided& a, const Strided& b)
      : rows_(a.rows), columns_(b.columns), step_(columns_ + between(random, 0, 9)) {
    values_.assign(static_cast<std::size_t>(rows_ * step_), kGap);
    // NaNs, because it must not read what it has not written there.
    std::vector<float> room(LargeProduct::kRoom, NAN);
    loops.multiply_large({rows_, columns_, a.columns, a.values.data(), a.row, a.column, b.values.data(),
                          b.row, b.column, values_.data(), step_, room.data()});
    for (int i = 0; i < rows_; ++i) {
      for (auto j = columns_; j < step_; ++j)
        REQUIRE(values_[static_cast<std::size_t>(i * step_ + j)] == kGap);
    }
  }
  float at(int i, int j) const { return values_[static_cast<std::size_t>(i * step_ + j)]; }

 private:
  static constexpr float kGap = 7;
  int rows_, columns_;
  std::ptrdiff_t step_;
  std::vector<float> values_;
};

// Every result within kError units of 2^-24 |row of a| |column of b|. A plain sum of terms has up to 5.
constexpr double kError = 12;
void check_product(const Loops& loops, Random& random, const Strided& a, const Strided& b) {
  INFO(a.rows << " x " << b.columns << ", depth " << a.columns);
  const Result c(loops, random, a, b);
  for (int i = 0; i < a.rows; ++i) {
    for (int j = 0; j < b.columns; ++j) {
      double sum = 0, row = 0, column = 0;
      for (int k = 0; k < a.columns; ++k) {
        sum += a.value(i, k) * b.value(k, j);
        row += a.value(i, k) * a.value(i, k);
        column += b.value(k, j) * b.value(k, j);
      }
      const double error = std::abs(static_cast<double>(c.at(i, j)) - sum);
      if (error <= kError * std::ldexp(std::sqrt(row * column), -24)) continue;
      FAIL("element " << i << ", " << j << " is " << c.at(i, j) << ", not " << sum);
    }
  }
}
void check_product(const Loops& loops, Random& random, int rows, int columns, int depth) {
  check_product(loops, random, Strided(random, rows, depth), Strided(random, depth, columns));
}

template <class F>
void for_all_sets(const F& f) {
  for (const Loops* const* set = all_loops(); *set != nullptr; ++set) {
    INFO("instruction set " << set - all_loops());
    f(**set);
  }
}

}  // namespace

TEST_CASE("the loops of every instruction set compute large products alike") {
  Random random(213);
  for_all_sets([&](const Loops& loops) {
    for (int round = 0; round < 60; ++round)
      check_product(loops, random, between(random, 1, 40), between(random, 1, 70), between(random, 1, 90));
    for (int round = 0; round < 8; ++round)
      check_product(loops, random, between(random, 90, 220), between(random, 1, 40),
                    between(random, 300, 1200));
    // More than one part of b, in columns and in depth.
    check_product(loops, random, 7, 1557, 400);
    check_product(loops, random, 7, 789, 1537);
  });
}

TEST_CASE("large products are accurate for rows and columns of unlike sizes, and for values with a mean") {
  Random random(214);
  for_all_sets([&](const Loops& loops) {
    for (int round = 0; round < 12; ++round) {
      Strided a(random, between(random, 1, 40), between(random, 1, 500));
      Strided b(random, a.columns, between(random, 1, 70));
      for (int i = 0; i < a.rows; ++i) {
        const int exponent = between(random, -50, 50);
        for (int k = 0; k < a.columns; ++k) a.at(i, k) = std::ldexp(a.at(i, k), exponent);
      }
      for (int j = 0; j < b.columns; ++j) {
        const int exponent = between(random, -50, 50);
        const auto mean = static_cast<float>(between(random, 0, 3));
        for (int k = 0; k < b.rows; ++k) b.at(k, j) = std::ldexp(b.at(k, j) + mean, exponent);
      }
      check_product(loops, random, a, b);
    }
  });
}

TEST_CASE("a row or column of zeros makes zeros in a large product, and a NaN concerns only its own") {
  Random random(215);
  for_all_sets([&](const Loops& loops) {
    for (int round = 0; round < 20; ++round) {
      Strided a(random, between(random, 2, 40), between(random, 1, 500));
      Strided b(random, a.columns, between(random, 2, 70));
      const int zero_row = between(random, 0, a.rows - 1), zero_column = between(random, 0, b.columns - 1);
      const int lost_row = (zero_row + 1) % a.rows, lost_column = (zero_column + 1) % b.columns;
      for (int k = 0; k < a.columns; ++k) a.at(zero_row, k) = b.at(k, zero_column) = 0;
      a.at(lost_row, between(random, 0, a.columns - 1)) = NAN;
      b.at(between(random, 0, b.rows - 1), lost_column) = NAN;
      const Result c(loops, random, a, b);
      for (int i = 0; i < a.rows; ++i) {
        for (int j = 0; j < b.columns; ++j) {
          INFO("element " << i << ", " << j);
          const bool lost = i == lost_row || j == lost_column, zero = i == zero_row || j == zero_column;
          if (lost != std::isnan(c.at(i, j))) FAIL("a NaN is lost or spread");
          if (!lost && zero && c.at(i, j) != 0) FAIL(c.at(i, j));
        }
      }
    }
  });
}

}  // namespace starling::kernels
