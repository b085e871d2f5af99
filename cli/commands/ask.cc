// starling members, status, leave, pause, resume, log-level, topology set: requests to a running peer at its
// --http address.
#include "cli/commands/ask.h"

#include <fmt/format.h>

#include <iterator>
#include <optional>

#include "cli/commands/commands.h"
#include "cli/commands/named_files.h"
#include "cli/commands/secrets.h"
#include "cli/commands/sources.h"
#include "cli/shell/output.h"
#include "node/front/answers.h"
#include "node/front/http_client.h"

namespace starling::cli {
namespace {

// The text for people; an Error if the answer is not a peer's.
using Show = Result<std::string> (*)(const std::string& json);

std::string not_a_peer(const Address& at) {
  return to_string(at) + " is not a Starling peer's --http address";
}

// The body of a successful answer; an Error is for fail().
Result<std::string> body_of(const Address& at, const Result<node::HttpAnswer>& answer) {
  if (!answer) return answer.error();
  if (answer->status == 200) return answer->body;
  const std::string why = node::parse_error(answer->body);
  return Error{why.empty() ? not_a_peer(at) : to_string(at) + " refused: " + why};
}

std::vector<Flag> post_flags() {
  return {at_flag(),
          {.name = "--token-file",
           .placeholder = "FILE",
           .help = "the peer's token, if it needs one (or STARLING_TOKEN_FILE)",
           .environment = "STARLING_TOKEN_FILE"},
          kJsonFlag};
}

int ask(Arguments arguments, const std::string& method, const std::string& path, Show show,
        const std::string& body = "") {
  if (method == "POST") add_environment(arguments, post_flags());
  const auto at = peer_to_ask(arguments);
  if (!at) return refuse(arguments, at.error());
  const auto token = read_token(arguments);
  if (!token) return refuse(arguments, token.error());
  const auto answer = body_of(*at, node::http_request(*at, method, path, body, *token));
  if (!answer) return fail(arguments, answer.error());
  const auto shown = show(*answer);
  if (!shown) return fail(arguments, not_a_peer(*at) + ": " + shown.error().message);
  return print_out(arguments.has("--json") ? *answer : *shown);
}

std::string seconds(const std::optional<double>& value) {
  if (!value) return "-";
  return *value < 0.1 ? fmt::format("{:.3g} ms", *value * 1000) : fmt::format("{:.1f} s", *value);
}

Result<std::string> members_text(const std::string& json) {
  const auto members = node::parse_members(json);
  if (!members) return members.error();
  std::vector<std::vector<std::string>> rows = {
      {"member", "address", "state", "phase", "steps", "samples", "last heard", "round trip"}};
  for (const node::MemberStatus& member : *members) {
    rows.push_back({member.name, member.address, member.state, member.phase, std::to_string(member.steps),
                    std::to_string(member.samples),
                    member.this_peer ? "itself" : seconds(member.last_heard_seconds),
                    seconds(member.round_trip_seconds)});
  }
  return aligned(rows, 4);
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
  if (!status->device.empty()) fmt::format_to(out, ", device {}", status->device);
  if (!status->topology.empty()) fmt::format_to(out, ", topology {}", status->topology);
  fmt::format_to(out, ", up {:.1f} s\n", status->uptime_seconds);
  fmt::format_to(out, "training   {} steps, {} samples, {:.0f} samples/s, loss {}, learning rate {}\n",
                 status->steps, status->samples, status->samples_per_second.value_or(0),
                 or_dash(status->loss, "{:.4f}"), or_dash(status->learning_rate, "{:.4g}"));
  if (status->device_spread)
    fmt::format_to(out, "devices    distance of their replicas from the mean: {:.3g}\n",
                   *status->device_spread);
  fmt::format_to(out, "swarm      {} live members of {} known, {} samples\n", status->members_live,
                 status->members_known, status->swarm_samples);
  const auto& exchanges = status->exchanges;
  fmt::format_to(out, "exchanges  {} begun, {} completed, {} aborted, {} rejected; {} answered\n",
                 exchanges.begun, exchanges.completed, exchanges.aborted, exchanges.rejected,
                 exchanges.answered);
  if (const std::string lost = exchanges.losses(); !lost.empty())
    fmt::format_to(out, "chunks     rejected or lost: {}\n", lost);
  fmt::format_to(out, "links      {} and {} bulk, {} sent, {} received\n", status->links.open,
                 status->links.bulk_open, format_bytes(status->bytes_sent),
                 format_bytes(status->bytes_received));
  fmt::format_to(out, "process    {} of memory, timers {:.3g} ms late\n", format_bytes(status->memory_bytes),
                 status->loop_lag_seconds * 1000);
  return text;
}

Result<std::string> leave_text(const std::string& json) {
  if (!node::is_leaving(json)) return Error{"unexpected answer"};
  return std::string("the peer leaves its swarm\n");
}

Result<std::string> paused_text(const std::string& json) {
  if (json == node::paused_json(true))
    return std::string("the peer is paused; `starling resume` resumes it\n");
  if (json == node::paused_json(false)) return std::string("the peer resumes training\n");
  return Error{"unexpected answer"};
}

Result<std::string> topology_text(const std::string& json) {
  const auto name = node::parse_topology_request(json);
  if (!name) return name.error();
  return "the swarm's topology is now " + *name + "\n";
}

int set_topology(const Arguments& arguments) {
  const auto topology = read_topology(*arguments.get("NAME"));
  if (!topology) return refuse(arguments, topology.error());
  return ask(arguments, "POST", "/api/v1/topology", topology_text,
             node::topology_request_json(topology->name()));
}

Result<std::string> log_level_text(const std::string& json) {
  const auto level = node::parse_log_level(json);
  if (!level) return level.error();
  return "the peer's log level is now " + *level + "\n";
}

int set_log_level(const Arguments& arguments) {
  const std::string body = node::log_level_json(*arguments.get("LEVEL"));
  if (const auto level = node::parse_log_level(body); !level) return refuse(arguments, level.error());
  return ask(arguments, "POST", "/api/v1/log-level", log_level_text, body);
}

Command ask_command(const std::string& name, const char* summary, const std::string& method, Show show) {
  return {name,
          summary,
          {},
          method == "GET" ? std::vector<Flag>{at_flag(), kJsonFlag} : post_flags(),
          [=](const Arguments& arguments) { return ask(arguments, method, "/api/v1/" + name, show); },
          "starling " + name + " --at 127.0.0.1:7180"};
}

}  // namespace

Flag at_flag() {
  return {.name = "--at", .placeholder = "HOST:PORT", .help = "the peer's --http address", .required = true};
}

Result<Address> peer_to_ask(const Arguments& arguments) {
  const auto at = Address::parse(*arguments.get("--at"));
  if (!at) return Error{"--at: " + at.error().message};
  if (at->port == 0) return Error{"--at: port 0 cannot be dialed; give the peer's --http address"};
  return *at;
}

Result<std::string> get(const Address& at, const std::string& path) {
  return body_of(at, node::http_request(at, "GET", path));
}

Command topology_set_command() {
  return {"topology set",
          "change the topology of a running swarm; no exchange is lost",
          {{"NAME", "a name of `topology list`"}},
          post_flags(),
          set_topology,
          "starling topology set random-regular:k=4 --at 127.0.0.1:7180"};
}

std::vector<Command> query_commands() {
  return {ask_command("members", "list the swarm's members as a running peer sees them", "GET", members_text),
          ask_command("status", "print the state of a running peer", "GET", status_text)};
}

std::vector<Command> order_commands() {
  return {ask_command("leave", "tell a running peer to leave its swarm in order", "POST", leave_text),
          ask_command("pause", "pause a running peer: it makes no steps but answers exchanges", "POST",
                      paused_text),
          ask_command("resume", "resume a paused peer", "POST", paused_text),
          {"log-level",
           "change the log level of a running peer",
           {{"LEVEL", "trace, debug, info, warning or error"}},
           post_flags(),
           set_log_level,
           "starling log-level debug --at 127.0.0.1:7180"}};
}

}  // namespace starling::cli
