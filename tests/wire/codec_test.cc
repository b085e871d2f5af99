#include "wire/codec.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/catch.h"
#include "tests/wire/random_message.h"
#include "wire/frame.h"

namespace starling::wire {
namespace {

Member good_member() {
  return {PeerId{7}, "p0", {"127.0.0.1", 7100}, 3, Liveness::alive, Phase::training, 640, 10, {}};
}

bool comes_back(const Message& message) {
  const auto decoded = decode_message(encode_message(message));
  return decoded.ok() && *decoded == message;
}

std::string refusal_of(const Message& message) {
  const auto decoded = decode_message(encode_message(message));
  REQUIRE_FALSE(decoded.ok());
  return decoded.error().message;
}

}  // namespace

TEST_CASE("every message survives encoding and decoding") {
  Random r(11);
  for (std::size_t kind = 0; kind < std::variant_size_v<Message>; ++kind) {
    for (int i = 0; i < 300; ++i) {
      const Message message = testing::random_message(r, kind);
      INFO(name(message));
      REQUIRE(comes_back(message));
    }
  }
}

TEST_CASE("decoding does not depend on alignment") {
  Random r(12);
  for (std::size_t shift = 0; shift < 8; ++shift) {
    const Message message = testing::random_message(r, 6);
    const auto body = encode_message(message);
    std::vector<std::byte> moved(shift);
    moved.insert(moved.end(), body.begin(), body.end());
    const auto decoded = decode_message(Bytes(moved).subspan(shift));
    REQUIRE(decoded.ok());
    CHECK(*decoded == message);
  }
}

TEST_CASE("damaged, cut and random bodies never crash the decoder, and decoded messages respect the limits") {
  Random r(13);
  std::size_t yielded = 0;
  const auto judge = [&](Bytes body) {
    const auto decoded = decode_message(body);
    if (!decoded.ok()) {
      REQUIRE_FALSE(decoded.error().message.empty());
      return;
    }
    ++yielded;
    REQUIRE(comes_back(*decoded));
  };
  for (int round = 0; round < 10; ++round) {
    for (std::size_t kind = 0; kind < std::variant_size_v<Message>; ++kind) {
      auto body = encode_message(testing::random_message(r, kind));
      for (int i = 0; i < 300; ++i) {
        auto damaged = body;
        for (std::uint64_t flips = 1 + r.below(4); flips > 0; --flips) {
          damaged[r.below(damaged.size())] ^= static_cast<std::byte>(1 + r.below(255));
        }
        judge(damaged);
        judge(Bytes(body).first(r.below(body.size())));
      }
    }
  }
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> noise(r.below(256));
    for (std::byte& b : noise) b = static_cast<std::byte>(r.below(r.chance(0.5) ? 8 : 256));
    judge(noise);
  }
  CHECK(yielded > 0);  // a changed number is still a valid message; checksums detect that
}

TEST_CASE("changing any single byte of a message is harmless") {
  Random r(14);
  for (std::size_t kind = 0; kind < std::variant_size_v<Message>; ++kind) {
    auto body = encode_message(testing::random_message(r, kind));
    for (std::size_t i = 0; i < std::min<std::size_t>(body.size(), 400); ++i) {
      const std::byte good = body[i];
      for (const unsigned value : {0U, 1U, 0x7fU, 0x80U, 0xffU}) {
        body[i] = static_cast<std::byte>(value);
        const auto decoded = decode_message(body);
        if (decoded.ok()) REQUIRE(comes_back(*decoded));
      }
      body[i] = good;
    }
  }
}

TEST_CASE("unknown enumeration values are rejected") {
  Member m = good_member();
  m.liveness = static_cast<Liveness>(4);
  CHECK(refusal_of(Join{m}) == "Join message: liveness is unknown (4)");
  m = good_member();
  m.phase = static_cast<Phase>(200);
  CHECK(refusal_of(Gossip{{good_member(), m}, true}) == "Gossip message: phase is unknown (200)");
  constexpr auto kUnknown = static_cast<RefusalReason>(static_cast<int>(RefusalReason::address_taken) + 1);
  CHECK(comes_back(Refusal{RefusalReason::address_taken, "no"}));
  CHECK_FALSE(comes_back(Refusal{kUnknown, "no"}));
  CHECK_FALSE(comes_back(ExchangeRefusal{1, kUnknown}));
  CHECK_FALSE(comes_back(Digest{std::vector<std::uint64_t>(kDigestBuckets - 1)}));
  CHECK_FALSE(comes_back(Digest{std::vector<std::uint64_t>(kDigestBuckets + 1)}));
  CHECK_FALSE(comes_back(Hello{"s", PeerId{1}, "n", {"h", 1}, static_cast<Purpose>(3)}));
}

