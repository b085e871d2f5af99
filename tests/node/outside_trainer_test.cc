#include "node/trainers/outside_trainer.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/catch.h"
#include "tests/node/trainer_stub.h"
#include "tests/training/temporary_folder.h"

namespace starling::node {
namespace {

using testing::TrainerStub;
using testing::until;

// A peer's side without the peer: attachment, arena and trainer on a loop that the test runs.
struct Bench {
  explicit Bench(OutsideOptions o = {}, std::vector<std::string> d = {"tensor w f32 trained 100"})
      : options(o), declaration(std::move(d)) {
    attachment.listen_to({.ready = [this] { ready = true; }});
    const Status opened = attachment.open(path);
    REQUIRE(opened.ok());
  }

  std::unique_ptr<TrainerStub> attach() {
    auto stub = std::make_unique<TrainerStub>(path);
    stub->declare(declaration);
    REQUIRE(until(io, [&] {
      stub->read();
      return stub->has("region ");
    }));
    return stub;
  }
  // Attaches a trainer that begins the run with these parameters.
  std::unique_ptr<TrainerStub> begin(const std::vector<float>& parameters) {
    auto stub = attach();
    const bool view = stub->word(72) == 0;
    std::copy(parameters.begin(), parameters.end(), view ? stub->arena() : stub->post());
    stub->send("ready");
    REQUIRE(until(io, [&] { return ready; }));
    make_trainer();
    if (!view) arena->write(0, attachment.region().post());
    trainer->start();
    await(*stub, "start");
    return stub;
  }
  void make_trainer() {
    arena = std::make_unique<models::Arena>(attachment.region().arena());
    trainer = std::make_unique<OutsideTrainer>(
        attachment, *arena, background, io.get_executor(), options,
        OutsideTrainer::Events{.stepped = [this] { ++stepped; },
                               .ended = [this](const std::string& why) { ended = why; }});
  }
  void await(TrainerStub& stub, const std::string& line) {
    INFO(line);
    REQUIRE(until(io, [&] {
      stub.read();
      return stub.has(line);
    }));
  }
  void answer(TrainerStub& stub) {
    REQUIRE(until(io, [&] { return stub.is_answered(); }));
  }
  std::vector<float> contents() const {
    std::vector<float> values(arena->size());
    arena->read(0, values);
    return values;
  }

