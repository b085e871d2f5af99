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
#include "transport/link_table.h"

namespace starling::transport::testing {

inline wire::Hello hello(std::uint64_t id, const Address& address, const std::string& swarm = "test") {
  return {swarm, PeerId{id}, "p" + std::to_string(id), address, wire::Purpose::control};
}

inline wire::Message ping(std::uint64_t sequence) { return wire::Ping{sequence, PeerId{9}, {}}; }

// A table that listens, and the messages it received.
struct TablePeer {
  TablePeer(World& world, std::uint64_t id, LinkTableOptions options = {}, const std::string& swarm = "test",
            Address at = anywhere())
      : transport(world.make_transport()),
        table(std::make_unique<LinkTable>(world.executor(), *transport, hello(id, at, swarm), events(),
                                          options)) {
    const auto listening = table->listen(at);
    REQUIRE(listening.ok());
    address = *listening;
    table->set_hello(hello(id, address, swarm));
  }

  LinkTableEvents events() {
    LinkTableEvents e;
    e.on_message = [this](PeerId from, const Address& at, wire::Message message) {
      senders.insert(from);
      last_address = at;
      if (const auto* p = std::get_if<wire::Ping>(&message)) {
        pings.push_back(p->sequence);
        if (answers) table->send(at, wire::Ack{p->sequence, {}});
      }
      if (const auto* a = std::get_if<wire::Ack>(&message)) acks.push_back(a->sequence);
    };
    e.on_unreachable = [this](const Address& at, LinkErrorKind kind, std::string sentence) {
      failures.push_back({at, kind, std::move(sentence)});
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
  };

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
  probe.table->send(peer.address, ping(77));
  CHECK(world.until([&] { return probe.acks == std::vector<std::uint64_t>{77}; }));
  peer.answers = false;
}

inline LinkPtr raw_dial(World& world, Transport& transport, const Address& to) {
  auto dialed = world.run(transport.dial(to, kLong));
  REQUIRE(dialed.ok());
  return *dialed;
}

}  // namespace starling::transport::testing
