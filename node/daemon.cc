#include "node/daemon.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include <spdlog/spdlog.h>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>

#include "gossip/peer.h"
#include "gossip/rules.h"
#include "node/exchanger.h"
#include "node/launcher_link.h"
#include "node/replica.h"
#include "node/trainer.h"
#include "training/checkpoint.h"
#include "training/control.h"
#include "training/recipe.h"
#include "transport/link_table.h"
#include "transport/spawn.h"
#include "transport/tcp.h"

namespace starling::node {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Duration kReportInterval = std::chrono::milliseconds(250);
constexpr Duration kLogInterval = std::chrono::seconds(5);
constexpr Duration kFlushLimit = std::chrono::seconds(1);
constexpr std::uint64_t kSnapshotsPerEpoch = 20;
constexpr int kSilentDialsMax = 3;
constexpr Duration kHandshakeLimit = std::chrono::seconds(3);
constexpr std::size_t kWaitingTextsMax = 64;

// Chance that is not repeatable: instance ids must never be.
std::uint64_t entropy() {
  std::random_device device;
  std::uint64_t bits = 0;
  while (bits == 0) bits = (std::uint64_t{device()} << 32) | device();
  return bits;
}

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "peer";
  return name;
}

wire::Manifest make_manifest(const training::Experiment& experiment, const Replica& replica) {
  wire::Manifest manifest;
  manifest.model = experiment.model;
  manifest.data = replica.data.name;
  manifest.fingerprint = replica.plan.layout.fingerprint();
  manifest.arena_floats = replica.plan.layout.arena_size();
  manifest.seed = experiment.seed;
  for (const auto& [key, value] : training::shared_settings(experiment))
    manifest.settings.push_back({key, value});
  return manifest;
}

class Daemon {
 public:
  explicit Daemon(const PeerOptions& options)
      : options_(options),
        experiment_(options.experiment),
        transport_(io_.get_executor()),
        timer_(io_),
        report_timer_(io_),
        signals_(io_) {}

  PeerOutcome run();

 private:
  // ---- setting up ----
  std::optional<PeerOutcome> set_up();
  Result<std::unique_ptr<Replica>> build(const wire::Manifest& manifest);

  bool is_hopeless(const Address& address, transport::LinkErrorKind kind);

  // ---- the core's driver ----
  Instant now() const { return Instant{std::chrono::duration_cast<Duration>(Clock::now() - origin_)}; }
  void drive(gossip::Event event);
  void arm_timer();

  void act(const gossip::Send& send) { links_->send(send.to, send.message); }
  void act(const gossip::Prepare& prepare);
  void act(const gossip::FetchState& fetch) { exchanger_->fetch_state(fetch.donor, fetch.address); }
  void act(const gossip::AbortFetch&) { exchanger_->abort_fetch(); }
  void act(const gossip::StartTraining&);
  void act(const gossip::StopTraining&) { trainer_->stop(); }
  void act(const gossip::TrainingEnded&);
  void act(const gossip::BeginExchange& begin) {
    exchanger_->begin(begin.exchange, begin.partner, begin.address);
  }
  void act(const gossip::AbortExchange& abort) { exchanger_->abort(abort.exchange); }
  void act(const gossip::AnswerOffer& answer) {
    exchanger_->answer(answer.from, answer.exchange, answer.accept, answer.reason);
  }
  void act(const gossip::Finish& finish);
  void act(const gossip::Notice& notice);

  // ---- telling ----
  training::PeerReport make_report(training::PeerReport::Kind kind) const;
  void report_and_log();
  void leave_snapshot_if_due();
  std::string save(const std::string& name);
  void judge_own_replica();
  void log_faults() const;
  asio::awaitable<void> stop();

  const PeerOptions& options_;
  training::Experiment experiment_;  // of the run: a joiner's after the manifest
  asio::io_context io_{1};
  transport::TcpTransport transport_;
  asio::steady_timer timer_, report_timer_;
  asio::signal_set signals_;
  Clock::time_point origin_ = Clock::now();

