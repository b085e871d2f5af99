#include "lab/world/network/virtual_reach.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace starling::lab {
namespace {

constexpr std::ptrdiff_t kCircuitsPerRequester = 4;

}  // namespace

void VirtualReach::hide(bool knows) {
  world_.conditions.hide(machine_.index());
  listens_ = !knows;
  finds_address_ = !knows;
}

void VirtualReach::relay(std::uint64_t bandwidth) {
  relays_ = bandwidth;
  world_.network.circuits().set_bandwidth(machine_.index(), static_cast<double>(bandwidth));
}

void VirtualReach::move() {
  machine_.move_to({machine_.options().name + "-" + std::to_string(++moves_), machine_.address().port});
  world_.network.move(machine_.index());
}

// ---- where an endpoint leads ----

// The machine of the current instance with this id; null if there is none, or it is this machine.
VirtualMachine* VirtualReach::instance(PeerId id) const {
  const auto found = world_.by_id.find(id.value);
  if (found == world_.by_id.end() || found->second == machine_.index()) return nullptr;
  VirtualMachine* const machine = world_.machines[found->second];
  return machine->id() == id ? machine : nullptr;
}

// The first address that belongs to another machine, or else one that has moved since.
VirtualReach::Reached VirtualReach::dialed(const Endpoint& to) const {
  // Usually the peer is still there; ids are found faster than texts.
  if (VirtualMachine* const named = instance(to.id); named && named->address().host == to.address.host)
    return Reached{named};
  Reached moved{nullptr, Opening::lost_dial};
  const auto look = [&](const Address& address) {
    // No machine has an address that a liar invents; this machine's own address belongs to a former instance.
    const auto found = world_.by_host.find(address.host);
    if (found == world_.by_host.end() || found->second == machine_.index()) return Reached{};
    VirtualMachine* const machine = world_.machines[found->second];
    if (machine->address().host == address.host) return Reached{machine};
    if (moved.machine == nullptr) moved.machine = machine;
    return Reached{};
  };
  if (const Reached found = look(to.address); found.machine != nullptr) return found;
  for (const Address& address : to.also)
    if (const Reached found = look(address); found.machine != nullptr) return found;
  return moved;
}

VirtualReach::Reached VirtualReach::reached(const Endpoint& to, wire::Purpose purpose) const {
  const Reached found = to.way == Way::dial ? dialed(to) : Reached{nullptr, Opening::wait};
  if (found.machine != nullptr && found.opening == Opening::dial) return found;
  VirtualMachine* const known = to.id ? instance(to.id) : nullptr;
  if (known == nullptr) return found;
  const Connection& connection = purpose == wire::Purpose::control
                                     ? world_.network.control(machine_.index(), known->index())
                                     : world_.network.bulk(machine_.index(), known->index());
  const bool is_way = to.way != Way::dial || found.machine != nullptr;
  return is_way || connection.stands_for(machine_.index()) ? Reached{known, found.opening} : found;
}

// ---- for this machine ----

void VirtualReach::report_unreachable(const Endpoint& to, Duration after, const char* why) {
  machine_.later(machine_.now() + after, [this, why, to = std::make_unique<Endpoint>(to)] {
    machine_.step(gossip::Unreachable{to->address, false, why + to_string(to->address), false, to->id});
  });
}

gossip::Unreachable VirtualReach::unreachable(std::uint32_t machine) const {
  const auto used = used_.find(machine);
  const Endpoint to = used != used_.end() ? used->second : Endpoint{{}, world_.machines[machine]->address()};
  return {to.address, false, to_string(to.address) + " does not answer", false, to.id};
}

void VirtualReach::send(const Endpoint& to, wire::Message&& message) {
  const auto [there, opening] = reached(to, wire::Purpose::control);
  if (there == nullptr) {
    const bool is_called = to.way == Way::call;
    if (is_called) place_call(to, wire::Purpose::control, ++world_.calls);
    const Duration after =
        is_called ? world_.network.options().call_limit() : world_.network.options().latency;
    return report_unreachable(to, after, "no process listens at ");
  }
  if (there->up() && to.id && to.id != there->id()) {
    const bool hidden = world_.conditions.is_hidden(there->index());
    if (hidden) return report_unreachable(to, world_.network.options().dial_limit, "nothing answers at ");
    machine_.later(machine_.now() + world_.network.options().latency,
                   [this, to = std::make_unique<Endpoint>(to)] {
                     const std::string why = "another peer listens at " + to_string(to->address);
                     machine_.step(gossip::Unreachable{to->address, false, why, false, to->id});
                     machine_.step(gossip::Introduced{to->address});
                   });
    return;
  }
  Connection& connection = world_.network.control(machine_.index(), there->index());
  const bool is_usual = to.way == Way::dial && to.address == there->address();
  // While a dial is under way, what can fail is that one, possibly of another address.
  if (!connection.is_opening(machine_.index())) {
    if (is_usual)
      used_.erase(there->index());
    else
      used_[there->index()] = to;
  }
  if (opening != Opening::wait) {
    world_.network.set_opening(connection, machine_.index(), opening);
  } else if (const std::uint64_t number = ++world_.calls;
             world_.network.await(connection, machine_.index(), number)) {
    place_call(to, wire::Purpose::control, number);
  }
  PacketPtr sent = machine_.packet(Packet::Kind::message, 0, frame_bytes(message));
  sent->message.emplace(std::move(message));
  machine_.send(connection, std::move(sent));
}

