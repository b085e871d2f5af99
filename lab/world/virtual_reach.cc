// How a virtual machine reaches others: by a dial, by a call, or over a relay; and what it does for them.
#include <algorithm>
#include <memory>
#include <utility>

#include "lab/world/virtual_machine.h"

namespace starling::lab {
namespace {

constexpr std::size_t kCircuitsPerRequester = 4;

// The member that calls or relays.
Endpoint helper_of(const Endpoint& to) { return {to.via, to.address, Way::dial, {}, to.also}; }

}  // namespace

void VirtualMachine::hide(bool knows) {
  world_.network.hide(index_);
  reach_.listens = !knows;
  reach_.finds_address = !knows;
}

void VirtualMachine::relay(std::uint64_t bandwidth) {
  reach_.relays = bandwidth;
  world_.network.set_relay(index_, static_cast<double>(bandwidth));
}

void VirtualMachine::move() {
  address_.host = options().name + "-" + std::to_string(++moves_);
  world_.by_host[address_.host] = index_;
  world_.network.move(index_);
}

// ---- where an endpoint leads ----

// The machine of the current instance with this id; null if there is none, or it is this machine.
VirtualMachine* VirtualMachine::instance(PeerId id) const {
  const auto found = world_.by_id.find(id.value);
  if (found == world_.by_id.end() || found->second == index_) return nullptr;
  VirtualMachine* const machine = world_.machines[found->second];
  return machine->id() == id ? machine : nullptr;
}

// The first of the addresses that is that of another machine, or else one that has moved since.
VirtualMachine::Reached VirtualMachine::dialed(const Endpoint& to) const {
  Reached moved{nullptr, Opening::lost_dial};
  const auto look = [&](const Address& address) {
    // No machine has an address that a liar invents; this machine's own is that of a former instance.
    const auto found = world_.by_host.find(address.host);
    if (found == world_.by_host.end() || found->second == index_) return Reached{};
    VirtualMachine* const machine = world_.machines[found->second];
    if (machine->address_.host == address.host) return Reached{machine};
    if (moved.machine == nullptr) moved.machine = machine;
    return Reached{};
  };
  if (const Reached found = look(to.address); found.machine != nullptr) return found;
  for (const Address& address : to.also)
    if (const Reached found = look(address); found.machine != nullptr) return found;
  return moved;
}

VirtualMachine::Reached VirtualMachine::reached(const Endpoint& to, wire::Purpose purpose) const {
  const Reached found = to.way == Way::dial ? dialed(to) : Reached{nullptr, Opening::wait};
  if (found.machine != nullptr && found.opening == Opening::dial) return found;
  VirtualMachine* const known = to.id ? instance(to.id) : nullptr;
  if (known == nullptr) return found;
  const Connection& connection = purpose == wire::Purpose::control
                                     ? world_.network.control(index_, known->index_)
                                     : world_.network.bulk(index_, known->index_);
  const bool is_way = to.way != Way::dial || found.machine != nullptr;
  return is_way || world_.network.stands(connection, index_) ? Reached{known, found.opening} : found;
}

// ---- for this machine ----

void VirtualMachine::report_unreachable(const Endpoint& to, Duration after, const char* why) {
  later(now() + after, [this, why, to = std::make_unique<Endpoint>(to)] {
    step(gossip::Unreachable{to->address, false, why + to_string(to->address), false, to->id});
  });
}

gossip::Unreachable VirtualMachine::unreachable(std::uint32_t machine) const {
  const auto used = used_.find(machine);
  const Endpoint to = used != used_.end() ? used->second : Endpoint{{}, world_.machines[machine]->address_};
  return {to.address, false, to_string(to.address) + " does not answer", false, to.id};
}

void VirtualMachine::send_to(const Endpoint& to, wire::Message message) {
  const auto [there, opening] = reached(to, wire::Purpose::control);
  if (there == nullptr) {
    const bool is_called = to.way == Way::call;
    if (is_called) place_call(to, wire::Purpose::control, ++world_.calls);
    const Duration after = is_called ? world_.network.call_limit() : world_.network.latency();
    return report_unreachable(to, after, "no process listens at ");
  }
  if (there->up() && to.id && to.id != there->id_) {
    const bool hidden = world_.network.is_hidden(there->index_);
    if (hidden) return report_unreachable(to, world_.network.dial_limit(), "nothing answers at ");
    later(now() + world_.network.latency(), [this, to = std::make_unique<Endpoint>(to)] {
      const std::string why = "another peer listens at " + to_string(to->address);
      step(gossip::Unreachable{to->address, false, why, false, to->id});
      step(gossip::Introduced{to->address});
    });
    return;
  }
  if (to.way != Way::dial || to.address != there->address_) {
    used_[there->index_] = to;
  } else if (!used_.empty()) {
    used_.erase(there->index_);
  }
  Connection& connection = world_.network.control(index_, there->index_);
  if (opening != Opening::wait) {
    world_.network.set_opening(connection, index_, opening);
  } else if (const std::uint64_t number = ++world_.calls; world_.network.await(connection, index_, number)) {
    place_call(to, wire::Purpose::control, number);
  }
  PacketPtr sent = packet(Packet::Kind::message, 0, frame_bytes(message));
  sent->message = std::move(message);
  send(connection, std::move(sent));
}

Connection* VirtualMachine::bulk_to(const Endpoint& to) {
  const auto [there, opening] = reached(to, wire::Purpose::bulk);
  if (there == nullptr) return nullptr;
  Connection& connection = world_.network.bulk(index_, there->index_);
  if (opening != Opening::wait) {
    world_.network.set_opening(connection, index_, opening);
  } else if (const std::uint64_t number = ++world_.calls; world_.network.await(connection, index_, number)) {
    if (to.way == Way::relay) {
      request_circuit(connection, to, number);
    } else {
      place_call(to, wire::Purpose::bulk, number);
    }
  }
  return &connection;
}

void VirtualMachine::place_call(const Endpoint& to, wire::Purpose purpose, std::uint64_t number) {
  send_to(helper_of(to), wire::Call{to.id, id_, purpose, number});
}

void VirtualMachine::request_circuit(Connection& connection, const Endpoint& to, std::uint64_t number) {
  const auto [relay, opening] = dialed(helper_of(to));
  if (relay == nullptr || opening != Opening::dial || relay->id_ != to.via) return;
  const auto takes = world_.network.dial_time(index_, relay->index_);
  if (!takes) return;
  relay->later(now() + *takes + world_.network.latency(),
               [relay = relay, &connection, number, target = to.id] {
                 relay->begin_circuit(connection, number, target);
               });
}

void VirtualMachine::try_dial(const gossip::TryDial& dial) {
  const auto [there, opening] = dialed(dial.to);
  const bool is_there = there != nullptr && opening == Opening::dial;
  const auto takes = is_there ? world_.network.dial_time(index_, there->index_) : std::nullopt;
  const bool is_refused = there == nullptr || (is_there && !there->up() && !there->silent());
  const Duration until = takes        ? *takes
                         : is_refused ? 2 * world_.network.latency()
                                      : world_.network.dial_limit();
  const bool reached = takes && (!dial.to.id || dial.to.id == there->id_);
  later(now() + until, [this, peer = dial.to.id, sequence = dial.sequence, reached] {
    step(gossip::DialTried{peer, sequence, reached});
  });
}

// ---- for others ----

void VirtualMachine::answer_call(const gossip::AnswerCall& call) {
  const auto [there, opening] = dialed(call.to);
  if (there == nullptr || opening != Opening::dial || (call.to.id && call.to.id != there->id_)) return;
  const auto takes = world_.network.dial_time(index_, there->index_);
  if (!takes) return;
  there->later(now() + *takes, [this, there = there, purpose = call.purpose, number = call.number] {
    if (purpose == wire::Purpose::relay) return there->complete_circuit(number);
    world_.network.open(world_.network.bulk(there->index_, index_), number);
  });
}

// A circuit over this machine is requested. It has a link with the target, or refuses.
void VirtualMachine::begin_circuit(Connection& connection, std::uint64_t number, PeerId target) {
  const VirtualMachine* const there = instance(target);
  const bool is_linked = there != nullptr && there->index_ == connection.acceptor &&
                         world_.network.stands(world_.network.control(index_, connection.acceptor), index_);
  const bool has_room = world_.network.circuits(index_, connection.dialer) < kCircuitsPerRequester;
  if (reach_.relays == 0 || !is_linked || !has_room) {
    return later(now() + world_.network.latency(),
                 [this, &connection, number] { world_.network.refuse(connection, number); });
  }
  std::erase_if(requested_, [&](const auto& it) { return !world_.network.awaits(*it.second, it.first); });
  requested_[number] = &connection;
  send_to({target, {}},
          wire::Call{target, world_.machines[connection.dialer]->id_, wire::Purpose::relay, number});
}

// The target has dialed this machine: the two ends greet each other over it.
void VirtualMachine::complete_circuit(std::uint64_t number) {
  const auto found = requested_.find(number);
  if (found == requested_.end()) return;
  Connection& connection = *found->second;
  requested_.erase(found);
  later(now() + 9 * world_.network.latency(), [this, &connection, number] {
    if (world_.network.open(connection, number, index_))
      world_.watcher.circuit_opened(index_, connection.dialer, connection.acceptor);
  });
}

}  // namespace starling::lab
