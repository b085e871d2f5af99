// What a joiner's copy has beside the parameters: the state of the donor's trainer.
#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "node/exchange/exchanger.h"
#include "node/trainers/outside_trainer.h"
#include "tests/node/eleven_chunks.h"
#include "tests/node/trainer_stub.h"
#include "tests/training/temporary_folder.h"

namespace starling::node {
namespace {

using namespace testing;

constexpr std::size_t kWords = 250;  // not a multiple of the chunk
constexpr int kNeverAnswers = 1 << 30;

// A peer with a trainer whose state has these words; it gives them when it was looked at so many times
// before.
struct Side {
  Side(World& world, std::uint64_t number, std::uint64_t fingerprint, float value, int answers_after = 0,
       ExchangerOptions options = steady())
      : peer(world, number, options), given(kWords, value), received(kWords, -1) {
    peer.arena = std::make_unique<models::Arena>(kFloats);
    training::MixOptions mix;
    mix.cell_floats = kChunk;
    peer.mixer = training::make_mixer(*peer.arena, mix);
    given[3] = std::numeric_limits<float>::quiet_NaN();  // its meaning is the trainers' affair
    peer.exchanger->attach(*peer.arena, kFingerprint, *peer.mixer,
                           {.fingerprint = fingerprint,
                            .given = std::as_bytes(std::span(given)),
                            .received = std::as_writable_bytes(std::span(received)),
                            .ask =
                                [this] {
                                  ++asked;
                                  return has_trainer;
                                },
                            .is_answered = [this, answers_after] { return looks++ >= answers_after; },
                            .arrived = [this](bool with) { arrived.push_back(with); }});
  }
  bool has_all_of(const Side& other) const {
    return std::memcmp(received.data(), other.given.data(), sizeof(float) * kWords) == 0;
  }

  TestPeer peer;
  std::vector<float> given, received;
  std::vector<bool> arrived;
  int asked = 0, looks = 0;
  bool has_trainer = true;
};

void copy(World& world, Side& joiner, Side& donor) {
  const int before = joiner.peer.states_arrived;
  joiner.peer.exchanger->fetch_state({donor.peer.id, donor.peer.address});
  REQUIRE(world.until([&] { return joiner.peer.states_arrived > before; }));
  REQUIRE(joiner.peer.states_lost.empty());
}

}  // namespace

TEST_CASE("the state of a trainer follows the parameters, bit by bit, and then exchanges go on") {
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    World world(kind);
    Side joiner(world, 1, 7, 0), donor(world, 2, 7, 2.5F);
    donor.peer.arena->write(0, kB);
    copy(world, joiner, donor);
    REQUIRE(joiner.peer.values() == kB);
    REQUIRE(donor.asked == 1);
    REQUIRE(joiner.asked == 0);
    REQUIRE(joiner.arrived == std::vector<bool>{true});
    REQUIRE(joiner.has_all_of(donor));
    REQUIRE(exchange(world, joiner.peer, donor.peer) == gossip::Outcome::completed);
    REQUIRE(joiner.has_all_of(donor));
  }
}

TEST_CASE("a copy without the state is complete, and the trainer learns it") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  Side joiner(world, 1, 7, 0);
  ExchangerOptions options = steady();
  options.trainer_patience = std::chrono::milliseconds(50);
  Side other(world, 2, 8, 1), without(world, 3, 0, 1), gone(world, 4, 7, 1),
      slow(world, 5, 7, 1, kNeverAnswers, options);
  gone.has_trainer = false;
  std::size_t copies = 0;
  for (Side* donor : {&other, &without, &gone, &slow}) {
    donor->peer.arena->write(0, kB);
    copy(world, joiner, *donor);
    REQUIRE(joiner.peer.values() == kB);
    REQUIRE(joiner.arrived == std::vector<bool>(++copies, false));
    REQUIRE(std::ranges::all_of(joiner.received, [](float word) { return word == -1; }));
  }
  Side plain(world, 6, 0, 0), donor(world, 7, 7, 1);
  donor.peer.arena->write(0, kB);
  copy(world, plain, donor);
  REQUIRE(donor.asked == 0);
  REQUIRE(plain.arrived.empty());
}

TEST_CASE("a donor whose trainer makes a long step sends signs of life, and then the state") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  ExchangerOptions options = steady();
  options.sign_of_life = std::chrono::milliseconds(1);
  Side joiner(world, 1, 7, 0), donor(world, 2, 7, 2.5F, 0, options), slow(world, 3, 7, 3.5F, 5, options);
  std::vector<std::size_t> advances;
  for (Side* side : {&donor, &slow}) {
    side->peer.arena->write(0, kB);
    joiner.peer.advances.clear();
    copy(world, joiner, *side);
    REQUIRE(joiner.peer.values() == kB);
    REQUIRE(joiner.arrived.back());
    REQUIRE(joiner.has_all_of(*side));
    advances.push_back(joiner.peer.advances.size());
  }
  REQUIRE(advances[1] >= advances[0] + 4);
}

TEST_CASE("a trainer is asked for its state, and gets the one that came with an era's parameters") {
  const training::TemporaryFolder folder;
  asio::io_context io{1};
  Background background{io.get_executor()};
  Attachment attachment{io.get_executor()};
  REQUIRE(attachment.open(folder.file("trainer")).ok());
  bool ready = false;
  attachment.listen_to({.ready = [&] { ready = true; }});
  TrainerStub stub(folder.file("trainer"));
  stub.declare({"tensor w f32 trained 100", "state w/moment f32 100", "state w/step f64 -"});
  const auto await = [&](const std::string& line) {
    REQUIRE(until(io, [&] {
      stub.read();
      return stub.has(line);
    }));
  };
  await("region ");
  CHECK(stub.table() == "0 100 f32 trained 100 w\n0 100 f32 state 100 w/moment\n112 2 f64 state - w/step\n");
  CHECK(stub.word(104) == 128);  // words, each tensor from a multiple of 16 on
  CHECK(stub.word(88) % 64 == 0);
  CHECK(stub.word(96) >= stub.word(88) + 4 * 128);
  std::fill_n(stub.post(), 112, 1.0F);
  stub.send("ready");
  REQUIRE(until(io, [&] { return ready; }));
  models::Arena arena(attachment.region().arena());
  OutsideTrainer trainer(attachment, arena, background, io.get_executor(), {},
                         {.stepped = [] {}, .ended = [](const std::string&) {}});
  attachment.region().state_received()[5] = std::byte{9};
  attachment.copied(true);
  CHECK_FALSE(attachment.ask_for_state());  // it makes no steps yet, and would not answer
  trainer.start();
  await("start");
  CHECK(stub.word(1112) == 1);  // of era 0

  CHECK(attachment.ask_for_state());
  CHECK(stub.word(1104) == 1);
  CHECK_FALSE(attachment.state_is_given());
  stub.word(2128) = 1;
  CHECK(attachment.state_is_given());
  CHECK(attachment.ask_for_state());
  CHECK_FALSE(attachment.state_is_given());

  trainer.renew();  // another replica, without a state
  CHECK(stub.word(1048) == 1);
  CHECK(stub.word(1112) == 0);
  attachment.copied(true);
  trainer.renew();
  CHECK(stub.word(1112) == 3);  // of era 2
  trainer.stop();
  stub.die();
  REQUIRE(until(io, [&] { return !attachment.is_ready(); }));
  CHECK_FALSE(attachment.ask_for_state());
}

}  // namespace starling::node
