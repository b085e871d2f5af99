#include "node/front/answers.h"

#include <algorithm>

#include "base/text.h"
#include "node/front/status_json.h"
#include "training/runs/records/foreign_text.h"
#include "training/runs/records/json_fields.h"

namespace starling::node {
namespace {

using training::FieldReader;
using training::FieldWriter;
using training::Json;
using training::parse_json;
using training::to_line;
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
  visit_figures(visit, status, figure::device, figure::precision);
  visit("device_spread", status.device_spread);
  training::visit_sharing(visit, status, true);
  visit("phase", status.phase);
  visit("condition", status.condition);
  visit("situation", status.situation);
  visit_figures(visit, status, figure::paused, figure::steps, figure::samples, figure::swarm_samples);
  visit("epoch_samples", status.units.epoch_samples);
  visit("sample_tokens", status.units.sample_tokens);
  visit_figures(visit, status, figure::samples_per_second, figure::loss, figure::learning_rate,
                figure::accuracy);
  visit("accuracy_steps", status.judged.steps);
  visit("test_loss", status.judged.loss);
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
  visit("links_open", status.links.open);
  visit("bulk_links_open", status.links.bulk_open);
  visit.object("relay", [&](auto& inner) {
    inner("circuits_open", status.links.relay.circuits_open);
    inner("circuits", status.links.relay.circuits);
    inner("refused", status.links.relay.refused);
    inner("bytes", status.links.relay.bytes);
  });
  visit("memory_bytes", status.process.memory_bytes);
  visit("loop_lag_seconds", status.process.loop_lag_seconds);
}

template <class Visitor, class Member>
void member_fields(Visitor& visit, Member& member) {
  visit.required("name", member.name);
  visit.required("id", member.id);
  visit("address", member.address);
  visit("state", member.state);
  visit("phase", member.phase);
  visit("condition", member.condition);
  visit("earlier_life", member.earlier_life);
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

// What another machine answered, with texts that fit into a cell.
Json parse_answer(const std::string& text) {
  const auto fit = [](const auto& self, Json& json) -> void {
    if (json.is_string()) json = training::fit_to_show(json.get_ref<const std::string&>(), false);
    if (json.is_structured())
      for (Json& part : json) self(self, part);
  };
  Json json = parse_json(text);
  fit(fit, json);
  return json;
}

// The value of a field. The Error says that the body must have this `form`.
template <class T>
Result<T> field_of(const std::string& text, const char* name, const char* form = "") {
  try {
    return parse_answer(text).at(name).get<T>();
  } catch (const Json::exception&) {
    return Error{std::string("the body must be ") + form};
  }
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

std::string to_json(const PeerStatus& status) { return to_line(json_of(status)); }

std::string to_json(const std::vector<MemberStatus>& members) {
  return to_line({{"members", json_of(members)}});
}

Result<PeerStatus> parse_status(const std::string& text) {
  const auto refuse = [](const std::string& why) { return Error{"this is not a peer's status: " + why}; };
  const Json object = parse_answer(text);
  if (!object.is_object()) return refuse("a status is a JSON object");
  PeerStatus status;
  FieldReader reader(object, "a status's");
  fields(reader, status);
  if (!reader.error().empty()) return refuse(reader.error());
  return status;
}

Result<std::vector<MemberStatus>> parse_members(const std::string& text) {
  const auto refuse = [](const std::string& why) { return Error{"this is not a list of members" + why}; };
  const Json object = parse_answer(text);
  const auto list = object.is_object() ? object.find("members") : object.end();
  if (list == object.end()) return refuse("");
  if (!list->is_array()) return refuse(": \"members\" is not a list");
  std::vector<MemberStatus> members;
  for (const Json& entry : *list) {
    if (!entry.is_object()) return refuse(": a member is a JSON object");
    FieldReader reader(entry, "a member's");
    member_fields(reader, members.emplace_back());
    if (!reader.error().empty()) return refuse(": " + reader.error());
  }
  return members;
}

std::string leaving_json() { return to_line({{"leaving", true}}); }

bool is_leaving(const std::string& text) {
  const auto leaving = field_of<bool>(text, "leaving");
  return leaving && *leaving;
}

std::string parse_error(const std::string& text) {
  const auto sentence = field_of<std::string>(text, "error");
  return sentence ? *sentence : "";
}

std::string introduction_json(const Address& address) { return to_line({{"address", to_string(address)}}); }

Result<Address> parse_introduction(const std::string& text) {
  const auto address = field_of<std::string>(text, "address", "{\"address\": \"HOST:PORT\"}");
  if (!address) return address.error();
  auto parsed = Address::parse(*address);
  if (parsed && parsed->port == 0)
    return Error{"port 0 cannot be dialed; give the port that the peer listens on"};
  return parsed;
}

std::string topology_request_json(const std::string& name) { return to_line({{"topology", name}}); }

Result<std::string> parse_topology_request(const std::string& text) {
  return field_of<std::string>(text, "topology", "{\"topology\": \"NAME\"}");
}

std::string paused_json(bool paused) { return to_line({{"paused", paused}}); }

std::string log_level_json(const std::string& level) { return to_line({{"level", level}}); }

Result<std::string> parse_log_level(const std::string& text) {
  auto level = field_of<std::string>(text, "level", "{\"level\": \"NAME\"}");
  const std::vector<std::string> levels = {"trace", "debug", "info", "warning", "error"};
  if (level && std::ranges::count(levels, *level) == 0)
    return Error{"the level '" + *level + "' is unknown; it must be " + one_of(levels)};
  return level;
}

}  // namespace starling::node
