#include "cli/commands/run/simulated_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/program.h"
#include "base/text.h"
#include "node/front/answers.h"
#include "node/front/situation.h"
#include "node/front/web_files.h"
#include "training/runs/experiment/consensus_model.h"

namespace starling::cli {
namespace {

constexpr auto kInterval = std::chrono::seconds(1);

// The loss of the peers that train, on average.
std::optional<double> mean_loss(const lab::SwarmPicture& picture) {
  double sum = 0;
  std::size_t count = 0;
  for (const lab::PicturedPeer& peer : picture.peers) {
    if (!peer.loss || peer.condition != "training") continue;
    sum += *peer.loss;
    ++count;
  }
  return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
}

// Of the swarm as a whole: what most concerns those who watch it.
std::string condition_of(const lab::SwarmPicture& picture) {
  for (const char* condition : {"training", "paused", "settling", "joining"}) {
    for (const lab::PicturedPeer& peer : picture.peers)
      if (!peer.serves && peer.condition == condition) return condition;
  }
  return "finished";
}

std::string state_of(const std::string& condition) {
  return condition == "left" || condition == "failed" ? condition : "alive";
}

node::HttpAnswer loading() { return node::http_refusal(503, "the simulation is still loading its data"); }

}  // namespace

Result<std::unique_ptr<SimulatedPage>> SimulatedPage::open(const Address& at,
                                                           const training::Experiment& experiment,
                                                           const std::string& data,
                                                           std::uint64_t epoch_samples) {
  std::unique_ptr<SimulatedPage> page(new SimulatedPage(experiment, data, epoch_samples));
  // The routes only read texts, so the server's own thread may call them.
  auto server =
      node::HttpServer::start(at, page->routes(), [](const std::function<void()>& work) { work(); });
  if (!server) return server.error();
  page->server_ = std::move(*server);
  return page;
}

std::shared_ptr<const SimulatedPage::Text> SimulatedPage::text() {
  const std::lock_guard lock(mutex_);
  return text_;
}

std::vector<node::HttpRoute> SimulatedPage::routes() {
  std::vector<node::HttpRoute> routes;
  const auto get = [&](const char* path, std::string Text::*part) {
    routes.push_back({"GET", path, [this, part](const std::string&) {
                        const auto now = text();
                        return now ? node::HttpAnswer{200, (*now).*part} : loading();
                      }});
  };
  get("/api/v1/status", &Text::status);
  get("/api/v1/members", &Text::members);
  get("/api/v1/topology", &Text::topology);
  routes.push_back(
      {"GET", "/", [](const std::string&) {
         return node::HttpAnswer{200, std::string(node::live_page()), "text/html; charset=utf-8"};
       }});
  routes.push_back({"GET", "/api/v1/live", [this](const std::string&) {
                      const auto now = text();
                      if (!now) return loading();
                      return node::HttpAnswer{200,
                                              node::server_sent("history", now->history) +
                                                  node::server_sent("topology", now->topology) +
                                                  node::server_sent("events", node::events_json({})) +
                                                  node::server_sent("state", now->state),
                                              "text/event-stream"};
                    }});
  routes.back().streams = true;
  return routes;
}

bool SimulatedPage::is_due() {
  const auto now = std::chrono::steady_clock::now();
  if (now - shown_ < kInterval) return false;
  shown_ = now;
  return true;
}

std::vector<node::MemberStatus> SimulatedPage::members_of(const lab::SwarmPicture& picture) {
  const double seconds = to_seconds(picture.now - pictured_);
  std::vector<node::MemberStatus> members;
  speed_ = 0;
  for (const lab::PicturedPeer& peer : picture.peers) {
    node::MemberStatus& member = members.emplace_back();
    member.name = peer.name;
    member.id = to_string(peer.id);
    member.state = state_of(peer.condition);
    member.phase = peer.condition == "paused" ? "training" : peer.condition;
    member.condition = peer.condition;
    member.paused = peer.condition == "paused";
    member.steps = peer.steps;
    member.samples = peer.samples;
    member.loss = peer.loss;
    member.device = peer.serves ? "server" : "simulated";
    const std::uint64_t fresh = peer.samples - std::min(peer.samples, samples_[peer.id]);
    samples_[peer.id] = peer.samples;
    if (seconds > 0 && !peer.serves)
      member.samples_per_second = peer.condition == "training" ? static_cast<double>(fresh) / seconds : 0;
    speed_ += member.samples_per_second.value_or(0);
  }
  pictured_ = picture.now;
  node::compare_speeds(members);
  return members;
}

node::PeerStatus SimulatedPage::status_of(const lab::SwarmPicture& picture,
                                          const std::vector<node::MemberStatus>& members) const {
  node::PeerStatus status;
  status.name = experiment_.name;
  status.id = to_string(PeerId{});
  status.swarm = "a simulation";
  status.version = version();
  status.model = experiment_.model.name;
  status.data = data_;
  status.topology = picture.topology;
  status.rule = traits(experiment_.gossip.rule).name;
  status.payload = traits(experiment_.gossip.payload).name;
  status.device = "simulated";
  status.condition = condition_of(picture);
  status.phase = status.condition == "paused" ? "training" : status.condition;
  status.units.epoch_samples = epoch_samples_;
  status.swarm_samples = picture.samples;
  status.samples_per_second = speed_;
  status.loss = mean_loss(picture);
  status.accuracy = picture.accuracy;
  status.distance = picture.disagreement;
  status.uptime_seconds = to_seconds(picture.now.since_start);
  status.members_known = members.size();
  status.members_live = 0;
  for (const lab::PicturedPeer& peer : picture.peers) {
    status.steps += peer.steps;
    status.samples += peer.samples;
    status.exchanges.completed += peer.exchanges;
    status.bytes_sent += peer.bytes_sent;
    status.members_live += state_of(peer.condition) == "alive" ? 1 : 0;
  }
  std::string progress = fmt::format("{:.1f} s of virtual time", status.uptime_seconds);
  if (picture.fraction) progress += fmt::format(", {:.0f} % done", std::floor(100 * *picture.fraction));
  status.situation = node::situation_of(status, members, progress, history_.points());
  const std::string peer = "This peer";
  if (status.situation.starts_with(peer)) status.situation.replace(0, peer.size(), "The swarm");
  return status;
}

void SimulatedPage::update_graph(const lab::SwarmPicture& picture) {
  std::vector<wire::Member> vertices;
  for (const lab::PicturedPeer& peer : picture.peers) {
    if (peer.serves || state_of(peer.condition) != "alive" || peer.condition == "joining") continue;
    wire::Member& member = vertices.emplace_back();
    member.id = peer.id;
    member.name = peer.name;
  }
  std::vector<const wire::Member*> pointers;
  for (const wire::Member& member : vertices) pointers.push_back(&member);
  std::vector<PeerId> ids;
  for (const wire::Member& member : vertices) ids.push_back(member.id);
  if (ids == graph_.members && picture.topology == graph_.topology) return;
  if (auto graph = node::link_graph(picture.topology, pointers)) graph_ = std::move(*graph);
}

void SimulatedPage::show(const lab::SwarmPicture& picture) {
  const auto members = members_of(picture);
  const node::PeerStatus status = status_of(picture, members);
  update_graph(picture);
  node::HistoryPoint point = node::point_of(status, members);
  point.distance = picture.disagreement;
  history_.add(point);
  auto text = std::make_shared<Text>();
  text->status = node::to_json(status);
  text->members = node::to_json(members);
  text->topology = node::graph_json(graph_);
  text->history = node::history_json(history_.points());
  text->state = node::state_json(status, members, point);
  server_->publish(node::server_sent("topology", text->topology) + node::server_sent("state", text->state));
  const std::lock_guard lock(mutex_);
  text_ = std::move(text);
}

}  // namespace starling::cli
