// Connections of the virtual world. Two machines share one control connection, and each dials a bulk
// connection of its own to the other. A connection is two first-in-first-out ways with a bandwidth and a
// latency: order holds within one while it lasts, never between two. Whatever TCP and transport::LinkTable
// would do under a fault is played here: what is cut off or gets lost waits and is sent again, a dial or a
// write that takes too long breaks the connection, a broken connection loses all that is under way in it, and
// a link's queue is bounded.
//
// A machine may have a port besides: its network card, which what all its connections carry has to share,
// each way. Chunks of parameters pass it one after the other, in the order in which they come to it; a chunk
// that finds it idle takes no longer than without a port. All other messages are a few hundred bytes, which a
// card that serves its connections by turns lets through at once: they pass beside the port, whatever waits
// there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "lab/world/event_queue.h"
#include "lab/world/faults.h"
#include "lab/world/packet.h"

namespace starling::lab {

struct NetworkOptions {
  Duration latency = std::chrono::microseconds(100);
  double bandwidth = 1e9;      // bits per second, of each way
  std::optional<double> port;  // bits per second, of each machine and each way; unset: unlimited
  Duration latency_jitter{0};  // mean of an exponentially distributed addition, drawn per packet
  double tail_chance = 0;      // of a packet whose travel takes tail_factor times as long
  double tail_factor = 1;
  Instant tail_until = kNever;
  Duration dial_limit = std::chrono::seconds(5);    // for what needs a new connection
  Duration write_limit = std::chrono::seconds(10);  // for a packet on one that stands
  Duration stall_limit = std::chrono::seconds(15);  // for whoever only listens on a bulk connection
  std::size_t waiting_max = 256;    // packets that wait at a way's beginning; the oldest goes first
  std::size_t travelling_max = 64;  // packets on the way, the receiver's buffers included
};

struct Connection {
  std::uint32_t dialer, acceptor;  // of a control connection: the lower index, the higher
  wire::Purpose purpose;
  std::uint32_t epoch = 0;  // counts the times it broke

  std::uint32_t other(std::uint32_t end) const { return end == dialer ? acceptor : dialer; }

 private:
  friend class VirtualNetwork;
  struct Way {
    Instant free_at, last_arrival;
    Instant last_reach, last_through;  // of its packets: at the receiver's port, and through it
    std::uint32_t travelling = 0;
    bool stalled = false, armed = false;
    std::vector<PacketPtr> waiting;
  };
  bool stands = false;                // its handshake is made
  bool hole_written = false;          // the deaf end has sent something
  std::optional<std::uint32_t> deaf;  // the end that does not know the connection is gone
  std::array<Way, 2> ways{};          // from the dialer, from the acceptor

  Way& way_from(std::uint32_t end) { return ways[end == dialer ? 0 : 1]; }
};

// What the network needs to know of machines, and tells them.
class NetworkHost {
 public:
  enum class Reach : std::uint8_t {
    up,
    refuses,  // nobody listens there
    silent,   // not even that is said
  };
  virtual Reach reach(std::uint32_t machine) const = 0;
  // When what arrives there now is looked at: now, or the end of a pause.
  virtual Instant awake(std::uint32_t machine) const = 0;
  virtual void arrived(Connection& connection, std::uint32_t from, std::uint32_t to, Packet& packet) = 0;
  // `end` learns that the connection of this epoch is no more; `undelivered` if something it sent was lost.
  virtual void broken(Connection& connection, std::uint32_t end, std::uint32_t epoch, bool undelivered) = 0;

 protected:
  virtual ~NetworkHost() = default;
};

class VirtualNetwork {
 public:
  VirtualNetwork(NetworkOptions options, Random random, EventQueue& queue, NetworkHost& host)
      : options_(options), random_(random), queue_(queue), host_(host) {}
  VirtualNetwork(const VirtualNetwork&) = delete;
  VirtualNetwork& operator=(const VirtualNetwork&) = delete;

  // They live as long as the network.
  Connection& control(std::uint32_t a, std::uint32_t b);
  Connection& bulk(std::uint32_t dialer, std::uint32_t acceptor);

  // REQUIRES: `from` is an end of the connection.
  void send(Connection& connection, std::uint32_t from, PacketPtr packet);

  // That end's program closes the connection that it used in this epoch, with these last words if it still stands.
  // What it sends next goes over a new one: an end that talked into a hole is rid of it so.
  void close(Connection& connection, std::uint32_t epoch, std::uint32_t from, PacketPtr last_words);

