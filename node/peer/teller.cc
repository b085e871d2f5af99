#include "node/peer/teller.h"

#include <spdlog/spdlog.h>

#include "base/program.h"
#include "gossip/meeting/partner.h"
#include "topologies/graph_file.h"
#include "training/learning/recipe.h"
#include "training/mixing/mixer.h"

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

std::string Teller::http_address() const {
  if (!http_) return "";
  Address at = http_;
  if (is_any_host(at.host)) at.host = listening_.self().address.host;
  return at && !is_any_host(at.host) ? to_string(at) : "";
}

// ---- events ----

ActivityClock& Teller::account_time() {
  activity_.account(started_.now(), lives_.equipped ? lives_.equipped->trainer->idle() : Duration{0});
  return activity_;
}

void Teller::begin_training() {
  measured_samples_ =
      lives_.equipped->trainer->samples();  // the speed does not count samples of earlier lives
  training_start_ = Clock::now();
  progress_.begin(*training_start_, report(training::PeerReport::Kind::status).swarm_samples,
                  lives_.equipped->trainer->steps());
  account_time().train(true);
}

void Teller::begin_exchange(std::uint64_t exchange, PeerId partner) {
  latest_partner_ = partner;
  exchanging_[exchange] = partner;
  account_time().began(exchange, lives_.equipped && lives_.equipped->trainer->is_paused(PausedBy::core));
}

PeerId Teller::end_exchange(std::uint64_t exchange) {
  account_time().ended(exchange);
  const auto ended = exchanging_.extract(exchange);
  return ended.empty() ? PeerId{} : ended.mapped();
}

// ---- figures ----

std::string Teller::state() const {
  using How = gossip::Finish::How;
  if (!started_.finish) return lives_.running ? phase_name(lives_.running->phase()) : "joining";
  return *started_.finish == How::finished ? "finished" : *started_.finish == How::left ? "left" : "failed";
}

// As the members' tables have it (condition_of()), and "leaving".
std::string Teller::condition() const {
  if (started_.finish) return state();
  if (started_.stage == PeerStage::leaving) return "leaving";
  return is_paused() ? "paused" : state();
}

double Teller::speed(const training::PeerReport& its) const {
  if (condition() != phase_name(wire::Phase::training)) return 0;
  return recent_samples_per_second_.value_or(its.samples_per_second.value_or(0));
}

std::string Teller::progress() const {
  if (!has_begun()) return "";
  const auto its = report(training::PeerReport::Kind::status);
  return progress_.text(lives_.built->experiment.end, lives_.built->replica->epoch_samples,
                        {Clock::now(), its.swarm_samples, its.steps});
}

training::PeerReport Teller::report(training::PeerReport::Kind kind) const {
  training::PeerReport report;
  report.kind = kind;
  report.state = state();
  if (lives_.built) {
    report.device = lives_.built->replica->devices();
    report.precision = lives_.built->replica->precision;
    static_cast<training::DeviceSharing&>(report) = lives_.built->replica->sharing();
    const bool is_last = kind == training::PeerReport::Kind::finished;
    if (report.pipeline && !is_last) report.pipeline->passes.clear();
  }
  if (lives_.equipped) {
    const Trainer* const trainer = lives_.equipped->trainer.get();
    report.steps = trainer->steps();
    report.samples = trainer->samples();
    report.loss = trainer->loss();
    report.learning_rate = trainer->learning_rate().value_or(
        training::resolved_learning_rate(lives_.built->experiment) * trainer->rate_factor());
  }
  report.bytes_sent = listening_.links().counters().traffic.sent;
  if (training_start_) {
    report.seconds =
        std::chrono::duration<double>(training_end_.value_or(Clock::now()) - *training_start_).count();
    if (report.seconds > 0)
      report.samples_per_second =
          static_cast<double>(listening_.remembered().of_this_life(report.samples)) / report.seconds;
  }
  report.computing_seconds = to_seconds(activity_.sums().computing);
  report.exchanging_seconds = to_seconds(activity_.sums().exchanging);
  report.waiting_seconds = to_seconds(activity_.sums().waiting);
  const ExchangerCounters& exchanges = listening_.exchanger().counters();
  report.staleness = exchanges.staleness;
  report.distance = exchanges.distance;
  if (!lives_.running) return report;
  const auto view = lives_.running->core.view();
  // Its own part is the trainer's count: the core learns of a step a little later.
  report.swarm_samples = swarm_samples(report.samples);
  report.members = static_cast<std::uint32_t>(1 + view.membership.view().members.live());
  report.answered = view.exchanges.answered;
  report.exchanges = {view.exchanges.completed, view.exchanges.aborted, view.exchanges.rejected,
                      exchanges.half_applied_chunks};
  if (lives_.equipped)
    report.exchanges.refused_chunks = training::refused_by_reason(lives_.equipped->mixer->counters());
  return report;
}

