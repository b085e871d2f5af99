// Sums among several ranks, which are threads of one process here.
#include "node/all_reduce/collective.h"

#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "tests/catch.h"
#include "tests/waiting.h"

namespace starling::node {
namespace {

using namespace std::chrono_literals;

struct Folder {
  std::string path = (std::filesystem::temp_directory_path() / "starling-collective-XXXXXX").string();
  Folder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
};

// Runs `work(rank, collective)` for each of `size` ranks, on one thread each.
template <class Work>
void with_ranks(std::uint32_t size, Duration patience, const Work& work) {
  const Folder folder;
  std::vector<std::thread> ranks;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] { work(rank, join_collective({rank, size, folder.path, patience})); });
  }
  for (auto& rank : ranks) rank.join();
}

}  // namespace

TEST_CASE("all ranks get the same sum, bit by bit") {
  if (!check_collectives()) return;
  for (const std::uint32_t size : {1U, 2U, 3U, 5U}) {
    for (const std::size_t floats : {1U, 7U, 100'000U}) {
      CAPTURE(size, floats);
      std::vector<std::vector<float>> values(size);
      std::vector<double> expected(floats);
      Random random(size + floats);
      for (auto& own : values) {
        for (std::size_t i = 0; i < floats; ++i) {
          own.push_back(static_cast<float>(random.normal()));
          expected[i] += static_cast<double>(own.back());
        }
      }
      std::vector<std::string> problems(size);
      with_ranks(size, kHang, [&](std::uint32_t rank, Result<std::unique_ptr<Collective>> collective) {
        if (!collective) {
          problems[rank] = collective.error().message;
        } else if (const Status summed = (*collective)->sum(values[rank]); !summed) {
          problems[rank] = summed.error().message;
        } else if (const Status met = (*collective)->wait_for_all(); !met) {
          problems[rank] = met.error().message;
        }
      });
      for (const std::string& problem : problems) REQUIRE(problem.empty());
      for (const auto& own : values) REQUIRE(std::memcmp(own.data(), values[0].data(), 4 * floats) == 0);
      double worst = 0;
      for (std::size_t i = 0; i < floats; ++i)
        worst = std::max(worst, std::abs(expected[i] - static_cast<double>(values[0][i])));
      REQUIRE(worst < 1e-5);
    }
  }
}

TEST_CASE("a rank that leaves is an error for the others, without source locations in the message") {
  if (!check_collectives()) return;
  std::vector<std::string> problems(2);
  with_ranks(3, kHang, [&](std::uint32_t rank, Result<std::unique_ptr<Collective>> collective) {
    std::vector<float> values(1000, 1);
    if (rank == 2) return;
    if (!collective) {  // it left before all ranks had met
      problems[rank] = collective.error().message;
      return;
    }
    const Status summed = (*collective)->sum(values);
    if (!summed) problems[rank] = summed.error().message;
  });
  for (const std::string& problem : problems) {
    CHECK_FALSE(problem.empty());
    CHECK(problem.find(".cc") == std::string::npos);
    CHECK(problem.find('\n') == std::string::npos);
  }
}

TEST_CASE("waiting for a rank that never joins times out") {
  if (!check_collectives()) return;
  const Folder folder;
  const auto alone = join_collective({0, 2, folder.path, 300ms});
  REQUIRE_FALSE(alone.ok());
  CHECK_FALSE(alone.error().message.empty());
}

TEST_CASE("without Gloo the error names the package to install") {
  const Status there = check_collectives();
  if (there) return;
  CHECK(there.error().message.find("libgloo-dev") != std::string::npos);
  CHECK_FALSE(join_collective({0, 1, "", 1s}).ok());
}

}  // namespace starling::node
