#include "node/daemon.h"

#include <chrono>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "node/peer/connections.h"
#include "node/peer/entropy.h"
#include "node/peer/host.h"
#include "node/peer/keeper.h"
#include "node/peer/parts.h"
#include "node/peer/preparation.h"
#include "node/peer/shutdown.h"
#include "node/peer/teller.h"
#include "training/experiment/check.h"
#include "training/replica/recipe.h"

namespace starling::node {
namespace {

constexpr std::size_t kEarlyEventsMax = 256;  // kept until the core begins

class Daemon {
 public:
  explicit Daemon(const PeerOptions& options)
      : options_(options),
        parts_(options),
        timer_(io_),
        process_(io_, {options.out, options.snapshots, options.control_fd}, disk_),
        teller_(parts_, process_, disk_, io_.get_executor()),
        keeper_(parts_, process_, teller_, disk_, io_),
        preparation_(parts_, builder_),
        shutdown_(parts_, process_, teller_, keeper_, disk_, io_),
        connections_(parts_, teller_, preparation_, io_,
                     {.drive = [this](gossip::Event event) { drive(std::move(event)); },
                      .locked_out = [this] { be_locked_out(); }}),
        host_(
            parts_, teller_, [this](gossip::Event event) { drive(std::move(event)); }, [this] { leave(); }),
        builder_(io_.get_executor()),
        disk_(io_.get_executor()) {}

  PeerOutcome run();

 private:
  // ---- setting up ----
  std::optional<PeerOutcome> set_up();
  std::optional<PeerOutcome> serve_http();
  void connect_launcher();
  void obey(const std::string& command);
  void begin_run();
  void start_core(std::optional<wire::Manifest> begun);
  void prepared();

  // ---- the core's driver ----
  void run_io();
  void drive(gossip::Event event);
  void take_events();
  void arm_timer();
  void tick();
  void report_steps();
  void lose_device(const std::string& why);
  void be_locked_out();
  void leave();

  void act(const gossip::Send& send) { parts_.links->send(send.to, send.message); }
  void act(const gossip::Prepare& prepare);
  void act(const gossip::FetchState& fetch) {
    parts_.exchanger->fetch_state(fetch.donor, fetch.address, fetch.afresh);
  }
  void act(const gossip::AbortFetch&) { parts_.exchanger->abort_fetch(); }
  void act(const gossip::StartTraining& start);
  void act(const gossip::StopTraining&);
  void act(const gossip::PauseTraining& pause);
  void act(const gossip::ResumeTraining& resume);
  void act(const gossip::BeginRound& begin) { parts_.mixer->begin_round(begin.round); }
  void act(const gossip::TrainingEnded&);
  void act(const gossip::BeginExchange& begin);
  void act(const gossip::AbortExchange& abort);
  void act(const gossip::AnswerOffer& answer);
  void act(const gossip::Rewired& rewired);
  void act(const gossip::Finish& finish) { shutdown_.begin(finish.how, finish.why); }
  void act(const gossip::Notice& notice) { parts_.events.tell(notice); }

  const PeerOptions& options_;
  asio::io_context io_{1};
  PeerParts parts_;
  asio::steady_timer timer_;
  Process process_;
  Teller teller_;
  Keeper keeper_;
  Preparation preparation_;
  Shutdown shutdown_;
  Connections connections_;
  Host host_;
  std::deque<gossip::Event> events_;
  bool driving_ = false;  // take_events() is on the stack
  std::atomic<bool> steps_posted_{false};

