#include "node/front/status.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "base/text.h"
#include "node/front/status_json.h"

namespace starling::node {
namespace {

using json = training::Json;
using training::or_null;
using training::to_line;

std::optional<double> number_or_null(const json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

// "" and null are the same.
json text_or_null(const std::string& text) {
  return text.empty() ? json() : json(text);
}
std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? "" : found->get<std::string>();
}

// What `read` makes of the text; an Error where it is no JSON or has not the fields that are read.
template <class Read>
auto parse(const std::string& text, const char* what, Read read) -> Result<decltype(read(json()))> {
  try {
    return read(json::parse(text));
  } catch (const json::exception&) {
    return Error{std::string("this is not ") + what};
  }
}

const char* name(wire::Liveness liveness) {
  switch (liveness) {
    case wire::Liveness::alive:
      return "alive";
    case wire::Liveness::suspect:
      return "suspect";
    case wire::Liveness::failed:
      return "failed";
    case wire::Liveness::left:
      return "left";
  }
  return "";
}

MemberStatus status_of(const wire::Member& member) {
  MemberStatus status;
  status.name = member.name;
  status.id = to_string(member.id);
  status.address = to_string(member.address);
  status.state = name(member.liveness);
  status.phase = phase_name(member.phase);
  status.incarnation = member.incarnation;
  status.samples = member.samples;
  status.steps = member.steps;
  if (Address::parse(member.http)) status.http = member.http;  // others say what they like
  status.device = member.device;
  return status;
}

void add_vitals(MemberStatus& status, const std::optional<wire::Vitals>& vitals) {
  if (!vitals) return;
  status.samples_per_second = vitals->samples_per_second;
  status.loss = vitals->loss;
  status.distance = vitals->distance;
  status.staleness = vitals->staleness;
  status.paused = vitals->paused;
  if (vitals->partner) status.partner = to_string(vitals->partner);
}

// Against the median of those that train and have told their speed.
void compare_speeds(std::vector<MemberStatus>& members) {
  std::vector<double> speeds;
  const auto counts = [](const MemberStatus& m) {
    return m.phase == "training" && !m.paused && (m.state == "alive" || m.state == "quarantined") &&
           m.samples_per_second && *m.samples_per_second > 0;
  };
  for (const MemberStatus& member : members)
    if (counts(member)) speeds.push_back(*member.samples_per_second);
  if (speeds.empty()) return;
  const auto middle = speeds.begin() + static_cast<std::ptrdiff_t>(speeds.size() / 2);
  std::nth_element(speeds.begin(), middle, speeds.end());
  for (MemberStatus& member : members)
    if (counts(member)) member.slowdown = *middle / *member.samples_per_second;
}

}  // namespace

const char* phase_name(wire::Phase phase) {
  switch (phase) {
    case wire::Phase::joining:
      return "joining";
    case wire::Phase::training:
      return "training";
    case wire::Phase::settling:
      return "settling";
    case wire::Phase::finished:
      return "finished";
  }
  return "";
}

std::vector<MemberStatus> list_members(const gossip::Membership& membership, Instant now,
                                       const std::vector<PeerId>& exchanging) {
  std::vector<MemberStatus> members = {status_of(membership.self())};
  members.front().this_peer = true;
  add_vitals(members.front(), membership.vitals());
  for (const gossip::Record& record : membership.others()) {
    MemberStatus& status = members.emplace_back(status_of(record.member));
    if (record.is_live() && record.quarantined_until > now) status.state = "quarantined";
    if (record.last_heard) status.last_heard_seconds = to_seconds(now - *record.last_heard);
    if (record.round_trip > Duration{0}) status.round_trip_seconds = to_seconds(record.round_trip);
    add_vitals(status, record.vitals);
    status.exchanging = std::find(exchanging.begin(), exchanging.end(), record.member.id) != exchanging.end();
  }
  compare_speeds(members);
  std::stable_sort(members.begin(), members.end(),
                   [](const MemberStatus& a, const MemberStatus& b) { return a.name < b.name; });
  return members;
}

void PeerStatus::Exchanges::count(const training::MixCounters& mixed) {
  chunks_refused = training::refused_by_reason(mixed);
  chunks_overlapped = mixed.overlapped;
  chunks_clipped = mixed.clipped;
  lost_weight = mixed.lost_weight;
}

std::string PeerStatus::Exchanges::losses() const {
  auto counts = chunks_refused;
  if (half_applied_chunks > 0) counts["half_applied"] = half_applied_chunks;
  std::string text;
  for (const auto& [reason, count] : counts)
    text += (text.empty() ? "" : ", ") + reason + " " + std::to_string(count);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

json json_of(const PeerStatus& status) {
  return {{"name", status.name},
               {"id", status.id},
               {"swarm", status.swarm},
               {"address", status.address},
               {"version", status.version},
               {"model", status.model},
               {"data", status.data},
               {"topology", status.topology},
               {"rule", status.rule},
               {"payload", status.payload},
               {"device", status.device},
               {"device_spread", or_null(status.device_spread)},
               {"phase", status.phase},
               {"paused", status.paused},
               {"steps", status.steps},
               {"samples", status.samples},
               {"swarm_samples", status.swarm_samples},
               {"epoch_samples", status.epoch_samples},
               {"samples_per_second", status.samples_per_second},
               {"loss", or_null(status.loss)},
               {"learning_rate", or_null(status.learning_rate)},
               {"accuracy", or_null(status.accuracy)},
               {"accuracy_steps", status.accuracy_steps},
               {"distance", or_null(status.distance)},
               {"staleness", or_null(status.staleness)},
               {"uptime_seconds", status.uptime_seconds},
               {"incarnation", status.incarnation},
               {"members_live", status.members_live},
               {"members_known", status.members_known},
               {"exchanges",
                {{"begun", status.exchanges.begun},
                 {"completed", status.exchanges.completed},
                 {"aborted", status.exchanges.aborted},
                 {"rejected", status.exchanges.rejected},
                 {"answered", status.exchanges.answered},
                 {"half_applied_chunks", status.exchanges.half_applied_chunks},
                 {"chunks_refused", status.exchanges.chunks_refused},
                 {"chunks_overlapped", status.exchanges.chunks_overlapped},
                 {"chunks_clipped", status.exchanges.chunks_clipped},
                 {"lost_weight", status.exchanges.lost_weight}}},
               {"connections_refused", status.connections_refused},
               {"bytes_sent", status.bytes_sent},
               {"bytes_received", status.bytes_received},
               {"links_open", status.links_open},
               {"bulk_links_open", status.bulk_links_open},
               {"memory_bytes", status.memory_bytes},
               {"loop_lag_seconds", status.loop_lag_seconds}};
}

std::string to_json(const PeerStatus& status) {
  return to_line(json_of(status));
}

Result<PeerStatus> parse_status(const std::string& text) {
  return parse(text, "a peer's status", [](const json& object) {
    PeerStatus status;
    object.at("name").get_to(status.name);
    object.at("id").get_to(status.id);
    object.at("swarm").get_to(status.swarm);
    object.at("address").get_to(status.address);
    object.at("version").get_to(status.version);
    object.at("model").get_to(status.model);
    object.at("data").get_to(status.data);
    object.at("topology").get_to(status.topology);
    object.at("device").get_to(status.device);
    status.device_spread = number_or_null(object.at("device_spread"));
    object.at("phase").get_to(status.phase);
    object.at("steps").get_to(status.steps);
    object.at("samples").get_to(status.samples);
    object.at("swarm_samples").get_to(status.swarm_samples);
    object.at("samples_per_second").get_to(status.samples_per_second);
    status.rule = object.value("rule", "");
    status.payload = object.value("payload", "");
    status.paused = object.value("paused", false);
    status.epoch_samples = object.value("epoch_samples", std::uint64_t{0});
    status.accuracy = number_or_null(object.value("accuracy", json()));
    status.accuracy_steps = object.value("accuracy_steps", std::uint64_t{0});
    status.distance = number_or_null(object.value("distance", json()));
    status.staleness = number_or_null(object.value("staleness", json()));
    status.connections_refused =
        object.value("connections_refused", std::map<std::string, std::uint64_t>{});
    status.loss = number_or_null(object.at("loss"));
    status.learning_rate = number_or_null(object.at("learning_rate"));
    object.at("uptime_seconds").get_to(status.uptime_seconds);
    object.at("incarnation").get_to(status.incarnation);
    object.at("members_live").get_to(status.members_live);
    object.at("members_known").get_to(status.members_known);
    const json& exchanges = object.at("exchanges");
    exchanges.at("begun").get_to(status.exchanges.begun);
    exchanges.at("completed").get_to(status.exchanges.completed);
    exchanges.at("aborted").get_to(status.exchanges.aborted);
    exchanges.at("rejected").get_to(status.exchanges.rejected);
    exchanges.at("answered").get_to(status.exchanges.answered);
    exchanges.at("half_applied_chunks").get_to(status.exchanges.half_applied_chunks);
    exchanges.at("chunks_refused").get_to(status.exchanges.chunks_refused);
    exchanges.at("chunks_overlapped").get_to(status.exchanges.chunks_overlapped);
    exchanges.at("chunks_clipped").get_to(status.exchanges.chunks_clipped);
    exchanges.at("lost_weight").get_to(status.exchanges.lost_weight);
    object.at("bytes_sent").get_to(status.bytes_sent);
    object.at("bytes_received").get_to(status.bytes_received);
    object.at("links_open").get_to(status.links_open);
    object.at("bulk_links_open").get_to(status.bulk_links_open);
    object.at("memory_bytes").get_to(status.memory_bytes);
    object.at("loop_lag_seconds").get_to(status.loop_lag_seconds);
    return status;
  });
}

json json_of(const std::vector<MemberStatus>& members) {
  json list = json::array();
  for (const MemberStatus& member : members) {
    list.push_back({{"name", member.name},
                    {"id", member.id},
                    {"address", member.address},
                    {"state", member.state},
                    {"phase", member.phase},
                    {"incarnation", member.incarnation},
                    {"samples", member.samples},
                    {"steps", member.steps},
                    {"last_heard_seconds", or_null(member.last_heard_seconds)},
                    {"round_trip_seconds", or_null(member.round_trip_seconds)},
                    {"this_peer", member.this_peer},
                    {"http", text_or_null(member.http)},
                    {"device", member.device},
                    {"paused", member.paused},
                    {"samples_per_second", or_null(member.samples_per_second)},
                    {"slowdown", or_null(member.slowdown)},
                    {"loss", or_null(member.loss)},
                    {"distance", or_null(member.distance)},
                    {"staleness", or_null(member.staleness)},
                    {"partner", text_or_null(member.partner)},
                    {"exchanging", member.exchanging}});
  }
  return list;
}

std::string to_json(const std::vector<MemberStatus>& members) {
  return to_line({{"members", json_of(members)}});
}

Result<std::vector<MemberStatus>> parse_members(const std::string& text) {
  return parse(text, "a list of members", [](const json& object) {
    std::vector<MemberStatus> members;
    for (const json& entry : object.at("members")) {
      MemberStatus& member = members.emplace_back();
      entry.at("name").get_to(member.name);
      entry.at("id").get_to(member.id);
      entry.at("address").get_to(member.address);
      entry.at("state").get_to(member.state);
      entry.at("phase").get_to(member.phase);
      entry.at("incarnation").get_to(member.incarnation);
      entry.at("samples").get_to(member.samples);
      entry.at("steps").get_to(member.steps);
      member.last_heard_seconds = number_or_null(entry.at("last_heard_seconds"));
      member.round_trip_seconds = number_or_null(entry.at("round_trip_seconds"));
      entry.at("this_peer").get_to(member.this_peer);
      member.http = text_of(entry, "http");
      member.device = text_of(entry, "device");
      member.partner = text_of(entry, "partner");
      member.paused = entry.value("paused", false);
      member.exchanging = entry.value("exchanging", false);
      member.samples_per_second = number_or_null(entry.value("samples_per_second", json()));
      member.slowdown = number_or_null(entry.value("slowdown", json()));
      member.loss = number_or_null(entry.value("loss", json()));
      member.distance = number_or_null(entry.value("distance", json()));
      member.staleness = number_or_null(entry.value("staleness", json()));
    }
    return members;
  });
}

std::string leaving_json() {
  return to_line({{"leaving", true}});
}

bool is_leaving(const std::string& text) {
  const auto leaving =
      parse(text, "an answer", [](const json& object) { return object.at("leaving").get<bool>(); });
  return leaving && *leaving;
}

std::string parse_error(const std::string& text) {
  const auto sentence =
      parse(text, "an error", [](const json& object) { return object.at("error").get<std::string>(); });
  return sentence ? *sentence : "";
}

std::string introduction_json(const Address& address) {
  return to_line({{"address", to_string(address)}});
}

Result<Address> parse_introduction(const std::string& text) {
  const auto address = parse(text, "{\"address\": \"HOST:PORT\"}",
                             [](const json& object) { return object.at("address").get<std::string>(); });
  if (!address) return Error{"the body must be {\"address\": \"HOST:PORT\"}"};
  auto parsed = Address::parse(*address);
  if (parsed && parsed->port == 0)
    return Error{"port 0 cannot be dialed; give the port that the peer listens on"};
  return parsed;
}

std::string topology_request_json(const std::string& name) {
  return to_line({{"topology", name}});
}

Result<std::string> parse_topology_request(const std::string& text) {
  const auto name = parse(text, "{\"topology\": \"NAME\"}",
                          [](const json& object) { return object.at("topology").get<std::string>(); });
  if (!name) return Error{"the body must be {\"topology\": \"NAME\"}"};
  return *name;
}

std::string paused_json(bool paused) {
  return to_line({{"paused", paused}});
}

std::string log_level_json(const std::string& level) {
  return to_line({{"level", level}});
}

Result<std::string> parse_log_level(const std::string& text) {
  const auto level = parse(text, "{\"level\": \"NAME\"}",
                           [](const json& object) { return object.at("level").get<std::string>(); });
  if (!level) return Error{"the body must be {\"level\": \"NAME\"}"};
  const std::vector<std::string> levels = {"trace", "debug", "info", "warning", "error"};
  if (std::find(levels.begin(), levels.end(), *level) == levels.end())
    return Error{"the level '" + *level + "' is unknown; it would be " + one_of(levels)};
  return *level;
}

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t pages = 0, resident = 0;
  if (!(file >> pages >> resident)) return 0;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::uint64_t most_resident_bytes() {
  // Not getrusage's ru_maxrss, which begins at what the process that started this one had.
  std::ifstream file("/proc/self/status");
  const std::string key = "VmHWM:";
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) == 0) return std::strtoull(line.c_str() + key.size(), nullptr, 10) * 1024;
  }
  return 0;
}

}  // namespace starling::node