  std::unique_ptr<transport::LinkTable> links_;
  std::unique_ptr<Exchanger> exchanger_;
  std::unique_ptr<LauncherLink> launcher_;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<Trainer> trainer_;
  std::future<Result<datasets::DataPair>> own_data_;  // a joiner's copy, read while it looks for the swarm
  std::thread builder_;                               // prepares a joiner's replica
  PeerId self_id_;
  std::optional<gossip::Peer> peer_;  // of the daemon's thread alone, builder_ must not touch it

  std::deque<gossip::Event> events_;
  bool driving_ = false;
  std::atomic<bool> step_posted_{false};
  std::optional<Clock::time_point> training_start_, training_end_;
  std::string before_settling_path_;
  std::uint64_t snapshots_ = 0;
  Clock::time_point last_log_ = Clock::now();
  std::map<std::string, Clock::time_point>
      waiting_since_;  // waiting notices: each said now and then, not in a storm
  std::map<Address, int> silent_dials_;
  bool leaving_ = false;
  bool launcher_gone_ = false;
  std::string state_;
  PeerOutcome outcome_;
};

// ---- setting up ----

std::optional<PeerOutcome> Daemon::set_up() {
  wire::Hello self;
  self.swarm = options_.swarm;
  self.id = self_id_ = PeerId{entropy()};

  transport::LinkTableEvents events;
  events.on_message = [this](PeerId from, const Address& at, wire::Message message) {
    drive(gossip::Received{from, at, std::move(message)});
  };
  events.on_unreachable = [this](const Address& address, transport::LinkErrorKind kind, std::string why) {
    const bool hopeless = is_hopeless(address, kind);
    if (hopeless && silent_dials_.contains(address)) why += "; it does not seem to be a Starling peer";
    drive(gossip::Unreachable{address, hopeless, std::move(why)});
  };
  events.on_bulk = [this](transport::LinkPtr link, wire::Hello remote) {
    exchanger_->serve(std::move(link), std::move(remote));
  };
  events.on_refused = [](transport::LinkErrorKind, const std::string& why) {
    spdlog::warn("refused a connection: {}", why);
  };
  transport::LinkTableOptions limits;
  limits.handshake_limit = kHandshakeLimit;
  links_ =
      std::make_unique<transport::LinkTable>(io_.get_executor(), transport_, self, std::move(events), limits);

  const bool anywhere = options_.listen.host == "0.0.0.0" || options_.listen.host == "::";
  if (anywhere && !options_.advertise) {
    return PeerOutcome{2, "--listen " + to_string(options_.listen) +
                              " names no address that others could dial; add --advertise HOST:PORT"};
  }
  const auto listening = links_->listen(options_.listen);
  if (!listening) return PeerOutcome{2, listening.error().message};
  self.address = options_.advertise.value_or(*listening);
  if (self.address.port == 0) self.address.port = listening->port;
  self.name = options_.name.empty() ? host_name() + "-" + std::to_string(self.address.port) : options_.name;
  links_->set_hello(self);

  if (options_.control_fd >= 0) {
    launcher_ = std::make_unique<LauncherLink>(
        io_.get_executor(), options_.control_fd,
        [this](const std::string& command) {
          if (command == training::kEndCommand) drive(gossip::EndRequested{});
          if (command == training::kLeaveCommand) drive(gossip::LeaveRequested{});
        },
        [this] {
          launcher_gone_ = true;
          drive(gossip::LeaveRequested{});
        });
    training::PeerReport report;
    report.kind = training::PeerReport::Kind::listening;
    report.address = to_string(self.address);
    launcher_->report(report);
  }

  ExchangerEvents exchanges;
  exchanges.on_ended = [this](std::uint64_t exchange, gossip::Outcome how) {
    drive(gossip::ExchangeEnded{exchange, how});
  };
  exchanges.on_offered = [this](PeerId from, std::uint64_t exchange) {
    drive(gossip::ExchangeOffered{from, exchange});
  };
  exchanges.on_answer_ended = [this](PeerId from, std::uint64_t exchange, bool completed, bool poisoned) {
    drive(gossip::AnswerEnded{from, exchange, completed, poisoned});
  };
  exchanges.on_state_advanced = [this](std::uint64_t chunks, std::uint64_t total) {
    drive(gossip::StateAdvanced{chunks, total});
  };
  exchanges.on_state_arrived = [this] { drive(gossip::StateArrived{}); };
  exchanges.on_state_lost = [this](std::string why, bool poisoned) {
    drive(gossip::StateLost{std::move(why), poisoned});
  };
  exchanger_ = std::make_unique<Exchanger>(io_.get_executor(), *links_, std::move(exchanges));

  gossip::PeerOptions peer;
  peer.id = self.id;
  peer.name = self.name;
  peer.address = self.address;
  peer.seed = entropy();
  peer.join = options_.join;
  if (options_.join.empty()) {
    auto replica = make_replica(experiment_, options_.data_root, options_.slot, self.id.value);
    if (!replica) return PeerOutcome{2, replica.error().message};
    replica_ = std::move(*replica);
    replica_->arena.write(0, training::first_parameters(replica_->plan, experiment_.seed));
    peer.manifest = make_manifest(experiment_, *replica_);
  }
  spdlog::info("{} listens at {}, swarm '{}'", self.name, to_string(self.address), self.swarm);
  peer_.emplace(std::move(peer));
  return std::nullopt;
}

