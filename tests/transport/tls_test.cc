// The swarm's key: which peers are accepted, which are rejected and why, and that rejected handshakes leak
// nothing.
#include "transport/tls/tls.h"
#include "tests/contains.h"

#include <dirent.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/transport/world.h"
#include "transport/links/link_table.h"
#include "transport/tls/gcm.h"

namespace starling::transport {
namespace {

using namespace testing;

// A table that listens over TCP, with or without a key.
struct Peer {
  Peer(World& world, std::uint64_t id, std::shared_ptr<const TlsContext> tls, LinkTableOptions options = {})
      : transport(world.executor(), with(std::move(tls))),
        table(std::make_unique<LinkTable>(world.executor(), transport, self(id, anywhere()), events(),
                                          options)) {
    const auto listening = table->listen(anywhere());
    REQUIRE(listening.ok());
    address = *listening;
    table->set_hello(self(id, address).hello);
  }

  static TcpOptions with(std::shared_ptr<const TlsContext> tls) {
    TcpOptions options;
    options.tls = std::move(tls);
    return options;
  }

  LinkTableEvents events() {
    LinkTableEvents e;
    e.on_message = [this](PeerId from, const Address& at, wire::Message message) {
      if (const auto* ping = std::get_if<wire::Ping>(&message))
        table->send({from, at}, wire::Ack{ping->sequence, {}});
      if (std::holds_alternative<wire::Ack>(message)) ++acks;
    };
    e.on_unreachable = [this](const Endpoint&, LinkErrorKind kind, std::string sentence) {
      failures.push_back(kind);
      said = std::move(sentence);
    };
    e.on_refused = [this](LinkErrorKind kind, const std::string&, std::string sentence) {
      refused.push_back(kind);
      refusal = std::move(sentence);
    };
    return e;
  }

  void ping(const Peer& other) { table->send({{}, other.address}, wire::Ping{1, PeerId{9}, {}}); }

  TcpTransport transport;
  Address address;
  int acks = 0;
  std::vector<LinkErrorKind> failures, refused;
  std::string said, refusal;
  std::unique_ptr<LinkTable> table;
};

// The errors on both sides when `dialer` connects to `accepter`.
void check_kept_out(World& world, Peer& dialer, Peer& accepter, LinkErrorKind there, LinkErrorKind here,
                    const std::string& sentence) {
  dialer.ping(accepter);
  REQUIRE(world.until([&] { return !dialer.failures.empty() && !accepter.refused.empty(); }));
  CHECK(dialer.failures == std::vector{there});
  CHECK(accepter.refused == std::vector{here});
  CHECK(dialer.table->counters()[there] == 1);
  CHECK(accepter.table->counters()[here] == 1);
  CHECK(accepter.table->counters().links_accepted == 0);
  CHECK(accepter.table->handshakes() == 0);
  INFO(dialer.said);
  CHECK(contains(dialer.said, to_string(accepter.address)));
  CHECK(contains(dialer.said, sentence));
}

LinkErrorKind kind_of(const LinkResult<Frame>& frame) {
  REQUIRE_FALSE(frame.ok());
  return frame.error().kind;
}

// A peer with the key still gets an answer, perhaps late on a busy machine.
void check_serves(World& world, const Peer& peer) {
  Peer friend_of_it(world, 2, context());
  friend_of_it.ping(peer);
  std::size_t failed = 0;
  CHECK(world.until([&] {
    if (friend_of_it.failures.size() > failed) {
      ++failed;
      friend_of_it.ping(peer);
    }
    return friend_of_it.acks > 0;
  }));
}

std::size_t open_files() {
  DIR* folder = ::opendir("/proc/self/fd");
  REQUIRE(folder != nullptr);
  std::size_t n = 0;
  while (::readdir(folder) != nullptr) ++n;
  ::closedir(folder);
  return n;
}

// Two engines, connected by a channel that a test can corrupt.
struct Pair {
  explicit Pair(std::shared_ptr<const TlsContext> a, std::shared_ptr<const TlsContext> b)
      : dialer(std::move(a), TlsRole::dialer), accepter(std::move(b), TlsRole::accepter) {}

