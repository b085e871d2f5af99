// What the live page is fed with, as text: docs/API.md has the fields. Pure functions of what they are given.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "node/front/event_log.h"
#include "node/front/history.h"
#include "node/front/status.h"
#include "training/experiment/consensus_model.h"

namespace starling::node {

// By what the distance between partners is predicted, under the run's rule.
struct Prediction {
  std::string by;                // exchange, push, round, nobody; empty: there is none
  std::optional<double> factor;  // what one of these leaves of the squared disagreement
  bool is_bound = false;         // it leaves at most so much
  double steps = 1;              // of a peer, from round to round
  std::string words;             // whole sentences
  friend bool operator==(const Prediction&, const Prediction&) = default;
};

// The graph among the members that train.
struct LinkGraph {
  std::string topology;
  std::vector<PeerId> members;
  std::vector<std::pair<std::uint32_t, std::uint32_t>>
      edges;  // positions in `members`, each pair once, the lower first
  std::optional<double> spectral_gap{};
  std::optional<double> contraction{};  // of the squared disagreement, by an exchange
  bool contraction_is_bound = false;    // it leaves at most so much
  Prediction prediction;
  friend bool operator==(const LinkGraph&, const LinkGraph&) = default;
};

// The graph of the topology among these members (gossip::vertices), without the analysis. Too large a
// schedule has no edges. An Error where the name is unknown.
Result<LinkGraph> link_graph(const std::string& topology, const std::vector<const wire::Member*>& vertices);
// Adds the analysis, and what it predicts under a rule of this kind: milliseconds, of hundreds of members
// seconds; on any thread.
void analyze(LinkGraph& graph, const std::vector<std::string>& names, const training::ConsensusModel& model);

// The figures of the whole swarm at this moment.
HistoryPoint point_of(const PeerStatus& status, const std::vector<MemberStatus>& members);

// One line each, its newline included.
std::string graph_json(const LinkGraph& graph);
std::string events_json(const std::vector<Happening>& events);
std::string history_json(const std::vector<HistoryPoint>& points);
std::string state_json(const PeerStatus& status, const std::vector<MemberStatus>& members,
                       const HistoryPoint& point);

// A server-sent event (WHATWG HTML, section 9.2). REQUIRES: `data` is one line.
std::string server_sent(const std::string& event, const std::string& data);

}  // namespace starling::node
