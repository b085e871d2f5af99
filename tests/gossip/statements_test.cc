// What members sign: the bytes of the statements, and which fields they cover.
#include "gossip/members/statements.h"

#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/catch.h"
#include "tests/gossip/story.h"

namespace starling::gossip {

using wire::Liveness;
using wire::Member;
using wire::Phase;

namespace {

using Statement = std::vector<std::byte>;

Member full_member() {
  Member m = member(2);
  m.incarnation = 3;
  m.liveness = Liveness::suspect;
  m.samples = 640;
  m.steps = 10;
  m.accuser = PeerId{5};
  m.http = "p2:8080";
  m.device = "cuda:0";
  return by_itself(m);
}

wire::Rewire rewire_of(std::uint64_t author) {
  wire::Rewire rewire{{7, PeerId{author}}, "ring", identity_of(author).key(), {}};
  rewire.signature = identity_of(author).sign(statement_of(rewire));
  return rewire;
}

using Change = std::function<void(Member&)>;

const std::map<std::string, Change>& signed_fields() {
  static const std::map<std::string, Change> kFields = {
      {"key", [](Member& m) { m.key.bytes[31] = std::byte{1}; }},
      {"incarnation", [](Member& m) { m.incarnation = 4; }},
      {"a high byte of the incarnation", [](Member& m) { m.incarnation = 3 + (1U << 24); }},
      {"left", [](Member& m) { m.liveness = Liveness::left; }},
      {"phase", [](Member& m) { m.phase = Phase::finished; }},
      {"port", [](Member& m) { m.address.port = 7101; }},
      {"a high byte of the port", [](Member& m) { m.address.port = 7100 ^ 0x100; }},
      {"host", [](Member& m) { m.address.host = "p3"; }},
      {"name", [](Member& m) { m.name = "p3"; }},
      {"http", [](Member& m) { m.http.clear(); }},
      {"device", [](Member& m) { m.device = "cuda:1"; }},
      {"a further address",
       [](Member& m) {
         m.also = {{"p2", 7101}};
       }},
      {"the port of a further address",
       [](Member& m) {
         m.also = {{"p2", 7102}};
       }},
      {"two further addresses",
       [](Member& m) {
         m.also = {{"p2", 7101}, {"p2", 7101}};
       }},
      {"a home", [](Member& m) { m.homes = {PeerId{7}}; }},
      {"two homes",
       [](Member& m) {
         m.homes = {PeerId{7}, PeerId{8}};
       }},
      {"bandwidth for others", [](Member& m) { m.relays = 7; }},
  };
  return kFields;
}

}  // namespace

TEST_CASE("every signed field changes a member's statement in its own way") {
  const Member genuine = full_member();
  REQUIRE(is_authentic(identity_of(9), genuine));
  std::set<Statement> statements{statement_of(genuine)};
  for (const auto& [field, change] : signed_fields()) {
    CAPTURE(field);
    Member changed = genuine;
    change(changed);
    CHECK(statements.insert(statement_of(changed)).second);
    CHECK_FALSE(is_authentic(identity_of(9), changed));
  }
  // A signature of other bytes, and another id for the same key.
  Member other = genuine;
  other.signature.bytes[0] ^= std::byte{1};
  CHECK_FALSE(is_authentic(identity_of(9), other));
  other = genuine;
  other.id = PeerId{3};
  CHECK_FALSE(is_authentic(identity_of(9), other));
}

TEST_CASE("what the sender of a message adds to a member is not signed") {
  const Member genuine = full_member();
  const std::vector<Change> changes = {
      [](Member& m) { m.liveness = Liveness::alive; }, [](Member& m) { m.liveness = Liveness::failed; },
      [](Member& m) { m.samples = UINT64_MAX; },       [](Member& m) { m.steps = 0; },
      [](Member& m) { m.accuser = PeerId{}; },
  };
  for (const Change& change : changes) {
    Member changed = genuine;
    change(changed);
    CHECK(is_authentic(identity_of(9), changed));
  }
}

TEST_CASE("nobody else can sign for a member: neither with its own key nor with the member's") {
  Member forged = full_member();
  forged.phase = Phase::finished;
  forged.signature = identity_of(9).sign(statement_of(forged));
  CHECK_FALSE(is_authentic(identity_of(9), forged));
  forged.key = identity_of(9).key();
  forged.signature = identity_of(9).sign(statement_of(forged));
  CHECK_FALSE(is_authentic(identity_of(9), forged));

  wire::Rewire rewire = rewire_of(9);
  CHECK(is_authentic(identity_of(1), rewire));
  rewire.revision.author = PeerId{2};
  CHECK_FALSE(is_authentic(identity_of(1), rewire));
}

TEST_CASE("the bytes of the statements are as documented") {
  Statement expected;
  const auto put = [&](std::initializer_list<int> bytes) {
    for (const int byte : bytes) expected.push_back(static_cast<std::byte>(byte));
  };
  const auto put_key = [&](std::uint64_t k) {
    const PublicKey& key = identity_of(k).key();
    expected.insert(expected.end(), key.bytes.begin(), key.bytes.end());
  };
  Member m = full_member();
  m.incarnation = 0x0102;
  m.http.clear();
  m.device = "cpu";
  put({1});
  put_key(2);
  put({2, 1, 0, 0, 0, 1, 0xbc, 0x1b});  // incarnation, not left, training, port 7100
  put({2, 0, 0, 0, 'p', '2', 2, 0, 0, 0, 'p', '2', 0, 0, 0, 0, 3, 0, 0, 0, 'c', 'p', 'u'});
  m.also = {{"q", 258}};
  m.homes = {PeerId{5}};
  m.relays = 256;
  put({1, 2, 1, 1, 0, 0, 0, 'q'});
  put({1, 5, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0});
  CHECK(statement_of(m) == expected);

  expected.clear();
  put({2});
  put_key(9);
  put({7, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 'r', 'i', 'n', 'g'});
  CHECK(statement_of(rewire_of(9)) == expected);

  expected.clear();
  put({5});  // 3 and 4 are those of the handshake
  put_key(2);
  put({9, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0});
  CHECK(answer_statement(identity_of(2).key(), PeerId{9}, 256) == expected);
}

TEST_CASE("no part of a text can be shifted into the next one: equal statements have equal fields") {
  using Fields = std::tuple<std::uint32_t, bool, Phase, std::uint16_t, std::string, std::string, std::string,
                            std::string>;
  Random random(7);
  const auto text = [&] {
    std::string s;
    for (std::uint64_t k = random.below(4); k > 0; --k) s += static_cast<char>(random.below(2));
    return s;
  };
  std::map<Statement, Fields> meant;
  std::size_t repeated = 0;
  for (int k = 0; k < 50'000; ++k) {
    Member m = member(2);
    m.incarnation = static_cast<std::uint32_t>(random.below(2));
    m.liveness = random.chance(0.5) ? Liveness::left : Liveness::alive;
    m.phase = static_cast<Phase>(random.below(2));
    m.address = {text(), static_cast<std::uint16_t>(1 + random.below(2))};
    m.name = text();
    m.http = text();
    m.device = text();
    const Fields fields{
        m.incarnation, m.liveness == Liveness::left, m.phase, m.address.port, m.address.host, m.name, m.http,
        m.device};
    const auto [entry, is_new] = meant.try_emplace(statement_of(m), fields);
    repeated += is_new ? 0 : 1;
    REQUIRE(entry->second == fields);
  }
  REQUIRE(repeated > 0);
}

TEST_CASE("a signature of one kind does not verify as another kind") {
  const Identity& signer = identity_of(9);
  Member m = by_itself(member(9));
  wire::Rewire rewire = rewire_of(9);
  const Signature of_member = m.signature, of_rewire = rewire.signature, of_answer = answer_of(9, 1, 7);
  const auto is_answer = [&](const Signature& signature) {
    return signer.verify(signer.key(), answer_statement(signer.key(), PeerId{1}, 7), signature);
  };
  CHECK(is_answer(of_answer));
  CHECK_FALSE(is_answer(of_member));
  CHECK_FALSE(is_answer(of_rewire));
  for (const Signature& wrong : {of_rewire, of_answer}) {
    m.signature = wrong;
    CHECK_FALSE(is_authentic(signer, m));
  }
  for (const Signature& wrong : {of_member, of_answer}) {
    rewire.signature = wrong;
    CHECK_FALSE(is_authentic(signer, rewire));
  }
  // Even a topology that spells the rest of a member's statement: the first byte tells the kinds apart.
  const Statement statement = statement_of(m);
  wire::Rewire spelled{{load<std::uint64_t>(statement.data() + 33), PeerId{9}}, {}, m.key, {}};
  for (const std::byte byte : Bytes(statement).subspan(33 + 8 + 4))
    spelled.topology += static_cast<char>(byte);
  CHECK(statement_of(spelled).front() != statement.front());
  CHECK_FALSE(signer.verify(m.key, statement_of(spelled), of_member));
}

TEST_CASE("of two statements the later is that of the higher incarnation, then the goodbye, then the phase") {
  const std::vector<Member> in_order = {
      said_to_be(member(2, Phase::joining), Liveness::failed, 0),
      said_to_be(member(2, Phase::training), Liveness::alive, 0),
      said_to_be(member(2, Phase::finished), Liveness::suspect, 0),
      said_to_be(member(2, Phase::training), Liveness::left, 0),
      said_to_be(member(2, Phase::finished), Liveness::left, 0),
      said_to_be(member(2, Phase::joining), Liveness::alive, 1),
  };
  for (std::size_t k = 0; k + 1 < in_order.size(); ++k)
    CHECK(version_of(in_order[k]) < version_of(in_order[k + 1]));
}

}  // namespace starling::gossip