// Whether whoever listens there will never let us join: no Starling peer, another version or swarm, or, time
// and again, somebody who takes the connection and stays silent.
bool Daemon::is_hopeless(const Address& address, transport::LinkErrorKind kind) {
  using Kind = transport::LinkErrorKind;
  switch (kind) {
    case Kind::bad_magic:
    case Kind::bad_version:
    case Kind::wrong_swarm:
    case Kind::refused:
    case Kind::same_peer:
      return true;
    case Kind::timed_out:
    case Kind::closed_by_peer:
    case Kind::broken: {
      // Of the addresses this peer was told to join alone: what others claim must not fill the map.
      const bool ours = std::find(options_.join.begin(), options_.join.end(), address) != options_.join.end();
      return ours && ++silent_dials_[address] >= kSilentDialsMax;
    }
    default:
      return false;
  }
}

// A joiner's replica: the shared settings are the swarm's, the rest its own.
Result<std::unique_ptr<Replica>> Daemon::build(const wire::Manifest& manifest) {
  if (options_.expected_model && *options_.expected_model != manifest.model) {
    return Error{"the swarm trains the model '" + manifest.model + "', not '" + *options_.expected_model +
                 "' as --model says; leave --model out to train what the swarm trains"};
  }
  std::vector<std::pair<std::string, std::string>> shared;
  for (const auto& [key, value] : manifest.settings) shared.emplace_back(key, value);
  if (const auto applied = training::apply_shared(experiment_, shared); !applied) return applied.error();
  experiment_.model = manifest.model;
  experiment_.seed = manifest.seed;
  experiment_.data = options_.data.value_or(manifest.data);
  auto data = own_data_.valid() ? own_data_.get() : datasets::load(experiment_.data, options_.data_root);
  if (!data) return data.error();
  auto replica = make_replica(experiment_, std::move(*data), options_.slot, self_id_.value);
  if (!replica) return replica;
  if ((*replica)->plan.layout.fingerprint() != manifest.fingerprint) {
    return Error{"the model '" + manifest.model + "' for the data '" + (*replica)->data.name +
                 "' has another layout here than in the swarm (which trains on '" + manifest.data +
                 "'); --data must name a copy of the same data"};
  }
  return replica;
}

