// Rules with parameter servers (gossip/servers.h). A push is an exchange with every server, each of its own
// part, all at once; a worker pushes when its pace says so, a rack's server when its workers have. Where
// staleness is bounded, servers hold pushes of workers that are too far ahead (gossip/clocks.h), and a worker
// pauses while its push is held.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gossip/clocks.h"
#include "gossip/encounters.h"
#include "gossip/roster.h"
#include "gossip/round_count.h"

namespace starling::gossip {

class Served : public Encounters {
 public:
  Served(RunState& run, Ending& ending, Exchanges& exchanges);

  void start(std::vector<Action>& out) override;
  void tick(std::vector<Action>& out) override;
  Instant next_deadline() const override;
  bool due() const override;
  void ended(const ExchangeEnded& ended, std::vector<Action>& out) override;
  void offered(const Offer& offer, std::vector<Action>& out) override;
  void answer_ended(const AnswerEnded& ended, std::vector<Action>& out) override;
  bool serves() const override { return roster_.serves(); }
  bool end_reached() const override;
  std::uint64_t exchanges_to_settle() const override;
  void replica_lost(std::vector<Action>&) override { paused_ = false; }  // training resumes with the copy
  std::uint64_t round() const override { return pushes_.current(); }

 private:
  void refresh_roster();
  bool trains(PeerId worker) const;
  bool workers_reached_end() const;
  void start_when_served(std::vector<Action>& out);

  bool push_is_due() const;
  bool push_moment_is_due() const;
  bool parts_apart() const;
  void push(std::vector<Action>& out);
  void push_to(const Roster::Target& target, std::vector<Action>& out);
  void widen_push(std::vector<Action>& out);
  void close_push();
  void failed(PeerId server) override;
  void pause_or_resume(std::vector<Action>& out);

  void answer_held(std::vector<Action>& out);
  std::uint64_t round_for(const Offer& offer, wire::RefusalReason reason) const override;
  Terms terms_of_serving() const;

  Roster roster_;
  RoundCount pushes_;             // a push's number, a worker's clock
  std::optional<Clocks> clocks_;  // of a server, where staleness is bounded
  bool awaits_servers_ = false;   // training starts when all servers are there
  std::string missing_;           // the last notice about them

  // The push under way.
  bool open_ = false;
  bool went_through_ = false;       // at least one part of it
  std::vector<PeerId> pushed_to_;   // without those that failed
  bool paused_ = false;             // training waits for it
  std::uint64_t pushes_taken_ = 0;  // by a rack's server since its own last push
};

}  // namespace starling::gossip
