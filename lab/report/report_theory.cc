// What the topology of a run predicts.
#include <fmt/format.h>

#include <cmath>

#include "lab/report/report.h"
#include "topologies/drawings/drawing.h"
#include "topologies/drawings/layout.h"
#include "topologies/spectra/analysis.h"
#include "topologies/topology.h"
#include "training/runs/experiment/consensus_model.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/experiment/settings/settings.h"

namespace starling::lab {
namespace {

constexpr std::uint32_t kMostPeersDrawn = 300, kMostPeersAnalyzed = 2000;
constexpr std::size_t kLargestDrawing = 400'000;  // bytes

// V, the sum of squared distances from the mean, falls as exp(-decay * number of events).
struct Decay {
  double of_exchange = 0, of_step = 0;  // per exchange or step of any peer
};

// Every step adds the same amount to V, and every exchange removes a share: V' = source - decay V along the
// steps and exchanges of the run. V is linear in the source, which is fitted to the measured distances in
// logarithms; the shape follows from the topology.
void predict(ReportRun& run, const Decay& decay) {
  std::vector<double> unit;  // V for a source of 1
  double v = 0, steps = 0, exchanges = 0, logs = 0;
  std::size_t measured = 0;
  for (const ReportPoint& point : run.points) {
    const double more_steps = std::max(0.0, point.steps - steps);
    const double a =
        decay.of_exchange * std::max(0.0, point.exchanges - exchanges) + decay.of_step * more_steps;
    v = v * std::exp(-a) + more_steps * (a > 1e-9 ? -std::expm1(-a) / a : 1);
    steps = point.steps;
    exchanges = point.exchanges;
    unit.push_back(v);
    if (point.consensus && *point.consensus > 0 && v > 0) {
      logs += std::log(*point.consensus * *point.consensus / v);
      ++measured;
    }
  }
  if (measured < 3) return;
  const double source = std::exp(logs / static_cast<double>(measured));
  for (std::size_t i = 0; i < unit.size(); ++i)
    if (run.points[i].consensus && unit[i] > 0) run.points[i].predicted = std::sqrt(source * unit[i]);
}

void draw(ReportRun& run, const topologies::Schedule& schedule, const topologies::Analysis& analysis) {
  run.graph_text = fmt::format("{} peers, {} {}", analysis.nodes, analysis.edges,
                               analysis.directed ? "directed links" : "links");
  if (analysis.diameter) run.graph_text += fmt::format(", diameter {}", *analysis.diameter);
  if (analysis.spectral_gap) run.graph_text += fmt::format(", spectral gap {:.4g}", *analysis.spectral_gap);
  if (analysis.consensus_factor)
    run.graph_text +=
        fmt::format("; an exchange leaves {:.4g} of the squared disagreement", *analysis.consensus_factor);
  if (run.peers > kMostPeersDrawn) return;
  const auto graph = topologies::Graph::of_period(schedule);
  const auto panels = topologies::panels(schedule);
  if (!graph || !panels) return;
  std::string svg = topologies::to_svg(*panels, topologies::layout(*graph, run.topology), run.topology, "");
  if (svg.size() <= kLargestDrawing) run.graph = std::move(svg);
}

// The run's rule with its settings.
training::Experiment rule_of(const ReportRun& run, Rule rule) {
  training::Experiment experiment;
  for (const training::Setting& setting : training::settings()) {
    const auto found = run.settings.find(setting.key);
    if (setting.key.starts_with("gossip.") && found != run.settings.end())
      (void)setting.set(experiment, found->second);
  }
  experiment.gossip.rule = rule;
  return experiment;
}

}  // namespace

void add_theory(ReportRun& run) {
  const auto nothing = [&](const std::string& why) { run.prediction = "No prediction: " + why + "."; };
  if (run.peers < 2) return nothing("one peer agrees with itself");
  if (run.peers > kMostPeersAnalyzed) return nothing("the graph is too large to be analyzed here");
  const auto graph = run.contents.find("gossip.topology");
  const auto topology =
      topologies::Topology::parse(graph == run.contents.end() ? run.topology : graph->second);
  if (!topology) return nothing("the topology is not known to this program");
  const topologies::Schedule schedule = topology->among(run.peers);
  const auto analysis = topologies::analyze(schedule);
  if (!analysis) return nothing("the graph is too large to be analyzed here");
  draw(run, schedule, *analysis);

  const auto rule = rule_named(run.rule);
  if (!rule) return nothing("this version has no rule " + run.rule);
  const training::ConsensusModel model = training::consensus_model(rule_of(run, *rule));
  using By = training::ConsensusModel::By;
  std::optional<double> factor;
  if (model.by == By::exchange)
    factor = analysis->consensus_factor ? analysis->consensus_factor : analysis->consensus_bound;
  if (model.by == By::round) factor = analysis->round_factor;
  if (model.by == By::push) {
    if (const auto clocks = topologies::push_clocks(schedule))
      factor = topologies::push_factor(run.peers, *clocks);
  }
  run.prediction = training::consensus_words(
      model, factor, model.by == By::exchange && !analysis->consensus_factor, run.peers);
  if (!training::predicts(model, factor)) return;
  Decay decay;
  if (model.by == By::round) decay.of_step = -std::log(*factor) / model.steps / run.peers;
  if (model.by == By::exchange || model.by == By::push) decay.of_exchange = -std::log(*factor);
  predict(run, decay);
}

}  // namespace starling::lab
