// What the live page, Prometheus and scripts receive, compared with docs/API.md.
#include <nlohmann/json.hpp>

#include <bitset>
#include <cmath>
#include <memory>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

#include "datasets/sha256.h"
#include "gossip/meeting/partner.h"
#include "node/front/answers.h"
#include "node/front/event_log.h"
#include "node/front/live.h"
#include "node/front/status.h"
#include "node/front/web_files.h"
#include "tests/catch.h"
#include "tests/node/introduced.h"
#include "topologies/topology.h"

namespace starling::node {
namespace {

using nlohmann::json;

wire::Member member(std::uint64_t id, const std::string& name, wire::Phase phase = wire::Phase::training) {
  wire::Member m;
  m.id = PeerId{id};
  m.name = name;
  m.address = {"127.0.0.1", static_cast<std::uint16_t>(4000 + id)};
  m.phase = phase;
  return m;
}

std::unique_ptr<gossip::Membership> swarm_of(std::uint64_t members) {
  auto membership = std::make_unique<gossip::Membership>(
      gossip::identity_of(1), gossip::by_itself(member(1, "p1")), gossip::MembershipOptions{}, Random(1));
  std::vector<wire::Member> told;
  for (std::uint64_t k = 2; k <= members; ++k) told.push_back(member(k, "p" + std::to_string(k)));
  std::vector<gossip::Action> out;
  introduce(*membership, told, out);
  return membership;
}

wire::Vitals vitals(std::uint64_t id, float speed) {
  wire::Vitals vitals;
  vitals.id = PeerId{id};
  vitals.sequence = 1;
  vitals.samples_per_second = speed;
  vitals.loss = 0.5;
  vitals.staleness = 2;
  vitals.partner = PeerId{1};
  return vitals;
}

// A line of the text format: its name, labels and value.
struct Sample {
  std::string name, labels;
  double value = 0;
};
std::vector<Sample> samples_of(const std::string& text, std::set<std::string>& helped,
                               std::map<std::string, std::string>& types) {
  std::vector<Sample> samples;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string mark, what, name, rest;
    if (line.starts_with('#')) {
      words >> mark >> what >> name;
      std::getline(words, rest);
      REQUIRE(rest.size() > 1);
      if (what == "HELP") REQUIRE(helped.insert(name).second);
      if (what == "TYPE") types[name] = rest.substr(1);
      continue;
    }
    const std::size_t end = line.find_first_of("{ "), close = line.rfind('}');
    const std::size_t value = close == std::string::npos ? end : close + 1;
    samples.push_back({line.substr(0, end), line.substr(end, value - end), std::stod(line.substr(value))});
  }
  return samples;
}

TEST_CASE("members report their figures, and slow ones stand out against the median") {
  const auto owned = swarm_of(5);
  gossip::Membership& membership = *owned;
  membership.set_vitals(vitals(1, 100));
  std::vector<gossip::Action> out;
  wire::Gossip gossip;
  gossip.vitals = {vitals(2, 110), vitals(3, 10), vitals(4, 90)};
  gossip.vitals[2].paused = true;
  membership.on(Instant{}, PeerId{2}, {"127.0.0.1", 4002}, gossip, out);
  const auto members = list_members(membership, Instant{}, {PeerId{3}});
  REQUIRE(members.size() == 5);
  CHECK(*members[0].slowdown == Approx(1));
  CHECK(*members[1].slowdown == Approx(100.0 / 110));
  CHECK(*members[2].slowdown == Approx(10));
  CHECK(members[2].exchanging);
  CHECK_FALSE(members[1].exchanging);
  CHECK(members[3].paused);  // a paused member is not slow
  CHECK_FALSE(members[3].slowdown.has_value());
  CHECK_FALSE(members[4].samples_per_second.has_value());
  CHECK(*members[1].loss == 0.5);
  CHECK_FALSE(members[1].distance.has_value());
  CHECK(members[1].partner == to_string(PeerId{1}));

  const auto back = parse_members(to_json(members));
  REQUIRE(back.ok());
  CHECK(to_json(*back) == to_json(members));
}

TEST_CASE("a member's page is shown only if it is an address") {
  gossip::Membership membership(gossip::identity_of(1), gossip::by_itself(member(1, "p1")), {}, Random(1));
  std::vector<gossip::Action> out;
  wire::Member good = member(2, "p2"), bad = member(3, "p3");
  good.http = "10.0.0.2:8080";
  bad.http = "x onclick=alert(1)";
  introduce(membership, std::vector{good, bad}, out);
  const auto members = list_members(membership, Instant{});
  CHECK(members[1].http == "10.0.0.2:8080");
  CHECK(members[2].http.empty());
  CHECK(json::parse(to_json(members)).at("members").at(2).at("http").is_null());
}

TEST_CASE("the graph is the topology's among the members that train") {
  gossip::Membership membership(gossip::identity_of(1), gossip::by_itself(member(1, "p1")), {}, Random(1));
  std::vector<wire::Member> told;
  for (std::uint64_t k = 2; k <= 6; ++k) told.push_back(member(k, "p" + std::to_string(k)));
  told.push_back(member(7, "p7", wire::Phase::joining));
  std::vector<gossip::Action> out;
  introduce(membership, told, out);
  auto graph = link_graph("ring", gossip::vertices(membership));
  REQUIRE(graph.ok());
  CHECK(graph->members.size() == 6);
  CHECK(graph->edges.size() == 6);
  std::map<std::uint32_t, int> degrees;
  for (const auto& [a, b] : graph->edges) {
    CHECK(a < b);
    ++degrees[a];
    ++degrees[b];
  }
  for (const auto& [vertex, degree] : degrees) CHECK(degree == 2);
  CHECK_FALSE(graph->contraction.has_value());
  training::Experiment run;
  add_forecast(*graph, {"p1", "p2", "p3", "p4", "p5", "p6"}, training::consensus_model(run));
  // A ring of six, Metropolis weights 1/3: eigenvalues 1/3 + 2/3 cos(2 pi k / 6), the second-largest 2/3.
  CHECK(*graph->spectral_gap == Approx(1.0 / 3));
  CHECK(*graph->contraction > 0);
  CHECK(*graph->contraction < 1);
  const json said = json::parse(graph_json(*graph));
  CHECK(said.at("edges").size() == 6);
  CHECK(said.at("members").at(0) == to_string(PeerId{1}));
  CHECK(said.at("contraction_is_bound") == false);
  CHECK(said.at("prediction").at("by") == "exchange");
  CHECK(said.at("prediction").at("factor") == said.at("contraction"));
  // Under other rules: a round leaves (1 - gap)^2, a push less than 1 and more than an exchange; rules with
  // momentum have no analysis.
  const auto under = [&](Rule rule) {
    run.gossip.rule = rule;
    auto other = *link_graph("ring", gossip::vertices(membership));
    add_forecast(other, {"p1", "p2", "p3", "p4", "p5", "p6"}, training::consensus_model(run));
    CHECK(other.contraction == graph->contraction);
    return other.prediction;
  };
  CHECK(under(Rule::d_psgd).by == "round");
  CHECK(*under(Rule::d_psgd).factor == Approx(4.0 / 9));
  CHECK(under(Rule::push_sum).by == "push");
  CHECK(*under(Rule::push_sum).factor > *graph->contraction);
  CHECK(*under(Rule::push_sum).factor < 1);
  CHECK(under(Rule::noloco).by.empty());
  CHECK(under(Rule::noloco).words.starts_with("No prediction: noloco"));
  CHECK_FALSE(link_graph("moebius", gossip::vertices(membership)).ok());
}

TEST_CASE("with more than 64 members the contraction is a bound, and is marked so") {
  LinkGraph graph;
  graph.topology = "exponential";
  std::vector<std::string> names;
  for (int k = 0; k < 65; ++k) names.push_back("p" + std::to_string(100 + k));
  add_forecast(graph, names, training::consensus_model({}));
  CHECK(graph.contraction_is_bound);
  CHECK(graph.prediction.is_bound);
  CHECK(graph.prediction.words.find("leaves at most 0.9") != std::string::npos);
  CHECK(graph.prediction.words.find("of 65 members that is a bound") != std::string::npos);
}

TEST_CASE("an hour of history is a bounded number of points, in order, including recent ones") {
  History history;
  for (int second = 0; second < 20'000; ++second) {
    HistoryPoint point;
    point.seconds = second;
    history.add(point);
    REQUIRE(history.points().size() <= History::kPointsMax);
    REQUIRE(second - history.points().back().seconds <= 8);
  }
  const auto& points = history.points();
  CHECK(points.size() > History::kPointsMax / 4);
  for (std::size_t i = 1; i < points.size(); ++i) REQUIRE(points[i].seconds > points[i - 1].seconds);
  CHECK(points.front().seconds >= 20'000 - History::kKeptSeconds - 600);
}

TEST_CASE("the latest events are kept and numbered, and can be read from any number on") {
  EventLog log;
  for (int i = 0; i < 300; ++i) log.say(spdlog::level::debug, "training", "number " + std::to_string(i));
  log.tell({gossip::Notice::What::failed, PeerId{7}, "p7 at 127.0.0.1:4007"});
  CHECK(log.latest() == 301);
  CHECK(log.since(0).size() == EventLog::kKept);
  CHECK(log.since(0).front().number == 301 - EventLog::kKept + 1);
  const auto fresh = log.since(300);
  REQUIRE(fresh.size() == 1);
  const json said = json::parse(events_json(fresh)).at("events").at(0);
  CHECK(said.at("what") == "failed");
  CHECK(said.at("level") == "warning");
  CHECK(said.at("peer") == to_string(PeerId{7}));
  CHECK(said.at("text") == "member p7 at 127.0.0.1:4007 has failed");
  const std::string time = said.at("time");
  CHECK(time.size() == std::string("2026-03-01T12:00:00.123Z").size());
  CHECK(time.ends_with("Z"));
}

TEST_CASE("a server-sent event is its name, a line of data, and an empty line") {
  CHECK(server_sent("state", "{}\n") == "event: state\ndata: {}\n\n");
  CHECK(server_sent("state", "{}") == "event: state\ndata: {}\n\n");
}

TEST_CASE("metrics have help and a type, counters end in _total, and labels are escaped") {
  PeerStatus status;
  status.name = "a\"b\\c\nd";
  status.phase = "training";
  status.steps = 12;
  status.swarm_samples = 1'000'000'007;
  status.loss = 0.25;
  status.exchanges.completed = 3;
  status.exchanges.refused_chunks = {{"not_finite", 2}, {"far_off", 1}};
  status.connections_refused = {{"wrong swarm", 4}};
  const auto owned = swarm_of(4);
  gossip::Membership& membership = *owned;
  std::set<std::string> helped;
  std::map<std::string, std::string> types;
  const std::string text = metrics_text(status, list_members(membership, Instant{}));
  const auto samples = samples_of(text, helped, types);
  CHECK(text.find("name=\"a\\\"b\\\\c\\nd\"") != std::string::npos);
  std::map<std::string, double> values;
  for (const Sample& sample : samples) {
    INFO(sample.name);
    CHECK(helped.contains(sample.name));
    CHECK((types[sample.name] == "counter") == sample.name.ends_with("_total"));
    CHECK((sample.name.starts_with("starling_") || sample.name.starts_with("process_")));
    CHECK(values.emplace(sample.name + sample.labels, sample.value).second);
  }
  CHECK(values.at("starling_steps_total") == 12);
  CHECK(values.at("starling_swarm_samples_total") == 1'000'000'007);
  CHECK(values.at("starling_loss") == 0.25);
  CHECK(values.at("starling_exchanges_total{outcome=\"completed\"}") == 3);
  CHECK(values.at("starling_chunks_refused_total{reason=\"not_finite\"}") == 2);
  CHECK(values.at("starling_chunks_refused_total{reason=\"own_replica\"}") ==
        0);  // events that have not happened yet count 0
  CHECK(values.at("starling_connections_refused_total{reason=\"wrong swarm\"}") == 4);
  CHECK(values.at("starling_connections_refused_total{reason=\"unreachable\"}") == 0);
  CHECK(values.at("starling_members{state=\"alive\"}") == 4);
  CHECK(values.at("starling_phase{phase=\"training\"}") == 1);
  CHECK_FALSE(values.contains("starling_accuracy_ratio"));         // unknown
  CHECK_FALSE(values.contains("starling_pipeline_bubble_ratio"));  // it has no stages
  // The number of series does not depend on the number of members.
  const auto owned_crowd = swarm_of(300);
  const gossip::Membership& crowd = *owned_crowd;
  std::set<std::string> helped_again;
  CHECK(samples_of(metrics_text(status, list_members(crowd, Instant{})), helped_again, types).size() ==
        samples.size());
}

TEST_CASE("metrics have the times and the versions of each stage") {
  PeerStatus status;
  training::PipelineRecord& pipeline = status.pipeline.emplace();
  pipeline.bubble = 0.25;
  pipeline.stages = {{.name = "1", .busy_seconds = 3, .waiting_seconds = 1, .versions = 2},
                     {.name = "2.1", .busy_seconds = 2, .waiting_seconds = 2},
                     {.name = "2.2", .busy_seconds = 4}};
  std::set<std::string> helped;
  std::map<std::string, std::string> types;
  std::map<std::string, double> values;
  for (const Sample& sample : samples_of(metrics_text(status, {}), helped, types))
    CHECK(values.emplace(sample.name + sample.labels, sample.value).second);
  CHECK(values.at("starling_pipeline_bubble_ratio") == 0.25);
  CHECK(values.at("starling_stage_busy_seconds_total{stage=\"1\"}") == 3);
  CHECK(values.at("starling_stage_busy_seconds_total{stage=\"2.2\"}") == 4);
  CHECK(values.at("starling_stage_waiting_seconds_total{stage=\"2.1\"}") == 2);
  CHECK(values.at("starling_stage_versions{stage=\"1\"}") == 2);
  CHECK(types["starling_stage_busy_seconds_total"] == "counter");
  CHECK(helped.contains("starling_stage_waiting_seconds_total"));
}

TEST_CASE("a status of an older peer lacks newer fields, and is still read") {
  json old = json::parse(to_json(PeerStatus{}));
  for (const char* field : {"rule", "payload", "paused", "epoch_samples", "accuracy", "accuracy_steps",
                            "distance", "staleness", "connections_refused"})
    REQUIRE(old.erase(field) == 1);
  const auto read = parse_status(old.dump());
  REQUIRE(read.ok());
  CHECK_FALSE(read->paused);
  CHECK_FALSE(read->accuracy.has_value());
}

TEST_CASE("a browser runs only the script of the page, by its hash") {
  const std::string page(live_page());
  const auto between = [&](const std::string& begin, const std::string& end) {
    const std::size_t from = page.find(begin) + begin.size();
    return page.substr(from, page.find(end, from) - from);
  };
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bits, hex;
  for (const char letter : between("script-src 'sha256-", "='"))
    bits += std::bitset<6>(kLetters.find(letter)).to_string();
  for (std::size_t at = 0; at + 4 <= 256; at += 4)
    hex += "0123456789abcdef"[std::bitset<4>(bits, at, 4).to_ulong()];
  datasets::Sha256 hash;
  const std::string script = between("<script>", "</script>");
  hash.add(std::as_bytes(std::span(script)));
  CHECK(bits.size() == 258);
  CHECK(hex == hash.hex());
  CHECK(page.find("<script", page.find("<script>") + 1) == std::string::npos);
}

}  // namespace
}  // namespace starling::node