  const training::TemporaryFolder folder;
  const std::string path = folder.file("trainer");
  OutsideOptions options;
  std::vector<std::string> declaration;
  asio::io_context io{1};
  Background background{io.get_executor()};
  Attachment attachment{io.get_executor()};
  std::unique_ptr<models::Arena> arena;
  std::unique_ptr<OutsideTrainer> trainer;
  bool ready = false;
  int stepped = 0;
  std::string ended;
};

std::vector<float> filled(std::size_t floats, float value) { return std::vector<float>(floats, value); }

}  // namespace

TEST_CASE("a trainer's first parameters are the peer's, and each gets what the other one adds") {
  Bench bench;
  const auto stub = bench.begin(filled(112, 1));
  struct stat facts {};
  REQUIRE(::stat(bench.path.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0600);
  CHECK(stub->table() == "0 100 f32 trained 100 w\n");
  CHECK(stub->floats() == 112);
  CHECK(bench.contents() == filled(112, 1));
  CHECK(std::vector<float>(stub->reply(), stub->reply() + 112) == filled(112, 1));
  CHECK(stub->ring_at() == 8);
  CHECK(stub->allowed() == UINT64_MAX);

  bench.arena->mix(0, filled(112, 3), filled(112, 1), 0.5F);  // an exchange adds 1
  bench.arena->count_mix();
  stub->count(8, 0.5);
  stub->post(filled(112, 1.25F));  // the trainer's steps added 0.25
  bench.answer(*stub);
  CHECK(bench.contents() == filled(112, 2.25F));
  CHECK(std::vector<float>(stub->reply(), stub->reply() + 112) == filled(112, 2.25F));
  CHECK(bench.trainer->steps() == 8);
  CHECK(bench.trainer->samples() == 80);
  CHECK(bench.trainer->loss() == 0.5);
  CHECK(bench.stepped > 0);
  CHECK(stub->ring_at() == 16);
  CHECK(stub->word(1080) == 1);  // exchanges

  stub->count(16, std::numeric_limits<double>::quiet_NaN());
  stub->post(filled(112, 2.5F));
  bench.answer(*stub);
  CHECK(bench.trainer->steps() == 16);
  CHECK_FALSE(bench.trainer->loss().has_value());  // and not the last good one
  stub->count(24, 0.25);
  stub->post(filled(112, 2.75F));
  bench.answer(*stub);
  CHECK(bench.trainer->loss() == 0.25);
}

TEST_CASE("a trainer gets the factor of its next step on the learning rate") {
  Bench bench;
  bench.options.schedule.warmup = {10, true};  // steps
  const auto stub = bench.begin(filled(112, 1));
  const auto factor = [&] { return stub->real(1064); };
  CHECK(factor() == 0.1);
  bench.trainer->set_swarm_factor(0.5);
  CHECK(factor() == 0.05);
  stub->count(4);
  REQUIRE(until(bench.io, [&] { return bench.stepped > 0; }));
  CHECK(factor() == 0.25);
  CHECK(bench.trainer->rate_factor() == 0.25);
}

TEST_CASE("a post is answered after the exchange that follows it, and brings the trainer its result") {
  Bench bench;
  const auto stub = bench.begin(filled(112, 1));
  stub->count(8);
  stub->post(filled(112, 1));
  REQUIRE(until(bench.io, [&] { return bench.stepped > 0; }));
  CHECK(!stub->is_answered());
  bench.arena->mix(0, filled(112, 3), filled(112, 1), 0.5F);  // adds 1
  bench.arena->count_mix();
  bench.trainer->mixed();
  bench.answer(*stub);
  CHECK(std::vector<float>(stub->reply(), stub->reply() + 112) == filled(112, 2));
  CHECK(stub->ring_at() == 16);
}

TEST_CASE("a post that no exchange follows is answered when the trainer is due again, or soon") {
  Bench bench;
  const auto stub = bench.begin(filled(112, 1));
  for (const std::uint64_t steps : {8, 16}) {
    stub->count(steps);
    stub->post(filled(112, 1));
    REQUIRE(until(bench.io, [&] { return stub->ring_at() == steps + 8; }));
    if (steps == 8) stub->count(16);  // the trainer reaches its next ring, and is soon told
    bench.answer(*stub);
  }
}

TEST_CASE("news that comes after the reply is fetched by the next post, eight steps later at most") {
  Bench bench({.pace = {.steps = 1000}});
  const auto stub = bench.begin(filled(112, 1));
  CHECK(stub->ring_at() == 1000);
  bench.arena->count_mix();
  bench.trainer->mixed();
  CHECK(stub->ring_at() == 8);
  stub->count(8);
  stub->post(filled(112, 1));
  bench.answer(*stub);
  CHECK(stub->ring_at() == 1000);
}

TEST_CASE("posts and exchanges that cross lose nothing of each other") {
  constexpr std::size_t kFloats = 300'000;  // three slices
  Bench bench({.pace = {.steps = 1}}, {"tensor w f32 trained 300000"});
  Random random(5);
  std::vector<float> x(kFloats), sent(kFloats);
  for (float& value : x) value = static_cast<float>(random.uniform(-1, 1));
  const auto stub = bench.begin(x);
  double expected = std::accumulate(x.begin(), x.end(), 0.0);
  for (std::uint64_t step = 1; step <= 20; ++step) {
    for (float& value : x) value += 0.125F;
    expected += 0.125 * kFloats;
    sent = x;
    stub->count(step);
    stub->post(sent);
    while (!stub->is_answered()) {  // an exchange of a part between any two slices
      const std::size_t at = random.below(kFloats - 1000);
      bench.arena->mix(at, filled(1000, 0.5F), filled(1000, 0.25F), 1);
      expected += 0.25 * 1000;
      bench.io.restart();
      bench.io.run_one();
    }
    for (std::size_t i = 0; i < kFloats; ++i) x[i] += stub->reply()[i] - sent[i];
  }
  const auto all = bench.contents();
  CHECK(std::accumulate(all.begin(), all.end(), 0.0) == Approx(expected).epsilon(1e-7));
  stub->count(21);
  stub->post(x);
  bench.answer(*stub);
  CHECK(std::equal(all.begin(), all.begin() + kFloats, stub->reply()));
}

TEST_CASE("a trainer without steps leaves every bit of the arena as it is") {
  Bench bench;
  std::vector<float> x(112);
  Random random(9);
  for (float& value : x) value = static_cast<float>(random.uniform(-1, 1));
  const auto stub = bench.begin(x);
  for (int round = 0; round < 10; ++round) {
    bench.arena->mix(0, filled(112, 0.1F), filled(112, 0.3F), 0.7F);
    const auto before = bench.contents();
    stub->post(x);
    bench.answer(*stub);
    CHECK(bench.contents() == before);
    x.assign(stub->reply(), stub->reply() + 112);
    CHECK(x == before);
  }
}

TEST_CASE("where nothing was mixed the arena has the snapshot to the last bit") {
  Bench bench;
  std::vector<float> x(112), y(112, 0x1p-120F);  // y: marks
  Random random(4);
  for (float& value : x) value = static_cast<float>(random.uniform(-1e6, 1e6));
  const auto stub = bench.begin(x);
  stub->count(8);
  stub->post(y);
  bench.answer(*stub);
  CHECK(bench.contents() == y);
  CHECK(std::vector<float>(stub->reply(), stub->reply() + 112) == y);
  bench.arena->mix(0, filled(1, 3), filled(1, 1), 0.5F);  // adds 1
  stub->count(16);
  stub->post(x);
  bench.answer(*stub);
  x[0] += 1;
  CHECK(bench.contents() == x);
}

TEST_CASE("a snapshot that is not finite changes nothing, and the trainer waits for another replica") {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Bench bench;
    const auto stub = bench.begin(filled(112, 1));
    auto snapshot = filled(112, 2);
    snapshot[99] = bad;
    stub->count(8);
    stub->post(snapshot);
    REQUIRE(until(bench.io, [&] { return bench.trainer->non_finite(); }));
    CHECK(bench.contents() == filled(112, 1));
    CHECK(stub->allowed() == 0);
    CHECK(stub->word(1056) == 3);
    // What the core then does.
    bench.trainer->pause(PausedBy::core);
    bench.trainer->discard_steps();
    bench.arena->write(0, filled(112, 5));
    bench.trainer->renew();
    bench.trainer->resume(PausedBy::core);
    CHECK_FALSE(bench.trainer->non_finite());
    CHECK(stub->word(1048) == 1);  // the era
    CHECK(std::vector<float>(stub->reply(), stub->reply() + 112) == filled(112, 5));
    CHECK(stub->allowed() == UINT64_MAX);
    stub->count(16);
    stub->post(filled(112, 6));
    bench.answer(*stub);
    CHECK(bench.contents() == filled(112, 6));
  }
}

TEST_CASE("values that stop being finite after the first look at a snapshot are not added") {
  constexpr std::size_t kFloats = 400'000;  // several slices
  Bench bench({}, {"tensor w f32 trained 400000"});
  const auto stub = bench.begin(filled(kFloats, 1));
  stub->count(8);
  stub->post(filled(kFloats, 2));
  // One handler at a time: the first slice has been added, so the look is over.
  REQUIRE(eventually([&] {
    bench.io.restart();
    bench.io.poll_one();
    return bench.contents().front() != 1;
  }));
  stub->post()[kFloats - 1] = std::numeric_limits<float>::quiet_NaN();
  REQUIRE(until(bench.io, [&] { return bench.trainer->non_finite(); }));
  const auto values = bench.contents();
  CHECK(values.front() == 2);
  CHECK(values.back() == 1);
  CHECK(std::ranges::all_of(values, [](float value) { return value == 1 || value == 2; }));
  CHECK(stub->allowed() == 0);
}

TEST_CASE("a post of an earlier era is ignored") {
  Bench bench;
  const auto stub = bench.begin(filled(112, 1));
  bench.trainer->pause(PausedBy::core);
  bench.arena->write(0, filled(112, 5));
  bench.trainer->renew();
  bench.trainer->resume(PausedBy::core);
  std::fill_n(stub->post(), 112, 9.0F);
  stub->word(2120) = 0;
  stub->word(2096) = 1;
  stub->send("ring");
  bench.answer(*stub);
  CHECK(bench.contents() == filled(112, 5));
}

TEST_CASE("under a rule that waits each step is allowed when the last one is handled") {
  for (const bool view : {false, true}) {
    Bench bench({.in_turn = true}, {view ? "mode view" : "mode copy", "tensor w f32 trained 100"});
    const auto stub = bench.begin(filled(112, 1));
    for (std::uint64_t step = 1; step <= 5; ++step) {
      CHECK(stub->allowed() == step);
      CHECK(stub->ring_at() == step);
      stub->count(step);
      if (view)
        stub->send("ring");
      else
        stub->post(filled(112, static_cast<float>(step)));
      REQUIRE(until(bench.io, [&] { return bench.trainer->steps() == step; }));
      CHECK(stub->allowed() == step);
      CHECK(stub->word(1056) == 2);  // the rule waits
      if (!view) {
        CHECK(bench.contents() == filled(112, static_cast<float>(step)));
        CHECK_FALSE(stub->is_answered());
      }
      bench.trainer->pause(PausedBy::core);
      bench.trainer->handled(step);
      CHECK(stub->allowed() <= step);
      bench.trainer->resume(PausedBy::core);
      REQUIRE(until(bench.io, [&] { return stub->allowed() == step + 1; }));
      if (!view) CHECK(stub->is_answered());
    }
  }
}

TEST_CASE("a trainer is bound by pauses, the last step, the samples that are left, and checkpoints") {
  Bench bench({.last_step = 1000, .wait_every = 50});
  const auto stub = bench.begin(filled(112, 1));
  CHECK(stub->allowed() == 50);
  bench.trainer->pause(PausedBy::owner);
  CHECK(stub->allowed() == 0);
  CHECK(stub->word(1056) == 1);
  bench.trainer->resume(PausedBy::owner);
  CHECK(stub->allowed() == 50);
  stub->count(50);
  stub->post(filled(112, 2));
  REQUIRE(until(bench.io, [&] { return bench.trainer->steps() == 50; }));
  CHECK(stub->allowed() == 50);
  bench.trainer->handled(50);
  REQUIRE(until(bench.io, [&] { return stub->allowed() == 100; }));

  Bench limited({.last_step = 30});
  const auto other = limited.begin(filled(112, 1));
  CHECK(other->allowed() == 30);
  CHECK(other->ring_at() == 8);
  limited.trainer->allow_samples(7);  // batches of one sample, as nothing else is declared
  CHECK(other->allowed() == 7);
  limited.trainer->allow_samples(UINT64_MAX);
  CHECK(other->allowed() == 30);
}

TEST_CASE("another trainer takes over from one that has died, with the arena and the counts") {
  Bench bench({.grace = std::chrono::minutes(10)});
  auto stub = bench.begin(filled(112, 1));
  stub->count(8);
  stub->post(filled(112, 2));
  bench.answer(*stub);
  stub->die();
  REQUIRE(until(bench.io, [&] { return !bench.attachment.is_ready(); }));
  CHECK(bench.trainer->is_paused(PausedBy::owner));
  CHECK(bench.trainer->steps() == 8);
  CHECK(bench.ended.empty());

  const auto next = bench.attach();
  CHECK(next->word(2048) == 0);
  next->send("ready");
  bench.await(*next, "start");
  CHECK(std::vector<float>(next->reply(), next->reply() + 112) == filled(112, 2));
  CHECK_FALSE(bench.trainer->is_paused(PausedBy::owner));
  next->count(8);
  next->post(filled(112, 3));
  bench.answer(*next);
  CHECK(bench.trainer->steps() == 16);
  CHECK(bench.contents() == filled(112, 3));
  next->send("bye");
  REQUIRE(until(bench.io, [&] { return bench.ended == "the trainer has made its last step"; }));
  bench.trainer->stop();
  bench.trainer->say_over("the peer has left");
  bench.await(*next, "over the peer has left");
}

TEST_CASE("a peer without a trainer ends after the grace period") {
  Bench bench({.grace = std::chrono::milliseconds(20)});
  const auto stub = bench.begin(filled(112, 1));
  stub->die();
  REQUIRE(until(bench.io, [&] { return bench.ended.find("no trainer has attached") == 0; }));
}

TEST_CASE("a peer whose trainer died before the run began waits for another one as long") {
  Bench bench({.grace = std::chrono::milliseconds(20)});
  auto stub = bench.attach();
  stub->send("ready");
  REQUIRE(until(bench.io, [&] { return bench.ready; }));
  stub->die();
  REQUIRE(until(bench.io, [&] { return !bench.attachment.is_ready(); }));
  bench.make_trainer();
  bench.trainer->start();
  REQUIRE(until(bench.io, [&] { return bench.ended.find("no trainer has attached") == 0; }));
}

TEST_CASE("a new era is told in both modes, also to a trainer that attaches later") {
  for (const char* mode : {"mode copy", "mode view"}) {
    INFO(mode);
    Bench bench({}, {mode, "tensor w f32 trained 100"});
    auto stub = bench.begin(filled(112, 1));
    CHECK(stub->word(1048) == 0);
    bench.trainer->pause(PausedBy::core);
    bench.trainer->discard_steps();
    bench.arena->write(0, filled(112, 5));
    bench.trainer->renew();
    bench.trainer->resume(PausedBy::core);
    CHECK(stub->word(1048) == 1);
    stub->die();
    REQUIRE(until(bench.io, [&] { return !bench.attachment.is_ready(); }));
    const auto next = bench.attach();
    next->send("ready");
    bench.await(*next, "start");
    CHECK(next->word(1048) == 1);
  }
}

TEST_CASE("a second trainer and one with other tensors are refused, and the first goes on") {
  Bench bench;
  auto stub = bench.begin(filled(112, 1));
  TrainerStub second(bench.path);
  second.declare(bench.declaration);
  bench.await(second, "refused process " + std::to_string(::getpid()) + " trains for this peer already");
  stub->count(8);
  stub->post(filled(112, 2));
  bench.answer(*stub);
  stub->die();
  REQUIRE(until(bench.io, [&] { return !bench.attachment.is_ready(); }));
  TrainerStub other(bench.path);
  other.declare({"tensor w f32 trained 101"});
  bench.await(
      other,
      "refused this peer's model differs from the trainer's: tensor 1 is w of 100 there, and w of 101");
  TrainerStub viewing(bench.path);
  viewing.declare({"mode view", "tensor w f32 trained 100"});
  bench.await(viewing, "refused the first trainer of this peer had mode copy");
}

TEST_CASE("garbage, silence and a thousand connections do not disturb the trainer that is attached") {
  Bench bench;
  const auto stub = bench.begin(filled(112, 1));
  std::vector<std::unique_ptr<TrainerStub>> silent;
  std::uint64_t steps = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 20; ++i) {
      silent.push_back(std::make_unique<TrainerStub>(bench.path));
      if (i % 3 == 0) silent.back()->send(std::string(5000, 'x'));
      if (i % 3 == 1) silent.back()->send("starling-trainer 1.0\ntensor w f32 trained 1e9");
      bench.io.restart();
      bench.io.run_for(std::chrono::microseconds(200));
    }
    steps += 8;
    stub->count(steps);
    stub->post(filled(112, static_cast<float>(round)));
    bench.answer(*stub);
  }
  CHECK(bench.trainer->steps() == steps);
  // At most kCallersMax of them are kept.
  REQUIRE(until(bench.io, [&] {
    std::size_t open = 0;
    for (const auto& it : silent) {
      it->read();
      open += it->is_over ? 0 : 1;
    }
    return open <= Attachment::kCallersMax;
  }));
}

