// DiLoCo's outer step, compared with an exact mean and Nesterov's momentum in double.
#include "training/mixing/rules/diloco.h"

#include <cmath>

#include "tests/training/mixers.h"
#include "tests/training/near.h"

namespace starling::training {
namespace {

// The peers of a run: each has the bytes that the others send, and computes for itself.
class DilocoPeers {
 public:
  DilocoPeers(std::span<const float> first, std::size_t trained, std::uint32_t n, const MixOptions& options)
      : n_(n), replicas(n, std::vector<float>(first.begin(), first.end())) {
    for (std::uint32_t i = 0; i < n; ++i) sides_.emplace_back(first, trained, n, options);
  }

  void meet(std::uint64_t round) {
    const std::size_t bytes = sides_.front().part_bytes(round);
    std::vector<Room> changes;
    for (std::uint32_t i = 0; i < n_; ++i) {
      changes.emplace_back(n_ * bytes);
      sides_[i].encode_changes(round, i, replicas[i], changes.back().bytes());
    }
    Room means(n_ * bytes);
    for (std::uint32_t owner = 0; owner < n_; ++owner) {
      Room received(n_ * bytes);
      for (std::size_t i = 0; i < n_; ++i)
        std::copy_n(changes[i].bytes().begin() + static_cast<std::ptrdiff_t>(owner * bytes), bytes,
                    received.bytes().begin() + static_cast<std::ptrdiff_t>(i * bytes));
      sides_[owner].average(round, owner, received.bytes(), means.bytes().subspan(owner * bytes, bytes));
    }
    for (std::uint32_t i = 0; i < n_; ++i) {
      sides_[i].step(round, means.bytes());
      const auto [offset, floats] = sides_[i].fragment(round);
      std::copy_n(sides_[i].outer().begin() + static_cast<std::ptrdiff_t>(offset), floats,
                  replicas[i].begin() + static_cast<std::ptrdiff_t>(offset));
    }
  }

 private:
  std::uint32_t n_;
  std::vector<Diloco> sides_;

 public:
  std::vector<std::vector<float>> replicas;
};

MixOptions diloco_options(Payload payload, std::uint32_t fragments = 1) {
  MixOptions options;
  options.rule = Rule::diloco;
  options.payload = payload;
  options.outer_momentum = 0.9;
  options.fragments = fragments;
  options.cell_floats = 32;
  return options;
}

// phi after rounds in which each peer moved by random vectors: the definition, in double.
struct ExactOuterStep {
  std::vector<double> phi, m;
  void round(const std::vector<std::vector<float>>& replicas, std::size_t begin, std::size_t end,
             std::size_t trained) {
    for (std::size_t k = begin; k < end; ++k) {
      double mean = 0;
      for (const auto& replica : replicas)
        mean += (wide(replica[k]) - phi[k]) / static_cast<double>(replicas.size());
      if (k >= trained) {
        phi[k] += mean;
        continue;
      }
      m[k] = 0.9 * m[k] + mean;
      phi[k] += 0.7 * (mean + 0.9 * m[k]);
    }
  }
};

}  // namespace

TEST_CASE("diloco averages exactly and steps with Nesterov momentum, with the same bits on all peers") {
  for (const std::uint32_t fragments : {1, 3}) {
    Random random(fragments);
    constexpr std::size_t kFloats = 300, kTrained = 290;
    const auto first = random_values(random, kFloats);
    DilocoPeers peers(first, kTrained, 5, diloco_options(Payload::f32, fragments));
    ExactOuterStep definition{std::vector<double>(first.begin(), first.end()), std::vector<double>(kFloats)};
    const CellGrid grid{kFloats, 32};
    for (std::uint64_t round = 0; round < 12; ++round) {
      for (auto& replica : peers.replicas)
        for (float& x : replica) x += static_cast<float>(0.1 * random.normal());
      const Cells cells = grid.part(round % fragments, fragments);
      const std::size_t begin = grid.offset(cells.first), end = begin + grid.floats(cells);
      definition.round(peers.replicas, begin, end, kTrained);
      peers.meet(round);
      for (const auto& replica : peers.replicas) {
        for (std::size_t k = begin; k < end; ++k) {
          REQUIRE(near(wide(replica[k]), definition.phi[k], 1e-5));
          REQUIRE(replica[k] == peers.replicas[0][k]);
        }
      }
    }
  }
}

TEST_CASE("peers of diloco that learn the same are one peer") {
  Random random(3);
  const auto first = random_values(random, 100);
  DilocoPeers one(first, 100, 1, diloco_options(Payload::f32)),
      three(first, 100, 3, diloco_options(Payload::f32));
  for (std::uint64_t round = 0; round < 5; ++round) {
    const auto change = random_values(random, 100);
    for (DilocoPeers* peers : {&one, &three})
      for (auto& replica : peers->replicas)
        for (std::size_t k = 0; k < 100; ++k) replica[k] += change[k];
    one.meet(round);
    three.meet(round);
    REQUIRE(three.replicas[2] == one.replicas[0]);
  }
}

TEST_CASE("with bf16 and int8 diloco rounds a round's change: errors do not grow with the rounds") {
  for (const Payload payload : {Payload::bf16, Payload::int8}) {
    CAPTURE(static_cast<int>(payload));
    Random random(5);
    constexpr std::size_t kFloats = 512;
    const auto first = random_values(random, kFloats, 100);  // far larger than a round's change
    MixOptions options = diloco_options(payload);
    options.outer_rate = 1;
    options.outer_momentum = 0;  // so that phi is the mean, and an error stays where it is
    DilocoPeers peers(first, kFloats, 4, options);
    std::vector<double> exact(first.begin(), first.end());
    constexpr int kRounds = 200;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      for (auto& replica : peers.replicas) {
        for (std::size_t k = 0; k < kFloats; ++k) {
          const auto change = static_cast<float>(1e-3 * random.normal());
          const float moved = replica[k] + change;
          exact[k] += (wide(moved) - wide(replica[k])) / 4;
          replica[k] = moved;
        }
      }
      peers.meet(round);
      REQUIRE(peers.replicas[3] == peers.replicas[0]);
    }
    double square_sum = 0;
    for (std::size_t k = 0; k < kFloats; ++k) square_sum += square(wide(peers.replicas[0][k]) - exact[k]);
    const double error = std::sqrt(square_sum / kFloats);
    CAPTURE(error);
    // Independent errors of a step (1/127 of 3e-3) in each round; an encoding of phi would err by 0.4.
    CHECK(error < 2 * std::sqrt(kRounds) * 3e-3 / 127);
  }
}

}  // namespace starling::training
