// The command lines with which the launcher starts peers. The first one begins the run and is told
// everything; the others are told where peers are, where their data lies, which slot is theirs, and what is
// each peer's own.
#pragma once

#include <string>
#include <vector>

#include "base/time.h"
#include "training/experiment/experiment.h"

namespace starling::lab {

// Whether `starling peer` takes this setting: not what only a whole run has (its name, its number of peers,
// its target, how often it is looked at), nor the network card, which is what it is.
bool is_peer_setting(const training::Setting& setting);

struct PeerPlace {
  std::uint32_t number;  // of `experiment.peers`, and of the servers behind them
  std::string out;       // folder of its files
  int control_fd;
  bool snapshots;        // leaves one for every look
  std::string key{};     // the file of the swarm's key; empty: none
  std::string rendezvous{};  // of a run by all-reduce: where its peers find one another
  Duration patience{0};      // and how long one waits for another
  Duration late{
      0};  // how long after the run's start it is started: its faults' times count from its own start
};

// The arguments behind the program's name. Of a run by all-reduce every peer is a beginner.
std::vector<std::string> beginner_arguments(const training::Experiment& experiment, const PeerPlace& place);
std::vector<std::string> joiner_arguments(const training::Experiment& experiment, const PeerPlace& place,
                                          const std::vector<std::string>& addresses);

}  // namespace starling::lab