PeerStatus Teller::status() const {
  const auto its = report(training::PeerReport::Kind::status);
  const auto view = lives_.running->core.view();
  const auto links = listening_.links().counters();
  PeerStatus status;
  static_cast<training::PeerFigures&>(status) = its;
  status.name = listening_.self().name;
  status.id = to_string(listening_.self().id);
  status.swarm = listening_.self().swarm;
  const Address& address = view.membership.self().address;
  if (address) status.address = to_string(address);
  status.version = version();
  status.model = lives_.running->manifest.model;
  status.data = lives_.running->manifest.data;
  if (lives_.built) {  // before that the builder may be writing the experiment
    status.rule = traits(lives_.built->experiment.gossip.rule).name;
    status.payload = traits(lives_.built->experiment.gossip.payload).name;
    static_cast<training::DeviceSharing&>(status) = lives_.built->replica->sharing();
    status.units = {lives_.built->replica->epoch_samples, lives_.built->replica->data.train.context};
  } else {
    status.device.clear();  // a report names the CPU until the device is known
  }
  if (lives_.equipped) {
    status.device_spread = lives_.equipped->trainer->spread();
    status.paused = is_paused();
  }
  status.condition = condition();
  status.samples_per_second = speed(its);
  if (view.topology != nullptr) status.topology = topologies::shown_name(view.topology->name());
  if (const auto& judged = self_judge_.latest()) {
    status.accuracy = judged->accuracy;
    status.judged = {judged->steps, judged->loss};
  }
  if (const OutsideTrainer* const outside = lives_.outside()) {
    if (const auto judged = outside->judged()) {
      status.accuracy = judged->accuracy;
      status.judged = {judged->steps, std::nullopt};
    }
  }
  status.staleness = its.staleness.mean();
  status.connections_refused = by_reason(links);
  status.phase = phase_name(lives_.running->phase());
  status.uptime_seconds = to_seconds(started_.now().since_start);
  status.incarnation = view.membership.self().incarnation;
  status.members_live = its.members;
  status.members_known = 1 + view.membership.others().size();
  static_cast<training::ExchangeTotals&>(status.exchanges) = its.exchanges;
  status.exchanges.begun = view.exchanges.begun;
  status.exchanges.answered = its.answered;
  if (lives_.equipped) status.exchanges.count(lives_.equipped->mixer->counters());
  status.bytes_received = links.traffic.received;
  status.links.relay = {links.relay.circuits, links.relay.circuits_opened, links.relay.circuits_refused,
                        links.relay.bytes};
  status.links.open = listening_.links().links();
  status.links.bulk_open = listening_.exchanger().idle() + listening_.exchanger().servers();
  status.process.memory_bytes = resident_bytes();
  status.process.loop_lag_seconds = to_seconds(started_.process.lag());
  return status;
}

std::vector<MemberStatus> Teller::members() const {
  std::vector<PeerId> partners;
  for (const auto& [exchange, partner] : exchanging_) partners.push_back(partner);
  auto members = list_members(lives_.running->core.view().membership, started_.now(), partners);
  for (MemberStatus& member : members) {
    if (member.this_peer) member.http = http_address();
  }
  return members;
}

