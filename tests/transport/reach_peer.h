// For the tests of reach: a table whose owner handles calls as the core does, with or without an address.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/contains.h"
#include "tests/transport/table_peer.h"
#include "tests/transport/world.h"
#include "transport/links/link_table.h"

namespace starling::transport::testing {

// Where the peers of a test listen, and who is a member.
struct Directory {
  std::map<PeerId, Address> addresses;
  std::set<PeerId> members;
};

struct ReachPeer {
  ReachPeer(World& world, Directory& d, std::uint64_t number, bool listens = true,
            LinkTableOptions options = {})
      : id(PeerId{number}),
        directory(d),
        transport(world.make_transport()),
        table(
            std::make_unique<LinkTable>(world.executor(), *transport, self(number, {}), events(), options)) {
    directory.members.insert(id);
    if (!listens) return;
    const auto listening = table->listen(anywhere());
    REQUIRE(listening.ok());
    address = directory.addresses[id] = *listening;
    wire::Hello hello = table->hello();
    hello.address = address;
    table->set_hello(hello);
  }

  LinkTableEvents events() {
    LinkTableEvents e;
    e.on_message = [this](PeerId from, const Address& at, const wire::Message& message) {
      last_address = at;
      if (const auto* p = std::get_if<wire::Ping>(&message)) pings.push_back(p->sequence);
      if (const auto* call = std::get_if<wire::Call>(&message)) take_call(from, *call);
    };
    e.on_unreachable = [this](const Endpoint& to, LinkErrorKind kind, std::string sentence) {
      failures.push_back({to, kind, std::move(sentence)});
    };
    e.on_bulk = [this](LinkPtr link, wire::Hello remote) {
      bulk.push_back({std::move(link), std::move(remote)});
    };
    e.on_refused = [this](LinkErrorKind kind, std::string, std::string) { refused.push_back(kind); };
    e.may_relay = [this](PeerId peer) { return directory.members.contains(peer); };
    return e;
  }

  void take_call(PeerId from, const wire::Call& call) {
    calls.push_back(call);
    if (call.target != id) return table->send({call.target, {}}, call);
    if (!answers) return;
    if (call.purpose == wire::Purpose::control)
      return table->send({call.caller, directory.addresses[call.caller]}, ping(0));
    const PeerId to = call.purpose == wire::Purpose::bulk ? call.caller : from;
    table->answer_call({to, directory.addresses[to]}, call.purpose, call.number);
  }

  void send(const ReachPeer& to, const wire::Message& message) { table->send({to.id, to.address}, message); }
  Endpoint called(const ReachPeer& to) const { return {to.id, address, Way::call, id}; }

  struct Failure {
    Endpoint to;
    LinkErrorKind kind;
    std::string sentence;
  };

  PeerId id;
  Directory& directory;
  std::unique_ptr<Transport> transport;
  Address address;
  bool answers = true;  // calls
  std::vector<std::uint64_t> pings;
  std::vector<wire::Call> calls;
  Address last_address{"?", 1};
  std::vector<Failure> failures;
  std::vector<BulkLink> bulk;
  std::vector<LinkErrorKind> refused;
  std::unique_ptr<LinkTable> table;
};

// How `to` is reached through its home or a relay.
inline Endpoint through(const ReachPeer& to, const ReachPeer& via, Way way) {
  return {to.id, via.address, way, via.id};
}

// Gives the peer a control link with its home.
inline void settle_at(World& world, ReachPeer& peer, ReachPeer& home) {
  const std::size_t before = home.pings.size();
  peer.send(home, ping(1000));
  REQUIRE(world.until([&] { return home.pings.size() > before; }));
  home.pings.pop_back();
}

inline asio::awaitable<LinkStatus> write_bytes(LinkPtr link, std::vector<std::byte> bytes) {
  co_return co_await link->write(bytes);
}

// Checks that a chunk of 1 MiB passes in both directions at once.
inline void check_passes(World& world, const LinkPtr& a, const LinkPtr& b) {
  const auto there = chunk_frame(wire::kChunkFloatsMax, 3), back = chunk_frame(wire::kChunkFloatsMax, 4);
  const auto sent = world.begin(write_bytes(a, there)), returned = world.begin(write_bytes(b, back));
  const auto at_b = world.begin(b->read()), at_a = world.begin(a->read());
  REQUIRE(world.until([&] { return *sent && *returned && *at_a && *at_b; }));
  for (const auto& [frame, bytes] : {std::pair{at_b, &there}, {at_a, &back}}) {
    REQUIRE((*frame)->ok());
    const Frame& got = ***frame;
    REQUIRE(got.body.size() == bytes->size() - wire::kChunkPrefixBytes);
    CHECK(std::memcmp(got.body.data(), bytes->data() + wire::kChunkPrefixBytes, got.body.size()) == 0);
  }
}

inline LinkErrorKind end_of(World& world, const LinkPtr& link) {
  const auto frame = world.run(link->read());
  REQUIRE_FALSE(frame.ok());
  return frame.error().kind;
}

}  // namespace starling::transport::testing
