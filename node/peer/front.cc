#include "node/peer/front.h"

#include <algorithm>

#include <spdlog/spdlog.h>
#include <asio/post.hpp>

#include "gossip/meeting/partner.h"
#include "node/front/answers.h"
#include "node/front/situation.h"
#include "node/front/web_files.h"
#include "topologies/topology.h"

namespace starling::node {
namespace {

constexpr double kPointInterval = 1.0;  // seconds
constexpr double kEarly = 0.1;          // seconds by which a timer may be early
constexpr const char* kTextType = "text/plain; charset=utf-8";
constexpr const char* kPageType = "text/html; charset=utf-8";
constexpr const char* kStreamType = "text/event-stream";

}  // namespace

Status Front::open() {
  const DaemonOptions& options = started_.options;
  if (!options.http) return Done{};
  auto routes = queries();
  for (HttpRoute& command : commands()) routes.push_back(std::move(command));
  for (HttpRoute& route : trial_.routes()) routes.push_back(std::move(route));
  auto server =
      HttpServer::start(*options.http, std::move(routes),
                        [&io = started_.io](std::function<void()> work) { asio::post(io, std::move(work)); },
                        {.token = options.token.text, .token_always = options.token.always});
  if (!server) return Error{"--http: " + server.error().message};
  server_ = std::move(*server);
  teller_.set_http(server_->address());
  spdlog::info("HTTP at {}", to_string(server_->address()));
  if (!is_loopback(options.http->host)) {
    spdlog::warn("--http {}: anyone who can reach it can read this peer; {}", to_string(*options.http),
                 options.token.text.empty()
                     ? "commands are accepted only from this machine, as --token-file is not given"
                 : options.token.always ? "commands need the token"
                                        : "commands from other machines need the token");
  }
  return Done{};
}

Front::Answer Front::when_begun(Answer answer) const {
  return [this, answer = std::move(answer)](const std::string& body) {
    return lives_.running ? answer(body) : http_refusal(503, "the peer is still loading its data");
  };
}

std::vector<HttpRoute> Front::queries() {
  std::vector<HttpRoute> routes;
  const auto get = [&](const char* path, Answer answer) {
    routes.push_back({"GET", path, std::move(answer)});
  };
  get("/", [](const std::string&) { return HttpAnswer{200, std::string(live_page()), kPageType}; });
  get("/livez", [](const std::string&) { return HttpAnswer{200, "ok\n", kTextType}; });
  get("/readyz", [this](const std::string&) {
    const std::string why = unready();
    return why.empty() ? HttpAnswer{200, "ok\n", kTextType} : HttpAnswer{503, why + "\n", kTextType};
  });
  get("/metrics", when_begun([this](const std::string&) {
        return HttpAnswer{200, metrics_text(teller_.status(), teller_.members()), kMetricsType};
      }));
  get("/api/v1/status", when_begun([this](const std::string&) {
        return HttpAnswer{200, to_json(status(teller_.members()))};
      }));
  get("/api/v1/members", when_begun([this](const std::string&) {
        return HttpAnswer{200, to_json(teller_.members())};
      }));
  get("/api/v1/events", [this](const std::string&) {
    return HttpAnswer{200, events_json(started_.events.since(0))};
  });
  get("/api/v1/topology", when_begun([this](const std::string&) {
        update_graph();
        return HttpAnswer{200, graph_json(graph_)};
      }));
  get("/api/v1/live", when_begun([this](const std::string&) { return begin_stream(); }));
  routes.back().streams = true;
  return routes;
}

std::vector<HttpRoute> Front::commands() {
  std::vector<HttpRoute> routes;
  const auto order = [&](const char* path, Answer answer) {
    routes.push_back({"POST", path, std::move(answer)});
  };
  order("/api/v1/leave", [this](const std::string&) {
    asio::post(started_.io, [this] { leave_(); });  // after the answer
    return HttpAnswer{200, leaving_json()};
  });
  for (const bool paused : {true, false}) {
    order(paused ? "/api/v1/pause" : "/api/v1/resume", when_begun([this, paused](const std::string&) {
            const Status done = pause(paused);
            return done ? HttpAnswer{200, paused_json(paused)} : http_refusal(409, done.error().message);
          }));
  }
  order("/api/v1/introduce", when_begun([this](const std::string& body) {
          const auto address = parse_introduction(body);
          return address ? introduce(*address) : http_refusal(400, address.error().message);
        }));
  order("/api/v1/topology", when_begun([this](const std::string& body) {
          const auto name = parse_topology_request(body);
          return name ? set_topology(*name) : http_refusal(400, name.error().message);
        }));
  order("/api/v1/log-level", [](const std::string& body) {
    const auto level = parse_log_level(body);
    if (!level) return http_refusal(400, level.error().message);
    spdlog::set_level(spdlog::level::from_str(*level));
    spdlog::log(spdlog::get_level(), "the log level is {}", *level);
    return HttpAnswer{200, log_level_json(*level)};
  });
  return routes;
}

// ---- queries and commands ----

PeerStatus Front::status(const std::vector<MemberStatus>& members) const {
  PeerStatus status = teller_.status();
  status.situation = situation_of(status, members, teller_.progress(), history_.points(),
                                  lives_.built ? lives_.built->experiment.training.pace : Duration{0});
  if (const auto awaited = lives_.running ? lives_.running->core.view().awaited : std::nullopt)
    status.situation = waiting_situation(*awaited, started_.now(), started_.events.since(0));
  if (is_without_trainer())
    status.situation = "No trainer is attached to this peer: it makes no steps, and answers others.";
  return status;
}

std::string Front::unready() const {
  if (!lives_.running) return "the peer is still loading its data";
  if (started_.stage >= PeerStage::leaving) return "the peer is leaving";
  if (lives_.running->phase() == wire::Phase::joining) return "the peer is joining the run";
  return lives_.running->phase() == wire::Phase::finished ? "the peer has finished the run" : "";
}

// A peer that its owner has paused begins no step; it still answers others.
Status Front::pause(bool paused) {
  if (started_.stage != PeerStage::training && started_.stage != PeerStage::settling)
    return Error{"this peer makes no steps now"};
  if (is_without_trainer()) return Error{"no trainer is attached to this peer"};
  Trainer& trainer = *lives_.equipped->trainer;
  if (paused == trainer.is_paused(PausedBy::owner)) return Done{};
  started_.events.say(
      spdlog::level::info, paused ? "paused" : "resumed",
      paused ? "this peer is paused until it is asked to resume" : "this peer resumes training");
  teller_.account_time();
  if (paused) {
    trainer.pause(PausedBy::owner);
  } else {
    trainer.resume(PausedBy::owner);
  }
  if (lives_.is_running()) drive_(teller_.measure_vitals());
  return Done{};
}

HttpAnswer Front::introduce(const Address& address) {
  if (address == listening_.self().address)
    return http_refusal(400, "this peer itself listens at " + to_string(address));
  drive_(gossip::Introduced{address});
  return {200, introduction_json(address)};
}

HttpAnswer Front::set_topology(const std::string& name) {
  const auto view = lives_.running->core.view();
  if (view.topology == nullptr || started_.stage == PeerStage::ending)
    return http_refusal(503, "this peer does not take part in the run yet, or has left it");
  const auto topology = topologies::Topology::parse(name);
  if (!topology) return http_refusal(400, topology.error().message);
  const auto trained = 1 + std::ranges::count_if(view.membership.others(), [](const gossip::Record& record) {
                         return record.is_live() && record.member.phase >= wire::Phase::training;
                       });
  if (const Status exists = topology->exists(static_cast<std::uint32_t>(trained)); !exists)
    return http_refusal(
        400, "among the swarm's " + std::to_string(trained) + " peers now: " + exists.error().message);
  if (const auto why = lives_.running->core.obstacle_to_setting(*topology)) return http_refusal(409, *why);
  drive_(gossip::RewireRequested{name});
  return {200, topology_request_json(name)};
}

// ---- the live page ----

// Updates the graph to the membership, and starts its analysis.
void Front::update_graph() {
  if (!lives_.running || lives_.running->core.view().topology == nullptr) return;
  const gossip::Membership& membership = lives_.running->core.view().membership;
  const std::string topology = lives_.running->core.view().topology->name();
  if (graph_version_ == membership.version() && graph_.topology == topology) return;
  const auto vertices = gossip::vertices(membership);
  auto graph = link_graph(topology, vertices);
  if (!graph) return;
  graph_ = std::move(*graph);
  graph_version_ = membership.version();
  graph_sent_ = false;
  if (analyzing_) return;
  analyzing_ = true;
  std::vector<std::string> names;
  for (const wire::Member* member : vertices) names.push_back(member->name);
  started_.builder.run(
      [graph = graph_, names = std::move(names),
       model = training::consensus_model(lives_.built->experiment)]() mutable {
        add_forecast(graph, names, model);
        return std::move(graph);
      },
      [this](LinkGraph analyzed) {
        analyzing_ = false;
        if (analyzed.topology != graph_.topology || analyzed.members != graph_.members) {
          graph_version_.reset();  // the graph has changed meanwhile: analyze it again
          return;
        }
        graph_ = std::move(analyzed);
        graph_sent_ = false;
      });
}

std::string Front::take_events() {
  const auto fresh = started_.events.since(events_sent_);
  if (fresh.empty()) return "";
  events_sent_ = started_.events.latest();
  return server_sent("events", events_json(fresh));
}

// All that a page needs to show the present state.
HttpAnswer Front::begin_stream() {
  update_graph();
  const auto members = teller_.members();
  const PeerStatus status = this->status(members);
  return {200,
          server_sent("history", history_json(history_.points())) +
              server_sent("topology", graph_json(graph_)) +
              server_sent("events", events_json(started_.events.since(0))) +
              server_sent("state", state_json(status, members, point_of(status, members))),
          kStreamType};
}

void Front::tick() {
  if (!server_ || !lives_.running) return;
  const bool watched = server_->streams() > 0;
  const double uptime = to_seconds(started_.now().since_start);
  const bool due = !recorded_ || uptime >= *recorded_ + kPointInterval - kEarly;
  if (!due && !watched) return;
  const auto members = teller_.members();
  std::vector<std::string> conditions;
  for (const MemberStatus& member : members) conditions.push_back(member.condition);
  // A page learns at once that a member has paused or failed.
  if (!due && conditions == conditions_sent_) return;
  conditions_sent_ = std::move(conditions);
  if (watched) update_graph();
  const PeerStatus status = this->status(members);
  const HistoryPoint point = point_of(status, members);
  if (due) {
    recorded_ = uptime;
    history_.add(point);
  }
  if (!watched) {
    events_sent_ = started_.events.latest();
    graph_sent_ = false;
    return;
  }
  std::string text;
  if (!graph_sent_) text += server_sent("topology", graph_json(graph_));
  graph_sent_ = true;
  text += take_events();
  text += server_sent("state", state_json(status, members, point));
  server_->publish(text);
}

}  // namespace starling::node
