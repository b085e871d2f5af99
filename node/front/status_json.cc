#include "node/front/status_json.h"

#include <utility>

#include "training/records/json_fields.h"

namespace starling::node {
namespace {

using training::FieldReader;
using training::FieldWriter;
using training::Json;
using training::visit_figures;
namespace figure = training::figure;

template <class Visitor, class Status>
void fields(Visitor& visit, Status& status) {
  visit.required("name", status.name);
  visit.required("id", status.id);
  visit("swarm", status.swarm);
  visit("address", status.address);
  visit("version", status.version);
  visit("model", status.model);
  visit("data", status.data);
  visit("topology", status.topology);
  visit("rule", status.rule);
  visit("payload", status.payload);
  visit_figures(visit, status, figure::device);
  visit("device_spread", status.device_spread);
  visit("phase", status.phase);
  visit_figures(visit, status, figure::paused, figure::steps, figure::samples, figure::swarm_samples);
  visit("epoch_samples", status.epoch_samples);
  visit_figures(visit, status, figure::samples_per_second, figure::loss, figure::learning_rate,
                figure::accuracy);
  visit("accuracy_steps", status.accuracy_steps);
  visit_figures(visit, status, figure::distance);
  visit("staleness", status.staleness);
  visit("uptime_seconds", status.uptime_seconds);
  visit("incarnation", status.incarnation);
  visit("members_live", status.members_live);
  visit("members_known", status.members_known);
  visit.object("exchanges", [&](auto& inner) {
    auto& exchanges = status.exchanges;
    inner("begun", exchanges.begun);
    inner("completed", exchanges.completed);
    inner("aborted", exchanges.aborted);
    inner("rejected", exchanges.rejected);
    inner("answered", exchanges.answered);
    inner("half_applied_chunks", exchanges.half_applied_chunks);
    inner("chunks_refused", exchanges.refused_chunks);
    inner("chunks_overlapped", exchanges.chunks_overlapped);
    inner("chunks_clipped", exchanges.chunks_clipped);
    inner("lost_weight", exchanges.lost_weight);
  });
  visit("connections_refused", status.connections_refused);
  visit_figures(visit, status, figure::bytes_sent, figure::bytes_received);
  visit("links_open", status.links_open);
  visit("bulk_links_open", status.bulk_links_open);
  visit("memory_bytes", status.memory_bytes);
  visit("loop_lag_seconds", status.loop_lag_seconds);
}

template <class Visitor, class Member>
void member_fields(Visitor& visit, Member& member) {
  visit.required("name", member.name);
  visit.required("id", member.id);
  visit("address", member.address);
  visit("state", member.state);
  visit("phase", member.phase);
  visit("incarnation", member.incarnation);
  visit_figures(visit, member, figure::samples, figure::steps);
  visit("last_heard_seconds", member.last_heard_seconds);
  visit("round_trip_seconds", member.round_trip_seconds);
  visit("this_peer", member.this_peer);
  visit.if_any("http", member.http);
  visit_figures(visit, member, figure::device, figure::paused, figure::samples_per_second);
  visit("slowdown", member.slowdown);
  visit_figures(visit, member, figure::loss, figure::distance);
  visit("staleness", member.staleness);
  visit.if_any("partner", member.partner);
  visit("exchanging", member.exchanging);
}

}  // namespace

Json json_of(const PeerStatus& status) {
  FieldWriter writer;
  fields(writer, status);
  return writer.take();
}

Json json_of(const std::vector<MemberStatus>& members) {
  Json list = Json::array();
  for (const MemberStatus& member : members) {
    FieldWriter writer;
    member_fields(writer, member);
    list.push_back(writer.take());
  }
  return list;
}

Result<PeerStatus> status_from(const Json& object) {
  if (!object.is_object()) return Error{"a status is a JSON object"};
  PeerStatus status;
  FieldReader reader(object, "a status's");
  fields(reader, status);
  if (!reader.error().empty()) return Error{reader.error()};
  return status;
}

Result<std::vector<MemberStatus>> members_from(const Json& array) {
  if (!array.is_array()) return Error{"\"members\" is not a list"};
  std::vector<MemberStatus> members;
  for (const Json& entry : array) {
    if (!entry.is_object()) return Error{"a member is a JSON object"};
    FieldReader reader(entry, "a member's");
    member_fields(reader, members.emplace_back());
    if (!reader.error().empty()) return Error{reader.error()};
  }
  return members;
}

}  // namespace starling::node
