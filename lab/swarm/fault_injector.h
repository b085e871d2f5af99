// Inflicts the faults of an experiment on the processes of a swarm when they are due: signals, departures and
// returns, and the properties of links, which each process applies to what it sends.
#pragma once

#include <optional>

#include "base/time.h"
#include "lab/swarm/launcher.h"
#include "lab/swarm/process_faults.h"
#include "lab/swarm/swarm_run.h"

namespace starling::lab {

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
  void inflict_on_running(Member& member, ProcessFault::Act act);

  SwarmRun& run_;
  Launcher& launcher_;
  ProcessFaults faults_;
  bool links_change_;
};

}  // namespace starling::lab