PeerOutcome Daemon::run() {
  if (auto bad = set_up()) return *bad;
  if (!options_.join.empty() && options_.data) {
    own_data_ = std::async(std::launch::async, datasets::load, *options_.data, options_.data_root);
  }
  signals_.add(SIGINT);
  signals_.add(SIGTERM);
  std::function<void(const asio::error_code&, int)> on_signal = [&](const asio::error_code& error, int) {
    if (error) return;
    if (leaving_) std::_Exit(130);  // asked twice: at once
    leaving_ = true;
    spdlog::info("leaving the swarm");
    drive(gossip::LeaveRequested{});
    signals_.async_wait(on_signal);
  };
  signals_.async_wait(on_signal);
  report_and_log();
  asio::post(io_, [this] { drive(gossip::Start{}); });
  io_.run();

  trainer_.reset();
  if (builder_.joinable()) builder_.join();
  return outcome_;
}

// ---- the core's driver ----

void Daemon::drive(gossip::Event event) {
  events_.push_back(std::move(event));
  if (driving_) return;  // called from inside an action: the loop below takes it up
  driving_ = true;
  std::vector<gossip::Action> actions;
  while (!events_.empty() && !peer_->view().over) {
    const gossip::Event next = std::move(events_.front());
    events_.pop_front();
    actions.clear();
    peer_->step(now(), next, actions);
    for (const auto& action : actions) {
      std::visit([this](const auto& a) { act(a); }, action);
    }
  }
  driving_ = false;
  if (!peer_->view().over) arm_timer();
}

void Daemon::arm_timer() {
  const Instant deadline = peer_->next_deadline();
  if (deadline == kNever) return;
  timer_.expires_at(origin_ + deadline.since_start);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) drive(gossip::Tick{});
  });
}

void Daemon::act(const gossip::Prepare& prepare) {
  const auto finish = [this, manifest = prepare.manifest] {
    auto rules = gossip::rules_from(manifest, replica_->data.train.size());
    if (!rules) {
      return drive(gossip::PrepareFailed{rules.error().message});
    }
    std::vector<Slowdown> slowdowns;
    const std::uint32_t number = options_.slot ? options_.slot->first : 0;
    for (const auto& fault : options_.experiment.faults) {
      if (fault.peer == number && fault.kind == training::Fault::Kind::slow) {
        slowdowns.push_back({fault.factor, fault.from, fault.to});
      }
    }
    trainer_ = std::make_unique<Trainer>(std::move(replica_->workers), replica_->arena,
                                         TrainerOptions{experiment_.pace, std::move(slowdowns)}, [this] {
                                           if (step_posted_.exchange(true)) return;
                                           asio::post(io_, [this] {
                                             step_posted_ = false;
                                             drive(gossip::Stepped{trainer_->steps(), trainer_->samples()});
                                             leave_snapshot_if_due();
                                           });
                                         });
    exchanger_->attach(replica_->arena, manifest.fingerprint);
    drive(gossip::Prepared{std::move(*rules)});
  };
  if (replica_) {
    asio::post(io_, finish);
    return;
  }
  spdlog::info("welcome: the swarm trains {} on {}", prepare.manifest.model, prepare.manifest.data);
  builder_ = std::thread([this, manifest = prepare.manifest, finish] {
    auto built = std::make_shared<Result<std::unique_ptr<Replica>>>(build(manifest));
    asio::post(io_, [this, built, finish] {
      if (peer_->view().over) return;
      if (!*built) {
        return drive(gossip::PrepareFailed{built->error().message});
      }
      replica_ = std::move(**built);
      finish();
    });
  });
}

void Daemon::act(const gossip::StartTraining&) {
  spdlog::info("training begins: {} parameters, {} workers, batches of {}",
               replica_->plan.layout.parameter_count(), experiment_.workers, experiment_.batch_size);
  training_start_ = Clock::now();
  trainer_->start();
}