  // Passes the bytes of one engine to the other.
  static TlsBuffer take(TlsEngine& engine) { return std::exchange(engine.outgoing(), {}); }

  void shake() {
    REQUIRE(*dialer.shake() == false);
    const auto first = take(dialer);
    accepter.feed(first);
    REQUIRE(*accepter.shake() == false);
    const auto second = take(accepter);
    dialer.feed(second);
    REQUIRE(*dialer.shake() == true);
    const auto third = take(dialer);
    accepter.feed(third);
    REQUIRE(*accepter.shake() == true);
  }

  TlsEngine dialer, accepter;
};

}  // namespace

TEST_CASE("a peer dials with its first key and accepts all of its keys") {
  SwarmKey former, latter;
  former.bytes.fill(std::byte{7});
  latter.bytes.fill(std::byte{8});
  SwarmKeys added(former), promoted(latter);
  added.entries.push_back({latter, SwarmKeys::Mark::next});
  promoted.entries.push_back({former, SwarmKeys::Mark::old});
  // Neighboring steps of a change connect in both directions.
  const std::vector<SwarmKeys> steps = {former, added, promoted, latter};
  const auto made = [](const SwarmKeys& keys) {
    auto context = TlsContext::make(keys, "test");
    REQUIRE(context.ok());
    return *context;
  };
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    CAPTURE(i);
    Pair(made(steps[i]), made(steps[i + 1])).shake();
    Pair(made(steps[i + 1]), made(steps[i])).shake();
  }
  TlsEngine dialer(made(former), TlsRole::dialer), accepter(made(latter), TlsRole::accepter);
  REQUIRE(*dialer.shake() == false);
  const auto hello = Pair::take(dialer);
  accepter.feed(hello);
  const auto refused = accepter.shake();
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind == LinkErrorKind::wrong_key);
}

TEST_CASE("a connection continues when its key is removed, and is outdated then") {
  SwarmKey former, latter;
  former.bytes.fill(std::byte{7});
  latter.bytes.fill(std::byte{8});
  SwarmKeys both(former);
  both.entries.push_back({latter, SwarmKeys::Mark::next});
  const auto dialing = *TlsContext::make(former, "test"), accepting = *TlsContext::make(both, "test");
  Pair pair(dialing, accepting);
  pair.shake();
  CHECK_FALSE(pair.accepter.is_outdated());
  both.entries = {{latter}, {former, SwarmKeys::Mark::old}};
  REQUIRE(accepting->set_keys(both).ok());
  CHECK_FALSE(pair.accepter.is_outdated());
  REQUIRE(accepting->set_keys(latter).ok());
  CHECK(pair.accepter.is_outdated());
  CHECK_FALSE(pair.dialer.is_outdated());
  REQUIRE(pair.accepter.seal(bytes_of("the last chunk")).ok());
  const auto sent = Pair::take(pair.accepter);
  pair.dialer.feed(sent);
  std::array<std::byte, 64> plain{};
  CHECK(*pair.dialer.open(plain) == 14);
}

TEST_CASE("two peers with the same key communicate, and their traffic is encrypted") {
  Pair pair(context(), context());
  pair.shake();
  CHECK(pair.accepter.outgoing().empty());  // no session ticket
  const Bytes secret = bytes_of("the parameters of the replica, in plain words");
  REQUIRE(pair.dialer.seal(secret).ok());
  const auto sent = Pair::take(pair.dialer);
  const std::string_view seen(reinterpret_cast<const char*>(sent.data()), sent.size());
  CHECK(seen.find("parameters") == std::string_view::npos);
  pair.accepter.feed(sent);
  std::vector<std::byte> got(100);
  const auto opened = pair.accepter.open(got);
  REQUIRE(opened.ok());
  CHECK(std::equal(secret.begin(), secret.end(), got.begin(),
                   got.begin() + static_cast<std::ptrdiff_t>(*opened)));

  pair.dialer.finish();
  const auto last = Pair::take(pair.dialer);
  pair.accepter.feed(last);
  CHECK(*pair.accepter.open(got) == 0);
  CHECK(pair.accepter.ended());
}

