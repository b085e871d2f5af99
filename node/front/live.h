// The figures and texts for the live page; docs/API.md has the fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "node/front/event_log.h"
#include "node/front/status.h"
#include "training/runs/experiment/consensus_model.h"
#include "training/runs/records/peer_figures.h"

namespace starling::node {

// The figures of a peer and its swarm at one time.
struct HistoryPoint : training::PeerFigures {  // distance and speed are the swarm's
  double seconds = 0;                          // since the peer's start
  std::uint64_t exchanges = 0;
};

// The figures of the last hour: one point per second, and fewer once kPointsMax are kept.
class History {
 public:
  static constexpr std::size_t kPointsMax = 1024;
  static constexpr double kKeptSeconds = 3600;

  // REQUIRES: the points' seconds increase. If there are kPointsMax points, every other one is dropped.
  void add(const HistoryPoint& point);
  const std::vector<HistoryPoint>& points() const { return points_; }

 private:
  std::vector<HistoryPoint> points_;
  double apart_ = 0;  // least seconds between two points that are kept
};

// How the distance between partners shrinks under the run's rule, predicted from the graph.
struct Forecast {
  std::string by;                // exchange, push, round, nobody; empty: no prediction
  std::optional<double> factor;  // of the squared disagreement, by one of these
  bool is_bound = false;         // the factor is an upper bound
  double steps = 1;              // of a peer per round
  std::string words;             // sentences for the page
};

// The graph of the members that train.
struct LinkGraph {
  std::string topology;
  std::vector<PeerId> members;
  // Positions in `members`, each pair once, the lower one first.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  std::optional<double> spectral_gap{};
  std::optional<double> contraction{};  // of the squared disagreement by one exchange
  bool contraction_is_bound = false;    // the factor is an upper bound
  Forecast prediction;
};

// The graph of the topology for these members (gossip::vertices), without the analysis. A schedule that is
// too large has no edges. An Error if the name is unknown.
Result<LinkGraph> link_graph(const std::string& topology, const std::vector<const wire::Member*>& vertices);
// Adds the analysis and its prediction for a rule of this kind. Takes milliseconds, with hundreds of members
// seconds. On any thread.
void add_forecast(LinkGraph& graph, const std::vector<std::string>& names,
                  const training::ConsensusModel& model);

// The current figures of the whole swarm.
HistoryPoint point_of(const PeerStatus& status, const std::vector<MemberStatus>& members);

// One line each, with its newline.
std::string graph_json(const LinkGraph& graph);
std::string events_json(const std::vector<Happening>& events);
std::string history_json(const std::vector<HistoryPoint>& points);
std::string state_json(const PeerStatus& status, const std::vector<MemberStatus>& members,
                       const HistoryPoint& point);

// A server-sent event (WHATWG HTML, section 9.2). REQUIRES: `data` is one line.
std::string server_sent(const std::string& event, const std::string& data);

}  // namespace starling::node