  // ---- faults ----
  // Nothing gets from one machine to the other meanwhile; what was under way already arrives.
  void cut(std::uint32_t from, std::uint32_t to, Interval interval);
  // The bandwidth between two machines, both ways, is divided by `factor` meanwhile.
  void clog(std::uint32_t a, std::uint32_t b, Interval interval, double factor);
  // All ways from and to these machines, or those between them and the others where there are any, are like
  // this meanwhile, for what is sent then; the worse of several shapes counts. A packet that gets lost
  // arrives later (base/loss.h), and whatever follows it waits for it.
  void shape(const std::vector<std::uint32_t>& machines, const std::vector<std::uint32_t>& others,
             Interval interval, const LinkShape& shape);
  // All connections between two machines break; both ends learn it.
  void reset(std::uint32_t a, std::uint32_t b);
  void reset(Connection& connection);
  // All connections between two machines break; one end learns it, the other talks into a hole.
  void half_open(std::uint32_t knows, std::uint32_t deaf);
  // A machine's process is gone. Its last words are still sent where it ended in order.
  enum class Ending : std::uint8_t { orderly, crash, power_loss };
  void down(std::uint32_t machine, Ending ending);
  // A machine is back after a power loss: whatever others still send to its former self is refused.
  void up_again(std::uint32_t machine);

  Duration latency() const { return options_.latency; }
  // The longest that any way's queue ever was, packets that travel included.
  std::size_t longest_queue() const { return longest_queue_; }
  std::uint64_t dropped() const { return dropped_; }  // from full queues
  std::uint64_t broken() const { return broken_; }    // connections

 private:
  using Way = Connection::Way;
  struct Clog {
    Interval interval;
    double factor;
  };
  struct Port {  // of a machine: when each way of it is done with what it was given
    Instant out_free, in_free;
  };

  struct Shape {
    std::vector<bool> machines, others;  // by index, as far as needed; no others: all
    Interval interval;
    LinkShape shape;
    bool concerns(std::uint32_t from, std::uint32_t to) const;
  };
  struct Conditions {  // of one packet
    Duration latency;
    double bandwidth;
    double drop;
  };

  Connection& connection(std::uint32_t dialer, std::uint32_t acceptor, wire::Purpose purpose);
  template <class Do>
  void for_pair(std::uint32_t a, std::uint32_t b, Do act);
  void into_hole(Connection& c, std::uint32_t from);
  void transmit(Connection& c, std::uint32_t from, PacketPtr packet);
  void pump(Connection& c, std::uint32_t from);
  void stall(Connection& c, std::uint32_t from, PacketPtr packet, Instant clear);
  void arrive(Connection& c, std::uint32_t epoch, std::uint32_t from, PacketPtr packet);
  void sever(Connection& c, std::optional<Duration> dialer_learns, std::optional<Duration> acceptor_learns);
  void tell(Connection& c, std::uint32_t end, std::uint32_t epoch, bool undelivered, Instant at);
  void make_half_open(Connection& c, std::uint32_t knows);
  Instant clear_of_cuts(std::uint32_t from, std::uint32_t to) const;
  Conditions conditions(std::uint32_t from, std::uint32_t to) const;
  Instant sent_by(std::uint32_t from, std::uint32_t to, Instant at, std::size_t bytes,
                  double bandwidth) const;
  Duration port_time(const Packet& packet) const;
  void enter_port(Connection& c, std::uint32_t epoch, std::uint32_t from, PacketPtr packet, Instant last_bit);
  void end_in_order(Connection& c, std::uint32_t epoch, std::uint32_t machine);
  Duration travel(Duration latency);
  void note_length(const Way& way);

  NetworkOptions options_;
  Random random_;
  EventQueue& queue_;
  NetworkHost& host_;
  std::unordered_map<std::uint64_t, Connection> connections_;  // found by their ends, never walked through
  std::vector<std::vector<Connection*>> of_machine_;           // in the order they were first used
  std::unordered_map<std::uint64_t, std::vector<Interval>> cuts_;
  std::unordered_map<std::uint64_t, std::vector<Clog>> clogs_;
  std::vector<Shape> shapes_;
  std::vector<Port> ports_;
  std::size_t longest_queue_ = 0;
  std::uint64_t dropped_ = 0, broken_ = 0;
};

}  // namespace starling::lab
