// Both sides of an exchange (training/mixing/sides.h) in conversations with a real mixer.
#include <limits>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/training/mixers.h"
#include "tests/training/near.h"
#include "training/mixing/payload.h"
#include "training/mixing/sides.h"

namespace starling::training {
namespace {

using Ending = Offering::Ending;

constexpr std::size_t kCells = 20, kCellFloats = 16;

MixOptions small_cells() {
  MixOptions options;
  options.cell_floats = kCellFloats;
  return options;
}

std::vector<float> values_of(std::uint64_t seed) {
  Random random(seed);
  return random_values(random, kCells * kCellFloats);
}

// An initiator, a responder, and the messages between them.
struct Conversation {
  explicit Conversation(Session s = session_of(7, 1, 2)) : session(s) {}

  MixResult<Parcel> lend(std::size_t cells) {
    const Cells next = offering.next(cells);
    rooms.emplace_back(initiator.mixer->room(next));
    auto parcel = offering.lend(next, rooms.back().bytes());
    if (parcel) sent.push_back(*parcel);
    return parcel;
  }
  MixResult<Parcel> answer(const Parcel& chunk) {
    rooms.emplace_back(Mixer::answer_room(chunk));
    return serving.take(chunk, rooms.back().bytes());
  }
  void accept() { serving.accept(*responder.mixer, seen_by_responder(session)); }