void Daemon::act(const gossip::TrainingEnded&) {
  training_end_ = Clock::now();
  spdlog::info("training ends after {} steps; settling", trainer_->steps());
  if (launcher_ && !options_.out.empty())
    before_settling_path_ = save(peer_->view().membership.self().name + ".before-settling");
}

void Daemon::act(const gossip::Notice& notice) {
  using What = gossip::Notice::What;
  switch (notice.what) {
    case What::joined:
      spdlog::info("member {} has joined", notice.text);
      return;
    case What::suspected:
      spdlog::info("member {} is suspected to be down", notice.text);
      return;
    case What::recovered:
      spdlog::info("member {} is alive", notice.text);
      return;
    case What::failed:
      spdlog::warn("member {} has failed", notice.text);
      return;
    case What::left:
      spdlog::info("member {} has left", notice.text);
      return;
    case What::quarantined:
      spdlog::warn("member {} sends unusable parameters; no exchange with it for a while", notice.text);
      return;
    case What::refuted:
      spdlog::warn("{} said that this peer is down; it has been told otherwise", notice.text);
      return;
    case What::waiting: {
      if (waiting_since_.size() > kWaitingTextsMax) waiting_since_.clear();
      auto& since = waiting_since_[notice.text];
      if (since != Clock::time_point{} && Clock::now() - since < kLogInterval) return;
      since = Clock::now();
      spdlog::warn("{}; trying again", notice.text);
      return;
    }
  }
}

// ---- telling ----

training::PeerReport Daemon::make_report(training::PeerReport::Kind kind) const {
  training::PeerReport report;
  report.kind = kind;
  const auto view = peer_->view();
  const auto& self = view.membership.self();
  switch (self.phase) {
    case wire::Phase::joining:
      report.state = "joining";
      break;
    case wire::Phase::training:
      report.state = "training";
      break;
    case wire::Phase::settling:
      report.state = "settling";
      break;
    case wire::Phase::finished:
      report.state = "finished";
      break;
  }
  if (!state_.empty()) report.state = state_;
  if (trainer_) {
    report.steps = trainer_->steps();
    report.samples = trainer_->samples();
    report.loss = trainer_->loss();
  }
  report.swarm_samples = view.swarm_samples;
  report.bytes_sent = links_->counters().traffic.sent;
  report.members = 1;
  for (const auto& [id, member] : view.membership.others())
    report.members += gossip::Membership::is_live(member);
  if (training_start_) {
    report.seconds =
        std::chrono::duration<double>(training_end_.value_or(Clock::now()) - *training_start_).count();
    if (report.seconds > 0) report.samples_per_second = static_cast<double>(report.samples) / report.seconds;
  }
  report.distance = exchanger_->counters().distance;
  report.answered = view.exchanges.answered;
  report.exchanges = {view.exchanges.completed, view.exchanges.aborted, view.exchanges.rejected,
                      exchanger_->counters().half_applied_chunks};
  return report;
}

void Daemon::report_and_log() {
  if (peer_->view().over) return;
  const auto report = make_report(training::PeerReport::Kind::status);
  if (launcher_) launcher_->report(report);
  if (training_start_ && Clock::now() - last_log_ >= kLogInterval) {
    last_log_ = Clock::now();
    spdlog::info(
        "{}: {} steps, {:.0f} samples/s, loss {:.4f}, {} members, {} exchanges begun and {} answered",
        report.state, report.steps, report.samples_per_second, report.loss.value_or(0), report.members,
        peer_->view().exchanges.completed, peer_->view().exchanges.answered);
  }
  report_timer_.expires_after(kReportInterval);
  report_timer_.async_wait([this](const asio::error_code& error) {
    if (!error) report_and_log();
  });
}