TEST_CASE("any bit changed in transit is detected") {
  for (const std::size_t at : {std::size_t{5}, std::size_t{40}, std::size_t{120}}) {
    Pair pair(context(), context());
    pair.shake();
    REQUIRE(pair.accepter.seal(std::vector<std::byte>(100, std::byte{1})).ok());
    auto sent = Pair::take(pair.accepter);
    REQUIRE(sent.size() > at);
    sent[at] ^= std::byte{4};
    pair.dialer.feed(sent);
    std::vector<std::byte> got(100);
    const auto opened = pair.dialer.open(got);
    REQUIRE_FALSE(opened.ok());
    CHECK(opened.error().kind == LinkErrorKind::bad_checksum);
    CHECK(pair.dialer.open(got).error().kind == LinkErrorKind::bad_checksum);
  }
}

TEST_CASE("a recorded connection cannot be replayed") {
  Pair first(context(), context());
  REQUIRE(first.dialer.shake().ok());
  const auto greeting = Pair::take(first.dialer);
  // Only the ClientHello is accepted; a replay cannot continue after it.
  TlsEngine other(context(), TlsRole::accepter);
  other.feed(greeting);
  REQUIRE(*other.shake() == false);
  first.accepter.feed(greeting);
  REQUIRE(*first.accepter.shake() == false);
  const auto answer = Pair::take(first.accepter);
  first.dialer.feed(answer);
  REQUIRE(*first.dialer.shake());
  const auto last = Pair::take(first.dialer);
  other.feed(last);
  CHECK_FALSE(other.shake().ok());
}

TEST_CASE("the same key gives different secrets in a swarm of another name") {
  TlsEngine dialer(context(7, "test"), TlsRole::dialer), accepter(context(7, "herd"), TlsRole::accepter);
  REQUIRE(dialer.shake().ok());
  const auto greeting = Pair::take(dialer);
  accepter.feed(greeting);
  const auto over = accepter.shake();
  REQUIRE_FALSE(over.ok());
  CHECK(over.error().kind == LinkErrorKind::wrong_key);
  const auto alert = Pair::take(accepter);
  REQUIRE_FALSE(alert.empty());
  dialer.feed(alert);
  CHECK(dialer.shake().error().kind == LinkErrorKind::wrong_key);
}

TEST_CASE("traffic keys are renewed transparently") {
  Pair pair(context(7, "test", 3), context());
  pair.shake();
  for (unsigned i = 0; i < 20; ++i) {
    const std::vector<std::byte> piece(50 + i, static_cast<std::byte>(i));
    REQUIRE(pair.dialer.seal(piece).ok());
    const auto sent = Pair::take(pair.dialer);
    pair.accepter.feed(sent);
    std::vector<std::byte> got(200);
    const auto opened = pair.accepter.open(got);
    REQUIRE(opened.ok());
    got.resize(*opened);
    REQUIRE(got == piece);
    // The first key renewal took two records.
    CHECK(sent.size() == piece.size() + 22 + (i > 0 && i % 3 == 0 ? 27 : 0));
    std::vector<std::byte> nothing(10);
    REQUIRE(*pair.accepter.open(nothing) == 0);
  }
}

TEST_CASE("an oversized handshake is rejected unread") {
  TlsEngine accepter(context(), TlsRole::accepter);
  // The start of a large ClientHello, in records of 4,000 bytes.
  LinkResult<bool> over = false;
  for (int i = 0; i < 4 && over.ok(); ++i) {
    std::vector<std::byte> record(4005);
    const std::array<unsigned char, 9> head = {22, 3, 1, 0x0f, 0xa0, 1, 0, 0xff, 0xf0};
    std::memcpy(record.data(), head.data(), i == 0 ? 9 : 5);
    accepter.feed(record);
    over = accepter.shake();
  }
  REQUIRE_FALSE(over.ok());
  CHECK(over.error().kind == LinkErrorKind::oversize);
}

