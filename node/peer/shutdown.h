// How a peer ends: what it saves, what it waits for and for how long, and its exit code. Of the daemon's
// thread.
#pragma once

#include <chrono>
#include <string>

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>

#include "gossip/actions.h"
#include "node/launch/outcome.h"
#include "node/launch/process.h"
#include "node/peer/keeper.h"
#include "node/peer/parts.h"
#include "node/peer/teller.h"
#include "node/work/background.h"
#include "transport/signal.h"

namespace starling::node {

class Shutdown {
 public:
  Shutdown(PeerParts& parts, Process& process, Teller& teller, Keeper& keeper, Background& disk,
           asio::io_context& io)
      : parts_(parts),
        process_(process),
        teller_(teller),
        keeper_(keeper),
        disk_(disk),
        io_(io),
        changed_(io.get_executor()) {}

  // A failure from now on has exit code 1: another start may succeed.
  void expect_restart() { failure_code_ = 1; }
  // A copy of the replica at the run's last step, for the launcher.
  void save_before_settling();
  // From now on files have only a moment left: the peer was asked to leave.
  void hurry();
  // Saves, says goodbye and stops the io_context. `why`: one sentence if the run failed.
  void begin(gossip::Finish::How how, const std::string& why = "");

  const PeerOutcome& outcome() const { return outcome_; }
  // Ends the process with the outcome if its threads do not let it end within a moment.
  void end_process_soon() const;

 private:
  using Clock = std::chrono::steady_clock;
  void save_all();
  asio::awaitable<void> run();
  void judge_final_replica() const;
  void report();

  PeerParts& parts_;
  Process& process_;
  Teller& teller_;
  Keeper& keeper_;
  Background& disk_;
  asio::io_context& io_;
  int failure_code_ = 2;
  PeerOutcome outcome_;
  std::string path_before_settling_, final_path_, exported_path_;  // empty: not written
  Clock::time_point deadline_ = Clock::time_point::max();          // for the disk
  transport::Signal changed_;                                      // the deadline
};

}  // namespace starling::node
