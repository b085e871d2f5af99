// Connections of the virtual world. Two machines share one control connection, and each dials its own bulk
// connection to the other. A connection is two first-in-first-out ways with a bandwidth and a latency:
// packets of one way keep their order while the connection lasts, packets of different ways do not. The
// network imitates TCP and transport::LinkTable under faults: packets that are blocked or lost are sent
// again, a dial or a write that takes too long breaks the connection, a broken connection loses all packets
// in transit, and the queue of a link is bounded.
//
// A machine may have a port, its network card, which all its connections share in each direction. Chunks of
// parameters pass it one after the other, in the order in which they reach it; a chunk that finds it idle is
// not delayed. Other messages have a few hundred bytes, which a card that serves its connections in turn
// forwards at once, so they bypass the port.
//
// A machine behind a router cannot be dialed: a dial is swallowed, but a connection that the machine dials
// itself is a usual one. An end may therefore wait for the other one to open the connection (await()), either
// directly or over a third machine that relays; its packets wait meanwhile. A relayed connection, a circuit,
// has the latency of both hops, and all circuits of a relay share its bandwidth.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "lab/world/event_queue.h"
#include "lab/world/network/circuits.h"
#include "lab/world/network/network_conditions.h"
#include "lab/world/network/packet.h"

namespace starling::lab {

struct VirtualNetworkOptions {
  Duration latency = std::chrono::microseconds(100);
  double bandwidth = 1e9;      // bits per second, in each direction
  std::optional<double> port;  // bits per second, of each machine in each direction; unset: unlimited
  Duration latency_jitter{0};  // mean of an exponentially distributed addition to each packet's latency
  double tail_chance = 0;      // probability that a packet travels tail_factor times as long
  double tail_factor = 1;
  Instant tail_until = kNever;                    // all have arrived a second later
  Duration dial_limit = std::chrono::seconds(5);  // to establish a connection
  Duration call_limit() const { return dial_limit + std::chrono::seconds(1); }
  Duration write_limit = std::chrono::seconds(10);  // to send a packet
  Duration stall_limit = std::chrono::seconds(15);  // for the end of a bulk connection that only receives
  std::size_t waiting_max = 256;    // packets queued by the sender; then the oldest is dropped
  std::size_t travelling_max = 64;  // packets in transit, including the receiver's buffers
};

// How an end begins a connection that does not stand.
enum class Opening : std::uint8_t {
  dial,
  lost_dial,  // of an address that is no longer the other machine's: it is swallowed
  wait,       // for the other end to dial
};

struct Connection {
  // A control connection has the lower index as its dialer, the higher one as its acceptor. The dialer of a
  // bulk connection is the end that uses it first, even if it had the other one dial.
  std::uint32_t dialer, acceptor;
  wire::Purpose purpose;
  std::uint32_t epoch = 0;             // the number of times it broke
  std::optional<std::uint32_t> via{};  // of a circuit: the machine that relays

  std::uint32_t other(std::uint32_t end) const { return end == dialer ? acceptor : dialer; }
  // Whether this end can send without a dial, as far as it knows.
  bool stands_for(std::uint32_t end) const {
    return ways[end == dialer ? 0 : 1].deaf || (stands && closed_by != end);
  }
  // Whether a dial or a call of this end is under way.
  bool is_opening(std::uint32_t end) const { return !stands && ways[end == dialer ? 0 : 1].stalled; }
  // Whether an end waits for the answer to this call.
  bool awaits(std::uint64_t number) const { return !stands && call == number; }

 private:
  friend class VirtualNetwork;
  struct Way {
    Instant free_at, last_arrival;
    Instant last_reach, last_through;  // when the latest packet reaches and has passed the receiver's port
    std::uint32_t travelling = 0;
    std::uint32_t stalls = 0, holes = 0;  // numbers of the latest ones
    bool stalled = false, armed = false;
    bool deaf = false;          // this end does not know that the connection is gone
    bool hole_written = false;  // it has sent a packet since then
    bool lost = false;          // the dial that stalls is answered by nobody
    Opening opening = Opening::dial;
    std::vector<PacketPtr> waiting;