TEST_CASE("a member without id or address is rejected") {
  const auto with = [](auto change) {
    Member m = good_member();
    change(m);
    return comes_back(Leave{m});
  };
  CHECK(with([](Member&) {}));
  CHECK_FALSE(with([](Member& m) { m.id = PeerId{}; }));
  CHECK_FALSE(with([](Member& m) { m.address.host.clear(); }));
  CHECK_FALSE(with([](Member& m) { m.address.port = 0; }));
  // One that cannot be dialed has neither a host nor a port.
  CHECK(with([](Member& m) { m.address = {}; }));
  CHECK(comes_back(Hello{"swarm", PeerId{5}, "n", {}, Purpose::relay}));
  CHECK_FALSE(with([](Member& m) { m.address.host.assign(kHostBytesMax + 1, 'h'); }));
  CHECK_FALSE(with([](Member& m) { m.name.assign(kNameBytesMax + 1, 'n'); }));
  CHECK_FALSE(with([](Member& m) { m.name = "two\nlines"; }));
  CHECK_FALSE(comes_back(Hello{"swarm", PeerId{}, "n", {"h", 1}, Purpose::control}));
  CHECK_FALSE(comes_back(PingRequest{1, PeerId{}, {"h", 1}, {}}));
  CHECK_FALSE(comes_back(PingRequest{1, PeerId{3}, {"h", 0}, {}}));
  CHECK_FALSE(comes_back(Gossip{{}, false, {{PeerId{}, 5}}}));
  CHECK_FALSE(comes_back(Hello{"swarm", PeerId{5}, "n", {"", 1}, Purpose::control}));
}

TEST_CASE("a member has a few further addresses, or a few homes") {
  const auto with = [](auto change) {
    Member m = good_member();
    change(m);
    return comes_back(Leave{m});
  };
  CHECK(with([](Member& m) { m.also.assign(kAlsoMax, {"h", 1}); }));
  CHECK_FALSE(with([](Member& m) { m.also.assign(kAlsoMax + 1, {"h", 1}); }));
  CHECK_FALSE(with([](Member& m) { m.also = {{"h", 0}}; }));
  CHECK_FALSE(with([](Member& m) { m.also = {{"a b", 1}}; }));
  CHECK_FALSE(with([](Member& m) { m.also = {{}}; }));
  CHECK_FALSE(with([](Member& m) { m.homes = {PeerId{7}}; }));  // it has an address
  const auto without_address = [&](auto change) {
    return with([&](Member& m) {
      m.address = {};
      change(m);
    });
  };
  CHECK(without_address([](Member& m) { m.homes.assign(kHomesMax, PeerId{7}); }));
  CHECK_FALSE(without_address([](Member& m) { m.homes = {PeerId{}}; }));
  CHECK_FALSE(without_address([](Member& m) { m.also = {{"h", 1}}; }));
  CHECK_FALSE(comes_back(Call{PeerId{}, PeerId{1}, Purpose::bulk, 1}));
  CHECK_FALSE(comes_back(Call{PeerId{1}, PeerId{}, Purpose::bulk, 1}));
  CHECK_FALSE(comes_back(Call{PeerId{1}, PeerId{2}, Purpose::bulk, 0}));
  CHECK_FALSE(comes_back(Call{PeerId{1}, PeerId{2}, static_cast<Purpose>(3), 1}));
}

TEST_CASE("a host or a name that a reader of addresses or names rejects is rejected on the wire") {
  const auto with = [](const std::string& host, const std::string& name) {
    Member m = good_member();
    m.address.host = host;
    m.name = name;
    return comes_back(Gossip{{good_member(), m}, false, {}});
  };
  CHECK(with("::1", "[\xc3\xb6]"));
  for (const char* text : {"a b", "\xff", "\xc2\x9b", "\xe2\x80\xae", "\xe2\x80\xa8", "\xe2\x81\xa6"}) {
    CHECK_FALSE(with(text, "p"));
    CHECK_FALSE(with("h", text));
    CHECK_FALSE(comes_back(Hello{"swarm", PeerId{1}, text, {"h", 1}, Purpose::control}));
    CHECK_FALSE(comes_back(Hello{"swarm", PeerId{1}, "p", {text, 1}, Purpose::control}));
    CHECK_FALSE(comes_back(PingRequest{1, PeerId{3}, {text, 1}, {}}));
  }
  CHECK_FALSE(with("[h]", "p"));
  CHECK_FALSE(comes_back(Refusal{RefusalReason::busy, "\xff"}));
  Member m = good_member();
  m.address.host = "a b";
  CHECK(refusal_of(Join{m}) == "Join message: host contains a space, a bracket or an unprintable character");
  m = good_member();
  m.name = "a b";
  CHECK(refusal_of(Join{m}) == "Join message: member name contains a space or an unprintable character");
}