// Any position but the version in the first record's header, which is ignored by design.
void spoil(TlsBuffer& bytes, Random& r) {
  const std::size_t at = 3 + r.below(bytes.size() - 3);
  bytes[at] ^= static_cast<std::byte>(1 + r.below(255));
}

TEST_CASE("a corrupted handshake ends with the key or an error at both ends") {
  Random r(31);
  for (int round = 0; round < 400; ++round) {
    Pair pair(context(), context());
    REQUIRE(pair.dialer.shake().ok());
    auto greeting = Pair::take(pair.dialer);
    const bool spoils_greeting = r.below(2) == 0;
    if (spoils_greeting) spoil(greeting, r);
    pair.accepter.feed(greeting);
    const auto answered = pair.accepter.shake();
    auto answer = Pair::take(pair.accepter);
    if (answer.empty()) continue;  // it needs more data
    if (!spoils_greeting) spoil(answer, r);
    pair.dialer.feed(answer);
    const auto over = pair.dialer.shake();
    CHECK((!over.ok() || !*over));
    CHECK((!answered.ok() || !*answered));
  }
}

TEST_CASE("both implementations of the records agree, and changed records are rejected") {
  const TlsSecret secret{};
  for (const TlsCipher cipher : {TlsCipher::aes_128_gcm, TlsCipher::chacha20_poly1305}) {
    for (const bool wide : {true, false}) {
      TlsRecords sender(cipher, secret, wide), receiver(cipher, secret, !wide);
      Random r(41);
      for (std::size_t i = 0; i < 600; ++i) {
        const std::size_t size = i < 300 ? i : r.below(TlsRecords::kTextBytesMax + 1);
        std::vector<std::byte> text(size), opened(size), record(size + TlsRecords::kExtraBytes);
        for (std::byte& b : text) b = static_cast<std::byte>(r.below(256));
        sender.seal(TlsRecords::Type::data, text, record.data());
        std::byte type{};
        if (i % 50 == 49) {  // this record and the rest under these keys are lost
          record[r.below(record.size())] ^= std::byte{1};
          REQUIRE_FALSE(receiver.open(record, opened, type));
          sender.renew();
          receiver.renew();
          continue;
        }
        REQUIRE(receiver.open(record, opened, type));
        REQUIRE(type == std::byte{23});
        REQUIRE(opened == text);
      }
    }
  }
}

TEST_CASE("the key stream and the tag are those of the published test vector") {
  // Test case 2 of the GCM specification, with its last byte apart.
  const auto bytes = [](std::string_view hex) {
    std::vector<std::byte> out;
    for (std::size_t i = 0; i < hex.size(); i += 2)
      out.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
    return out;
  };
  if (!Gcm::is_available()) return;
  const auto key = bytes("00000000000000000000000000000000");
  const Gcm gcm{std::span(key).first<16>()};
  const Gcm::Nonce nonce{};
  const auto zeros = bytes("00000000000000000000000000000000");
  std::vector<std::byte> sealed(32);
  gcm.seal(nonce, {}, Bytes(zeros).first(15), std::byte{0}, sealed.data());
  CHECK(sealed == bytes("0388dace60b6a392f328c2b971b2fe78ab6e47d42cec13bdf53a67b21257bddf"));
}