TEST_CASE("a trainer that asks is told events, and the members, as often as it asks") {
  Bench bench;
  bench.attachment.answer_with(
      {.events =
           [] {
             return std::vector<std::string>{"event members 1", "event joined other"};
           },
       .members =
           [] {
             return std::vector<std::string>{"member {}", "members 1"};
           }});
  const auto stub = bench.begin(filled(112, 1));
  bench.attachment.tell("joined unasked");
  CHECK_FALSE(bench.attachment.wants_events());
  stub->send("events");
  stub->send("members");
  stub->send("members");
  bench.await(*stub, "event joined other");
  bench.attachment.tell("mixed other");
  bench.await(*stub, "event mixed other");
  CHECK(std::ranges::count(stub->lines, "event members 1") == 1);
  CHECK(std::ranges::count(stub->lines, "members 1") >= 1);
  CHECK_FALSE(stub->has("event joined unasked"));
}

TEST_CASE("a trainer that reads nothing for long keeps its connection, and gets the latest events") {
  Bench bench;
  const auto stub = bench.begin(filled(112, 1));
  stub->send("events");
  REQUIRE(until(bench.io, [&] { return bench.attachment.wants_events(); }));
  for (int i = 0; i < 20'000; ++i) {
    bench.attachment.tell("mixed other");
    bench.attachment.say("waits");
    bench.io.restart();
    bench.io.poll();
  }
  bench.attachment.tell("lost other failed");
  bench.await(*stub, "event missed ");
  bench.await(*stub, "event lost other failed");
  CHECK_FALSE(stub->is_over);
  bench.trainer->say_over("the end");
  bench.await(*stub, "over the end");
}

