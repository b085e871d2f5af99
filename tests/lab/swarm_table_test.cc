// The live table's text.
#include <algorithm>

#include "lab/swarm/live_table.h"
#include "tests/catch.h"

namespace starling::lab {
namespace {

std::vector<LiveRow> rows(std::size_t count) {
  std::vector<LiveRow> list;
  for (std::size_t i = 0; i < count; ++i) {
    LiveRow& row = list.emplace_back();
    row.name = "p" + std::to_string(i);
    row.state = ProcessState::training;
    row.steps = 10;
    row.samples_per_second = 100;
    row.loss = 0.5;
    row.exchanges = 2;
  }
  return list;
}

TEST_CASE("the table has a line per peer and a line for all") {
  auto list = rows(3);
  list[2].state = ProcessState::crashed;
  const std::string text =
      table_text(list, {.seconds = 4, .epochs = 1.5, .epochs_end = 3, .seconds_left = 4}, 24);
  CHECK(std::count(text.begin(), text.end(), '\n') == 5);
  CHECK(text.find("p2     crashed") != std::string::npos);
  CHECK(text.find("1.50 of 3 epochs, 200 samples/s") !=
        std::string::npos);  // without the rate of the crashed peer
  CHECK(text.find("about 4 s left") != std::string::npos);
}

TEST_CASE("a table that does not fit its lines counts the peers it leaves out") {
  const std::string text = table_text(rows(100), {}, 10);
  CHECK(std::count(text.begin(), text.end(), '\n') == 10);
  CHECK(text.find("and 93 more") != std::string::npos);
}

TEST_CASE("the compact line counts peers by state") {
  auto list = rows(4);
  list[0].state = ProcessState::settling;
  const std::string text = line_text(list, {.seconds = 4, .epochs = 0.25, .exchanges = 4, .accuracy = 0.9});
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
  CHECK(text.find("1 settling, 3 training") != std::string::npos);
  CHECK(text.find("loss 0.5000") != std::string::npos);
  CHECK(text.find("4 exchanges") != std::string::npos);
  CHECK(text.find("accuracy 90.00 %") != std::string::npos);
}

}  // namespace
}  // namespace starling::lab
