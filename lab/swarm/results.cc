#include "lab/swarm/results.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "lab/swarm/replica_judge.h"
#include "topologies/analysis.h"
#include "topologies/topology.h"
#include "training/records/checkpoint.h"
#include "training/records/files.h"

namespace starling::lab {
namespace {

constexpr int kExitRunFailed = 1;

training::Summary describe(const SwarmRun& run) {
  const training::Experiment& experiment = run.experiment;
  training::Summary summary;
  summary.name = experiment.name;
  summary.mode = "swarm";
  summary.seed = experiment.seed;
  summary.model = experiment.model;
  summary.parameters = run.plan.layout.parameter_count();
  summary.data = run.data.name;
  summary.peers = experiment.peers;
  summary.topology = experiment.topology;
  summary.rule = traits(experiment.rule).name;
  summary.payload = traits(experiment.payload).name;
  const auto topology = topologies::Topology::parse(experiment.topology);
  if (topology && !run.by_all_reduce())
    summary.spectral_gap = topologies::spectral_gap(topology->among(experiment.peers));
  return summary;
}

void add_speed(const SwarmRun& run, training::Summary& summary) {
  const SteadyTime start = run.first_step.value_or(run.launched);
  SteadyTime end = std::max(start, run.formers_end.value_or(start));
  for (const Member& member : run.members) {
    if (member.life.training_end) end = std::max(end, *member.life.training_end);
  }
  summary.seconds = seconds_between(start, end);
  summary.samples = run.samples();
  summary.samples_per_second =
      summary.seconds > 0 ? static_cast<double>(summary.samples) / summary.seconds : 0;
}

void add_member(const SwarmRun& run, const Member& member, const std::optional<Score>& score,
                training::Summary& summary) {
  training::PeerRecord record;
  record.name = member.name;
  record.device = member.life.report.device;
  record.steps = member.steps();
  record.samples = member.samples();
  if (score) record.accuracy = score->accuracy;
  record.exchanges = member.exchanges();
  record.serves = run.serves(member);
  record.slow = record.serves ? 1 : training::slowness(run.experiment, member.number);
  if (member.life.final_state) record.state = name_of(*member.life.final_state);
  summary.per_peer.push_back(record);

  Counters all = member.former;
  all.add(member.life.report);
  summary.exchanges += all.exchanges;
  summary.bytes_sent += all.bytes_sent;
  summary.staleness += all.staleness;
  if (score && member.finished()) {
    summary.accuracy_min = std::min(summary.accuracy_min.value_or(1), score->accuracy);
    summary.accuracy_max = std::max(summary.accuracy_max.value_or(0), score->accuracy);
  }
}

training::Summary summarize(const SwarmRun& run, const Judgement& judgement) {
  training::Summary summary = describe(run);
  add_speed(run, summary);
  if (judgement.mean_score) {
    summary.accuracy = judgement.mean_score->accuracy;
    summary.loss = judgement.mean_score->loss;
  }
  summary.consensus_distance = judgement.consensus_distance;
  std::size_t judged = 0;
  std::vector<std::string> before_settling, of_servers;
  for (const Member& member : run.members) {
    if (!member.started()) continue;
    add_member(run, member, judgement.replicas[judged++], summary);
    if (member.life.path_before_settling.empty()) continue;
    (run.serves(member) ? of_servers : before_settling).push_back(member.life.path_before_settling);
  }
  training::remove_files(of_servers);
  summary.consensus_distance_before_settling = consume_consensus(before_settling, run.plan);
  return summary;
}

Judgement judge(const SwarmRun& run, const Evaluations& evaluations) {
  std::vector<ReplicaFile> files;
  std::vector<std::string> servers;
  for (const Member& member : run.members) {
    if (!member.started()) continue;
    const bool trained = !run.serves(member);
    files.push_back({trained ? member.life.path : "", trained && member.finished()});
    if (!trained && evaluations.includes(member)) servers.push_back(member.life.path);
  }
  return judge_replicas(files, servers, run.plan, run.data.test);
}

Status write_model(const SwarmRun& run, const std::vector<float>& mean) {
  if (mean.empty()) return Done{};
  std::map<std::string, std::string> metadata =
      training::model_metadata({run.experiment.model, run.experiment.layers});
  metadata.insert({{"data", run.data.name}, {"name", run.experiment.name}});
  return training::write_safetensors(run.folder.file("model.safetensors"), run.plan.layout, mean, metadata);
}

}  // namespace

SwarmOutcome write_results(SwarmRun& run, Timelines& timelines, const Evaluations& evaluations) {
  const Judgement judgement = judge(run, evaluations);
  training::Summary summary = summarize(run, judgement);
  summary.seconds_to_target = evaluations.seconds_to_target();
  Status written = write_model(run, judgement.mean);
  run.metrics.close();
  if (written) written = run.folder.write("timeline.jsonl", timelines.lines(run.members));
  summary.wall_seconds = seconds_between(run.launched, SwarmRun::now());
  if (written) written = run.folder.write("summary.json", training::to_json(summary) + "\n");
  if (!written) return {kExitRunFailed, written.error().message, std::nullopt};
  if (judgement.mean.empty()) {
    return {kExitRunFailed,
            "no peer finished, so there is no model; the peers' logs are in " + run.folder.path(),
            std::nullopt};
  }
  return {0, "", std::move(summary)};
}

}  // namespace starling::lab
