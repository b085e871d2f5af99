// starling members, starling status, starling leave, starling topology set: ask a running peer, at its --http
// address.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/topology_name.h"
#include "node/http.h"
#include "node/status.h"
#include "topologies/topology.h"

namespace starling::cli {
namespace {

// What to do with a peer's answer: the text for people, or an Error where it is no peer's.
using Show = Result<std::string> (*)(const std::string& json);

int ask(const Arguments& arguments, const std::string& method, const std::string& path, Show show,
        const std::string& body = "") {
  const auto text = arguments.get("--at");
  if (!text) {
    return refuse(arguments, "--at is missing: the --http address of the peer to ask; see `starling " +
                                 arguments.command() + " --help`");
  }
  const auto at = Address::parse(*text);
  if (!at) return refuse(arguments, "--at: " + at.error().message);
  if (at->port == 0)
    return refuse(arguments, "--at: port 0 cannot be dialed; give the peer's --http address");

  const auto answer = node::http_request(*at, method, path, body);
  if (!answer) return fail(arguments, answer.error().message);
  if (answer->status != 200) {
    const std::string why = node::parse_error(answer->json);
    return fail(arguments, why.empty() ? to_string(*at) + " is not a Starling peer's --http address"
                                       : to_string(*at) + " refused: " + why);
  }
  const auto shown = show(answer->json);
  if (!shown) {
    return fail(arguments,
                to_string(*at) + " is not a Starling peer's --http address: " + shown.error().message);
  }
  std::fputs((arguments.has("--json") ? answer->json : *shown).c_str(), stdout);
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
                 status->steps, status->samples, status->samples_per_second,
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

Command asking(const char* name, const char* summary, const char* method, const char* path, Show show) {
  return {name,
          summary,
          {},
          {{"--at", "HOST:PORT", "the peer's --http address"}, {"--json", "", "print one JSON object"}},
          [=](const Arguments& arguments) { return ask(arguments, method, path, show); }};
}

}  // namespace

Command members_command() {
  return asking("members", "who is in the swarm, as a running peer sees it", "GET", "/api/v1/members",
                members_text);
}

Command status_command() {
  return asking("status", "how a running peer fares", "GET", "/api/v1/status", status_text);
}

Command topology_set_command() {
  return {"topology set",
          "have a running swarm follow another topology; no exchange is lost",
          {{"NAME", "a name of `topology list`"}},
          {{"--at", "HOST:PORT", "the --http address of any of its peers"},
           {"--json", "", "print one JSON object"}},
          set_topology};
}

Command leave_command() {
  return asking("leave", "ask a running peer to leave its swarm in order", "POST", "/api/v1/leave",
                leave_text);
}

}  // namespace starling::cli
