// starling members, status, leave, pause, resume, log-level, topology set: requests to a running peer at its
// --http address.
#include "cli/commands/look/ask.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <optional>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/named_files.h"
#include "cli/commands/run/secrets.h"
#include "cli/commands/run/sources.h"
#include "cli/shell/output.h"
#include "node/front/answers.h"
#include "node/front/http_client.h"
#include "node/greeting.h"
#include "topologies/graph_file.h"
#include "training/runs/experiment/settings/quantities.h"
#include "training/runs/records/foreign_text.h"

namespace starling::cli {
namespace {

// The text for people; an Error if the answer is not a peer's.
using Show = std::function<Result<std::string>(const std::string& json)>;

constexpr std::size_t kShownId = 8;  // digits of an id that tell members apart in a table
constexpr std::size_t kShownName = 80;

std::string not_a_peer(const Address& at) {
  return to_string(at) + " is not a Starling peer's --http address";
}

// Whether a Starling peer accepts connections of other peers there.
bool is_for_peers(const Address& at) {
  using Kind = transport::LinkErrorKind;
  const auto problem = node::greet(at, "starling", nullptr);
  if (!problem) return true;
  constexpr std::array kRefusals = {Kind::bad_version, Kind::wrong_swarm, Kind::refused,
                                    Kind::wrong_key,   Kind::no_key,      Kind::false_identity,
                                    Kind::not_allowed};
  return std::ranges::find(kRefusals, problem->kind) != kRefusals.end();
}

// ", 127.0.0.1:7180" if the page of the peer that listens at `gossip` is at the usual port, else how to find
// it.
std::string page_of(const Address& gossip) {
  const Address usual{gossip.host, Address::parse(kDefaultAt)->port};
  const auto answer = node::http_request(usual, "GET", "/api/v1/status");
  if (answer) {
    const auto status = node::parse_status(answer->body);
    if (status && status->address == to_string(gossip)) return ", " + to_string(usual);
  }
  return fmt::format(", which its log names after 'HTTP at' (usual: port {})", usual.port);
}

// Why there is no answer, and what to do about it.
Error no_answer(const AskedPeer& peer, const node::NoAnswer& error) {
  if (error.connected && is_for_peers(peer.at)) {
    return Error{to_string(peer.at) +
                 " is a peer's --listen address, for other peers; give its --http address" +
                 page_of(peer.at)};
  }
  if (error.connected)
    return Error{error.message + ": the peer is busy, or this is no peer's --http address"};
  if (!peer.is_default) return Error{error.message + "; give the --http address of a running peer"};
  return Error{fmt::format(
      "{}, the default of --at; start the peer with --http {}, or name its --http address with --at or "
      "STARLING_AT",
      error.message, kDefaultAt)};
}

// The body of a successful answer; an Error is for fail().
Result<std::string> body_of(const AskedPeer& peer, const Result<node::HttpAnswer, node::NoAnswer>& answer) {
  if (!answer) return no_answer(peer, answer.error());
  if (answer->status == 200) return answer->body;
  const std::string why = node::parse_error(answer->body);
  return Error{why.empty() ? not_a_peer(peer.at) : to_string(peer.at) + " refused: " + why};
}

std::vector<Flag> post_flags() { return {at_flag(), token_file_flag(), kJsonFlag}; }

int ask_at(const Arguments& arguments, const AskedPeer& peer, const std::string& method,
           const std::string& path, const Show& show, const std::string& body = "") {
  const auto token = read_token(arguments);
  if (!token) return refuse(arguments, token.error());
  const auto sent = peer.is_stated ? std::string() : *token;
  const auto answer = body_of(peer, node::http_request(peer.at, method, path, body, sent));
  if (!answer && sent != *token)
    return fail(arguments, Error{answer.error().message +
                                 "; a token is sent only to an address that you give: use --at HOST:PORT"});
  if (!answer) return fail(arguments, answer.error());
  const auto shown = show(*answer);
  if (!shown) return fail(arguments, not_a_peer(peer.at) + ": " + shown.error().message);
  return print_out(training::fit_to_show(arguments.has("--json") ? *answer : *shown, true));
}

int ask(Arguments arguments, const std::string& method, const std::string& path, const Show& show,
        const std::string& body = "") {
  if (method == "POST") add_environment(arguments, post_flags());
  const auto peer = peer_to_ask(arguments);
  if (!peer) return refuse(arguments, peer.error());
  return ask_at(arguments, *peer, method, path, show, body);
}

std::string seconds(const std::optional<double>& value) {
  if (!value) return "-";
  return *value < 0.1 ? fmt::format("{:.3g} ms", *value * 1000) : fmt::format("{:.1f} s", *value);
}

Result<std::string> members_table(const std::string& json, bool all) {
  const auto members = node::parse_members(json);
  if (!members) return members.error();
  std::vector<std::vector<std::string>> rows = {
      {"member", "id", "address", "state", "steps", "samples", "samples/s", "slowdown", "last heard"}};
  std::size_t hidden = 0;
  for (const node::MemberStatus& member : *members) {
    if (member.earlier_life && !all) {
      ++hidden;
      continue;
    }
    const auto slowdown = member.slowdown ? format_factor(*member.slowdown) : "-";
    rows.push_back({member.name, member.id.substr(0, kShownId), member.address, condition(member),
                    std::to_string(member.steps), std::to_string(member.samples),
                    or_dash(member.samples_per_second, "{:.0f}"), slowdown,
                    member.this_peer ? "itself" : seconds(member.last_heard_seconds)});
  }
  std::string text = aligned(rows, 4);
  if (hidden > 0)
    text +=
        fmt::format("{} earlier {} of these members {} hidden; --all shows {}\n", hidden,
                    hidden == 1 ? "life" : "lives", hidden == 1 ? "is" : "are", hidden == 1 ? "it" : "them");
  return text;
}

int list_members(const Arguments& arguments) {
  return ask(arguments, "GET", "/api/v1/members",
             [all = arguments.has("--all")](const std::string& json) { return members_table(json, all); });
}

Result<std::string> status_text(const std::string& json) {
  const auto status = node::parse_status(json);
  if (!status) return status.error();
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{} ({}){}, swarm '{}', starling {}\n", status->name, status->id.substr(0, kShownId),
                 status->address.empty() ? "" : " at " + status->address, status->swarm, status->version);
  if (!status->situation.empty()) fmt::format_to(out, "{}\n", status->situation);
  fmt::format_to(out, "state      {}", status->condition.empty() ? status->phase : status->condition);
  if (!status->model.empty()) fmt::format_to(out, ", {} on {}", status->model, status->data);
  if (!status->device.empty()) fmt::format_to(out, ", device {}", status->device);
  if (!status->precision.empty()) fmt::format_to(out, ", precision {}", status->precision);
  if (!status->topology.empty()) fmt::format_to(out, ", topology {}", status->topology);
  fmt::format_to(out, ", up {:.1f} s\n", status->uptime_seconds);
  fmt::format_to(out, "training   {} steps, {} samples, {:.0f} samples/s, loss {}, accuracy {}\n",
                 status->steps, status->samples, status->samples_per_second.value_or(0),
                 or_dash(status->loss, "{:.4f}"), accuracy_text(*status));
  if (status->judged.loss && status->units.sample_tokens > 0)
    fmt::format_to(out, "text       test loss {:.4f} nats per token, perplexity {:.2f}, {:.0f} tokens/s\n",
                   *status->judged.loss, std::exp(*status->judged.loss),
                   status->samples_per_second.value_or(0) * static_cast<double>(status->units.sample_tokens));
  fmt::format_to(out, "rate       learning rate {}\n", or_dash(status->learning_rate, "{:.4g}"));
  if (status->split) fmt::format_to(out, "devices    {}\n", *status->split);
  if (status->pipeline) text += "stages     " + stages_text(*status->pipeline);
  if (status->device_spread)
    fmt::format_to(out, "devices    distance of their replicas from the mean: {:.3g}\n",
                   *status->device_spread);
  fmt::format_to(out, "swarm      {} live {} of {} known, {} samples\n", status->members_live,
                 status->members_live == 1 ? "member" : "members", status->members_known,
                 status->swarm_samples);
  const auto& exchanges = status->exchanges;
  fmt::format_to(out, "exchanges  {} begun, {} completed, {} aborted, {} rejected; {} answered\n",
                 exchanges.begun, exchanges.completed, exchanges.aborted, exchanges.rejected,
                 exchanges.answered);
  if (const std::string lost = exchanges.losses(); !lost.empty())
    fmt::format_to(out, "chunks     rejected or lost: {}\n", lost);
  fmt::format_to(out, "links      {} and {} bulk, {} sent, {} received\n", status->links.open,
                 status->links.bulk_open, format_bytes(status->bytes_sent),
                 format_bytes(status->bytes_received));
  fmt::format_to(out, "process    {} of memory, timers {:.3g} ms late\n",
                 format_bytes(status->process.memory_bytes), status->process.loop_lag_seconds * 1000);
  return text;
}

Result<std::string> leave_text(const std::string& who, const std::string& json) {
  if (!node::is_leaving(json)) return Error{"unexpected answer"};
  return who + " leaves its swarm\n";
}

Result<std::string> paused_text(const std::string& who, const std::string& json) {
  if (json == node::paused_json(true)) return who + " is paused; `starling resume` resumes it\n";
  if (json == node::paused_json(false)) return who + " resumes training\n";
  return Error{"unexpected answer"};
}

// The --http address of the live member with this name or beginning of an id, as the asked peer knows it.
Result<AskedPeer> find_member(const AskedPeer& asked, const std::string& name) {
  const auto body = get(asked, "/api/v1/members");
  if (!body) return body.error();
  const auto members = node::parse_members(*body);
  if (!members) return Error{not_a_peer(asked.at)};
  std::vector<const node::MemberStatus*> found;
  std::vector<std::string> others;
  for (const node::MemberStatus& member : *members) {
    if (member.state == "failed" || member.state == "left") continue;
    if (member.name == name || (name.size() >= kShownId && member.id.starts_with(name)))
      found.push_back(&member);
    others.push_back(member.name);
  }
  const std::string at = to_string(asked.at);
  if (found.empty())
    return Error{fmt::format("the peer at {} knows no live member '{}'; it knows {}", at,
                             name.substr(0, kShownName), one_of(others))};
  if (found.size() > 1)
    return Error{fmt::format("{} live members are called '{}'; give the id of one, {} or {}", found.size(),
                             name, found[0]->id, found[1]->id)};
  const node::MemberStatus& member = *found.front();
  if (member.this_peer) return asked;
  if (const auto page = Address::parse(member.http)) return AskedPeer{.at = *page, .is_stated = true};
  return Error{
      fmt::format("{} serves no HTTP that others can reach; start it with --http ADDR:PORT and "
                  "--token-file FILE, or send the command on its own machine",
                  member.name)};
}

using Tell = Result<std::string> (*)(const std::string& who, const std::string& json);

// An order to the peer at --at, or to the member of its swarm that NAME names.
int order(Arguments arguments, const std::string& what, Tell tell) {
  add_environment(arguments, post_flags());
  auto peer = peer_to_ask(arguments);
  if (!peer) return refuse(arguments, peer.error());
  const auto name = arguments.get("NAME");
  if (name) {
    peer = find_member(*peer, *name);
    if (!peer) return fail(arguments, peer.error());
  }
  return ask_at(arguments, *peer, "POST", "/api/v1/" + what,
                [&](const std::string& json) { return tell(name.value_or("the peer"), json); });
}

Result<std::string> topology_text(const std::string& json) {
  const auto name = node::parse_topology_request(json);
  if (!name) return name.error();
  return "the swarm's topology is now " + topologies::shown_name(*name) + "\n";
}

int set_topology(const Arguments& arguments) {
  const auto topology = read_topology(*arguments.get("NAME"));
  if (!topology) return refuse(arguments, topology.error());
  tell_graph(topology->name());
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

Command order_command(const std::string& name, const char* summary, Tell tell) {
  return {name,
          summary,
          {{"NAME", "another member of its swarm, by name or id, that needs no token; else use --at", false}},
          post_flags(),
          [=](const Arguments& arguments) { return order(arguments, name, tell); },
          "starling " + name + "\nstarling " + name + " --at 10.0.0.7:7180 --token-file token"};
}

}  // namespace

std::string condition(const node::MemberStatus& member) {
  return member.condition.empty() ? node::condition_of(member) : member.condition;
}

Flag at_flag() {
  return {.name = "--at",
          .placeholder = "HOST:PORT",
          .help = std::string("the peer's --http address, its URL, or its port on this machine (default ") +
                  kDefaultAt + ", or STARLING_AT)",
          .environment = "STARLING_AT"};
}

Result<Address> parse_at(std::string_view text) {
  constexpr std::string_view kScheme = "http://";
  constexpr std::uint16_t kPortOfUrls = 80;
  const bool url = text.starts_with(kScheme);
  if (!url && text.find("://") != std::string_view::npos)
    return Error{training::in_quotes(text) + ": a peer has only http:// addresses"};
  if (url) text.remove_prefix(kScheme.size());
  std::string host(text.substr(0, text.find_first_of("/?#")));
  const std::string_view port = std::string_view(host).substr(host.starts_with(':') ? 1 : 0);
  const bool bare = !port.empty() && port.find_first_not_of("0123456789") == std::string_view::npos;
  if (!url && bare) host = "127.0.0.1:" + std::string(port);
  if (url && host.find(':', host.rfind(']') + 1) == std::string::npos)
    host += ":" + std::to_string(kPortOfUrls);
  const auto at = Address::parse(host);
  if (!at) return at.error();
  if (at->port == 0) return Error{"port 0 cannot be dialed; give the peer's --http address"};
  return *at;
}

Result<AskedPeer> peer_to_ask(Arguments& arguments) {
  add_environment(arguments, {at_flag()});
  const auto at = parse_at(arguments.get("--at").value_or(kDefaultAt));
  if (!at) return Error{"--at: " + at.error().message};
  return AskedPeer{*at, !arguments.has("--at")};
}

std::string accuracy_text(const node::PeerStatus& status) {
  if (!status.accuracy) return "-";
  return fmt::format("{} at step {}", format_percent(*status.accuracy), status.judged.steps);
}

Result<std::string> get(const AskedPeer& peer, const std::string& path) {
  return body_of(peer, node::http_request(peer.at, "GET", path));
}

Result<std::string> post(const AskedPeer& peer, const std::string& path, const std::string& body,
                         const std::string& token) {
  return body_of(peer, node::http_request(peer.at, "POST", path, body, token, node::kLongAnswer));
}

Flag token_file_flag() {
  return {.name = "--token-file",
          .placeholder = "FILE",
          .help = "the peer's token, if it needs one (or STARLING_TOKEN_FILE)",
          .environment = "STARLING_TOKEN_FILE"};
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
  return {{"members",
           "list the swarm's members as a running peer sees them",
           {},
           {at_flag(), {"--all", "", "also earlier lives of members that came back"}, kJsonFlag},
           list_members,
           std::string("starling members --at ") + kDefaultAt},
          {"status",
           "print the state of a running peer",
           {},
           {at_flag(), kJsonFlag},
           [](const Arguments& arguments) { return ask(arguments, "GET", "/api/v1/status", status_text); },
           std::string("starling status --at ") + kDefaultAt}};
}

std::vector<Command> order_commands() {
  return {
      order_command("leave", "tell a running peer to leave its swarm in order", leave_text),
      order_command("pause", "pause a running peer: it makes no steps but answers exchanges", paused_text),
      order_command("resume", "resume a paused peer", paused_text),
      {"log-level",
       "change the log level of a running peer",
       {{"LEVEL", "trace, debug, info, warning or error"}},
       post_flags(),
       set_log_level,
       "starling log-level debug --at 127.0.0.1:7180"}};
}

}  // namespace starling::cli
