// Helpers for the tests of the core: short forms of members and instants, and filters for actions of one
// kind.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gossip/actions.h"
#include "gossip/members/membership.h"
#include "lab/world/network/virtual_identity.h"

namespace starling::gossip {

using namespace std::chrono_literals;

inline Instant at(Duration since_start) { return Instant{since_start}; }

// The identity of peer number k. Tests run on one thread.
inline const Identity& identity_of(std::uint64_t k) {
  static std::map<std::uint64_t, lab::VirtualIdentity> identities;
  return identities.try_emplace(k, PeerId{k}).first->second;
}
// The member, signed by itself.
inline wire::Member by_itself(wire::Member m) {
  m.key = identity_of(m.id.value).key();
  m.signature = identity_of(m.id.value).sign(statement_of(m));
  return m;
}
// The message with every member signed by itself.
inline wire::Message by_themselves(wire::Message message) {
  std::visit(
      [](auto& it) {
        if constexpr (requires { it.members; })
          for (wire::Member& m : it.members)
            if (m.id) m = by_itself(m);
        if constexpr (requires { it.self.incarnation; }) it.self = by_itself(it.self);
      },
      message);
  return message;
}

// Member k's proof that it has received the Ping of a request with this number.
inline Signature answer_of(std::uint64_t k, std::uint64_t requester, std::uint64_t requested) {
  const Identity& identity = identity_of(k);
  return identity.sign(answer_statement(identity.key(), PeerId{requester}, requested));
}

// Peer number k: id k, name "pk", address pk:7100.
inline Address address_of(std::uint64_t k) { return {"p" + std::to_string(k), 7100}; }
inline wire::Member member(std::uint64_t k, wire::Phase phase = wire::Phase::training) {
  wire::Member m;
  m.id = PeerId{k};
  m.name = "p" + std::to_string(k);
  m.address = address_of(k);
  m.phase = phase;
  return by_itself(m);
}
inline wire::Member said_to_be(wire::Member m, wire::Liveness liveness, std::uint32_t incarnation = 0) {
  m.liveness = liveness;
  m.incarnation = incarnation;
  return by_itself(m);
}

// The actions of one kind, in order.
template <class A>
std::vector<A> all(const std::vector<Action>& actions) {
  std::vector<A> found;
  for (const auto& action : actions) {
    if (const auto* a = std::get_if<A>(&action)) found.push_back(*a);
  }
  return found;
}

// The messages of one kind among the Send actions, with their receivers.
template <class M>
std::vector<std::pair<Address, M>> sent(const std::vector<Action>& actions) {
  std::vector<std::pair<Address, M>> found;
  for (const auto& send : all<Send>(actions)) {
    if (const auto* m = std::get_if<M>(&send.message)) found.emplace_back(send.to.address, *m);
  }
  return found;
}

inline std::vector<PeerId> noticed(const std::vector<Action>& actions, Notice::What what) {
  std::vector<PeerId> peers;
  for (const auto& notice : all<Notice>(actions)) {
    if (notice.what == what) peers.push_back(notice.peer);
  }
  return peers;
}

}  // namespace starling::gossip