TEST_CASE("words that are impossible count as what was there before") {
  Bench bench;
  const auto stub = bench.begin(filled(112, 1));
  stub->count(8);
  stub->send("ring");
  REQUIRE(until(bench.io, [&] { return bench.trainer->steps() == 8; }));
  stub->word(2048) = 3;  // fewer
  stub->send("ring");
  stub->word(2048) = UINT64_MAX;
  stub->send("ring");
  stub->word(2048) = 9;
  stub->word(2056) = UINT64_MAX;  // more samples than a step can have
  stub->send("ring");
  stub->real(2072) = 7;  // accuracy
  stub->real(2088) = std::numeric_limits<double>::infinity();
  stub->count(9);
  stub->send("ring");
  REQUIRE(until(bench.io, [&] { return bench.trainer->steps() == 9; }));
  CHECK(bench.trainer->samples() == 90);
  CHECK_FALSE(bench.trainer->judged().has_value());
  CHECK_FALSE(bench.trainer->learning_rate().has_value());
  stub->word(2096) = 77;  // a post that does not follow the last one
  stub->send("ring");
  stub->count(10);
  stub->send("ring");
  REQUIRE(until(bench.io, [&] { return bench.trainer->steps() == 10; }));
  CHECK(bench.contents() == filled(112, 1));
}

