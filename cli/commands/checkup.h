// What `starling doctor` tries out beside looking at processor and GPUs: whether a peer could listen, what
// the clock says, which names resolve, which data is there and can be read, how much room there is, and
// whether a running peer would have this one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "transport/swarm_key.h"

namespace starling::cli {

struct Check {
  enum class Outcome {
    good,
    note,  // worth knowing, and no obstacle
    bad,   // what was asked for would not work
  };
  std::string topic;  // port, clock, names, data, space, peer, key
  Outcome outcome = Outcome::good;
  std::string what;    // a sentence
  std::string remedy;  // what to do about it; empty where nothing is to be done
};

const char* outcome_name(Check::Outcome outcome);

// Whether a peer could listen there. Where nobody has `asked` for that address, one that is taken is no
// obstacle.
Check check_port(const Address& listen, bool asked);

// Whether the wall clock goes as the steady one does, and is kept right.
std::vector<Check> check_clock();

// This machine's own name, and `hosts`.
std::vector<Check> check_names(const std::vector<std::string>& hosts);

// What the folder of data sets ($STARLING_DATA, or empty) holds. Reads every set.
std::vector<Check> check_data(const std::string& data_root);

// Whether a folder (that `flag` named) can be written to, and has room.
Check check_space(const std::string& flag, const std::string& folder);

// Whether the peer with that --http address would have us: a peer of this swarm, model and data, where they
// are given.
struct Wanted {
  std::string swarm = "starling";
  std::optional<transport::SwarmKey> key;  // and the file that it was read from; none: a peer would have none
  std::string key_file;
  std::optional<std::string> model, data;
  std::string data_root;
};
std::vector<Check> check_peer(const Address& http, const Wanted& wanted);

}  // namespace starling::cli
