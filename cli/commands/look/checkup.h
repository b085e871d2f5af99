// The checks of `starling doctor`: whether a peer can listen, the clock, name resolution, data sets, disk
// space, and whether a running peer would accept this machine's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "transport/trust/swarm_key.h"

namespace starling::cli {

struct Check {
  enum class Outcome {
    good,
    note,  // worth knowing, but no obstacle
    bad,   // what the user asked for would not work
  };
  std::string topic;  // port, reach, mdns, clock, names, data, space, memory, peer, key
  Outcome outcome = Outcome::good;
  std::string what;    // a sentence
  std::string remedy;  // what to do about it; may be empty
};

struct Checks {
  std::vector<Check> all;

  void good(const char* topic, const std::string& what) {
    all.push_back({topic, Check::Outcome::good, what, ""});
  }
  void note(const char* topic, const std::string& what, const std::string& remedy = "") {
    all.push_back({topic, Check::Outcome::note, what, remedy});
  }
  void bad(const char* topic, const std::string& what, const std::string& remedy = "") {
    all.push_back({topic, Check::Outcome::bad, what, remedy});
  }
};

// Whether a peer can listen there. A busy address is bad only if the user named it (`given`).
void check_port(const Address& listen, bool given, Checks& checks);

// Which addresses of this machine others can dial, as far as it can know.
void check_reach(Checks& checks);

// Whether peers can discover each other with this machine's Avahi daemon.
void check_mdns(Checks& checks);

// Whether the wall clock runs like the steady one and is synchronized.
void check_clock(Checks& checks);

// Whether this machine's own name and `hosts` resolve.
void check_names(const std::vector<std::string>& hosts, Checks& checks);

// The data sets in $STARLING_DATA (may be empty). Reads every set.
void check_data(const std::string& data_root, Checks& checks);

// Whether the folder that `flag` names can be written to and its disk has space.
void check_space(const std::string& flag, const std::string& folder, Checks& checks);

// Whether a peer that trains a small network has enough memory.
void check_memory(Checks& checks);

// Whether the peer with this --http address would accept a peer of this swarm, key, model and data.
struct Wanted {
  std::string swarm = "starling";
  std::optional<transport::SwarmKeys> key;
  std::string key_file;
  std::optional<std::string> model, data;
  std::string data_root;
  std::optional<Address> listen{};  // where a peer would listen: the running one is asked to dial it
};
void check_peer(const Address& http, const Wanted& wanted, Checks& checks);

}  // namespace starling::cli