    std::size_t length() const { return waiting.size() + travelling; }  // packets sent and not yet arrived
  };
  bool stands = false;                     // after the handshake
  std::uint64_t call = 0;                  // that an end waits for; 0: none
  std::optional<std::uint32_t> closed_by;  // the end whose program has closed it, until it sends again
  std::array<Way, 2> ways{};               // from the dialer, from the acceptor

  Way& way_from(std::uint32_t end) { return ways[end == dialer ? 0 : 1]; }
};

// The machines, as the network sees them.
class NetworkHost {
 public:
  enum class Reach : std::uint8_t {
    up,
    refuses,  // no process listens there
    silent,   // it does not even refuse
  };
  virtual Reach reach(std::uint32_t machine) const = 0;
  // When the machine processes a packet that arrives now: now, or at the end of a pause.
  virtual Instant awake(std::uint32_t machine) const = 0;
  virtual void arrived(Connection& connection, std::uint32_t from, std::uint32_t to, Packet& packet) = 0;
  // `end` is notified that the connection of this epoch broke; `undelivered`: a packet that it sent was lost.
  virtual void broken(Connection& connection, std::uint32_t end, std::uint32_t epoch, bool undelivered) = 0;

 protected:
  virtual ~NetworkHost() = default;
};

class VirtualNetwork {
 public:
  // The references outlive the network.
  VirtualNetwork(VirtualNetworkOptions options, NetworkConditions& conditions, Random random,
                 EventQueue& queue, NetworkHost& host)
      : options_(options), conditions_(conditions), random_(random), queue_(queue), host_(host) {}
  VirtualNetwork(const VirtualNetwork&) = delete;
  VirtualNetwork& operator=(const VirtualNetwork&) = delete;

  // The references are valid as long as the network.
  Connection& control(std::uint32_t a, std::uint32_t b) {
    return connection(std::min(a, b), std::max(a, b), wire::Purpose::control);
  }
  Connection& bulk(std::uint32_t dialer, std::uint32_t acceptor) {
    return connection(dialer, acceptor, wire::Purpose::bulk);
  }

  // REQUIRES: `from` is an end of the connection.
  void send(Connection& connection, std::uint32_t from, PacketPtr packet);

  // Whether a machine has a control connection with another one, as far as it knows.
  bool are_linked(std::uint32_t a, std::uint32_t b) const;
  // How the next packet from this end opens the connection if it does not stand. No effect while an end is
  // opening it.
  void set_opening(Connection& connection, std::uint32_t from, Opening opening);
  // Packets from this end wait until open() with this number, or until the connection stands for another
  // reason. Otherwise the connection breaks a second after a dial would have. Returns false if it stands or
  // this end waits already.
  bool await(Connection& connection, std::uint32_t from, std::uint64_t number);
  // The machine that was called has dialed. Over a relay: a circuit. No effect unless this number is awaited.
  bool open(Connection& connection, std::uint64_t number, std::optional<std::uint32_t> via = std::nullopt);
  // It will not: the end that waits is notified at once.
  void refuse(Connection& connection, std::uint64_t number);
  // The program at that end needs the circuit no longer.
  void hang_up(Connection& connection, std::uint32_t from);
  // The time until a new connection from one machine to another would stand; nullopt: a dial would fail.
  std::optional<Duration> dial_time(std::uint32_t from, std::uint32_t to) const;

  // The program at that end closes the connection that it used in this epoch, with a last packet if the
  // connection still stands. Its next packet uses a new connection, even if it did not know that the old one
  // was broken.
  void close(Connection& connection, std::uint32_t epoch, std::uint32_t from, PacketPtr last);

