#include "node/front/live.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "node/front/status_json.h"
#include "topologies/graph_file.h"
#include "topologies/spectra/analysis.h"
#include "topologies/topology.h"
#include "training/runs/records/json_fields.h"

namespace starling::node {
namespace {

using training::Json;
using training::or_null;

constexpr std::size_t kFactorMembersMax = 64;  // with more, a bound is much cheaper than the factor

Json json_of(const HistoryPoint& point) {
  namespace figure = training::figure;
  training::FieldWriter write;
  write("seconds", point.seconds);
  training::visit_figures(write, point, figure::steps, figure::swarm_samples);
  write("exchanges", point.exchanges);
  training::visit_figures(write, point, figure::loss, figure::accuracy, figure::distance,
                          figure::samples_per_second);
  return write.take();
}

// RFC 3339, UTC, with milliseconds.
std::string timestamp(std::chrono::system_clock::time_point time) {
  const auto milliseconds = std::chrono::floor<std::chrono::milliseconds>(time).time_since_epoch().count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(static_cast<std::time_t>(milliseconds / 1000)), milliseconds % 1000);
}

// By training::ConsensusModel::By.
constexpr std::array kPredictedBy = {"", "nobody", "exchange", "push", "round"};

}  // namespace

void History::add(const HistoryPoint& point) {
  const auto old = std::find_if(points_.begin(), points_.end(), [&](const HistoryPoint& p) {
    return p.seconds >= point.seconds - kKeptSeconds;
  });
  if (old != points_.begin() && static_cast<std::size_t>(old - points_.begin()) >= kPointsMax / 16)
    points_.erase(points_.begin(), old);
  if (!points_.empty() && point.seconds - points_.back().seconds < apart_) return;
  if (points_.size() >= kPointsMax) {
    std::vector<HistoryPoint> half;
    half.reserve(kPointsMax);
    for (std::size_t i = 1; i < points_.size(); i += 2) half.push_back(points_[i]);
    // A little less than the present distance of points, so that a point of an early timer is kept.
    apart_ = 0.95 * (half.back().seconds - half.front().seconds) / static_cast<double>(half.size() - 1);
    points_ = std::move(half);
    if (point.seconds - points_.back().seconds < apart_) return;
  }
  points_.push_back(point);
}

Result<LinkGraph> link_graph(const std::string& topology, const std::vector<const wire::Member*>& vertices) {
  LinkGraph graph;
  graph.topology = topology;
  const auto parsed = topologies::Topology::parse(topology);
  if (!parsed) return parsed.error();
  std::vector<topologies::VertexKey> keys;
  for (const wire::Member* member : vertices) {
    graph.members.push_back(member->id);
    keys.push_back(topologies::vertex_key(member->name));
  }
  if (keys.empty()) return graph;
  const topologies::Schedule schedule = parsed->among(keys);
  std::set<std::pair<std::uint32_t, std::uint32_t>> edges;
  for (std::uint64_t round = 0; round < schedule.period(); ++round) {
    for (std::uint32_t i = 0; i < keys.size(); ++i) {
      for (const topologies::Link& link : schedule.links(i, round))
        edges.insert({std::min(i, link.peer), std::max(i, link.peer)});
    }
  }
  graph.edges.assign(edges.begin(), edges.end());
  return graph;
}

