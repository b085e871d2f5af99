// What a malicious or broken peer may send: every rule, every payload.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "tests/training/mixers.h"
#include "training/mixing/payload.h"
#include "training/mixing/values.h"

namespace starling::training {
namespace {

std::vector<MixOptions> all_options(std::size_t cell_floats) {
  std::vector<MixOptions> list;
  for (const Rule rule :
       {Rule::pairwise, Rule::clipped, Rule::push_sum, Rule::d_psgd, Rule::choco, Rule::noloco}) {
    for (const Payload payload : {Payload::f32, Payload::bf16, Payload::int8, Payload::top_k}) {
      MixOptions options;
      options.rule = rule;
      options.payload = payload;
      options.cell_floats = cell_floats;
      options.top_k = 0.2;
      if (traits(rule).takes(payload)) list.push_back(options);
    }
  }
  return list;
}

bool equal_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// Two peers of the rule that have exchanged before.
struct ExchangedPair {
  ExchangedPair(const MixOptions& options, Random& random, std::size_t floats)
      : a(random_values(random, floats), options), b(random_values(random, floats), options) {
    for (std::uint64_t round = 1; round <= 3; ++round) {
      begin_round(round);
      exchange(a, b, session(1, 2));
      for (Party* party : {&a, &b}) party->arena.add(0, random_values(random, floats));
    }
  }
  void begin_round(std::uint64_t round) {
    a.mixer->begin_round(round);
    b.mixer->begin_round(round);
  }
  Session session(std::uint64_t initiator, std::uint64_t responder) {
    return session_of(++number, initiator, responder);
  }

  Party a, b;
  std::uint64_t number = 0;
};

// Writes a value over one in the parcel, in any payload.
void poison(Packet& packet, float value, std::size_t at) {
  std::byte* bytes = packet.room.bytes().data() + (packet.parcel.values.data() - packet.room.bytes().data());
  if (packet.parcel.payload == Payload::bf16) {
    std::byte of[4];
    std::memcpy(of, &value, 4);
    std::memcpy(bytes + 2 * at, of + 2, 2);
  } else {  // the first scale of an int8 block whose steps are not all 0
    std::memcpy(bytes + (packet.parcel.payload == Payload::int8 ? 0 : 4 * at), &value, 4);
  }
}

}  // namespace

TEST_CASE("every rule rejects every kind of poison in every payload by its reason, and is unchanged") {
  Random random(1);
  for (const auto& options : all_options(64)) {
    for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity(), 1e38f, -1e38f, 0x1p61f}) {
      INFO(traits(options.rule).name << ", payload " << static_cast<int>(options.payload) << ", value "
                                     << value);
      ExchangedPair pair(options, random, 300);
      const auto before = contents(pair.a.arena);
      const Session theirs = pair.session(2, 1);
      auto offer = pair.b.lend(theirs, {1, 3});
      REQUIRE(offer.ok());
      poison(*offer, value, 5);
      const auto answered = pair.a.answer(seen_by_responder(theirs), offer->parcel);
      REQUIRE(!answered.ok());
      REQUIRE(answered.error().poisoned());
      const bool finite = std::isfinite(value) && options.payload != Payload::int8;  // 127 steps overflow
      if (options.payload != Payload::int8) {
        REQUIRE(answered.error().fault == (finite ? MixFault::too_large : MixFault::not_finite));
      }
      REQUIRE(equal_bits(contents(pair.a.arena), before));

      if (options.rule == Rule::push_sum) continue;  // there is no reply to poison
      const Session own = pair.session(1, 2);
      ExchangedPair fresh(options, random, 300);
      const auto as_it_was = contents(fresh.a.arena);
      const auto sent = fresh.a.lend(own, {1, 3});
      auto reply = fresh.b.answer(seen_by_responder(own), sent->parcel);
      REQUIRE(reply.ok());
      poison(*reply, value, 5);
      const auto completed = fresh.a.mixer->complete(own, sent->parcel, reply->parcel);
      REQUIRE(!completed.ok());
      REQUIRE(completed.error().poisoned());
      REQUIRE(equal_bits(contents(fresh.a.arena), as_it_was));
    }
  }
}

