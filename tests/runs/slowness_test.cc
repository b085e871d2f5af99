#include "training/runs/experiment/slowness.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "tests/catch.h"

namespace starling::training {
namespace {

std::vector<double> draw_factors(const std::string& text, std::size_t count) {
  const auto slowness = Slowness::parse(text);
  REQUIRE(slowness.ok());
  std::vector<double> factors;
  const Random chance = chance_of_slowness(1, 2, 0);
  for (std::size_t step = 0; step < count; ++step) factors.push_back(slowness->of_step(chance, step));
  return factors;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value / static_cast<double>(values.size());
  return sum;
}

double share_above(const std::vector<double>& values, double limit) {
  const auto above = std::count_if(values.begin(), values.end(), [&](double value) { return value > limit; });
  return static_cast<double>(above) / static_cast<double>(values.size());
}

}  // namespace

TEST_CASE("a slowness reads back from its own text, and errors contain the valid forms") {
  for (const char* text : {"1", "10", "2.5", "exponential", "exponential:per=peer", "log-normal:sigma=1",
                           "log-normal:sigma=0.5,per=peer", "pareto:alpha=1.5", "pareto:alpha=2,per=peer"}) {
    INFO(text);
    const auto slowness = Slowness::parse(text);
    REQUIRE(slowness.ok());
    CHECK(slowness->text() == text);
    CHECK(*Slowness::parse(slowness->text()) == *slowness);
  }
  CHECK(Slowness::parse("log-normal:per=step,sigma=1")->text() == "log-normal:sigma=1");
  for (const char* text :
       {"", "0.5", "-1", "nan", "1e7", "normal", "exponential:", "exponential:sigma=1", "log-normal",
        "log-normal:sigma=0", "log-normal:sigma=", "log-normal:sigma=1,sigma=1", "pareto:alpha=-2",
        "pareto:alpha=2,per=swarm", "pareto:alpha=2,", "pareto:,alpha=2"}) {
    INFO(text);
    const auto slowness = Slowness::parse(text);
    REQUIRE_FALSE(slowness.ok());
    CHECK(slowness.error().message.find("'" + std::string(text) + "'") == 0);
    CHECK(slowness.error().message.find("exponential, log-normal:sigma=S or pareto:alpha=A, ") !=
          std::string::npos);
  }
}

TEST_CASE("steps with random slowness follow the named distributions") {
  constexpr std::size_t kDraws = 200'000;
  CHECK(draw_factors("3", 10) == std::vector<double>(10, 3));

  const auto exponential = draw_factors("exponential", kDraws);
  CHECK(mean(exponential) == Approx(1).epsilon(0.02));
  CHECK(share_above(exponential, 3) == Approx(std::exp(-3)).epsilon(0.05));

  const auto log_normal = draw_factors("log-normal:sigma=1", kDraws);
  CHECK(mean(log_normal) == Approx(std::exp(0.5)).epsilon(0.03));
  CHECK(share_above(log_normal, std::exp(1)) == Approx(0.15866).epsilon(0.03));

  const auto pareto = draw_factors("pareto:alpha=2", kDraws);
  CHECK(*std::min_element(pareto.begin(), pareto.end()) >= 1);
  CHECK(share_above(pareto, 5) == Approx(0.04).epsilon(0.05));

  for (const char* text : {"exponential", "log-normal:sigma=2", "pareto:alpha=1"}) {
    INFO(text);
    CHECK(share_above(draw_factors(text, kDraws), Slowness::parse(text)->median()) ==
          Approx(0.5).epsilon(0.02));
  }
}

TEST_CASE("random slowness depends only on seed, peer, place and step, or per peer") {
  const Slowness per_step = *Slowness::parse("log-normal:sigma=1");
  const Slowness per_peer = *Slowness::parse("log-normal:sigma=1,per=peer");
  std::set<double> steps, peers;
  for (std::uint32_t peer = 0; peer < 4; ++peer) {
    for (std::size_t place = 0; place < 2; ++place) {
      for (const std::uint64_t seed : {1, 2}) {
        const Random chance = chance_of_slowness(seed, peer, place);
        Random used = chance;
        used.bits();
        for (std::uint64_t step = 0; step < 10; ++step) {
          CHECK(per_step.of_step(chance, step) == per_step.of_step(used, step));
          steps.insert(per_step.of_step(chance, step));
          peers.insert(per_peer.of_step(chance, step));
        }
      }
    }
  }
  CHECK(steps.size() == 160);
  CHECK(peers.size() == 16);
}

}  // namespace starling::training
