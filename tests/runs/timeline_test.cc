#include "training/runs/records/timeline.h"

#include <cmath>
#include <sstream>
#include <string>

#include "tests/catch.h"
#include "tests/training/near.h"
#include "training/runs/records/json.h"
#include "training/runs/records/staleness.h"

namespace starling::training {

TEST_CASE("a timeline has each activity's share of every cell, and joins equal neighboring cells") {
  Timeline timeline(64, 0.5);
  timeline.add(0, 1.25, {.computing = 1});
  timeline.add(1.25, 1.5, {.computing = 1, .exchanging = 1});
  timeline.add(1.5, 3, {.stopped = 1});
  timeline.add_step(1.25);
  timeline.add_step(1.3);
  const auto cells = timeline.cells();
  REQUIRE(cells.size() == 3);
  CHECK(cells[0].to == 1);
  CHECK(cells[0].activity.computing == 1);
  CHECK(cells[1].activity.exchanging == 0.5);
  CHECK(cells[1].steps == 2);
  CHECK(cells[2].from == 1.5);
  CHECK(cells[2].to == 3);
  CHECK(cells[2].activity.stopped == 1);

  std::istringstream lines(to_json_lines("p3", timeline));
  std::string line;
  REQUIRE(std::getline(lines, line));
  CHECK(
      line ==
      R"({"peer":"p3","from":0.0,"to":1.0,"computing":1.0,"exchanging":0.0,"waiting":0.0,"stopped":0.0,"steps":0.0})");
}

TEST_CASE("a last cell that is shorter than a file's microseconds belongs to the one before it") {
  Timeline timeline(1024, 0.02);
  for (int step = 0; step < 192; ++step) {
    const double begin = 0.02 * step;
    timeline.add(begin, begin + 0.02, {.computing = 1});
    timeline.add_step(std::nextafter(0.02 * (step + 1), 10.0));
  }
  std::istringstream lines(to_json_lines("p0", timeline));
  std::string line;
  double steps = 0;
  while (std::getline(lines, line)) {
    const Json cell = Json::parse(line);
    CHECK(cell.at("from").get<double>() < cell.at("to").get<double>());
    steps += cell.at("steps").get<double>();
  }
  CHECK(steps == 192);
}

TEST_CASE("a timeline of a long run keeps its number of cells, every second and every step") {
  Timeline timeline(64, 1e-3);
  double at = 0;
  for (int i = 0; i < 10'000; ++i) {
    const double next = at + 0.001 * (1 + i % 7);
    const bool computes = i % 3 != 0;
    timeline.add(at, next, {.computing = computes ? 1.0 : 0.0, .waiting = computes ? 0.0 : 1.0}, 0.5);
    timeline.add_step(next);
    at = next;
  }
  const auto cells = timeline.cells();
  REQUIRE(cells.size() <= 64);
  CHECK(cells.size() > 32);
  double computing = 0, waiting = 0, steps = 0, before = 0;
  for (const auto& cell : cells) {
    CHECK(cell.from == before);
    before = cell.to;
    computing += cell.activity.computing * (cell.to - cell.from);
    waiting += cell.activity.waiting * (cell.to - cell.from);
    steps += cell.steps;
  }
  CHECK(before == at);
  CHECK(near(computing + waiting, at, 0.01));
  CHECK(near(waiting / at, 1.0 / 3, 0.01));
  CHECK(near(steps, 15'000, 1));
}

TEST_CASE("the time before a peer's first report counts as stopped") {
  Timeline timeline(64, 0.5);
  timeline.add(1, 2, {.waiting = 1});
  const auto cells = timeline.cells();
  REQUIRE(cells.size() == 2);
  CHECK(cells[0].activity.stopped == 1);
  CHECK(cells[1].activity.waiting == 1);
}

TEST_CASE("staleness is counted in ranges of steps that double") {
  CHECK(Staleness::bucket_of(0) == 0);
  CHECK(Staleness::bucket_of(2) == 2);
  CHECK(Staleness::bucket_of(3) == 3);
  CHECK(Staleness::bucket_of(4) == 3);
  CHECK(Staleness::bucket_of(5) == 4);
  CHECK(Staleness::bucket_of(8) == 4);
  CHECK(Staleness::bucket_of(9) == 5);
  CHECK(Staleness::bucket_of(~std::uint64_t{0}) == Staleness::kBuckets - 1);
  CHECK(Staleness::label(3) == "3-4");
  CHECK(Staleness::label(5) == "9-16");
  for (std::uint64_t steps = 3; steps < 5000; ++steps) {
    const std::string label = Staleness::label(Staleness::bucket_of(steps));
    const auto dash = label.find('-');
    REQUIRE(std::stoull(label.substr(0, dash)) <= steps);
    REQUIRE(std::stoull(label.substr(dash + 1)) >= steps);
  }
}

}  // namespace starling::training
