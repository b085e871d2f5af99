// How a peer ends: what it saves, what it waits for and for how long, and its exit code. Used by the daemon's
// thread only.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <asio/awaitable.hpp>

#include "gossip/actions.h"
#include "node/peer/keeper.h"
#include "node/peer/listening.h"
#include "node/peer/lives.h"
#include "node/peer/teller.h"
#include "transport/coroutines.h"

namespace starling::node {

// Where the final replica of the peer with this name goes: options.export_to, with a name that is free now if
// that is a folder; empty: nowhere.
std::string export_path(const DaemonOptions& options, const std::string& name);

class Shutdown {
 public:
  Shutdown(Started& started, Listening& listening, const Lives& lives, Teller& teller, Keeper& keeper)
      : started_(started),
        listening_(listening),
        lives_(lives),
        teller_(teller),
        keeper_(keeper),
        changed_(started.io.get_executor()) {}

  // Saves a copy of the replica at the run's last step, for the launcher.
  void save_before_settling();
  // The peer was asked to leave: limits the time to write files from now on.
  void hurry();
  // The peer will leave with exit code 2 and this sentence, and keep no result.
  void refuse(const std::string& why) { outcome_ = {2, why}; }
  // Saves, flushes the links and stops the io_context. `why`: one sentence if the run failed.
  void begin(gossip::Finish::How how, const std::string& why = "", bool other_version = false);

  const PeerOutcome& outcome() const { return outcome_; }
  // Ends the process after the last words unless its threads have ended, and `over` is true, after a moment.
  // Sets `over`.
  void end_process_soon(std::shared_ptr<std::atomic<bool>> over, LastWords last_words) const;

 private:
  using Clock = std::chrono::steady_clock;
  bool has_result() const;
  std::vector<std::string> with_other_places(const std::string& path) const;
  void save_all();
  asio::awaitable<void> run();
  void judge_final_replica() const;
  void report();

  Started& started_;
  Listening& listening_;
  const Lives& lives_;
  Teller& teller_;
  Keeper& keeper_;
  PeerOutcome outcome_;
  std::string export_to_;                                          // chosen when it is written
  std::string doubt_;                                              // of a run that finished
  std::string path_before_settling_, final_path_, exported_path_;  // empty: not written
  Clock::time_point deadline_ = Clock::time_point::max();          // for the disk
  transport::Signal changed_;                                      // the deadline
};

}  // namespace starling::node
