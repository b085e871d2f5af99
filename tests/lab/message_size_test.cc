#include "lab/world/network/packet.h"

#include "base/random.h"
#include "tests/catch.h"
#include "wire/codec.h"

namespace starling::lab {
namespace {

std::string text(Random& random, std::size_t least, std::size_t most) {
  return std::string(least + random.below(most - least + 1), 'x');
}

// PublicKey, Signature or Nonce: as random as real ones.
template <class Out>
Out bytes(Random& random) {
  Out out;
  for (std::byte& b : out.bytes) b = static_cast<std::byte>(random.below(256));
  return out;
}

wire::Member member(Random& random) {
  wire::Member m;
  m.id = PeerId{random.bits() | 1};
  m.name = text(random, 1, 12);
  m.address = {text(random, 2, 15), 7100};
  m.incarnation = static_cast<std::uint32_t>(random.below(3));
  m.liveness = static_cast<wire::Liveness>(random.below(4));
  m.phase = static_cast<wire::Phase>(random.below(4));
  m.samples = random.below(2) * random.bits();
  m.steps = m.samples / 32;
  if (m.liveness == wire::Liveness::suspect) m.accuser = PeerId{random.bits() | 1};
  m.key = bytes<PublicKey>(random);
  m.signature = bytes<Signature>(random);
  return m;
}

std::vector<wire::Member> members(Random& random) {
  std::vector<wire::Member> list(random.below(2) * random.below(100));
  for (auto& m : list) m = member(random);
  return list;
}

// Most swarms follow the topology they began with.
wire::Revision revision(Random& random) {
  return random.chance(0.5) ? wire::Revision{} : wire::Revision{1 + random.below(99), PeerId{random.bits()}};
}

wire::Message request(Random& random) {
  wire::PingRequest request;
  request.sequence = 1 + random.below(99);
  request.target = PeerId{random.bits() | 1};
  request.address = {"p1", 7100};
  request.members = members(random);
  return request;
}

wire::Message gossip(Random& random) {
  wire::Gossip gossip{members(random), random.chance(0.5), {}};
  for (std::size_t k = random.below(200); k > 0; --k)
    gossip.progress.push_back({PeerId{random.bits() | 1}, k});
  return gossip;
}

wire::Message welcome(Random& random) {
  wire::Manifest manifest{"lenet", "mnist", random.bits(), 129'068, 1, {}};
  for (std::size_t k = random.below(20); k > 0; --k)
    manifest.settings.push_back({text(random, 5, 25), text(random, 1, 12)});
  return wire::Welcome{manifest, Duration{5}, members(random)};
}

wire::Message later_message(Random& random, std::size_t kind) {
  switch (kind) {
    case 15:
      return wire::Rewire{{1 + random.below(99), PeerId{random.bits()}},
                          text(random, 4, 4000),
                          bytes<PublicKey>(random),
                          bytes<Signature>(random)};
    case 16:
      return wire::Proof{bytes<Signature>(random)};
    case 17:
      return wire::Call{PeerId{random.bits() | 1}, PeerId{random.bits() | 1},
                        static_cast<wire::Purpose>(random.below(3)), random.bits() | 1};
    case 18:
      return wire::ReachRequest{1 + random.below(99)};
    case 19:
      return wire::ReachReport{1 + random.below(99), random.chance(0.5), {text(random, 2, 30), 7100}};
    case 20:
      return wire::CircuitRequest{PeerId{random.bits() | 1}};
    default:
      return wire::Circuit{PeerId{random.bits() | 1}};
  }
}

wire::Message message(Random& random, std::size_t kind) {
  switch (kind) {
    case 0:
      return wire::Hello{"starling",
                         PeerId{random.bits() | 1},
                         text(random, 1, 20),
                         {text(random, 2, 30), 7100},
                         static_cast<wire::Purpose>(random.below(2)),
                         bytes<PublicKey>(random),
                         bytes<wire::Nonce>(random),
                         bytes<Signature>(random)};
    case 1:
      return wire::Refusal{wire::RefusalReason::not_ready, text(random, 10, 80)};
    case 2: {
      wire::Ping ping{1 + random.below(99), PeerId{random.bits() | 1}, members(random)};
      if (random.chance(0.5)) {  // it carries out a request
        ping.requester = PeerId{random.bits() | 1};
        ping.requested = 1 + random.below(99);
      }
      return ping;
    }
    case 3:
      return request(random);
    case 4: {
      wire::Ack ack{1 + random.below(99), members(random)};
      if (random.chance(0.5)) ack.on_behalf = PeerId{random.bits() | 1};
      if (random.chance(0.5)) ack.signature = bytes<Signature>(random);
      return ack;
    }
    case 5:
      return gossip(random);
    case 6:
      return wire::Digest{std::vector<std::uint64_t>(wire::kDigestBuckets, 7), revision(random)};
    case 7:
      return wire::View{random.bits(), true, members(random), revision(random)};
    case 8:
      return wire::Join{member(random)};
    case 9:
      return welcome(random);
    case 10:
      return wire::Leave{member(random)};
    case 11:
      return wire::ExchangeOffer{3, random.bits(), 129'068, 32'768};
    case 12:
      return wire::ExchangeRefusal{3, wire::RefusalReason::busy};
    case 13:
      return wire::StateRequest{random.bits(), 32'768, 5, random.below(2) * random.bits()};
    case 14:
      return wire::StateHead{129'068, 4, 1'000 * random.below(2)};
    default:
      return later_message(random, kind);
  }
}

}  // namespace

TEST_CASE("a message's size is computed without encoding it") {
  Random random(5);
  for (std::size_t kind = 0; kind < std::variant_size_v<wire::Message>; ++kind) {
    for (int k = 0; k < 200; ++k) {
      const wire::Message m = message(random, kind);
      REQUIRE(m.index() == kind);
      const auto said = static_cast<double>(frame_bytes(m));
      const auto true_size = static_cast<double>(wire::encode_frame(m)->size());
      CAPTURE(wire::name(m), said, true_size);
      CHECK(said <= 1.2 * true_size);
      CHECK(said >= 0.85 * true_size);
    }
  }
}

}  // namespace starling::lab