  Session session;
  Party initiator{values_of(1), small_cells()}, responder{values_of(2), small_cells()};
  std::uint64_t half_applied = 0;
  Offering offering{*initiator.mixer, session, half_applied};
  Serving serving{session.exchange};
  std::vector<Room> rooms;
  std::vector<Parcel> sent;
};

TEST_CASE("an exchange ends when every cell is answered, and then both replicas agree") {
  Conversation talk;
  talk.accept();
  REQUIRE(talk.offering.cells() == Cells{0, kCells});
  while (!talk.offering.over()) {
    REQUIRE(talk.lend(6).ok());
    const auto reply = talk.answer(talk.offering.oldest());
    REQUIRE(reply.ok());
    REQUIRE(talk.offering.take(*reply).ok());
  }
  REQUIRE(talk.sent.size() == 4);  // 6 + 6 + 6 + 2 cells
  REQUIRE(talk.offering.ending() == Ending::completed);
  REQUIRE(talk.offering.cells_answered() == kCells);
  REQUIRE(talk.offering.next(6).count == 0);
  REQUIRE(talk.serving.completed());
  REQUIRE_FALSE(talk.serving.poisoned());
  REQUIRE(talk.half_applied == 0);
  const std::vector<float> initiators = contents(talk.initiator.arena),
                           responders = contents(talk.responder.arena);
  for (std::size_t k = 0; k < initiators.size(); ++k) REQUIRE(near(initiators[k], responders[k], 1e-6));
}

TEST_CASE("an exchange of a part of the arena covers only the cells of that part") {
  Session session = session_of(7, 1, 2);
  session.part = 1;
  session.parts = 4;
  Conversation talk(session);
  talk.accept();
  REQUIRE(talk.offering.next(100) == Cells{5, 5});
  REQUIRE(talk.lend(100).ok());
  const auto reply = talk.answer(talk.sent.front());
  REQUIRE(reply.ok());
  REQUIRE(talk.serving.completed());
  REQUIRE(talk.offering.take(*reply).ok());
  REQUIRE(talk.offering.ending() == Ending::completed);
}

TEST_CASE("an exchange reports progress after each sixteenth of its cells, at least") {
  Conversation talk;
  talk.accept();
  std::vector<std::size_t> reported;
  REQUIRE_FALSE(talk.offering.report_due());
  for (std::size_t k = 0; k < kCells; ++k) {
    REQUIRE(talk.lend(1).ok());
    REQUIRE(talk.offering.take(*talk.answer(talk.sent.back())).ok());
    if (talk.offering.report_due()) reported.push_back(talk.offering.cells_answered());
    REQUIRE_FALSE(talk.offering.report_due());
  }
  REQUIRE(reported.size() == kCells);  // a sixteenth of 20 is one cell
  REQUIRE(reported.back() == kCells);
}

// The state of an initiator that has lent three chunks of four cells and has received replies for the first
// `answered` chunks.
struct InitiatorsEnd {
  std::string what;
  std::size_t answered;
  void (*happens)(Conversation& talk);
  Ending ending;
  std::uint64_t half_applied;
};

Parcel reply_to(Conversation& talk, std::size_t chunk) {
  for (std::size_t k = 0; k < chunk; ++k) REQUIRE(talk.answer(talk.sent[k]).ok());
  const auto reply = talk.answer(talk.sent[chunk]);
  REQUIRE(reply.ok());
  return *reply;
}

const InitiatorsEnd kInitiatorsEnds[] = {
    {"the partner refuses", 0, [](Conversation& talk) { talk.offering.refuse(); }, Ending::rejected, 0},
    {"the partner refuses after a reply", 1, [](Conversation& talk) { talk.offering.refuse(); },
     Ending::aborted, 2},
    {"the core gives up before a reply", 0, [](Conversation& talk) { talk.offering.abort(); },
     Ending::aborted, 3},
    {"the core gives up midway", 2, [](Conversation& talk) { talk.offering.abort(); }, Ending::aborted, 1},
    {"a reply is poisoned", 0,
     [](Conversation& talk) {
       const Parcel reply = reply_to(talk, 0);
       Room spoiled = copy_of(reply.values);
       as_floats(spoiled.bytes())[3] = std::numeric_limits<float>::quiet_NaN();
       Parcel poison = reply;
       poison.values = spoiled.bytes();
       const auto mixed = talk.offering.take(poison);
       REQUIRE_FALSE(mixed.ok());
       REQUIRE(mixed.error().fault == MixFault::not_finite);
     },
     Ending::poisoned, 3},
    {"the replies come out of order", 0,
     [](Conversation& talk) {
       const auto mixed = talk.offering.take(reply_to(talk, 1));
       REQUIRE_FALSE(mixed.ok());
       REQUIRE(mixed.error().fault == MixFault::shape);
     },
     Ending::aborted, 3},
    {"a reply comes twice", 0,
     [](Conversation& talk) {
       const Parcel reply = reply_to(talk, 0);
       REQUIRE(talk.offering.take(reply).ok());
       REQUIRE_FALSE(talk.offering.take(reply).ok());
     },
     Ending::aborted, 2},
    {"a reply comes while none is due", 3,
     [](Conversation& talk) {
       const auto mixed = talk.offering.take(talk.sent[2]);
       REQUIRE_FALSE(mixed.ok());
       REQUIRE(mixed.error().fault == MixFault::late);
     },
     Ending::aborted, 0},
};

TEST_CASE("an exchange that does not complete ends every loan and counts what may be half applied") {
  for (const InitiatorsEnd& end : kInitiatorsEnds) {
    INFO(end.what);
    Conversation talk;
    talk.accept();
    for (int k = 0; k < 3; ++k) REQUIRE(talk.lend(4).ok());
    for (std::size_t k = 0; k < end.answered; ++k)
      REQUIRE(talk.offering.take(*talk.answer(talk.sent[k])).ok());
    REQUIRE(talk.offering.in_flight() == 3 - end.answered);
    end.happens(talk);
    REQUIRE(talk.offering.over());
    REQUIRE(talk.offering.ending() == end.ending);
    REQUIRE(talk.half_applied == end.half_applied);
    REQUIRE(talk.offering.in_flight() == 0);
    REQUIRE(talk.offering.next(4).count == 0);
    // Later calls change nothing: the first ending counts.
    talk.offering.abort();
    talk.offering.refuse();
    REQUIRE(talk.offering.ending() == end.ending);
    REQUIRE(talk.half_applied == end.half_applied);
    // Every cell can be lent again.
    Offering another{*talk.initiator.mixer, session_of(8, 1, 2), talk.half_applied};
    Room room(talk.initiator.mixer->room(another.next(kCells)));
    REQUIRE(another.lend(another.next(kCells), room.bytes()).ok());
  }
}

TEST_CASE("an initiator whose own replica is lost lends nothing, and may still abort its loans") {
  Conversation talk;
  REQUIRE(talk.lend(4).ok());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  talk.initiator.arena.write(5 * kCellFloats, std::span(&nan, 1));
  const auto parcel = talk.lend(4);
  REQUIRE_FALSE(parcel.ok());
  REQUIRE(parcel.error().fault == MixFault::own_replica);
  REQUIRE_FALSE(talk.offering.over());
  REQUIRE(talk.offering.in_flight() == 1);
  talk.offering.abort();
  REQUIRE(talk.offering.ending() == Ending::aborted);
  REQUIRE(talk.half_applied == 1);
}

TEST_CASE("a skipped chunk counts as answered and changes nothing") {
  Conversation talk;
  REQUIRE(talk.lend(kCells).ok());
  talk.offering.skip();
  REQUIRE(talk.offering.ending() == Ending::completed);
  REQUIRE(contents(talk.initiator.arena) == values_of(1));
}

// A chunk that a responder receives after it has answered two chunks of four cells.
struct ResponderRejects {
  std::string what;
  std::size_t first, count;  // cells
};

const ResponderRejects kResponderRejects[] = {
    {"a duplicate of the last chunk", 4, 4},      {"a late chunk from before", 0, 4},
    {"a chunk that overlaps the last one", 7, 4}, {"a chunk behind a gap", 9, 4},
    {"a chunk beyond the arena", 8, 13},
};

TEST_CASE("a responder mixes only the next chunk, and none after an error") {
  for (const ResponderRejects& rejected : kResponderRejects) {
    INFO(rejected.what);
    Conversation talk;
    talk.accept();
    for (int k = 0; k < 3; ++k) REQUIRE(talk.lend(4).ok());
    for (int k = 0; k < 2; ++k) REQUIRE(talk.answer(talk.sent[k]).ok());
    Parcel chunk;
    chunk.offset = rejected.first * kCellFloats;
    chunk.floats = rejected.count * kCellFloats;
    const Room values(sizeof(float) * chunk.floats);
    chunk.values = values.bytes();
    const std::vector<float> before = contents(talk.responder.arena);
    const auto reply = talk.answer(chunk);
    REQUIRE_FALSE(reply.ok());
    REQUIRE(reply.error().fault == MixFault::sequence);
    REQUIRE_FALSE(talk.answer(talk.sent[2]).ok());
    REQUIRE(contents(talk.responder.arena) == before);
    REQUIRE_FALSE(talk.serving.completed());
    REQUIRE_FALSE(talk.serving.poisoned());
  }
}

TEST_CASE("a responder rejects a chunk that does not consist of whole cells") {
  Conversation talk;
  talk.accept();
  REQUIRE(talk.lend(4).ok());
  Parcel chunk = talk.sent.front();
  chunk.floats -= 1;
  chunk.values = chunk.values.first(sizeof(float) * chunk.floats);
  const auto reply = talk.answer(chunk);
  REQUIRE_FALSE(reply.ok());
  REQUIRE(reply.error().fault == MixFault::shape);
  REQUIRE_FALSE(talk.serving.poisoned());
  const auto after = talk.answer(talk.sent.front());
  REQUIRE_FALSE(after.ok());
  REQUIRE(after.error().fault == MixFault::sequence);
}

TEST_CASE("a poisoned chunk ends an answer as poisoned, and the responder's own loss does not") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const bool own : {false, true}) {
    Conversation talk;
    talk.accept();
    REQUIRE(talk.lend(4).ok());
    Room spoiled = copy_of(talk.sent.front().values);
    Parcel chunk = talk.sent.front();
    chunk.values = spoiled.bytes();
    if (own) {
      talk.responder.arena.write(3, std::span(&nan, 1));
    } else {
      as_floats(spoiled.bytes())[3] = nan;
    }
    const auto reply = talk.answer(chunk);
    REQUIRE_FALSE(reply.ok());
    REQUIRE(reply.error().fault == (own ? MixFault::own_replica : MixFault::not_finite));
    REQUIRE(talk.serving.poisoned() == !own);
    REQUIRE_FALSE(talk.serving.completed());
  }
}

