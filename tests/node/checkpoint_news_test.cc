#include "node/keep/checkpointer.h"
#include "tests/catch.h"

namespace starling::node {
namespace {

using std::chrono::minutes, std::chrono::seconds;

CheckpointNews::Instant at(seconds since_start) { return CheckpointNews::Instant{} + since_start; }

TEST_CASE("a checkpoint every second makes few events in a week, with the number of omitted ones") {
  CheckpointNews news;
  CHECK(news.written("a/p.1.safetensors", at(seconds(0))) == "checkpoint written: a/p.1.safetensors");
  std::size_t told = 1;
  std::uint64_t counted = 1;
  std::string last;
  for (int second = 1; second < 7 * 24 * 3600; ++second) {
    const auto sentence = news.written("p", at(seconds(second)));
    if (!sentence) continue;
    ++told;
    last = *sentence;
    counted += 1 + std::stoull(sentence->substr(sentence->find("; ") + 2));
  }
  CHECK(last == "checkpoint written: p; 3599 more since the last such event");
  CHECK(told < 180);  // of the 256 events that are kept
  CHECK(told > 160);  // with one event an hour
  CHECK(counted > 7 * 24 * 3600 - 3600);
}

TEST_CASE("checkpoints that are hours apart are all events") {
  CheckpointNews news;
  for (int hour = 0; hour < 100; hour += 2)
    CHECK(news.written("p", at(minutes(60 * hour))) == "checkpoint written: p");
}

TEST_CASE("the first failure is an event at once, and so is the success after it") {
  CheckpointNews news;
  CHECK(news.written("p", at(seconds(0))).has_value());
  for (int second = 1; second < 300; ++second) news.written("p", at(seconds(second)));
  CHECK(news.failed("no space", at(seconds(300))) == "no checkpoint, but training continues: no space");
  CHECK_FALSE(news.failed("no space", at(seconds(301))).has_value());
  CHECK(news.failed("no space", at(seconds(400))) ==
        "no checkpoint, but training continues: no space; 1 more since the last such event");
  CHECK(news.written("q", at(seconds(401))).value().starts_with("checkpoint written: q"));
  CHECK_FALSE(news.written("r", at(seconds(402))).has_value());
}

TEST_CASE("a disk that fails at every other checkpoint does not fill the list") {
  CheckpointNews news;
  std::size_t told = 0;
  for (int second = 0; second < 3600; ++second) {
    told += news.written("p", at(seconds(second))).has_value();
    told += news.failed("gone", at(seconds(second))).has_value();
  }
  CHECK(told <= 120);
  CHECK(told >= 60);
}

}  // namespace
}  // namespace starling::node
