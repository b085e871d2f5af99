#include "topologies/spectra/mixing.h"

#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/topologies/family.h"

namespace starling::topologies {
namespace {

using Rows = std::vector<std::vector<double>>;

Rows matrix_of(const Schedule& schedule, Mixing mixing, std::uint64_t round = 0) {
  const auto graph = Graph::of(schedule, round);
  REQUIRE(graph.ok());
  const auto w = mixing_matrix(*graph, mixing);
  if (!w) FAIL(w.error().message);
  const std::size_t n = schedule.peers();
  REQUIRE(w->nodes() == n);
  const auto whole = dense(*w);
  Rows rows(n);
  for (std::size_t i = 0; i < n; ++i) {
    rows[i].assign(whole.begin() + static_cast<std::ptrdiff_t>(i * n),
                   whole.begin() + static_cast<std::ptrdiff_t>((i + 1) * n));
    for (std::size_t k = w->begin[i] + 1; k < w->begin[i + 1]; ++k) REQUIRE(w->from[k - 1] < w->from[k]);
  }
  return rows;
}

bool is_one(double value) { return std::abs(value - 1) < 1e-12; }

void check_sums(const Rows& w, bool rows, bool columns) {
  for (std::size_t i = 0; i < w.size(); ++i) {
    double row = 0, column = 0;
    for (std::size_t j = 0; j < w.size(); ++j) {
      REQUIRE(w[i][j] >= -1e-15);
      row += w[i][j];
      column += w[j][i];
    }
    if (rows) REQUIRE(is_one(row));
    if (columns) REQUIRE(is_one(column));
  }
}

Schedule weighted_path() {  // 0 -2- 1 -0.5- 2
  return Schedule(3, {.weights = Weights::relative}, [](std::uint32_t i, std::uint64_t) {
    if (i == 0) return Links{{1, 2}};
    if (i == 1) return Links{{0, 2}, {2, 0.5}};
    return Links{{1, 0.5}};
  });
}

Schedule four_arcs() {  // 0 -> 1, 0 -> 2, 1 -> 2, 2 -> 0
  return Schedule(3, {.directed = true}, [](std::uint32_t i, std::uint64_t) {
    if (i == 0) return Links{{1}, {2}};
    if (i == 1) return Links{{2}};
    return Links{{0}};
  });
}

}  // namespace

TEST_CASE("metropolis and lazy are symmetric and doubly stochastic on every undirected family") {
  for (const std::string& name : all_families()) {
    for (const std::uint32_t n : {1u, 2u, 7u, 16u}) {
      const auto schedule = named(name).among(n);
      if (schedule.directed()) continue;
      CAPTURE(name, n);
      for (std::uint64_t round = 0; round < schedule.period(); ++round) {
        for (const Mixing mixing : {Mixing::metropolis, Mixing::lazy}) {
          const Rows w = matrix_of(schedule, mixing, round);
          check_sums(w, true, true);
          for (std::size_t i = 0; i < n; ++i)
            for (std::size_t j = 0; j < i; ++j) REQUIRE(w[i][j] == w[j][i]);
          if (mixing == Mixing::lazy)
            for (std::size_t i = 0; i < n; ++i) REQUIRE(w[i][i] >= 0.5);
        }
      }
    }
  }
}

TEST_CASE("metropolis weights are 1 / (1 + the larger degree), and lazy ones half of that") {
  const auto star = named("star").among(4);
  const Rows w = matrix_of(star, Mixing::metropolis);
  REQUIRE(w[0][1] == 0.25);
  REQUIRE(is_one(w[0][0] * 4));
  REQUIRE(is_one(w[1][1] / 0.75));
  REQUIRE(matrix_of(star, Mixing::lazy)[0][1] == 0.125);
  REQUIRE(is_one(matrix_of(star, Mixing::lazy)[1][1] / 0.875));
}

TEST_CASE("relative weights are used instead of degrees") {
  const Rows w = matrix_of(weighted_path(), Mixing::metropolis);  // strengths 2, 2.5, 0.5
  check_sums(w, true, true);
  REQUIRE(is_one(w[0][1] / (2 / 3.5)));
  REQUIRE(is_one(w[1][2] / (0.5 / 3.5)));
  REQUIRE(w[0][2] == 0);
  const Rows own = matrix_of(weighted_path(), Mixing::uniform);
  check_sums(own, true, false);
  REQUIRE(is_one(own[0][1] / (2 / 3.0)));
  REQUIRE(is_one(own[1][2] / (0.5 / 3.5)));
  REQUIRE(is_one(own[2][2] / (1 / 1.5)));
}

TEST_CASE("uniform mixing takes the mean of a peer and its neighbors") {
  const Rows w = matrix_of(four_arcs(), Mixing::uniform);
  check_sums(w, true, false);
  REQUIRE(is_one(3 * w[0][0]));
  REQUIRE(is_one(3 * w[0][1]));
  REQUIRE(is_one(3 * w[0][2]));
  REQUIRE((w[1][1] == 0.5 && w[1][2] == 0.5 && w[1][0] == 0));
  REQUIRE((w[2][2] == 0.5 && w[2][0] == 0.5));
}

TEST_CASE("a column of push-sum's matrix divides the sender's mass among itself and its receivers") {
  const Rows w = matrix_of(four_arcs(), Mixing::push_sum);
  check_sums(w, false, true);
  for (std::size_t receiver = 0; receiver < 3; ++receiver) REQUIRE(is_one(3 * w[receiver][0]));
  REQUIRE((w[1][1] == 0.5 && w[2][1] == 0.5 && w[0][1] == 0));
  REQUIRE((w[2][2] == 0.5 && w[0][2] == 0.5));
}

TEST_CASE("a family's own matrix is used unchanged, and it is doubly stochastic") {
  for (const char* name : {"base:k=1", "base:k=2"}) {
    const auto schedule = named(name).among(12);
    REQUIRE(default_mixing(schedule) == Mixing::given);
    for (std::uint64_t round = 0; round < schedule.period(); ++round) {
      const Rows w = matrix_of(schedule, Mixing::given, round);
      check_sums(w, true, true);
      for (std::uint32_t i = 0; i < 12; ++i)
        for (const Link& link : schedule.links(i, round)) REQUIRE(w[i][link.peer] == link.weight);
    }
  }
}

TEST_CASE("a mixing without a matrix for the graph is an error") {
  const auto graph = Graph::of(four_arcs());
  for (const Mixing mixing : {Mixing::metropolis, Mixing::lazy}) {
    const auto w = mixing_matrix(*graph, mixing);
    REQUIRE_FALSE(w.ok());
    REQUIRE(contains(w.error().message, "push-sum"));
  }
  REQUIRE_FALSE(mixing_matrix(*graph, Mixing::given).ok());
}

TEST_CASE("mixings are parsed by name, and an unknown name lists them") {
  for (const char* name : {"metropolis", "uniform", "lazy", "push-sum"})
    REQUIRE(to_string(*parse_mixing(name)) == name);
  for (const char* name : {"given", "", "Lazy"}) {
    REQUIRE_FALSE(parse_mixing(name).ok());
    REQUIRE(contains(parse_mixing(name).error().message, "push-sum"));
  }
}

TEST_CASE("the sparse product equals the dense product") {
  const auto w = *mixing_matrix(*Graph::of(named("exponential").among(13)), Mixing::metropolis);
  const auto whole = dense(w);
  Random random(2);
  std::vector<double> x(13), y(13);
  for (double& v : x) v = random.normal();
  multiply(w, x, y);
  for (std::size_t i = 0; i < 13; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < 13; ++j) sum += whole[i * 13 + j] * x[j];
    REQUIRE(std::abs(sum - y[i]) < 1e-14);
  }
}

}  // namespace starling::topologies
