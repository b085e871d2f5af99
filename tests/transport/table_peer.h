// For the tests of the link table: a table that listens, and its reports.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/contains.h"
#include "tests/transport/world.h"
#include "transport/links/link_table.h"

namespace starling::transport::testing {

inline wire::Message ping(std::uint64_t sequence) { return wire::Ping{sequence, PeerId{9}, {}}; }

// Of a table whose handshakes may take long, as on a busy machine.
inline LinkTableOptions patient() {
  return {.dial_limit = kLong, .handshake_limit = kLong, .write_limit = kLong};
}

// A table that listens, and the messages it received.
struct TablePeer {
  TablePeer(World& world, std::uint64_t number, LinkTableOptions options = patient(),
            const std::string& swarm = "test", Address at = anywhere())
      : TablePeer(world, self(number, at, swarm), options) {}

  TablePeer(World& world, const Self& who, LinkTableOptions options = patient())
      : id(who.identity->id()),
        transport(world.make_transport()),
        table(std::make_unique<LinkTable>(world.executor(), *transport, who, events(), options)) {
    const auto listening = table->listen(who.hello.address);
    REQUIRE(listening.ok());
    address = *listening;
    wire::Hello hello = who.hello;
    hello.address = address;
    table->set_hello(hello);
  }

  // Sends to the peer that listens at the address, or to one peer.
  void send(const Address& to, const wire::Message& message) { table->send({{}, to}, message); }
  void send(const TablePeer& to, const wire::Message& message) { table->send({to.id, to.address}, message); }

  LinkTableEvents events() {
    LinkTableEvents e;
    e.on_message = [this](PeerId from, const Address& at, wire::Message message) {
      senders.insert(from);
      last_address = at;
      if (const auto* p = std::get_if<wire::Ping>(&message)) {
        pings.push_back(p->sequence);
        if (answers) table->send({from, at}, wire::Ack{p->sequence, {}});
      }
      if (const auto* a = std::get_if<wire::Ack>(&message)) acks.push_back(a->sequence);
    };
    e.on_unreachable = [this](const Endpoint& to, LinkErrorKind kind, std::string sentence) {
      failures.push_back({to.address, kind, std::move(sentence), to.id});
    };
    e.on_bulk = [this](LinkPtr link, wire::Hello remote) {
      bulk.push_back({std::move(link), std::move(remote)});
    };
    e.on_refused = [this](LinkErrorKind kind, std::string, std::string) { refused.push_back(kind); };
    return e;
  }

  struct Failure {
    Address at;
    LinkErrorKind kind;
    std::string sentence;
    PeerId id{};
  };

  PeerId id;
  std::unique_ptr<Transport> transport;
  Address address;
  std::vector<std::uint64_t> pings, acks;
  std::set<PeerId> senders;
  Address last_address;
  std::vector<Failure> failures;
  std::vector<BulkLink> bulk;
  std::vector<LinkErrorKind> refused;
  bool answers = false;
  std::unique_ptr<LinkTable> table;
};

inline std::vector<std::uint64_t> numbers(std::uint64_t from, std::uint64_t to) {
  std::vector<std::uint64_t> all;
  for (std::uint64_t i = from; i < to; ++i) all.push_back(i);
  return all;
}

// Checks that the peer still serves: it answers a new peer.
inline void check_still_serves(World& world, TablePeer& peer) {
  peer.answers = true;
  TablePeer probe(world, 1000);
  probe.send(peer.address, ping(77));
  std::size_t failed = 0;
  CHECK(world.until([&] {
    if (probe.failures.size() > failed) {  // a hasty peer may refuse a slow handshake
      ++failed;
      probe.send(peer.address, ping(77));
    }
    return !probe.acks.empty();
  }));
  CHECK(probe.acks[0] == 77);
  peer.answers = false;
}

inline LinkPtr raw_dial(World& world, Transport& transport, const Address& to) {
  auto dialed = world.run(transport.dial(to, kLong));
  REQUIRE(dialed.ok());
  return *dialed;
}

}  // namespace starling::transport::testing
