// The exchanges of one virtual peer, as node::Initiator and node::Responder in the daemon. The same
// training::Offering and training::Serving do the bookkeeping; here chunks are packets and time is virtual.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "gossip/actions.h"
#include "gossip/meeting/answer_budget.h"
#include "lab/world/learner.h"
#include "lab/world/network/virtual_reach.h"
#include "lab/world/virtual_machine.h"
#include "training/mixing/sides.h"

namespace starling::lab {

class VirtualExchanges {
 public:
  // A chunk that was sent and has no reply yet.
  struct Flight {
    training::Parcel sent;
    Block room;  // holds its values
    Instant lent_at;
    bool lied = false;  // the partner received other values
    // The reply, once the responder has sent it; for World::energy().
    training::Parcel reply{};
    Block reply_room{};
  };

  VirtualExchanges(VirtualMachine& machine, VirtualReach& reach, VirtualReplica& replica, Surroundings& world)
      : machine_(machine), reach_(reach), replica_(replica), world_(world), budget_(world.options.answers) {}

  // The actions of this peer's core.
  void begin(const gossip::BeginExchange& begin);
  void abort(const gossip::AbortExchange& abort);
  void answer(const gossip::AnswerOffer& decision);
  // A lie: offers an exchange that never comes.
  void offer_nothing(const Endpoint& to);

  // Packets from other machines.
  void take_offer(VirtualExchanges& initiator, Connection& connection, const Packet& packet);
  void take_chunk(Packet& packet);
  void take_close(const Packet& packet) { end_answer(packet.sender, packet.exchange); }
  void take_reply(const Packet& packet);
  void take_refusal(const Packet& packet);
  // The connection broke. False if no exchange of this peer used it.
  bool connection_broke(const Connection& connection, std::uint32_t epoch);

  std::uint64_t half_applied() const { return half_applied_; }  // chunks of all instances
  // The lent chunk that contains this offset, of any exchange; null if there is none.
  const Flight* covering(std::size_t offset) const;
  // The instance has ended.
  void instance_ended() { world_.exchanges_under_way -= owns_.size(); }
  void clear() {
    owns_.clear();
    answers_.clear();
    budget_ = gossip::AnswerBudget(world_.options.answers);
  }

 private:
  // An exchange that this peer began.
  struct Own {
    std::uint32_t partner;
    Connection* connection;
    std::uint32_t epoch;  // of the connection
    training::Offering offering;
    std::vector<Flight> flights{};  // one for each chunk that the offering has in flight

    std::uint64_t exchange() const { return offering.session().exchange; }
  };
  // An exchange that another peer began with this one.
  struct Answer {
    std::uint64_t number;  // among the answers of this machine
    std::uint64_t round;   // of the offer
    PeerId from;
    VirtualExchanges* initiator;
    Connection* connection;
    std::uint32_t epoch;  // of the connection
    training::Serving serving;
    std::vector<Packet> waiting{};  // chunks that arrived before the offer was accepted
    bool asked_again = false;       // the core, after another answer ended
  };

  Own* own(std::uint64_t exchange);
  void send_chunks(Own& own);
  void give_up(std::uint64_t exchange);
  void end_own(Own& own, std::uint64_t round = 0);
  void close_own(Own& own);

  Answer* answer_of(PeerId from, std::uint64_t exchange);
  bool make_room_for(Answer& refused);
  void make_room(std::optional<std::uint64_t> ending, PeerId further);
  Flight* flight_of(const Answer& answer, const Packet& packet);
  void answer_waiting(PeerId from, std::uint64_t exchange);
  void answer_chunk(Answer& answer, const Packet& packet);
  void end_answer(PeerId from, std::uint64_t exchange);
  void end_answers(const Connection& connection, std::uint32_t epoch);

  VirtualMachine& machine_;
  VirtualReach& reach_;
  VirtualReplica& replica_;
  Surroundings& world_;
  std::list<Own> owns_;  // more than one only if the rule is in lock-step or has servers
  std::list<Answer> answers_;
  std::uint64_t last_answer_ = 0;
  gossip::AnswerBudget budget_;
  std::uint64_t empty_offers_ = 0;
  std::uint64_t half_applied_ = 0;
};

}  // namespace starling::lab