TEST_CASE("texts and lists have length limits") {
  CHECK(comes_back(Refusal{RefusalReason::busy, std::string(kTextBytesMax, 'x')}));
  CHECK_FALSE(comes_back(Refusal{RefusalReason::busy, std::string(kTextBytesMax + 1, 'x')}));
  CHECK_FALSE(
      comes_back(Hello{std::string(kNameBytesMax + 1, 's'), PeerId{1}, "n", {"h", 1}, Purpose::control}));

  CHECK(comes_back(Ack{1, std::vector<Member>(kMembersMax, good_member())}));
  CHECK_FALSE(comes_back(Ack{1, std::vector<Member>(kMembersMax + 1, good_member())}));
  CHECK_FALSE(comes_back(Gossip{{}, false, std::vector<Progress>(kMembersMax + 1, Progress{PeerId{1}, 2})}));

  Welcome welcome{
      {"lenet", "mnist", 1, 2, 3, std::vector<ManifestEntry>(kSettingsMax, ManifestEntry{"k", "v"})},
      Duration{5},
      {good_member()}};
  CHECK(comes_back(welcome));
  welcome.manifest.settings.push_back({"k", "v"});
  CHECK_FALSE(comes_back(welcome));
  welcome.manifest.settings = {{"k", std::string(kSettingValueBytesMax, 'v')}};
  CHECK(comes_back(welcome));
  welcome.manifest.settings = {{"k", std::string(kSettingValueBytesMax + 1, 'v')}};
  CHECK_FALSE(comes_back(welcome));
}

TEST_CASE("numbers out of their range are rejected") {
  CHECK_FALSE(comes_back(Welcome{{}, Duration{-1}, {}}));
  CHECK_FALSE(comes_back(Welcome{{}, Duration::max(), {}}));
  CHECK_FALSE(comes_back(ExchangeOffer{1, 2, 3, 0}));
  CHECK_FALSE(comes_back(ExchangeOffer{1, 2, 3, kChunkFloatsMax + 1}));
  CHECK_FALSE(comes_back(ExchangeOffer{1, 2, kArenaFloatsMax + 1, 1}));
  CHECK_FALSE(comes_back(StateRequest{1, 0, 0}));
  CHECK(comes_back(Join{good_member(), {"0.4.0", std::vector<std::string>(kKnownMax, "gossip.rule")}}));
  CHECK_FALSE(comes_back(Join{good_member(), {"0.4.0", std::vector<std::string>(kKnownMax + 1, "a")}}));
  CHECK_FALSE(comes_back(Join{good_member(), {std::string(kNameBytesMax + 1, '0'), {}}}));
  Manifest manifest{"lenet", "mnist", 1, 1, 1, {}};
  manifest.facts.assign(kSettingsMax + 1, {"a", "b"});
  CHECK(refusal_of(Welcome{manifest, Duration{0}, {}}) == "Welcome message: facts has more than 256 entries");
  CHECK_FALSE(comes_back(StateHead{kArenaFloatsMax + 1, 1}));
}

TEST_CASE("a message of a type that later versions may have is recognized, and is no damage") {
  Random r(16);
  constexpr auto kLast = static_cast<std::uint8_t>(std::variant_size_v<Message>);
  auto body = encode_message(Circuit{testing::random_id(r)});
  CHECK_FALSE(is_later_message(body));
  int found = 0;
  for (std::byte& byte : body) {
    if (byte != std::byte{kLast}) continue;
    byte = std::byte{kLast + 1};
    const auto decoded = decode_message(body);
    if (is_later_message(body)) {
      ++found;
      REQUIRE_FALSE(decoded.ok());
      CHECK(decoded.error().message == "unknown message type " + std::to_string(kLast + 1));
      CHECK_FALSE(is_later_message(Bytes(body).first(8)));  // it is cut
    }
    byte = std::byte{kLast};
  }
  CHECK(found == 1);
  CHECK_FALSE(is_later_message(Bytes(body).first(3)));
}

TEST_CASE("a message above the frame limit is neither encoded nor decoded") {
  Member m = good_member();
  m.address.host.assign(kHostBytesMax, 'h');
  m.name.assign(kNameBytesMax, 'n');
  const Message large = Ack{1, std::vector<Member>(kMembersMax, m)};
  const auto frame = encode_frame(large);
  REQUIRE_FALSE(frame.ok());
  CHECK(frame.error().message.find("exceeds the limit") != std::string::npos);
  CHECK_FALSE(decode_message(encode_message(large)).ok());
}

TEST_CASE("arbitrary offsets and lengths are followed only within the limits") {
  Random r(15);
  auto body = encode_message(Ack{1, std::vector<Member>(64, testing::random_member(r))});
  for (int i = 0; i < 20'000; ++i) {
    auto damaged = body;
    const std::size_t at = r.below(damaged.size() / 4) * 4;
    store(damaged.data() + at, static_cast<std::uint32_t>(r.chance(0.5) ? r.below(body.size()) : r.bits()));
    const auto decoded = decode_message(damaged);
    if (!decoded.ok()) continue;
    const auto* ack = std::get_if<Ack>(&*decoded);
    if (ack != nullptr) REQUIRE(ack->members.size() <= kMembersMax);
  }
}

}  // namespace starling::wire
