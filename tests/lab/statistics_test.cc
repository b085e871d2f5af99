#include "lab/report/statistics.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "lab/report/report.h"
#include "tests/catch.h"

namespace starling::lab {
namespace {

bool within(double a, double b, double tolerance) { return std::abs(a - b) <= tolerance; }

// Log-normal times with a known median. Shares nothing with the program: the standard's Mersenne twister, and
// normal values by Box and Muller (Annals of Mathematical Statistics 29, 1958).
class LogNormalTimes {
 public:
  explicit LogNormalTimes(std::uint64_t seed) : bits_(seed) {}
  double draw(double median, double sigma) {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return median * std::exp(sigma * radius * std::cos(2 * M_PI * uniform()));
  }

 private:
  double uniform() { return (static_cast<double>(bits_() >> 11) + 0.5) / 0x1p53; }
  std::mt19937_64 bits_;
};

bool contains_value(const std::optional<Interval95>& interval, double value) {
  return interval && interval->low <= value && value <= interval->high;
}

constexpr int kMadeUpSweeps = 1000, kSeedsOfSweep = 5;

// A run that reaches 80 % after `seconds`, with an evaluation every tenth of `median`.
ReportRun run_with(const std::string& rule, std::uint64_t seed, double seconds, double median) {
  ReportRun run;
  run.name = "made-up";
  run.mode = "simulate";
  run.seed = seed;
  run.settings = {{"gossip.rule", rule}};
  const double tau = seconds / std::log(0.9 / 0.1);
  for (double t = median / 10; run.looks.empty() || run.looks.back().accuracy < 0.8; t += median / 10)
    run.looks.push_back({t, 0.9 * (1 - std::exp(-t / tau))});
  run.target = 0.8;
  run.seconds_to_target = run.looks.back().seconds;
  return run;
}

}  // namespace

// Quantiles from tables, such as NIST's handbook of statistics, section 1.3.6.7.2.
TEST_CASE("Student's t has the quantiles of the tables") {
  CHECK(within(student_t_quantile(0.975, 1), 12.706, 5e-4));
  CHECK(within(student_t_quantile(0.975, 2), 4.303, 5e-4));
  CHECK(within(student_t_quantile(0.975, 4), 2.776, 5e-4));
  CHECK(within(student_t_quantile(0.95, 10), 1.812, 5e-4));
  CHECK(within(student_t_quantile(0.975, 30), 2.042, 5e-4));
  CHECK(within(student_t_quantile(0.975, 1e6), 1.95996, 1e-4));
  CHECK(within(student_t_quantile(0.025, 4), -2.776, 5e-4));
  // In closed form: tan(pi (p - 1/2)) with one degree, and with two.
  for (const double p : {0.6, 0.9, 0.999}) {
    CHECK(within(student_t_quantile(p, 1) / std::tan(M_PI * (p - 0.5)), 1, 1e-9));
    CHECK(within(student_t_quantile(p, 2) / ((2 * p - 1) * std::sqrt(1 / (2 * p * (1 - p)))), 1, 1e-9));
  }
}

TEST_CASE("the spread of some values is their median, range, mean and its confidence interval") {
  // By hand: mean 10.25, deviation sqrt(1.4225 / 3) = 0.68860, over sqrt(4), times 3.18245.
  const std::vector<double> values = {10.9, 9.3, 10.2, 10.6};
  const auto spread = spread_of(values);
  REQUIRE(spread.has_value());
  CHECK(within(spread->median, 10.4, 1e-12));
  CHECK(spread->least == 9.3);
  CHECK(spread->most == 10.9);
  CHECK(within(spread->mean, 10.25, 1e-12));
  REQUIRE(spread->interval.has_value());
  double squares = 0;
  for (const double value : values) squares += (value - 10.25) * (value - 10.25);
  const double half = 3.182446 * std::sqrt(squares / 3 / 4);
  CHECK(within(spread->interval->low, 10.25 - half, 1e-5));
  CHECK(within(spread->interval->high, 10.25 + half, 1e-5));

  const std::vector<double> one = {3};
  CHECK_FALSE(spread_of(one)->interval.has_value());
  CHECK_FALSE(spread_of(std::vector<double>()).has_value());
}

TEST_CASE("a speed-up is the ratio of geometric means, with Welch's interval on the logarithms") {
  const std::vector<double> slow = {8, 8, 2}, fast = {2, 4, 1};
  const auto result = speedup(slow, fast);
  REQUIRE(result.has_value());
  CHECK(within(result->factor, std::cbrt(128.0) / std::cbrt(8.0), 1e-12));
  // In units of log 2 the logarithms are 3 3 1 and 1 2 0: means 7/3 and 1, variances of the means 4/9 and
  // 1/3.
  const double variance = 4.0 / 9 + 1.0 / 3;
  const double degrees = variance * variance / (16.0 / 81 / 2 + 1.0 / 9 / 2);
  const double half = student_t_quantile(0.975, degrees) * std::sqrt(variance);
  REQUIRE(result->interval.has_value());
  CHECK(within(std::log2(result->interval->low), 4.0 / 3 - half, 1e-9));
  CHECK(within(std::log2(result->interval->high), 4.0 / 3 + half, 1e-9));

  const std::vector<double> one = {4}, zero = {0}, none = {};
  CHECK(speedup(one, one)->factor == 1);
  CHECK_FALSE(speedup(one, fast)->interval.has_value());
  CHECK_FALSE(speedup(one, zero).has_value());
  CHECK_FALSE(speedup(none, one).has_value());
}

TEST_CASE("a speed-up of pairs has Student's interval on their ratios, narrower where seeds matter") {
  const std::vector<double> slow = {8, 32, 64}, fast = {4, 8, 32};
  const auto paired = paired_speedup(slow, fast), unpaired = speedup(slow, fast);
  REQUIRE(paired.has_value());
  CHECK(within(paired->factor, unpaired->factor, 1e-12));
  // In units of log 2 the ratios are 1 2 1: mean 4/3, variance of the mean 1/9.
  const double half = student_t_quantile(0.975, 2) / 3;
  REQUIRE(paired->interval.has_value());
  CHECK(within(std::log2(paired->interval->low), 4.0 / 3 - half, 1e-9));
  CHECK(within(std::log2(paired->interval->high), 4.0 / 3 + half, 1e-9));
  CHECK(paired->interval->low > unpaired->interval->low);
  CHECK_FALSE(paired_speedup(slow, slow)->interval.has_value());
  CHECK_FALSE(paired_speedup({}, {}).has_value());
}

TEST_CASE("the spread of times has the geometric mean and an interval above 0") {
  const std::vector<double> values = {1, 4, 16};
  const auto spread = log_spread_of(values);
  REQUIRE(spread.has_value());
  CHECK(spread->median == 4);
  CHECK(within(spread->mean, 4, 1e-12));
  REQUIRE(spread->interval.has_value());
  // In units of log 4: 0 1 2, deviation 1.
  CHECK(within(std::log(spread->interval->high / 4) / std::log(4), 4.302653 / std::sqrt(3), 1e-6));
  CHECK(within(spread->interval->low * spread->interval->high, 16, 1e-9));
  CHECK(spread->interval->low > 0);
  CHECK_FALSE(log_spread_of(std::vector<double>{1, 0}).has_value());
  CHECK_FALSE(log_spread_of(std::vector<double>()).has_value());
}

TEST_CASE("equal values have no interval, because their spread is not known") {
  const std::vector<double> same = {0.1, 0.1, 0.1}, other = {0.2, 0.3};
  CHECK_FALSE(spread_of(same)->interval.has_value());
  CHECK_FALSE(log_spread_of(same)->interval.has_value());
  CHECK_FALSE(speedup(same, same)->interval.has_value());
  CHECK(speedup(same, other)->interval.has_value());
}

TEST_CASE("of 1,000 sweeps with 5 seeds, the intervals of 93 to 97 % contain the true median and speed-up") {
  // Deviations of the logarithms, of two kinds of run.
  for (const auto& [sigma, other_sigma] : {std::pair{0.3, 0.3}, {0.2, 0.6}, {1.5, 1.0}}) {
    LogNormalTimes times(2024);
    int medians = 0, speedups = 0;
    for (int sweep = 0; sweep < kMadeUpSweeps; ++sweep) {
      std::vector<double> slow, fast;
      for (int seed = 0; seed < kSeedsOfSweep; ++seed) {
        slow.push_back(times.draw(12, sigma));
        fast.push_back(times.draw(3, other_sigma));
      }
      medians += contains_value(log_spread_of(slow)->interval, 12) ? 1 : 0;
      speedups += contains_value(speedup(slow, fast)->interval, 4) ? 1 : 0;
    }
    CAPTURE(sigma, other_sigma, medians, speedups);
    CHECK((medians >= 930 && medians <= 970));
    CHECK((speedups >= 930 && speedups <= 970));
  }
}

TEST_CASE("the same holds for times between the evaluations of runs, with their own target or another") {
  for (const bool own_target : {true, false}) {
    LogNormalTimes times(7);
    int medians = 0, speedups = 0;
    for (int sweep = 0; sweep < kMadeUpSweeps; ++sweep) {
      Report report;
      for (std::uint64_t seed = 1; seed <= kSeedsOfSweep; ++seed) {
        report.runs.push_back(run_with("d-psgd", seed, times.draw(12, 0.05), 12));
        report.runs.push_back(run_with("pairwise", seed, times.draw(3, 0.05), 3));
      }
      ReportOptions options;
      if (!own_target) options.target = 0.8;
      REQUIRE(tabulate(report, options).ok());
      REQUIRE(report.groups.size() == 2);
      CHECK_FALSE(report.groups[0].speedup.has_value());
      medians += contains_value(report.groups[0].seconds_to_target->interval, 12) ? 1 : 0;
      speedups += contains_value(report.groups[1].speedup->interval, 4) ? 1 : 0;
    }
    CAPTURE(own_target, medians, speedups);
    CHECK((medians >= 930 && medians <= 970));
    CHECK((speedups >= 930 && speedups <= 970));
  }
}

TEST_CASE("an interval is within what the quantity can be") {
  const std::vector<double> accuracies = {0.9, 1, 1}, losses = {0.01, 0.02, 0.5};
  const auto free = spread_of(accuracies), limited = spread_of(accuracies, {.least = 0, .most = 1});
  CHECK(free->interval->high > 1);
  CHECK(limited->interval->high == 1);
  CHECK(limited->interval->low == free->interval->low);
  CHECK(limited->mean == free->mean);
  CHECK(spread_of(losses)->interval->low < 0);
  CHECK(spread_of(losses, {.least = 0})->interval->low == 0);
}

}  // namespace starling::lab