void add_forecast(LinkGraph& graph, const std::vector<std::string>& names,
                  const training::ConsensusModel& model) {
  const auto parsed = topologies::Topology::parse(graph.topology);
  if (!parsed || names.empty()) return;
  std::vector<topologies::VertexKey> keys;
  for (const std::string& name : names) keys.push_back(topologies::vertex_key(name));
  const topologies::Schedule schedule = parsed->among(keys);
  graph.spectral_gap = topologies::spectral_gap(schedule);
  const auto nodes = static_cast<std::uint32_t>(keys.size());
  if (const auto clocks = topologies::edge_clocks(schedule)) {
    graph.contraction_is_bound = nodes > kFactorMembersMax;
    graph.contraction = graph.contraction_is_bound ? topologies::consensus_bound(nodes, *clocks)
                                                   : topologies::consensus_factor(nodes, *clocks);
  }

  using By = training::ConsensusModel::By;
  Forecast& prediction = graph.prediction;
  if (model.by == By::exchange) {
    prediction.factor = graph.contraction;
    prediction.is_bound = graph.contraction_is_bound;
  } else if (model.by == By::round) {
    prediction.factor = topologies::round_factor(schedule);
  } else if (model.by == By::push) {
    if (const auto clocks = topologies::push_clocks(schedule))
      prediction.factor = topologies::push_factor(nodes, *clocks);
  }
  prediction.steps = model.steps;
  prediction.words = training::consensus_words(model, prediction.factor, prediction.is_bound, nodes);
  if (nodes > 1 && training::predicts(model, prediction.factor))
    prediction.by = kPredictedBy.at(static_cast<std::size_t>(model.by));
}

HistoryPoint point_of(const PeerStatus& status, const std::vector<MemberStatus>& members) {
  HistoryPoint point;
  point.seconds = status.uptime_seconds;
  point.steps = status.steps;
  point.swarm_samples = status.swarm_samples;
  point.exchanges = status.exchanges.completed;
  point.loss = status.loss;
  point.accuracy = status.accuracy;
  double distances = 0, speeds = 0;
  std::size_t reported = 0;
  for (const MemberStatus& member : members) {
    if (member.state != "alive" && member.state != "suspect" && member.state != "quarantined") continue;
    if (member.distance) {
      distances += *member.distance;
      ++reported;
    }
    speeds += member.samples_per_second.value_or(0);
  }
  if (reported > 0) point.distance = distances / static_cast<double>(reported);
  if (speeds > 0) point.samples_per_second = speeds;
  return point;
}

std::string graph_json(const LinkGraph& graph) {
  const Forecast& prediction = graph.prediction;
  Json members = Json::array(), edges = Json::array();
  for (const PeerId id : graph.members) members.push_back(to_string(id));
  for (const auto& [a, b] : graph.edges) edges.push_back({a, b});
  return training::to_line({{"topology", topologies::shown_name(graph.topology)},
                            {"spectral_gap", or_null(graph.spectral_gap)},
                            {"contraction", or_null(graph.contraction)},
                            {"contraction_is_bound", graph.contraction_is_bound},
                            {"prediction",
                             {{"by", prediction.by.empty() ? Json() : Json(prediction.by)},
                              {"factor", or_null(prediction.factor)},
                              {"is_bound", prediction.is_bound},
                              {"steps", prediction.steps},
                              {"words", prediction.words}}},
                            {"members", members},
                            {"edges", edges}});
}

std::string events_json(const std::vector<Happening>& events) {
  Json list = Json::array();
  for (const Happening& event : events) {
    const auto level = spdlog::level::to_string_view(event.level);
    list.push_back({{"number", event.number},
                    {"seconds", event.seconds},
                    {"time", timestamp(event.time)},
                    {"level", std::string(level.begin(), level.end())},
                    {"what", event.what},
                    {"peer", event.peer ? Json(to_string(event.peer)) : Json()},
                    {"text", event.text}});
  }
  return training::to_line({{"events", list}});
}

std::string history_json(const std::vector<HistoryPoint>& points) {
  Json list = Json::array();
  for (const HistoryPoint& point : points) list.push_back(json_of(point));
  return training::to_line({{"points", list}});
}

std::string state_json(const PeerStatus& status, const std::vector<MemberStatus>& members,
                       const HistoryPoint& point) {
  return training::to_line({{"seconds", status.uptime_seconds},
                            {"status", node::json_of(status)},
                            {"members", node::json_of(members)},
                            {"point", json_of(point)}});
}

std::string server_sent(const std::string& event, const std::string& data) {
  const bool ended = data.ends_with('\n');
  return "event: " + event + "\ndata: " + (ended ? data : data + "\n") + "\n";
}

}  // namespace starling::node
