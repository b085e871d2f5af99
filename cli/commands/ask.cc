// starling members, status, leave, pause, resume, log-level, topology set: ask a running peer, at its --http address.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "cli/commands/ask.h"
#include "cli/commands/commands.h"
#include "cli/shell/output.h"
#include "cli/commands/sources.h"
#include "cli/commands/token.h"
#include "cli/commands/topology_name.h"
#include "node/front/http.h"
#include "node/front/answers.h"
#include "topologies/topology.h"

namespace starling::cli {
namespace {

// What to do with a peer's answer: the text for people, or an Error where it is no peer's.
using Show = Result<std::string> (*)(const std::string& json);

// The body of a good answer; the Error is for fail().
Result<std::string> body_of(const Address& at, const Result<node::HttpAnswer>& answer) {
  if (!answer) return answer.error();
  if (answer->status == 200) return answer->body;
  const std::string why = node::parse_error(answer->body);
  return Error{why.empty() ? to_string(at) + " is not a Starling peer's --http address"
                           : to_string(at) + " refused: " + why};
}

std::vector<Flag> flags_of_orders() {
  std::vector<Flag> flags = {{"--at", "HOST:PORT", "the peer's --http address"},
                             {"--token-file", "FILE", "its token, where it runs on another machine (or STARLING_TOKEN_FILE)"},
                             {"--json", "", "print one JSON object"}};
  flags[1].environment = "STARLING_TOKEN_FILE";  // as its peer's
  return flags;
}

int ask(const Arguments& given, const std::string& method, const std::string& path, Show show,
        const std::string& body = "") {
  Arguments arguments = given;
  if (method == "POST") add_environment(arguments, flags_of_orders());
  const auto at = peer_to_ask(arguments);
  if (!at) return refuse(arguments, at.error().message);
  std::string token;
  if (const auto file = arguments.get("--token-file")) {
    auto read = read_token(*file);
    if (!read) return refuse(arguments, "--token-file: " + read.error().message);
    token = std::move(*read);
  }
  const auto answer = body_of(*at, node::http_request(*at, method, path, body, token));
  if (!answer) return fail(arguments, answer.error().message);
  const auto shown = show(*answer);
  if (!shown) {
    return fail(arguments,
                to_string(*at) + " is not a Starling peer's --http address: " + shown.error().message);
  }
  std::fputs((arguments.has("--json") ? *answer : *shown).c_str(), stdout);
  return kExitDone;
}

std::string seconds(const std::optional<double>& value) {
  if (!value) return "-";
  return *value < 0.1 ? fmt::format("{:.3g} ms", *value * 1000) : fmt::format("{:.1f} s", *value);
}

Result<std::string> members_text(const std::string& json) {
  const auto members = node::parse_members(json);
  if (!members) return members.error();
  std::size_t name_width = 6, address_width = 7;
  for (const node::MemberStatus& member : *members) {
    name_width = std::max(name_width, member.name.size());
    address_width = std::max(address_width, member.address.size());
  }
  std::string text =
      fmt::format("{:<{}}  {:<{}}  {:<11}  {:<8}  {:>10}  {:>12}  {:>9}  {:>10}\n", "member", name_width,
                  "address", address_width, "state", "phase", "steps", "samples", "heard ago", "round trip");
  for (const node::MemberStatus& member : *members) {
    text += fmt::format("{:<{}}  {:<{}}  {:<11}  {:<8}  {:>10}  {:>12}  {:>9}  {:>10}\n", member.name,
                        name_width, member.address, address_width, member.state, member.phase, member.steps,
                        member.samples, member.this_peer ? "itself" : seconds(member.last_heard_seconds),
                        seconds(member.round_trip_seconds));
  }
  return text;
}

Result<std::string> status_text(const std::string& json) {
  const auto status = node::parse_status(json);
  if (!status) return status.error();
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{} at {}, swarm '{}', starling {}\n", status->name, status->address, status->swarm,
                 status->version);
  fmt::format_to(out, "phase      {}", status->phase);
  if (!status->model.empty()) fmt::format_to(out, ", {} on {}", status->model, status->data);
  if (!status->device.empty()) fmt::format_to(out, ", computed by {}", status->device);
  if (!status->topology.empty()) fmt::format_to(out, ", topology {}", status->topology);
  fmt::format_to(out, ", up {:.1f} s\n", status->uptime_seconds);
  fmt::format_to(out, "training   {} steps, {} samples, {:.0f} samples/s, loss {}, learning rate {}\n",
                 status->steps, status->samples, status->samples_per_second.value_or(0),
                 status->loss ? fmt::format("{:.4f}", *status->loss) : "-",
                 status->learning_rate ? fmt::format("{:.4g}", *status->learning_rate) : "-");
  if (status->device_spread)
    fmt::format_to(out, "devices    their replicas are {:.3g} from their mean\n", *status->device_spread);
  fmt::format_to(out, "swarm      {} members live of {} known, {} samples\n", status->members_live,
                 status->members_known, status->swarm_samples);
  const auto& exchanges = status->exchanges;
  fmt::format_to(out,
                 "exchanges  {} begun, {} completed, {} aborted, {} rejected; {} answered\n",
                 exchanges.begun, exchanges.completed, exchanges.aborted, exchanges.rejected,
                 exchanges.answered);
  if (const std::string lost = exchanges.losses(); !lost.empty())
    fmt::format_to(out, "chunks     refused or lost: {}\n", lost);
  fmt::format_to(out, "links      {} and {} bulk, {} sent, {} received\n", status->links_open,
                 status->bulk_links_open, format_bytes(static_cast<double>(status->bytes_sent)),
                 format_bytes(static_cast<double>(status->bytes_received)));
  fmt::format_to(out, "process    {} of memory, {:.3g} ms behind its timers\n",
                 format_bytes(static_cast<double>(status->memory_bytes)), status->loop_lag_seconds * 1000);
  return text;
}

Result<std::string> leave_text(const std::string& json) {
  if (!node::is_leaving(json)) return Error{"it does not say that it leaves"};
  return std::string("the peer leaves its swarm\n");
}

Result<std::string> topology_text(const std::string& json) {
  const auto name = node::parse_topology_request(json);
  if (!name) return name.error();
  return "the swarm's topology is " + *name + " from now on\n";
}

int set_topology(const Arguments& arguments) {
  const auto name = resolve_topology(*arguments.get("NAME"));
  if (!name) return refuse(arguments, name.error().message);
  const auto topology = topologies::Topology::parse(*name);
  if (!topology) return refuse(arguments, topology.error().message);
  return ask(arguments, "POST", "/api/v1/topology", topology_text,
             node::topology_request_json(topology->name()));
}

Result<std::string> paused_text(const std::string& json) {
  if (json == node::paused_json(true)) return std::string("the peer rests; `starling resume` ends that\n");
  if (json == node::paused_json(false)) return std::string("the peer goes on\n");
  return Error{"it does not say whether it rests"};
}

Result<std::string> log_level_text(const std::string& json) {
  const auto level = node::parse_log_level(json);
  if (!level) return level.error();
  return "the peer's log tells from " + *level + " on\n";
}

int set_log_level(const Arguments& arguments) {
  const std::string body = node::log_level_json(*arguments.get("LEVEL"));
  if (const auto level = node::parse_log_level(body); !level) return refuse(arguments, level.error().message);
  return ask(arguments, "POST", "/api/v1/log-level", log_level_text, body);
}

Command asking(const char* name, const char* summary, const char* path, Show show) {
  return {name,
          summary,
          {},
          {{"--at", "HOST:PORT", "the peer's --http address"}, {"--json", "", "print one JSON object"}},
          [=](const Arguments& arguments) { return ask(arguments, "GET", path, show); },
          std::string("starling ") + name + " --at 127.0.0.1:7180"};
}

Command ordering(const char* name, const char* summary, const char* path, Show show) {
  return {name, summary, {}, flags_of_orders(),
          [=](const Arguments& arguments) { return ask(arguments, "POST", path, show); },
          std::string("starling ") + name + " --at 127.0.0.1:7180"};
}

}  // namespace

