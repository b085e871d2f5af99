// Starts the processes of a swarm's members, sends them signals and commands, and collects their exits. The
// first process begins the run; later ones join it, under their old names if they come back.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "lab/interrupts.h"
#include "lab/swarm/peer_command.h"
#include "lab/swarm/process_faults.h"
#include "lab/swarm/swarm_run.h"
#include "lab/swarm/timelines.h"

namespace starling::lab {

class Launcher {
 public:
  // `snapshots` of each member: how many it writes per epoch. All arguments outlive the launcher.
  Launcher(SwarmRun& run, Timelines& timelines, Interrupts& interrupts, std::vector<std::uint32_t> snapshots);

  // An Error if every peer joins late, so that none could begin the run.
  Status choose_beginner();
  const SwarmMember& beginner() const { return run_.members[beginner_]; }

  Status start_beginner() { return start(run_.members[beginner_]); }
  // Those that do not join late.
  Status start_joiners();
  Status start(SwarmMember& member);
  // A new process of a member whose last one has ended; none if the run is over.
  void start_again(SwarmMember& member);

  void pause(SwarmMember& member);
  void end_pause(SwarmMember& member);  // overlapping ones end with the last
  void resume(SwarmMember& member);     // ends all
  void crash(SwarmMember& member);
  void leave(SwarmMember& member);
  // Sends every member the request to end.
  void end_all();
  void kill_all();

  // Derives the final state of a process that has ended, and warns of a crash.
  void record_exit(SwarmMember& member, const ChildProcess::Exit& exit);

  // The folder in which the peers of a run by all-reduce find each other.
  Status make_rendezvous() const;
  void remove_rendezvous() const;

 private:
  std::string rendezvous() const { return run_.folder.file("rendezvous"); }
  std::vector<std::string> arguments_by_all_reduce(PeerPlace place) const;
  std::string page_of(const SwarmMember& member) const;
  Result<std::vector<std::string>> arguments_of(const SwarmMember& member) const;

  SwarmRun& run_;
  Timelines& timelines_;
  Interrupts& interrupts_;
  std::vector<std::uint32_t> snapshots_;
  training::Experiment told_;  // the experiment with which the run begins
  std::size_t beginner_ = 0;
};

// Inflicts the faults of the experiment on the processes when they are due: signals, departures and returns,
// and the properties of links, which each process applies to what it sends.
class FaultInjector {
 public:
  // Both outlive the injector.
  FaultInjector(SwarmRun& run, Launcher& launcher);

  void inflict_due();
  // Sends each process the properties of its links that have changed since it was last sent them.
  void send_links();

  // How long until the next fault is due, `limit` at most.
  Duration until_next(Duration limit) const;
  bool resumes_someone() const { return faults_.resumes(); }
  bool starts_someone() const { return faults_.brings(); }

 private:
  void inflict(const ProcessFault& fault);
  void inflict_on_running(SwarmMember& member, ProcessFault::Act act);

  SwarmRun& run_;
  Launcher& launcher_;
  ProcessFaults faults_;
  bool links_change_;
};

// The last line of a log that is not empty, without the program's name: a peer's error message.
std::string last_message(const std::string& log);

}  // namespace starling::lab