TEST_CASE("an offer that is withdrawn before or after its acceptance is not completed") {
  Conversation talk;
  REQUIRE_FALSE(talk.serving.accepted());
  REQUIRE_FALSE(talk.serving.completed());
  talk.accept();
  REQUIRE(talk.lend(kCells).ok());
  REQUIRE_FALSE(talk.serving.completed());
  REQUIRE(talk.answer(talk.sent.front()).ok());
  REQUIRE(talk.serving.completed());
  talk.serving.abort();  // the responder's replica is lost
  REQUIRE_FALSE(talk.serving.completed());
  REQUIRE_FALSE(talk.answer(talk.sent.front()).ok());
}

TEST_CASE("push-sum takes back the mass of a rejected exchange, and loses that of an aborted one") {
  for (const bool refused : {true, false}) {
    MixOptions options = small_cells();
    options.rule = Rule::push_sum;
    Party party(values_of(1), options);
    std::uint64_t half_applied = 0;
    Offering offering(*party.mixer, session_of(7, 1, 2), half_applied);
    const Cells cells = offering.next(kCells);
    Room room(party.mixer->room(cells));
    REQUIRE(offering.lend(cells, room.bytes()).ok());
    if (refused) {
      offering.refuse();
    } else {
      offering.abort();
    }
    REQUIRE((party.mixer->counters().lost_weight > 0) == !refused);
    REQUIRE(half_applied == (refused ? 0 : 1));
  }
}

}  // namespace
}  // namespace starling::training
