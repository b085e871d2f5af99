// What the live page is fed with, as text: docs/API.md has the fields. Pure functions of what they are given.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "node/event_log.h"
#include "node/history.h"
#include "node/status.h"

namespace starling::node {

// The graph among the members that train.
struct LinkGraph {
  std::string topology;
  std::vector<PeerId> members;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;  // positions in `members`, each pair once, the lower first
  std::optional<double> spectral_gap{};
  std::optional<double> contraction{};  // of the squared disagreement, by an exchange
  friend bool operator==(const LinkGraph&, const LinkGraph&) = default;
};

// The graph of the topology among these members (gossip::vertices), without the analysis. Too large a schedule has no
// edges. An Error where the name is unknown.
Result<LinkGraph> link_graph(const std::string& topology, const std::vector<const wire::Member*>& vertices);
// Adds the analysis: milliseconds, of hundreds of members seconds; on any thread.
void analyze(LinkGraph& graph, const std::vector<std::string>& names);

// The figures of the whole swarm at this moment.
HistoryPoint point_of(const PeerStatus& status, const std::vector<MemberStatus>& members);

// One line each, its newline included.
std::string graph_json(const LinkGraph& graph);
std::string events_json(const std::vector<Happening>& events);
std::string history_json(const std::vector<HistoryPoint>& points);
std::string state_json(const PeerStatus& status, const std::vector<MemberStatus>& members, const HistoryPoint& point);

// A server-sent event (WHATWG HTML, section 9.2). REQUIRES: `data` is one line.
std::string server_sent(const std::string& event, const std::string& data);

}  // namespace starling::node
