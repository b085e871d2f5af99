#include "node/peer/teller.h"

#include <spdlog/spdlog.h>

#include "gossip/partner.h"
#include "topologies/graph_file.h"
#include "training/exchange/mixer.h"
#include "training/replica/recipe.h"

namespace starling::node {
namespace {

constexpr Duration kVitalsInterval = std::chrono::seconds(2);

std::map<std::string, std::uint64_t> by_reason(
    const transport::LinkCounters& links,
    std::string_view (*text_of)(transport::LinkErrorKind) = transport::name) {
  std::map<std::string, std::uint64_t> counts;
  for (std::size_t i = 0; i < transport::kLinkErrorKinds; ++i) {
    if (links.faults[i] > 0)
      counts[std::string(text_of(static_cast<transport::LinkErrorKind>(i)))] = links.faults[i];
  }
  return counts;
}

}  // namespace

Status Teller::open_board() {
  if (parts_.options.tensorboard.empty()) return Done{};
  auto board = Board::open(parts_.options.tensorboard);
  if (!board) return Error{"--tensorboard: " + board.error().message};
  board_ = std::move(*board);
  return Done{};
}

std::string Teller::http_address() const {
  if (!parts_.http) return "";
  Address at = *parts_.http;
  if (is_any_host(at.host)) at.host = parts_.self.address.host;
  return at && !is_any_host(at.host) ? to_string(at) : "";
}

// ---- events ----

ActivityClock& Teller::account_time() {
  activity_.account(parts_.now(), parts_.trainer ? parts_.trainer->idle() : Duration{0});
  return activity_;
}

void Teller::begin_training() {
  measured_samples_ = parts_.trainer->samples();  // the speed does not count samples of earlier lives
  training_start_ = Clock::now();
  progress_.begin(*training_start_, report(training::PeerReport::Kind::status).swarm_samples,
                  parts_.trainer->steps());
  account_time().train(true);
}

void Teller::begin_exchange(std::uint64_t exchange, PeerId partner) {
  latest_partner_ = partner;
  exchanging_[exchange] = partner;
  account_time().began(exchange, parts_.trainer && parts_.trainer->is_paused(PausedBy::core));
}

void Teller::end_exchange(std::uint64_t exchange) {
  account_time().ended(exchange);
  exchanging_.erase(exchange);
}

// ---- figures ----

std::string Teller::state() const {
  using How = gossip::Finish::How;
  if (!parts_.finish) return parts_.core ? phase_name(parts_.phase()) : "joining";
  return *parts_.finish == How::finished ? "finished" : *parts_.finish == How::left ? "left" : "failed";
}

// As the members' tables have it (condition_of()), and "leaving".
std::string Teller::condition() const {
  if (parts_.finish) return state();
  if (parts_.life == PeerLife::leaving) return "leaving";
  return is_paused() ? "paused" : state();
}

double Teller::speed(const training::PeerReport& its) const {
  if (condition() != phase_name(wire::Phase::training)) return 0;
  return recent_samples_per_second_.value_or(its.samples_per_second.value_or(0));
}

std::string Teller::progress() const {
  if (!has_begun()) return "";
  const auto its = report(training::PeerReport::Kind::status);
  return progress_.text(parts_.experiment.end, parts_.replica->epoch_samples,
                        {Clock::now(), its.swarm_samples, its.steps});
}

training::PeerReport Teller::report(training::PeerReport::Kind kind) const {
  training::PeerReport report;
  report.kind = kind;
  report.state = state();
  if (parts_.replica) {
    report.device = parts_.replica->devices();
    report.precision = parts_.replica->precision;
  }
  if (const auto& trainer = parts_.trainer) {
    report.steps = trainer->steps();
    report.samples = trainer->samples();
    report.loss = trainer->loss();
    report.learning_rate = trainer->learning_rate().value_or(
        training::resolved_learning_rate(parts_.experiment) * trainer->rate_factor());
  }
  report.bytes_sent = parts_.links->counters().traffic.sent;
  if (training_start_) {
    report.seconds =
        std::chrono::duration<double>(training_end_.value_or(Clock::now()) - *training_start_).count();
    if (report.seconds > 0)
      report.samples_per_second = static_cast<double>(parts_.of_this_life(report.samples)) / report.seconds;
  }
  report.computing_seconds = to_seconds(activity_.sums().computing);
  report.exchanging_seconds = to_seconds(activity_.sums().exchanging);
  report.waiting_seconds = to_seconds(activity_.sums().waiting);
  const ExchangerCounters& exchanges = parts_.exchanger->counters();
  report.staleness = exchanges.staleness;
  report.distance = exchanges.distance;
  if (!parts_.core) return report;
  const auto view = parts_.core->view();
  // Its own part is the trainer's count: the core learns of a step a little later.
  report.swarm_samples = parts_.others_samples() + parts_.of_this_id(report.samples);
  report.members = static_cast<std::uint32_t>(1 + view.membership.live_others());
  report.answered = view.exchanges.answered;
  report.exchanges = {view.exchanges.completed, view.exchanges.aborted, view.exchanges.rejected,
                      exchanges.half_applied_chunks};
  if (parts_.mixer) report.exchanges.refused_chunks = training::refused_by_reason(parts_.mixer->counters());
  return report;
}

PeerStatus Teller::status() const {
  const auto its = report(training::PeerReport::Kind::status);
  const auto view = parts_.core->view();
  const auto links = parts_.links->counters();
  PeerStatus status;
  static_cast<training::PeerFigures&>(status) = its;
  status.name = parts_.self.name;
  status.id = to_string(parts_.self.id);
  status.swarm = parts_.self.swarm;
  const Address& address = view.membership.self().address;
  if (address) status.address = to_string(address);
  status.version = STARLING_VERSION;
  if (parts_.manifest) {
    status.model = parts_.manifest->model;
    status.data = parts_.manifest->data;
  }
  if (parts_.replica) {  // before that the builder may be writing the experiment
    status.rule = traits(parts_.experiment.gossip.rule).name;
    status.payload = traits(parts_.experiment.gossip.payload).name;
    status.units = {parts_.replica->epoch_samples, parts_.replica->data.train.context};
  } else {
    status.device.clear();  // a report names the CPU until the device is known
  }
  if (parts_.trainer) {
    status.device_spread = parts_.trainer->spread();
    status.paused = is_paused();
  }
  status.condition = condition();
  status.samples_per_second = speed(its);
  if (view.topology != nullptr) status.topology = topologies::shown_name(view.topology->name());
  if (const auto& judged = self_judge_.latest()) {
    status.accuracy = judged->accuracy;
    status.judged = {judged->steps, judged->loss};
  }
  if (parts_.outside != nullptr) {
    if (const auto judged = parts_.outside->judged()) {
      status.accuracy = judged->accuracy;
      status.judged = {judged->steps, std::nullopt};
    }
  }
  status.staleness = its.staleness.mean();
  status.connections_refused = by_reason(links);
  status.phase = phase_name(parts_.phase());
  status.uptime_seconds = to_seconds(parts_.now().since_start);
  status.incarnation = view.membership.self().incarnation;
  status.members_live = its.members;
  status.members_known = 1 + view.membership.others().size();
  static_cast<training::ExchangeCounts&>(status.exchanges) = its.exchanges;
  status.exchanges.begun = view.exchanges.begun;
  status.exchanges.answered = its.answered;
  if (parts_.mixer) status.exchanges.count(parts_.mixer->counters());
  status.bytes_received = links.traffic.received;
  status.links.relay = {links.relay.circuits, links.relay.circuits_opened, links.relay.circuits_refused,
                        links.relay.bytes};
  status.links.open = parts_.links->links();
  status.links.bulk_open = parts_.exchanger->idle() + parts_.exchanger->servers();
  status.process.memory_bytes = resident_bytes();
  status.process.loop_lag_seconds = to_seconds(parts_.process.lag());
  return status;
}

std::vector<MemberStatus> Teller::members() const {
  std::vector<PeerId> partners;
  for (const auto& [exchange, partner] : exchanging_) partners.push_back(partner);
  auto members = list_members(parts_.core->view().membership, parts_.now(), partners);
  for (MemberStatus& member : members) {
    if (member.this_peer) member.http = http_address();
  }
  return members;
}

SwarmProgress Teller::swarm_progress() const {
  const gossip::Membership& membership = parts_.core->view().membership;
  SwarmProgress progress;
  progress.swarm_samples = parts_.others_samples() + parts_.of_this_id(parts_.trainer->samples());
  progress.members = static_cast<std::uint32_t>(1 + membership.live_others());
  const auto vertices = gossip::vertices(membership);
  const auto own = std::ranges::find(vertices, parts_.self.id, &wire::Member::id);
  if (own == vertices.end()) return progress;
  progress.share_index = static_cast<std::uint32_t>(own - vertices.begin());
  progress.share_of = static_cast<std::uint32_t>(vertices.size());
  return progress;
}

gossip::VitalsMeasured Teller::measure_vitals() {
  const auto its = report(training::PeerReport::Kind::status);
  const auto at = Clock::now();
  const double seconds = std::chrono::duration<double>(at - measured_at_).count();
  if (seconds > 0)
    recent_samples_per_second_ = static_cast<double>(its.samples - measured_samples_) / seconds;
  measured_at_ = at;
  measured_samples_ = its.samples;
  wire::Vitals vitals;
  static_cast<RecentFigures&>(vitals) = its;
  vitals.samples_per_second = is_paused() ? 0 : *recent_samples_per_second_;
  vitals.staleness = its.staleness.mean();
  vitals.partner = latest_partner_;
  vitals.paused = is_paused();
  return {vitals};
}

// ---- reporting ----

void Teller::tick() {
  account_time();
  const auto its = report(training::PeerReport::Kind::status);
  parts_.process.report(its);
  if (parts_.is_running() && Clock::now() - measured_at_ >= kVitalsInterval) parts_.drive(measure_vitals());
  judge_own_replica();
  draw_board();
  manager_.alive(its.state);
  if (has_begun() && parts_.process.is_time_to_log()) {
    const auto& exchanges = parts_.core->view().exchanges;
    spdlog::info("{}: {}, {} steps, {:.0f} samples/s, loss {:.4f}, {} {}, {} exchanges begun and {} answered",
                 condition(), progress(), its.steps, speed(its), its.loss.value_or(0), its.members,
                 its.members == 1 ? "member" : "members", exchanges.completed, exchanges.answered);
  }
}

// Evaluates the replica from time to time, if there is a page or a board to show the result.
void Teller::judge_own_replica() {
  const bool shown = parts_.http || (board_ && board_->is_open());
  if (!shown || parts_.life != PeerLife::training || !parts_.is_running()) return;
  if (parts_.phase() == wire::Phase::training && !parts_.core->view().diverged)
    self_judge_.judge_if_due(*parts_.replica, parts_.trainer->steps());
}

void Teller::draw_board() {
  if (!board_ || !has_begun() || !board_->is_due()) return;
  board_->show(status(), self_judge_.latest(), parts_.disk, [this](const std::string& problem) {
    parts_.events.say(spdlog::level::warn, "refused",
                      problem + "; no more figures are written for TensorBoard");
  });
}

void Teller::log_faults() const {
  const std::string connections = counts_text(by_reason(parts_.links->counters(), transport::in_words));
  if (!connections.empty()) spdlog::info("connections refused or broken: {}", connections);

  PeerStatus::Exchanges exchanges;
  if (parts_.mixer) exchanges.count(parts_.mixer->counters());
  exchanges.half_applied_chunks = parts_.exchanger->counters().half_applied_chunks;
  if (const std::string lost = exchanges.losses(); !lost.empty())
    spdlog::info("chunks refused or lost: {}", lost);
}

}  // namespace starling::node
