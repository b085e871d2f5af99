// The command lines with which the launcher starts peers. The first peer gets the whole experiment; the
// others get the addresses of running peers, where their data lies, their slot, and the settings that each
// peer has for itself.
#pragma once

#include <string>
#include <vector>

#include "base/time.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/experiment/settings/settings.h"

namespace starling::lab {

// Whether `starling peer` accepts this setting: not the settings of a whole run (its name, its number of
// peers, its target, its evaluations), nor the network card of a simulated machine.
bool is_peer_setting(const training::Setting& setting);

struct PeerPlace {
  std::uint32_t number;  // a peer, or a server if it is at least `experiment.peers`
  std::string out;       // folder of its files
  int control_fd;
  std::uint32_t snapshots = 0;  // that it writes per epoch of the swarm
  std::uint32_t expected = 0;   // peers that begin the run together; 0: it is not one of them
  std::string key{};            // path of the swarm's key file; empty: no key
  std::string http{};           // where it serves its page; empty: nowhere
  std::string rendezvous{};     // with all-reduce: the folder in which peers find each other
  Duration patience{0};         // with all-reduce: how long a peer waits for another
  Duration late{
      0};  // from the run's start to the process's: the times of its faults count from its own start
};

// The arguments after the program's name. With all-reduce every peer is a beginner.
std::vector<std::string> beginner_arguments(const training::Experiment& experiment, const PeerPlace& place);
std::vector<std::string> joiner_arguments(const training::Experiment& experiment, const PeerPlace& place,
                                          const std::vector<std::string>& addresses);

}  // namespace starling::lab