TEST_CASE("plaintext arrives in any portions of ciphertext, into any room") {
  Random r(42);
  for (int round = 0; round < 30; ++round) {
    Pair pair(context(), context());
    pair.shake();
    std::vector<std::byte> text(1 + r.below(100'000)), got;
    for (std::byte& b : text) b = static_cast<std::byte>(r.below(256));
    for (Bytes rest = text; !rest.empty();) {
      const std::size_t n = std::min<std::size_t>(rest.size(), 1 + r.below(TlsEngine::kRecordBytes));
      REQUIRE(pair.dialer.seal(rest.first(n)).ok());
      rest = rest.subspan(n);
    }
    pair.dialer.finish();
    const auto sent = Pair::take(pair.dialer);
    for (Bytes rest = sent; !rest.empty();) {
      const Bytes portion = rest.first(std::min<std::size_t>(rest.size(), 1 + r.below(30'000)));
      rest = rest.subspan(portion.size());
      pair.accepter.feed(portion);
      for (;;) {
        std::vector<std::byte> room(1 + r.below(20'000));
        const auto opened = pair.accepter.open(room);
        REQUIRE(opened.ok());
        if (*opened == 0) break;
        got.insert(got.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(*opened));
      }
    }
    REQUIRE(got == text);
    CHECK(pair.accepter.ended());
  }
}

TEST_CASE("the right key is accepted, for messages and for bulk") {
  World world;
  Peer a(world, 1, context()), b(world, 2, context());
  a.ping(b);
  REQUIRE(world.until([&] { return a.acks == 1; }));
  CHECK(a.failures.empty());
  CHECK(b.refused.empty());
  CHECK(world.run(a.table->dial_bulk({{}, b.address})).ok());
}

TEST_CASE("another key is rejected on both sides and counted") {
  World world;
  Peer a(world, 1, context(8)), b(world, 2, context(7));
  check_kept_out(world, a, b, LinkErrorKind::wrong_key, LinkErrorKind::wrong_key,
                 "has another key than this peer");
  CHECK(contains(b.refusal, "has another key than this peer"));
}

TEST_CASE("the error of a peer without a key names --key") {
  World world;
  Peer a(world, 1, nullptr), b(world, 2, context());
  check_kept_out(world, a, b, LinkErrorKind::wrong_key, LinkErrorKind::no_key,
                 "refused: this swarm has a key; a peer of it is started with --key");
  CHECK(contains(b.refusal, "has no key, and this peer has one"));
}

TEST_CASE("a peer with a key detects that the other has none") {
  World world;
  Peer a(world, 1, context()), b(world, 2, nullptr);
  check_kept_out(world, a, b, LinkErrorKind::no_key, LinkErrorKind::wrong_key,
                 "has no key, and this peer has one");
  CHECK(contains(b.refusal, "has a key (it uses TLS), and this peer has none"));
}

TEST_CASE("foreign connections to a peer with a key are rejected by kind, and it keeps serving") {
  World world;
  LinkTableOptions options;
  options.handshake_limit = std::chrono::milliseconds(200);
  Peer hasty(world, 1, context(), options);
  options.handshake_limit = kLong;
  Peer patient(world, 3, context(), options);
  struct Stranger {
    std::string bytes;
    LinkErrorKind kind;
  };
  const std::vector<Stranger> strangers = {
      {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", LinkErrorKind::bad_magic},
      {"S", LinkErrorKind::timed_out},  // may still become a frame
      {"STRX", LinkErrorKind::bad_magic},
      {std::string("\x16\x03\x01\x00\x05\x01\x00", 7), LinkErrorKind::timed_out},  // half of a ClientHello
      {std::string("\x16\x03\x01\x00\x05hello", 10), LinkErrorKind::malformed},
      {std::string("\x16\x03\x01\xff\xff", 5) + std::string(200, 'x'), LinkErrorKind::malformed},
      {std::string("\x15\x03\x03\x00\x02\x02\x28", 7),
       LinkErrorKind::bad_magic},  // an alert cannot start a connection
      {"", LinkErrorKind::timed_out},
  };
  TcpTransport plain(world.executor());
  for (const Stranger& stranger : strangers) {
    INFO(stranger.bytes);
    Peer& peer = stranger.kind == LinkErrorKind::timed_out ? hasty : patient;
    peer.refused.clear();
    auto link = world.run(plain.dial(peer.address, kLong));
    REQUIRE(link.ok());
    if (!stranger.bytes.empty()) static_cast<void>(world.run((*link)->write(bytes_of(stranger.bytes))));
    REQUIRE(world.until([&] { return !peer.refused.empty(); }));
    CHECK(peer.refused == std::vector{stranger.kind});
    CHECK(peer.table->counters()[stranger.kind] >= 1);
    CHECK(peer.table->handshakes() == 0);
  }
  CHECK(hasty.table->counters().handshake_timeouts == 3);
  CHECK(patient.table->counters().handshake_timeouts == 0);
  check_serves(world, hasty);
  check_serves(world, patient);
}

TEST_CASE("a stalled handshake times out, also at the dialer") {
  World world;
  LinkTableOptions options;
  options.handshake_limit = std::chrono::milliseconds(30);
  Peer peer(world, 1, context(), options);
  TcpTransport plain(world.executor());
  std::vector<LinkPtr> taken;
  const auto silent = plain.listen(anywhere(), [&](LinkPtr link) { taken.push_back(std::move(link)); });
  REQUIRE(silent.ok());
  const auto dialed = world.run(peer.table->dial_bulk({{}, (*silent)->address()}));
  REQUIRE_FALSE(dialed.ok());
  CHECK(dialed.error().kind == LinkErrorKind::timed_out);
}

TEST_CASE("a dialer with a key rejects other TLS servers") {
  World world;
  Peer peer(world, 1, context());
  TcpTransport plain(world.executor());
  LinkPtr taken;
  const auto server = plain.listen(anywhere(), [&](LinkPtr link) { taken = std::move(link); });
  REQUIRE(server.ok());
  const auto dialing = world.begin(peer.table->dial_bulk({{}, (*server)->address()}));
  REQUIRE(world.until([&] { return taken != nullptr; }));
  // A web server's answer to a ClientHello that it does not support.
  const std::string alert("\x15\x03\x03\x00\x02\x02\x28", 7);
  REQUIRE(world.run(taken->write(bytes_of(alert))).ok());
  REQUIRE(world.until([&] { return dialing->has_value(); }));
  CHECK((*dialing)->error().kind == LinkErrorKind::wrong_key);
}

TEST_CASE("a thousand broken handshakes leak nothing") {
  World world;
  LinkTableOptions options;
  options.handshake_limit = std::chrono::seconds(3);
  options.handshakes_max = options.handshakes_per_loopback_max = 1000;
  Peer peer(world, 1, context(), options);
  TcpTransport plain(world.executor());
  TcpTransport other(world.executor(), Peer::with(context(8)));
  Random r(32);
  const std::size_t files = open_files();
  constexpr std::size_t kAll = 1000;
  for (std::size_t i = 0; i < kAll; ++i) {
    Transport& transport = i % 4 == 3 ? static_cast<Transport&>(other) : plain;
    auto link = world.run(transport.dial(peer.address, kLong));
    REQUIRE(link.ok());
    if (i % 4 == 1) {  // noise that starts like TLS
      std::vector<std::byte> noise(1 + r.below(300));
      for (std::byte& b : noise) b = static_cast<std::byte>(r.below(256));
      noise[0] = std::byte{22};
      static_cast<void>(world.run((*link)->write(noise)));
    }
    if (i % 4 == 2) static_cast<void>(world.run((*link)->write(message_frame(wire::Ack{1, {}}))));
    if (i % 4 == 3) CHECK(kind_of(world.run((*link)->read())) == LinkErrorKind::wrong_key);
    if (i % 2 == 0) (*link)->close();
  }
  REQUIRE(world.until([&] { return peer.refused.size() == kAll; }));
  REQUIRE(peer.table->handshakes() == 0);
  CHECK(peer.table->links() == 0);
  CHECK(peer.table->counters()[LinkErrorKind::wrong_key] > 0);
  CHECK(peer.table->counters()[LinkErrorKind::no_key] > 0);
  REQUIRE(world.until([&] { return open_files() == files; }));
  check_serves(world, peer);
}

TEST_CASE("dropping a link ends its pending handshake") {
  World world(Kind::tls);
  { const Ends first(world); }  // the event loop's own descriptors
  const std::size_t files = open_files();
  {
    Ends ends(world);
    ends.near.reset();
    REQUIRE_FALSE(world.run(ends.far->read()).ok());
  }
  REQUIRE(world.until([&] { return open_files() == files; }));
}

}  // namespace starling::transport
