// Rules with a barrier: a round is an exchange with every neighbor, and no step is made until it is over
// (gossip/rounds.h). Training pauses for the round.
#pragma once

#include <vector>

#include "gossip/encounters.h"
#include "gossip/partner.h"
#include "gossip/rounds.h"

namespace starling::gossip {

class LockStep : public Encounters {
 public:
  LockStep(RunState& run, Ending& ending, Exchanges& exchanges);

  void tick(std::vector<Action>& out) override;
  Instant next_deadline() const override;
  void advanced(const ExchangeAdvanced& advanced) override;
  void ended(const ExchangeEnded& ended, std::vector<Action>& out) override;
  void offered(const Offer& offer, std::vector<Action>& out) override;
  void answer_ended(const AnswerEnded& ended, std::vector<Action>& out) override;
  bool settled() const override { return Encounters::settled() && !rounds_.is_open(); }
  void finish(std::vector<Action>& out) override { abandon_round(out); }
  void replica_lost(std::vector<Action>& out) override;
  void topology_changed() override;
  std::uint64_t round() const override { return rounds_.current(); }

 private:
  std::uint64_t round_for(const Offer&, wire::RefusalReason reason) const override;
  void failed(PeerId partner) override;

  void open_round(std::vector<Action>& out);
  void begin_own(std::vector<Action>& out);
  InFlight& begin_along(Rounds::Edge& edge, std::vector<Action>& out);
  void pass_over_the_absent(std::vector<Action>& out);
  void pass_over(PeerId partner, std::vector<Action>& out);
  void ask(PeerId partner, std::vector<Action>& out);
  void let_partner_begin(PeerId partner, std::vector<Action>& out);
  bool will_come(const Rounds::Edge& edge, const InFlight* own) const;
  void follow_links();
  void accept(const Offer& offer, std::vector<Action>& out);
  void answer_held(std::vector<Action>& out);
  void withdraw_asks(std::vector<Action>& out);
  void close_round(std::vector<Action>& out);
  void abandon_round(std::vector<Action>& out);

  PartnerChooser partners_;
  Rounds rounds_;
  Instant deadline_ = kNever;  // neighbors that have not come by then are passed over
  Instant doubt_ = kNever;     // when the awaited neighbors are probed
  static constexpr std::uint64_t kNoVersion = UINT64_MAX;
  std::uint64_t version_ = kNoVersion;  // of the membership that the round's links were compared with
  bool settles_ = false;                // the round began after training ended
  bool met_anyone_ = false;
};

}  // namespace starling::gossip