Result<Address> peer_to_ask(const Arguments& arguments) {
  const auto text = arguments.get("--at");
  if (!text) {
    return Error{"--at is missing: the --http address of the peer to ask; see `starling " + arguments.command() +
                 " --help`"};
  }
  const auto at = Address::parse(*text);
  if (!at) return Error{"--at: " + at.error().message};
  if (at->port == 0) return Error{"--at: port 0 cannot be dialed; give the peer's --http address"};
  return *at;
}

Result<std::string> get(const Address& at, const std::string& path) {
  return body_of(at, node::http_request(at, "GET", path));
}

Command members_command() {
  return asking("members", "who is in the swarm, as a running peer sees it", "/api/v1/members", members_text);
}

Command status_command() {
  return asking("status", "how a running peer fares", "/api/v1/status", status_text);
}

Command topology_set_command() {
  return {"topology set",
          "have a running swarm follow another topology; no exchange is lost",
          {{"NAME", "a name of `topology list`"}},
          flags_of_orders(),
          set_topology,
          "starling topology set random-regular:k=4 --at 127.0.0.1:7180"};
}

Command log_level_command() {
  return {"log-level",
          "have a running peer's log tell more or less",
          {{"LEVEL", "trace, debug, info, warning or error"}},
          flags_of_orders(),
          set_log_level,
          "starling log-level debug --at 127.0.0.1:7180"};
}

Command leave_command() {
  return ordering("leave", "ask a running peer to leave its swarm in order", "/api/v1/leave", leave_text);
}

Command pause_command() {
  return ordering("pause", "have a running peer rest: it makes no steps, and answers others", "/api/v1/pause",
                  paused_text);
}

Command resume_command() {
  return ordering("resume", "have a peer that rests go on", "/api/v1/resume", paused_text);
}

}  // namespace starling::cli
