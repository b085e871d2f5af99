#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <map>
#include <utility>

#include "node/front/answers.h"
#include "training/mixing/mixer.h"
#include "transport/links/link.h"

namespace starling::node {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

class Page {
 public:
  template <class Figure>
  void gauge(const char* name, const char* help, Figure value, Labels labels = {}) {
    ClientMetric metric;
    metric.gauge.value = static_cast<double>(value);
    add(name, help, MetricType::Gauge, std::move(metric), std::move(labels));
  }
  void gauge(const char* name, const char* help, const std::optional<double>& value) {
    if (value) gauge(name, help, *value);
  }
  template <class Count>
  void counter(const char* name, const char* help, Count value, Labels labels = {}) {
    ClientMetric metric;
    metric.counter.value = static_cast<double>(value);
    add(name, help, MetricType::Counter, std::move(metric), std::move(labels));
  }

  std::string text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  void add(const char* name, const char* help, MetricType type, ClientMetric metric, Labels labels) {
    if (families_.empty() || families_.back().name != name) {
      MetricFamily& family = families_.emplace_back();
      family.name = name;
      family.help = help;
      family.type = type;
    }
    metric.label = std::move(labels);
    families_.back().metric.push_back(std::move(metric));
  }

  std::vector<MetricFamily> families_;
};

using Counts = std::map<std::string, std::uint64_t>;

// Prometheus does not count the first increase of a series that appears with it, so all series exist from the
// beginning, at 0.
Counts with_all_refusals(Counts chunks) {
  training::MixCounters all;
  all.refused.fill(1);
  for (const auto& [reason, one] : training::refused_by_reason(all)) chunks.try_emplace(reason, 0);
  return chunks;
}
Counts with_all_faults(Counts connections) {
  for (std::size_t i = 0; i < transport::kLinkErrorKinds; ++i)
    connections.try_emplace(std::string(name(static_cast<transport::LinkErrorKind>(i))), 0);
  return connections;
}

void add_peer(Page& page, const PeerStatus& status) {
  page.gauge("starling_info", "This peer and its run; always 1.", 1,
             {{"name", status.name},
              {"swarm", status.swarm},
              {"version", status.version},
              {"model", status.model},
              {"data", status.data},
              {"topology", status.topology.substr(0, 64)},
              {"rule", status.rule},
              {"device", status.device}});
  for (const char* phase : {"joining", "training", "settling", "finished"})
    page.gauge("starling_phase", "1 for the phase in which this peer is.", status.phase == phase ? 1 : 0,
               {{"phase", phase}});
  page.gauge("starling_paused", "1 while its owner pauses it.", status.paused ? 1 : 0);
  page.gauge("starling_uptime_seconds", "Seconds since the peer's start.", status.uptime_seconds);
}

void add_training(Page& page, const PeerStatus& status) {
  page.counter("starling_steps_total", "Steps of this peer.", status.steps);
  page.counter("starling_samples_total", "Samples that this peer has consumed.", status.samples);
  page.counter("starling_swarm_samples_total",
               "Samples that all peers that ever took part have consumed, as far as known here.",
               status.swarm_samples);
  page.gauge("starling_epoch_samples", "Samples in an epoch.", status.units.epoch_samples);
  if (const auto tokens = status.units.sample_tokens; tokens > 0) {
    page.counter("starling_tokens_total", "Tokens of the text that this peer has consumed.",
                 status.samples * tokens);
  }
  page.gauge("starling_loss", "Training loss, smoothed over recent batches.", status.loss);
  page.gauge("starling_accuracy_ratio", "Accuracy of this peer's replica on the first test samples.",
             status.accuracy);
  if (status.accuracy)
    page.gauge("starling_accuracy_steps", "The replica's step at which accuracy and test loss were measured.",
               status.judged.steps);
  page.gauge("starling_test_loss", "Loss of this peer's replica on the first test samples.",
             status.judged.loss);
  page.gauge("starling_learning_rate", "Current learning rate.", status.learning_rate);
  page.gauge("starling_distance_ratio",
             "Distance to the partner of a recent exchange, over the replica's norm.", status.distance);
  page.gauge("starling_staleness_steps",
             "Mean number of own steps between lending a chunk and mixing the reply.", status.staleness);
}

void add_stages(Page& page, const PeerStatus& status) {
  if (!status.pipeline) return;
  const auto& stages = status.pipeline->stages;
  for (const auto& stage : stages)
    page.counter("starling_stage_busy_seconds_total",
                 "Seconds in which a stage computed while batches were in the stages.", stage.busy_seconds,
                 {{"stage", stage.name}});
  for (const auto& stage : stages)
    page.counter("starling_stage_waiting_seconds_total",
                 "Seconds in which a stage waited while batches were in the stages.", stage.waiting_seconds,
                 {{"stage", stage.name}});
  for (const auto& stage : stages)
    page.gauge("starling_stage_versions", "Versions of its parameters that a stage keeps, at most.",
               stage.versions, {{"stage", stage.name}});
  page.gauge("starling_pipeline_bubble_ratio",
             "The part of the time in which stages wait while batches are in them, since the start.",
             status.pipeline->bubble);
}

void add_exchanges(Page& page, const PeerStatus& status) {
  const auto& exchanges = status.exchanges;
  const char* const help = "Exchanges, by how they ended; answered are those that others began.";
  page.counter("starling_exchanges_total", help, exchanges.completed, {{"outcome", "completed"}});
  page.counter("starling_exchanges_total", help, exchanges.aborted, {{"outcome", "aborted"}});
  page.counter("starling_exchanges_total", help, exchanges.rejected, {{"outcome", "rejected"}});
  page.counter("starling_exchanges_total", help, exchanges.answered, {{"outcome", "answered"}});
  for (const auto& [reason, count] : with_all_refusals(exchanges.refused_chunks))
    page.counter("starling_chunks_refused_total", "Received chunks that were not mixed.", count,
                 {{"reason", reason}});
  page.counter("starling_chunks_half_applied_total", "Chunks that only one side mixed.",
               exchanges.half_applied_chunks);
  page.counter("starling_chunks_overlapped_total",
               "Chunks mixed while another exchange mixed the same floats.", exchanges.chunks_overlapped);
  page.counter("starling_chunks_clipped_total", "Chunks that were mixed only in part.",
               exchanges.chunks_clipped);
}

void add_network(Page& page, const PeerStatus& status) {
  for (const auto& [reason, count] : with_all_faults(status.connections_refused))
    page.counter("starling_connections_refused_total", "Connections that were refused or broke.", count,
                 {{"reason", reason}});
  const char* const bytes_help = "Bytes on connections to other peers.";
  page.counter("starling_network_bytes_total", bytes_help, status.bytes_sent, {{"direction", "sent"}});
  page.counter("starling_network_bytes_total", bytes_help, status.bytes_received,
               {{"direction", "received"}});
  page.gauge("starling_connections", "Open connections to other peers.", status.links.open,
             {{"purpose", "control"}});
  page.gauge("starling_connections", "Open connections to other peers.", status.links.bulk_open,
             {{"purpose", "bulk"}});
  const char* const circuits_help = "Connections that others asked this peer to relay, by outcome.";
  page.counter("starling_relay_circuits_total", circuits_help, status.links.relay.circuits,
               {{"outcome", "opened"}});
  page.counter("starling_relay_circuits_total", circuits_help, status.links.relay.refused,
               {{"outcome", "refused"}});
  page.counter("starling_relay_bytes_total", "Bytes that this peer relayed between others.",
               status.links.relay.bytes);
}

}  // namespace

std::string metrics_text(const PeerStatus& status, const std::vector<MemberStatus>& members) {
  Page page;
  add_peer(page, status);
  add_training(page, status);
  add_stages(page, status);
  add_exchanges(page, status);
  add_network(page, status);
  std::map<std::string, std::size_t> states;
  for (const MemberStatus& member : members) ++states[member.state];
  for (const char* state : {"alive", "suspect", "failed", "left", "quarantined"})
    page.gauge("starling_members", "Known members, including this peer.", states[state], {{"state", state}});
  page.gauge("process_resident_memory_bytes", "Resident memory.", status.process.memory_bytes);
  page.gauge("starling_loop_lag_seconds", "Delay of the latest timer of the peer's thread.",
             status.process.loop_lag_seconds);
  return page.text();
}

}  // namespace starling::node