TEST_CASE("a view changes the arena itself") {
  Bench bench({}, {"mode view", "tensor w f32 trained 100"});
  const auto stub = bench.begin(filled(112, 1));
  CHECK(bench.contents() == filled(112, 1));
  stub->arena()[3] = 4;
  CHECK(bench.contents()[3] == 4);
  bench.arena->mix(0, filled(112, 3), filled(112, 1), 0.5F);
  CHECK(stub->arena()[3] == 5);
  stub->count(8);
  stub->send("ring");
  REQUIRE(until(bench.io, [&] { return bench.trainer->steps() == 8; }));
  CHECK(stub->ring_at() == 16);
}

TEST_CASE("a capture has the parameters and counts of a trainer's peer") {
  Bench bench;
  const auto stub = bench.begin(filled(112, 1));
  stub->count(8);
  stub->post(filled(112, 2));
  bench.answer(*stub);
  std::shared_ptr<training::PeerState> state;
  REQUIRE(bench.trainer->capture([&](std::shared_ptr<training::PeerState> it) { state = std::move(it); }));
  CHECK_FALSE(bench.trainer->capture([](const auto&) {}));  // one at a time
  REQUIRE(until(bench.io, [&] { return state != nullptr; }));
  CHECK(state->parameters == filled(112, 2));
  CHECK(state->steps == 8);
  CHECK(state->samples == 80);
  bench.trainer->stop();
  CHECK(bench.trainer->remains().parameters == filled(112, 2));
}

}  // namespace starling::node
