// The exchanges of this peer: its own that are in flight, and others' that it answers. It has what is the
// same under all rules: deadlines, probes of a silent partner, limits learned from each partner, and counts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gossip/meeting/pacing.h"
#include "gossip/meeting/rounds.h"
#include "gossip/run_state.h"

namespace starling::gossip {

struct ExchangeCounts {
  std::uint64_t begun = 0, completed = 0, aborted = 0, rejected = 0;  // this peer's own
  std::uint64_t answered = 0;                                         // others', to the end
};

struct InFlight {
  std::uint64_t exchange;
  PeerId partner;
  Instant begun, deadline;
  Instant doubt;        // when its partner is probed; kNever afterwards
  Instant heard;        // the latest progress, or the beginning
  Duration silence{0};  // the longest between two signs of progress
  bool advanced = false;
  bool settles = false;  // begun after training ended
  bool asks = false;     // in lock-step, along a link whose other end should have begun it
};

class Exchanges {
 public:
  // Numbers of exchanges differ from the numbers of earlier lives under the same id.
  explicit Exchanges(RunState& run)
      : run_(run),
        patience_(run.options.exchange_timeout),
        last_exchange_(std::uint64_t{run.options.incarnation} << 32) {}

  const ExchangeCounts& counts() const { return counts_; }
  const Patience& patience() const { return patience_; }

  // ---- this peer's own ----
  // The reference is valid until the next one begins or ends.
  InFlight& begin(PeerId partner, const Terms& terms, Instant deadline, Actions& out);
  const std::vector<InFlight>& in_flight() const { return in_flight_; }
  // null if there is none
  InFlight* find(std::uint64_t exchange) {
    const auto found = std::ranges::find(in_flight_, exchange, &InFlight::exchange);
    return found == in_flight_.end() ? nullptr : &*found;
  }
  InFlight* with(PeerId partner) {
    const auto found = std::ranges::find(in_flight_, partner, &InFlight::partner);
    return found == in_flight_.end() ? nullptr : &*found;
  }
  // Returns the exchange, extended; null if it was aborted.
  InFlight* advanced(const ExchangeAdvanced& advanced);
  // Counts it by its outcome and returns it; nullopt if it was aborted.
  std::optional<InFlight> ended(const ExchangeEnded& ended, Actions& out);
  // REQUIRES: it is in flight.
  InFlight abort(std::uint64_t exchange, Actions& out) {
    out.push_back(AbortExchange{exchange});
    ++counts_.aborted;
    return take(exchange);
  }
  void abort_all(Actions& out) {
    while (!in_flight_.empty()) static_cast<void>(abort(in_flight_.front().exchange, out));
  }
  // Probes partners that are silent for long. Returns exchanges to be aborted: their partners are suspect or
  // dead, or made no progress by the deadline.
  std::vector<std::uint64_t> lost(Actions& out);
  // This peer woke `late` after its deadline: partners get that much more time.
  void slept(Duration late) {
    for (InFlight& exchange : in_flight_) exchange.deadline = exchange.deadline + late;
  }
  Instant next_deadline() const {
    Instant next = kNever;
    for (const InFlight& exchange : in_flight_) next = std::min({next, exchange.deadline, exchange.doubt});
    return next;
  }

  // ---- others' ----
  void accept(const Offer& offer, const Terms& terms, Actions& out) {
    answers_.push_back({offer.from, offer.exchange});
    out.push_back(AnswerOffer{offer.from, offer.exchange, true, {}, terms});
  }
  // `round`: the rejecting peer's, where the rule counts rounds.
  void reject(const Offer& offer, wire::RefusalReason reason, std::uint64_t round, Actions& out) const {
    out.push_back(AnswerOffer{offer.from, offer.exchange, false, reason, {.round = round}});
  }
  std::size_t answering() const { return answers_.size(); }
  // Returns false if the answer was given up before.
  bool answer_ended(const AnswerEnded& ended, Actions& out);
  // The initiator has given these up. Returns false if there is none.
  bool forget_answer(PeerId from, std::uint64_t exchange) {
    return std::erase_if(answers_,
                         [&](const Answer& it) { return it.from == from && it.exchange == exchange; });
  }
  void forget_answers_before(const Offer& offer) {
    std::erase_if(answers_,
                  [&](const Answer& it) { return it.from == offer.from && it.exchange < offer.exchange; });
  }

 private:
  struct Answer {
    PeerId from;
    std::uint64_t exchange;
  };

  InFlight take(std::uint64_t exchange);

  RunState& run_;
  Patience patience_;
  ExchangeCounts counts_;
  std::uint64_t last_exchange_;
  std::vector<InFlight> in_flight_;
  std::vector<Answer> answers_;  // accepted and under way
};

}  // namespace starling::gossip