void Daemon::leave_snapshot_if_due() {
  if (!options_.snapshots || options_.out.empty() || peer_->view().over) return;
  const auto view = peer_->view();
  if (view.membership.self().phase != wire::Phase::training) return;
  const std::uint64_t due = view.swarm_samples * kSnapshotsPerEpoch / replica_->data.train.size();
  if (due <= snapshots_) return;
  snapshots_ = due;
  auto report = make_report(training::PeerReport::Kind::snapshot);
  report.snapshot = due;
  report.path = save(view.membership.self().name + ".snapshot-" + std::to_string(due));
  if (launcher_ && !report.path.empty()) launcher_->report(report);
}

std::string Daemon::save(const std::string& name) {
  std::error_code error;
  std::filesystem::create_directories(options_.out, error);
  const std::string path = options_.out + "/" + name + ".safetensors";
  std::vector<float> parameters(replica_->arena.size());
  replica_->arena.read(0, parameters);
  const auto written = training::write_safetensors(path, replica_->plan.layout, parameters,
                                                   {{"model", experiment_.model},
                                                    {"data", replica_->data.name},
                                                    {"seed", std::to_string(experiment_.seed)}});
  if (written) return path;
  spdlog::error("{}", written.error().message);
  return "";
}

void Daemon::judge_own_replica() {
  std::vector<float> parameters(replica_->arena.size());
  replica_->arena.read(0, parameters);
  const auto score = training::Evaluator(replica_->plan, *replica_->backend, replica_->data.test)
                         .evaluate(parameters.data());
  spdlog::info("accuracy {:.4f}, loss {:.4f} on {} test samples of {}", score.accuracy, score.loss,
               replica_->data.test.size(), replica_->data.name);
}

void Daemon::act(const gossip::Finish& finish) {
  timer_.cancel();
  report_timer_.cancel();
  if (trainer_) trainer_->stop();
  switch (finish.how) {
    case gossip::Finish::How::finished:
      state_ = "finished";
      break;
    case gossip::Finish::How::left:
      state_ = "left";
      break;
    case gossip::Finish::How::failed:
      state_ = "failed";
      outcome_ = {2, finish.why};
      break;
  }
  transport::spawn(io_.get_executor(),
                   [](Daemon* self) -> asio::awaitable<void> { co_await self->stop(); }(this));
}

// What was refused or broke on this peer's connections, by reason.
void Daemon::log_faults() const {
  const auto counters = links_->counters();
  std::string text;
  for (std::size_t i = 0; i < transport::kLinkErrorKinds; ++i) {
    if (counters.faults[i] == 0) continue;
    if (!text.empty()) text += ", ";
    text += std::string(name(static_cast<transport::LinkErrorKind>(i))) + " " +
            std::to_string(counters.faults[i]);
  }
  const auto refused = exchanger_->counters().chunks_refused;
  if (refused > 0)
    text += (text.empty() ? "" : ", ") + std::string("unusable chunks ") + std::to_string(refused);
  if (!text.empty()) spdlog::info("connections refused or broken: {}", text);
}

asio::awaitable<void> Daemon::stop() {
  log_faults();
  exchanger_->close();
  co_await links_->shut_down(kFlushLimit);
  const bool trained = training_start_.has_value() || training_end_.has_value();
  std::string path;
  if (trained && state_ != "failed" && !options_.out.empty()) {
    path = save(peer_->view().membership.self().name);
    if (path.empty()) outcome_ = {1, "the final parameters could not be written to " + options_.out};
  }
  if (launcher_) {
    auto report = make_report(training::PeerReport::Kind::finished);
    report.path = path;
    report.path_before_settling = before_settling_path_;
    if (!launcher_gone_) launcher_->report_last(report, kFlushLimit);
  } else if (trained && state_ == "finished") {
    judge_own_replica();
  }
  if (!path.empty()) spdlog::info("parameters written to {}", path);
  signals_.cancel();
  launcher_.reset();
  io_.stop();
}

}  // namespace

PeerOutcome run_peer(const PeerOptions& options) {
  Daemon daemon(options);
  return daemon.run();
}

}  // namespace starling::node