  // Last, so that they end first: their threads use what stands above.
  Background builder_;  // loads the data, builds the replica, analyzes the topology
  Background disk_;     // writes files, evaluates the final replica
  std::unique_ptr<Front> front_;
};

// ---- setting up ----

std::optional<PeerOutcome> Daemon::set_up() {
  process_.catch_signals();
  if (const Status opened = teller_.open_board(); !opened)
    return PeerOutcome{2, "--tensorboard: " + opened.error().message};
  if (auto bad = keeper_.open()) return bad;
  if (auto bad = connections_.listen()) return bad;
  if (auto bad = keeper_.open_checkpoints()) return bad;
  if (auto bad = serve_http()) return bad;
  connect_launcher();
  connections_.make_exchanger();
  return std::nullopt;
}

std::optional<PeerOutcome> Daemon::serve_http() {
  if (!options_.http) return std::nullopt;
  auto front = Front::open(
      *options_.http, options_.token, host_,
      [this](std::function<void()> work) { asio::post(io_, std::move(work)); }, builder_);
  if (!front) return PeerOutcome{2, "--http: " + front.error().message};
  front_ = std::move(*front);
  teller_.serve(*front_);
  spdlog::info("HTTP at {}", to_string(front_->address()));
  if (!is_loopback(options_.http->host)) {
    spdlog::warn("--http {}: anyone who can reach it can read this peer; {}", to_string(*options_.http),
                 options_.token.empty()
                     ? "commands are accepted only from this machine, as there is no --token-file"
                     : "commands from other machines need the token");
  }
  return std::nullopt;
}

void Daemon::connect_launcher() {
  training::PeerReport report;
  report.kind = training::PeerReport::Kind::listening;
  report.address = to_string(parts_.self.address);
  process_.connect_launcher(report);
}

void Daemon::obey(const std::string& command) {
  if (command == training::kEndCommand) return drive(gossip::EndRequested{});
  if (!training::is_link_order(command)) return;
  const auto order = training::parse_link_order(command);
  if (!order) return spdlog::warn("{}", order.error().message);
  connections_.shape(*order);
}

// The core needs the manifest, and the manifest needs the data and the model.
void Daemon::begin_run() {
  preparation_.begin([this](Result<wire::Manifest> manifest) {
    if (parts_.life == PeerLife::ending) return;
    if (!manifest) return shutdown_.begin(gossip::Finish::How::failed, manifest.error().message);
    start_core(std::move(*manifest));
  });
}

void Daemon::start_core(std::optional<wire::Manifest> begun) {
  gossip::PeerOptions peer;
  peer.id = parts_.self.id;
  peer.name = parts_.self.name;
  peer.address = parts_.self.address;
  peer.http = teller_.http_address();
  peer.seed = entropy();
  if (parts_.resumed) peer.earlier = parts_.resumed->earlier;
  peer.join = options_.join;
  peer.contacts = options_.join;
  for (const CachedPeer& member : keeper_.remembered()) peer.contacts.push_back(member.address);
  if (begun) {
    peer.manifest = std::move(*begun);
  } else if (options_.join.empty()) {
    peer.join = peer.contacts;
    peer.manifest = keeper_.remembered_manifest();
    peer.begin_after = from_seconds(to_seconds(options_.begin_after) * Random(entropy()).uniform(1, 1.5));
    spdlog::info("looking for the swarm that {} remembers: {} addresses", options_.state,
                 keeper_.remembered().size());
    const std::string unheard =
        unheard_settings(options_.given, options_.experiment, keeper_.remembered_manifest());
    if (!unheard.empty())
      spdlog::warn(
          "the run that {} remembers continues with its own settings; ignored: {}; another run needs another "
          "folder",
          options_.state, unheard);
  }
  spdlog::info("{} listens at {}, swarm '{}'", parts_.self.name, to_string(parts_.self.address),
               parts_.self.swarm);
  parts_.core.emplace(std::move(peer));
  events_.push_front(gossip::Start{});
  take_events();
}

void Daemon::act(const gossip::Prepare& prepare) {
  parts_.manifest = prepare.manifest;
  if (parts_.replica) return asio::post(io_, [this] { prepared(); });
  spdlog::info("the swarm trains {} on {}", prepare.manifest.model, prepare.manifest.data);
  preparation_.join(prepare.manifest, [this](const Status& built) {
    if (!parts_.is_running()) return;
    if (!built) return drive(gossip::PrepareFailed{built.error().message});
    prepared();
  });
}

void Daemon::prepared() {
  if (!parts_.is_running()) return;
  auto rules = preparation_.attach(*parts_.manifest, [this] {
    if (!steps_posted_.exchange(true)) asio::post(io_, [this] { report_steps(); });
  });
  if (!rules) return drive(gossip::PrepareFailed{rules.error().message});
  drive(gossip::Prepared{std::move(*rules), parts_.replica->devices()});
}

PeerOutcome Daemon::run() {
  if (auto bad = set_up()) return *bad;
  teller_.manager().ready("listens at " + to_string(parts_.self.address));
  process_.start({.leave = [this] { leave(); },
                  .command = [this](const std::string& command) { obey(command); },
                  .tick = [this] { tick(); }});
  keeper_.keep_cache();
  if (options_.join.empty() && !keeper_.remembers_swarm()) {
    begin_run();
  } else {
    preparation_.load_own_data();
    asio::post(io_, [this] { start_core(std::nullopt); });
  }
  run_io();
  shutdown_.end_process_soon();
  return shutdown_.outcome();
}

// ---- the core's driver ----

// A device may fail in any handler that mixes chunks on it.
void Daemon::run_io() {
  while (!io_.stopped()) {
    try {
      io_.run();
    } catch (const kernels::DeviceError& error) {
      driving_ = false;
      lose_device(error.what());
    }
  }
}

void Daemon::lose_device(const std::string& why) {
  shutdown_.expect_restart();
  if (parts_.is_running()) drive(gossip::ReplicaGone{why});
}

// A peer that rejoins a remembered swarm cannot tell which side has the wrong key; a restart reads its own
// again.
void Daemon::be_locked_out() {
  if (options_.join.empty()) shutdown_.expect_restart();
}

void Daemon::drive(gossip::Event event) {
  if (!parts_.core && events_.size() >= kEarlyEventsMax) return;
  events_.push_back(std::move(event));
  if (parts_.core && !driving_) take_events();  // else an action drives: take_events() handles the event next
}

void Daemon::take_events() {
  driving_ = true;
  std::vector<gossip::Action> actions;
  while (!events_.empty() && parts_.is_running()) {
    const gossip::Event next = std::move(events_.front());
    events_.pop_front();
    actions.clear();
    parts_.core->step(parts_.now(), next, actions);
    for (const auto& action : actions) std::visit([this](const auto& a) { act(a); }, action);
    preparation_.follow_schedule();
  }
  driving_ = false;
  if (parts_.life == PeerLife::serving)
    keeper_.leave_snapshot_if_due();  // a peer that trains does so at its steps
  if (parts_.is_running()) arm_timer();
}

void Daemon::arm_timer() {
  const Instant deadline = parts_.core->next_deadline();
  if (deadline == kNever) return;
  timer_.expires_at(parts_.origin + deadline.since_start);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) drive(gossip::Tick{});
  });
}

