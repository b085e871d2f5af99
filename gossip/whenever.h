// Rules without a barrier: when an exchange is due, the peer picks one partner, and a partner answers at
// once.
//
// Rules with outer rounds (NoLoCo) begin a round, an outer step, before each exchange. Partners whose rounds
// are too far apart do not exchange: a peer that is behind begins the partner's round first, so that slow
// peers are never locked out.
#pragma once

#include <vector>

#include "gossip/acceptance.h"
#include "gossip/encounters.h"
#include "gossip/partner.h"
#include "gossip/round_count.h"

namespace starling::gossip {

class Whenever : public Encounters {
 public:
  static constexpr std::uint64_t kRoundsApart = 4;  // of two partners, at most

  Whenever(RunState& run, Ending& ending, Exchanges& exchanges);

  void start(std::vector<Action>& out) override;
  void tick(std::vector<Action>& out) override;
  Instant next_deadline() const override;
  bool due() const override;
  void ended(const ExchangeEnded& ended, std::vector<Action>& out) override;
  void give_up(std::uint64_t exchange, std::vector<Action>& out) override;
  void offered(const Offer& offer, std::vector<Action>& out) override;
  void answer_ended(const AnswerEnded& ended, std::vector<Action>& out) override;
  void finish(std::vector<Action>& out) override;
  void topology_changed() override { partners_.follow(run_.rules->topology); }
  std::uint64_t round() const override { return rounds_.current(); }

 private:
  std::uint64_t round_for(const Offer&, wire::RefusalReason) const override { return rounds_.current(); }
  InFlight& begin(PeerId partner, std::vector<Action>& out);
  void begin_round(std::vector<Action>& out);
  bool catch_up(const InFlight& rejected, std::vector<Action>& out);
  bool in_reach(const Offer& offer);

  bool outer_;  // the rule has rounds
  PartnerChooser partners_;
  Acceptance acceptance_;
  RoundCount rounds_;
};

}  // namespace starling::gossip
