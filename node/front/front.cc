#include "node/front/front.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "gossip/partner.h"
#include "node/front/answers.h"
#include "node/front/metrics.h"
#include "node/front/web_files.h"

namespace starling::node {
namespace {

constexpr double kPointInterval = 1.0;  // seconds
constexpr double kEarly = 0.1;          // seconds by which a timer may be early
constexpr const char* kTextType = "text/plain; charset=utf-8";
constexpr const char* kPageType = "text/html; charset=utf-8";
constexpr const char* kStreamType = "text/event-stream";

}  // namespace

Result<std::unique_ptr<Front>> Front::open(const Address& at, const std::string& token, FrontHost& host,
                                           Post post, Background& analyst) {
  std::unique_ptr<Front> front(new Front(host, analyst));
  HttpOptions options;
  options.token = token;
  auto routes = front->queries();
  for (HttpRoute& command : front->commands(post)) routes.push_back(std::move(command));
  auto server = HttpServer::start(at, std::move(routes), post, std::move(options));
  if (!server) return server.error();
  front->server_ = std::move(*server);
  return front;
}

Front::Answer Front::when_begun(Answer answer) const {
  return [this, answer = std::move(answer)](const std::string& body) {
    return host_.membership() != nullptr ? answer(body)
                                         : http_refusal(503, "the peer is still loading its data");
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
    const std::string why = host_.unready();
    return why.empty() ? HttpAnswer{200, "ok\n", kTextType} : HttpAnswer{503, why + "\n", kTextType};
  });
  get("/metrics", when_begun([this](const std::string&) {
        return HttpAnswer{200, metrics_text(host_.status(), host_.members()), kMetricsType};
      }));
  get("/api/v1/status", when_begun([this](const std::string&) {
        return HttpAnswer{200, to_json(host_.status())};
      }));
  get("/api/v1/members", when_begun([this](const std::string&) {
        return HttpAnswer{200, to_json(host_.members())};
      }));
  get("/api/v1/events", [this](const std::string&) {
    return HttpAnswer{200, events_json(host_.events().since(0))};
  });
  get("/api/v1/topology", when_begun([this](const std::string&) {
        update_graph();
        return HttpAnswer{200, graph_json(graph_)};
      }));
  get("/api/v1/live", when_begun([this](const std::string&) { return begin_stream(); }));
  routes.back().streams = true;
  return routes;
}

std::vector<HttpRoute> Front::commands(const Post& post) {
  std::vector<HttpRoute> routes;
  const auto order = [&](const char* path, Answer answer) {
    routes.push_back({"POST", path, std::move(answer)});
  };
  order("/api/v1/leave", [this, post](const std::string&) {
    post([this] { host_.leave(); });  // after the answer
    return HttpAnswer{200, leaving_json()};
  });
  for (const bool paused : {true, false}) {
    order(paused ? "/api/v1/pause" : "/api/v1/resume", when_begun([this, paused](const std::string&) {
            const Status done = host_.rest(paused);
            return done ? HttpAnswer{200, paused_json(paused)} : http_refusal(409, done.error().message);
          }));
  }
  order("/api/v1/introduce", when_begun([this](const std::string& body) {
          const auto address = parse_introduction(body);
          return address ? host_.introduce(*address) : http_refusal(400, address.error().message);
        }));
  order("/api/v1/topology", when_begun([this](const std::string& body) {
          const auto name = parse_topology_request(body);
          return name ? host_.set_topology(*name) : http_refusal(400, name.error().message);
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

// Keeps the graph up to date with the membership; its analysis follows a moment later.
void Front::update_graph() {
  const gossip::Membership* const membership = host_.membership();
  const std::string topology = host_.status().topology;
  if (membership == nullptr || topology.empty()) return;
  if (graph_version_ == membership->version() && graph_.topology == topology) return;
  const auto vertices = gossip::vertices(*membership);
  auto graph = link_graph(topology, vertices);
  if (!graph) return;
  graph_ = std::move(*graph);
  graph_version_ = membership->version();
  graph_told_ = false;
  if (analyzing_) return;
  analyzing_ = true;
  std::vector<std::string> names;
  for (const wire::Member* member : vertices) names.push_back(member->name);
  analyst_.run(
      [graph = graph_, names = std::move(names), model = host_.consensus_model()]() mutable {
        analyze(graph, names, model);
        return std::move(graph);
      },
      [this](LinkGraph analyzed) {
        analyzing_ = false;
        if (analyzed.topology != graph_.topology || analyzed.members != graph_.members) {
          graph_version_.reset();  // the graph has changed meanwhile: analyze it again
          return;
        }
        graph_ = std::move(analyzed);
        graph_told_ = false;
      });
}

std::string Front::take_events() {
  const auto fresh = host_.events().since(told_);
  if (fresh.empty()) return "";
  told_ = host_.events().latest();
  return server_sent("events", events_json(fresh));
}

// Everything that a page needs to draw itself once.
HttpAnswer Front::begin_stream() {
  update_graph();
  const PeerStatus status = host_.status();
  const auto members = host_.members();
  return {200,
          server_sent("history", history_json(history_.points())) +
              server_sent("topology", graph_json(graph_)) +
              server_sent("events", events_json(host_.events().since(0))) +
              server_sent("state", state_json(status, members, point_of(status, members))),
          kStreamType};
}

void Front::tick() {
  if (host_.membership() == nullptr) return;
  const bool watched = server_->streams() > 0;
  if (watched) update_graph();
  const PeerStatus status = host_.status();
  if (recorded_ && status.uptime_seconds < *recorded_ + kPointInterval - kEarly) return;
  recorded_ = status.uptime_seconds;
  const auto members = host_.members();
  const HistoryPoint point = point_of(status, members);
  history_.add(point);
  if (!watched) {
    told_ = host_.events().latest();
    graph_told_ = false;
    return;
  }
  std::string text;
  if (!graph_told_) text += server_sent("topology", graph_json(graph_));
  graph_told_ = true;
  text += take_events();
  text += server_sent("state", state_json(status, members, point));
  server_->publish(text);
}

}  // namespace starling::node