void Daemon::tick() {
  if (parts_.life == PeerLife::ending) return;
  teller_.tick([this](const wire::Vitals& vitals) { drive(gossip::VitalsMeasured{vitals}); });
  keeper_.checkpoint_if_due();
}

void Daemon::report_steps() {
  steps_posted_ = false;
  Trainer& trainer = *parts_.trainer;
  if (const auto why = trainer.failure()) return lose_device(*why);
  const std::uint64_t steps = trainer.steps();
  drive(gossip::Stepped{steps, trainer.samples()});
  if (trainer.non_finite()) drive(gossip::ReplicaDiverged{});
  trainer.heard(steps);
  keeper_.leave_snapshot_if_due();
  keeper_.checkpoint_if_due();
}

void Daemon::leave() {
  if (parts_.life == PeerLife::leaving) return;
  if (parts_.life == PeerLife::ending) return shutdown_.hurry();
  parts_.advance(PeerLife::leaving);
  parts_.events.say(spdlog::level::info, "leaving", "leaving the swarm");
  if (parts_.core) return drive(gossip::LeaveRequested{});
  shutdown_.begin(gossip::Finish::How::left);
}

// ---- actions ----

void Daemon::act(const gossip::StartTraining& start) {
  preparation_.initialize();
  preparation_.follow_schedule();
  const Replica& replica = *parts_.replica;
  if (!start.steps) {
    spdlog::info("serving begins: {} parameters, trained by others", replica.plan.layout.parameter_count());
    parts_.advance(PeerLife::serving);
    return teller_.begin_serving();
  }
  const training::Experiment& run = parts_.experiment;
  parts_.events.say(
      spdlog::level::info, "training",
      fmt::format("training begins: {} parameters, {} workers, batches of {}, on {}",
                  replica.plan.layout.parameter_count(), run.workers, run.batch_size, replica.devices()));
  if (const std::string warning = training::warning_of_workers(run); !warning.empty())
    spdlog::warn("{}", warning);
  parts_.advance(PeerLife::training);
  teller_.begin_training();
  parts_.trainer->start();
}

void Daemon::act(const gossip::StopTraining&) {
  teller_.stop_training();
  parts_.trainer->stop();
}

void Daemon::act(const gossip::PauseTraining& pause) {
  parts_.trainer->pause(PausedBy::core);
  if (pause.discard) parts_.trainer->discard_steps();
}

void Daemon::act(const gossip::ResumeTraining& resume) {
  if (resume.renewed) {
    parts_.mixer->adopt();
    parts_.exchanger->renewed();
    parts_.trainer->renew();
  }
  parts_.trainer->resume(PausedBy::core);
}

void Daemon::act(const gossip::TrainingEnded&) {
  if (!teller_.has_begun()) preparation_.initialize();  // the run was over before this peer joined it
  parts_.advance(PeerLife::settling);
  teller_.end_training();
  parts_.events.say(spdlog::level::info, "settling",
                    fmt::format("training ends after {} steps; settling", parts_.trainer->steps()));
  shutdown_.save_before_settling();
}

void Daemon::act(const gossip::BeginExchange& begin) {
  teller_.begin_exchange(begin.exchange, begin.partner);
  parts_.exchanger->begin(begin.exchange, begin.partner, begin.address, begin.terms);
}

void Daemon::act(const gossip::AbortExchange& abort) {
  parts_.exchanger->abort(abort.exchange);
  teller_.end_exchange(abort.exchange);
}

void Daemon::act(const gossip::AnswerOffer& answer) {
  teller_.account_time();
  if (answer.accept) teller_.begin_answer(answer.from, answer.exchange);
  parts_.exchanger->answer(answer);
}

void Daemon::act(const gossip::Rewired& rewired) {
  parts_.events.say(spdlog::level::info, "rewired",
                    "the swarm's topology is " + rewired.topology.substr(0, 200) + " from now on");
  // In the manifest too: a peer that restarts the swarm from the cache uses this topology.
  for (wire::Setting& setting : parts_.manifest->settings)
    if (setting.key == "gossip.topology") setting.value = rewired.topology;
}

}  // namespace

PeerOutcome run_peer(const PeerOptions& options) {
  Daemon daemon(options);
  return daemon.run();
}

}  // namespace starling::node