namespace {

// Corrupts a packet in one or several ways.
void lie(Random& random, Packet& packet) {
  for (std::uint64_t lies = 1 + random.below(3); lies > 0; --lies) {
    Parcel& parcel = packet.parcel;
    const MutableBytes bytes = packet.room.bytes();
    switch (random.below(8)) {
      case 0:
        parcel.offset = random.chance(0.5) ? random.bits() : random.below(400);
        break;
      case 1:
        parcel.floats = random.chance(0.5) ? random.below(1 << 18) : random.below(400);
        break;
      case 2:
        parcel.payload = static_cast<Payload>(random.below(5));
        break;
      case 3: {
        const auto bits = static_cast<std::uint32_t>(random.bits());
        std::memcpy(&parcel.weight, &bits, 4);
        break;
      }
      case 4:
        parcel.entries = static_cast<std::uint32_t>(random.chance(0.5) ? random.bits() : random.below(100));
        break;
      case 5:
        parcel.sequence = random.chance(0.5) ? random.bits() : random.below(3);
        break;
      case 6:
        parcel.values = parcel.values.first(random.below(parcel.values.size() + 1));
        break;
      default:
        for (std::uint64_t n = random.below(8); n > 0 && !bytes.empty(); --n) {
          bytes[random.below(bytes.size())] = static_cast<std::byte>(random.bits());
        }
    }
  }
}

}  // namespace

TEST_CASE("after any garbage every rule has acceptable values, and reads no byte outside the parcel") {
  for (const auto& options : all_options(32)) {
    INFO(traits(options.rule).name << ", payload " << static_cast<int>(options.payload));
    Random random(2);
    ExchangedPair pair(options, random, 300);
    std::uint64_t refused = 0, round = 3;
    for (int i = 0; i < 3000; ++i) {
      if (i % 50 == 0) pair.begin_round(++round);
      const bool reply_too = random.chance(0.5);
      Party& liar = reply_too ? pair.a : pair.b;
      Party& victim = reply_too ? pair.b : pair.a;
      const Session session = reply_too ? pair.session(2, 1) : pair.session(2, 1);
      const CellGrid& grid = victim.mixer->grid();
      const std::size_t first = random.below(grid.count());
      const Cells cells{first, 1 + random.below(grid.count() - first)};
      // A valid packet to corrupt; continue if there is none.
      Party& lender = reply_too ? victim : liar;
      auto sent = lender.lend(session, cells);
      if (!sent.ok()) continue;
      Packet packet{sent->parcel, copy_of(sent->parcel.values)};
      if (reply_too) {
        auto reply = liar.answer(seen_by_responder(session), sent->parcel);
        if (!reply.ok()) {
          lender.mixer->give_up(session, sent->parcel);
          continue;
        }
        packet = {reply->parcel, copy_of(reply->parcel.values)};
      }
      packet.parcel.values = packet.room.bytes();
      lie(random, packet);
      if (reply_too) {
        refused += !victim.mixer->complete(session, sent->parcel, packet.parcel).ok();
      } else {
        const std::size_t room =
            sizeof(float) * std::min<std::size_t>(packet.parcel.floats, 1 << 18) + Mixer::kRoomBesides;
        Room answer(room);
        refused += !victim.mixer->answer(seen_by_responder(session), packet.parcel, answer.bytes()).ok();
        liar.mixer->give_up(session, sent->parcel);
      }
      REQUIRE(all_acceptable(contents(victim.arena)));
      if (random.chance(0.05)) {  // diverged replicas restart
        for (Party* party : {&pair.a, &pair.b}) {
          party->arena.write(0, random_values(random, 300));
          party->mixer->adopt();
          party->mixer->begin_round(round + 1);
        }
        ++round;
      }
    }
    REQUIRE(refused > 500);
  }
}

}  // namespace starling::training