// With `own` samples of this peer.
std::uint64_t Teller::swarm_samples(std::uint64_t own) const {
  const Running& running = *lives_.running;
  const std::uint64_t of_this_id =
      running.core.view().samples_before + listening_.remembered().of_this_life(own);
  return running.others_samples() + of_this_id;
}

SwarmProgress Teller::swarm_progress() const {
  const gossip::Membership& membership = lives_.running->core.view().membership;
  SwarmProgress progress;
  progress.swarm_samples = swarm_samples(lives_.equipped->trainer->samples());
  progress.members = static_cast<std::uint32_t>(1 + membership.view().members.live());
  const auto vertices = gossip::vertices(membership);
  const auto own = std::ranges::find(vertices, listening_.self().id, &wire::Member::id);
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
  return {vitals, lives_.outside() == nullptr && !is_paused() ? its.loss : std::nullopt};
}

// ---- reporting ----

void Teller::tick() {
  account_time();
  const auto its = report(training::PeerReport::Kind::status);
  started_.process.report(its);
  if (lives_.is_running() && Clock::now() - measured_at_ >= kVitalsInterval) drive_(measure_vitals());
  warn_of_restarts();
  judge_own_replica();
  draw_board(false);
  manager_.alive(its.state);
  if (has_begun() && started_.process.is_time_to_log()) {
    const auto& exchanges = lives_.running->core.view().exchanges;
    spdlog::info("{}: {}, {} steps, {:.0f} samples/s, {}, {} {}, {} exchanges begun and {} answered",
                 condition(), progress(), its.steps, speed(its), loss_text(its.loss), its.members,
                 its.members == 1 ? "member" : "members", exchanges.completed, exchanges.answered);
  }
}

// At most once a minute.
void Teller::warn_of_restarts() {
  if (!lives_.equipped || Clock::now() < restarts_warned_ + std::chrono::minutes(1)) return;
  const std::uint64_t restarts = lives_.equipped->mixer->counters().restarts;
  if (restarts == restarts_) return;
  started_.events.say(spdlog::level::warn, "restarted",
                      "this peer's push-sum weight was used up: partners took it and gave none, or it was "
                      "lost; it begins again with 1");
  restarts_ = restarts;
  restarts_warned_ = Clock::now();
}

// Evaluates the replica from time to time, if there is a page or a board to show the result.
void Teller::judge_own_replica() {
  const Board* const board = listening_.board();
  const bool shown = http_ || (board != nullptr && board->is_open());
  if (!shown || started_.stage != PeerStage::training || !lives_.is_running()) return;
  if (lives_.running->phase() == wire::Phase::training && !lives_.running->core.view().diverged)
    self_judge_.judge_if_due(*lives_.built->replica, lives_.equipped->trainer->steps());
}

void Teller::end_training() {
  training_end_ = Clock::now();
  draw_board(true);
}

void Teller::draw_board(bool is_last) {
  Board* const board = listening_.board();
  if (board == nullptr || !has_begun() || !(is_last || board->is_due())) return;
  board->show(status(), self_judge_.latest(), started_.disk, [this](const std::string& problem) {
    started_.events.say(spdlog::level::warn, "refused",
                        problem + "; no more figures are written for TensorBoard");
  });
}

void Teller::log_faults() const {
  const std::string connections = counts_text(by_reason(listening_.links().counters(), transport::in_words));
  if (!connections.empty()) spdlog::info("connections refused or broken: {}", connections);

  PeerStatus::Exchanges exchanges;
  if (lives_.equipped) exchanges.count(lives_.equipped->mixer->counters());
  exchanges.half_applied_chunks = listening_.exchanger().counters().half_applied_chunks;
  if (const std::string lost = exchanges.losses(); !lost.empty())
    spdlog::info("chunks refused or lost: {}", lost);
}

}  // namespace starling::node