Connection* VirtualReach::bulk_to(const Endpoint& to) {
  const auto [there, opening] = reached(to, wire::Purpose::bulk);
  if (there == nullptr) return nullptr;
  Connection& connection = world_.network.bulk(machine_.index(), there->index());
  if (opening != Opening::wait) {
    world_.network.set_opening(connection, machine_.index(), opening);
  } else if (const std::uint64_t number = ++world_.calls;
             world_.network.await(connection, machine_.index(), number)) {
    if (to.way == Way::relay) {
      request_circuit(connection, to, number);
    } else {
      place_call(to, wire::Purpose::bulk, number);
    }
  }
  return &connection;
}

void VirtualReach::place_call(const Endpoint& to, wire::Purpose purpose, std::uint64_t number) {
  send(helper_of(to), wire::Call{to.id, machine_.id(), purpose, number});
}

void VirtualReach::request_circuit(Connection& connection, const Endpoint& to, std::uint64_t number) {
  const auto [relay, opening] = dialed(helper_of(to));
  if (relay == nullptr || opening != Opening::dial || relay->id() != to.via) return;
  const auto takes = world_.network.dial_time(machine_.index(), relay->index());
  if (!takes) return;
  relay->later(machine_.now() + *takes + world_.network.options().latency,
               [relay = relay, &connection, number, target = to.id] {
                 relay->reach().begin_circuit(connection, number, target);
               });
}

void VirtualReach::act(const gossip::TryDial& dial) {
  const auto [there, opening] = dialed(dial.to);
  const bool is_there = there != nullptr && opening == Opening::dial;
  const auto takes = is_there ? world_.network.dial_time(machine_.index(), there->index()) : std::nullopt;
  const bool is_refused = there == nullptr || (is_there && !there->up() && !there->silent());
  const Duration until = takes        ? *takes
                         : is_refused ? 2 * world_.network.options().latency
                                      : world_.network.options().dial_limit;
  const bool reached = takes && (!dial.to.id || dial.to.id == there->id());
  machine_.later(machine_.now() + until, [this, peer = dial.to.id, sequence = dial.sequence, reached] {
    machine_.step(gossip::DialTried{peer, sequence, reached});
  });
}

// ---- for others ----

void VirtualReach::act(const gossip::AnswerCall& call) {
  const auto [there, opening] = dialed(call.to);
  if (there == nullptr || opening != Opening::dial || (call.to.id && call.to.id != there->id())) return;
  const auto takes = world_.network.dial_time(machine_.index(), there->index());
  if (!takes) return;
  there->later(machine_.now() + *takes, [this, there = there, purpose = call.purpose, number = call.number] {
    if (purpose == wire::Purpose::relay) return there->reach().complete_circuit(number);
    world_.network.open(world_.network.bulk(there->index(), machine_.index()), number);
  });
}

// A circuit over this machine is requested. It has a link with the target, or refuses.
void VirtualReach::begin_circuit(Connection& connection, std::uint64_t number, PeerId target) {
  const VirtualMachine* const there = instance(target);
  const bool is_linked =
      there != nullptr && there->index() == connection.acceptor &&
      world_.network.control(machine_.index(), connection.acceptor).stands_for(machine_.index());
  const std::vector<Connection*> all = world_.network.circuits().over(machine_.index());
  const auto requested = std::ranges::count(all, connection.dialer, &Connection::dialer);
  const bool has_room = requested < kCircuitsPerRequester;
  if (relays_ == 0 || !is_linked || !has_room) {
    return machine_.later(machine_.now() + world_.network.options().latency,
                          [this, &connection, number] { world_.network.refuse(connection, number); });
  }
  std::erase_if(requested_, [&](const auto& it) { return !it.second->awaits(it.first); });
  requested_[number] = &connection;
  send({target, {}},
       wire::Call{target, world_.machines[connection.dialer]->id(), wire::Purpose::relay, number});
}

// The target has dialed this machine: the two ends greet each other over it.
void VirtualReach::complete_circuit(std::uint64_t number) {
  const auto found = requested_.find(number);
  if (found == requested_.end()) return;
  Connection& connection = *found->second;
  requested_.erase(found);
  machine_.later(machine_.now() + 9 * world_.network.options().latency, [this, &connection, number] {
    if (world_.network.open(connection, number, machine_.index()))
      world_.watcher.circuit_opened(machine_.index(), connection.dialer, connection.acceptor);
  });
}

}  // namespace starling::lab