  // ---- faults ----
  // Breaks all connections between two machines; both ends are notified.
  void reset(std::uint32_t a, std::uint32_t b);
  void reset(Connection& connection);
  // Breaks all connections between two machines; only one end is notified, and what the other sends is lost.
  void half_open(std::uint32_t knows, std::uint32_t deaf);
  // The machine has another address: its connections are gone, and no end is notified. Dials under way to its
  // old address are lost.
  void move(std::uint32_t machine);
  // A machine's process ended. Its last packets are sent only if it ended orderly.
  enum class Ending : std::uint8_t { orderly, crash, power_loss };
  void down(std::uint32_t machine, Ending ending);
  // A machine is back after a power loss: it refuses packets to its former instance.
  void up_again(std::uint32_t machine);

  const VirtualNetworkOptions& options() const { return options_; }
  Circuits& circuits() { return circuits_; }
  // The greatest length of any way's queue so far, including packets in transit.
  std::size_t longest_queue() const { return longest_queue_; }
  std::uint64_t dropped() const { return dropped_; }  // packets, from full queues
  std::uint64_t broken() const { return broken_; }    // connections

 private:
  using Way = Connection::Way;
  struct Port {  // of a machine: when each direction becomes idle
    Instant out_free, in_free;
  };

  Connection& connection(std::uint32_t dialer, std::uint32_t acceptor, wire::Purpose purpose);
  std::array<Connection*, 3> all_between(std::uint32_t a, std::uint32_t b) {
    return {&control(a, b), &bulk(a, b), &bulk(b, a)};
  }
  void into_hole(Connection& c, std::uint32_t from);
  void go_deaf(Connection& c, std::uint32_t end, std::uint32_t epoch, bool undelivered);
  void established(Connection& c);
  bool is_dial_lost(Connection& c, std::uint32_t from) const;
  void end_circuits(std::uint32_t relay, std::optional<std::uint32_t> end, Duration both_learn);
  void replace_closed(Connection& c, std::uint32_t from);
  void transmit(Connection& c, std::uint32_t from, PacketPtr packet);
  void pump(Connection& c, std::uint32_t from);
  void stall(Connection& c, std::uint32_t from, PacketPtr packet, Instant clear);
  void arrive_at(Instant at, Connection& c, std::uint32_t epoch, std::uint32_t from, PacketPtr packet);
  void arrive(Connection& c, std::uint32_t epoch, std::uint32_t from, PacketPtr packet);
  // `end` and the other end are notified after these times; nullopt: never.
  void sever(Connection& c, std::uint32_t end, std::optional<Duration> end_learns,
             std::optional<Duration> other_learns);
  void tell(Connection& c, std::uint32_t end, std::uint32_t epoch, bool undelivered, Instant at);
  Instant clear_of_cuts(const Connection& c, std::uint32_t from) const;
  NetworkConditions::OfPacket of(const Connection& c, std::uint32_t from) const;
  Instant sent_by(const Connection& c, std::uint32_t from, Instant at, std::size_t bytes, double bandwidth);
  Duration port_time(const Packet& packet) const;
  void enter_port(Connection& c, std::uint32_t epoch, std::uint32_t from, PacketPtr packet, Instant last_bit);
  void end_in_order(Connection& c, std::uint32_t epoch, std::uint32_t machine);
  Duration travel(Duration latency);

  VirtualNetworkOptions options_;
  NetworkConditions& conditions_;
  Circuits circuits_;
  Random random_;
  EventQueue& queue_;
  NetworkHost& host_;
  std::unordered_map<std::uint64_t, Connection> connections_;  // by their ends; never iterated
  std::vector<std::vector<Connection*>> of_machine_;           // in the order of first use
  std::vector<Port> ports_;
  std::size_t longest_queue_ = 0;
  std::uint64_t dropped_ = 0, broken_ = 0;
};

}  // namespace starling::lab
