#include "node/daemon.h"

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "node/launch/process.h"
#include "node/peer/connections.h"
#include "node/peer/discovery.h"
#include "node/peer/entropy.h"
#include "node/peer/front.h"
#include "node/peer/keeper.h"
#include "node/peer/namesake.h"
#include "node/peer/parts.h"
#include "node/peer/preparation.h"
#include "node/peer/shutdown.h"
#include "node/peer/teller.h"
#include "node/work/background.h"
#include "topologies/graph_file.h"
#include "training/experiment/check.h"
#include "training/replica/recipe.h"

namespace starling::node {
namespace {

constexpr std::size_t kEarlyEventsMax = 256;  // kept until the core begins
// A joiner ends if a namesake shows up within this time after its start; later both stay.
constexpr Duration kNewcomer = std::chrono::seconds(30);

class Daemon {
 public:
  explicit Daemon(const PeerOptions& options)
      : options_(options),
        process_(io_, options_.process, disk_),
        parts_{options_, io_, process_, builder_, disk_, [this](gossip::Event e) { drive(std::move(e)); }},
        builder_(io_.get_executor()),
        disk_(io_.get_executor()) {}

  // `over`: becomes true when the daemon and its threads are gone.
  PeerOutcome run(std::shared_ptr<const std::atomic<bool>> over);

 private:
  // ---- setting up ----
  Status set_up();
  void await_trainer();
  void begin();
  void obey(const std::string& command);
  void discover();
  void join_or_begin();
  void begin_run();
  void start_core(std::optional<wire::Manifest> begun);
  void advise() const;
  void prepared();

  std::string listening_text() const {
    return parts_.self.address ? "listens at " + to_string(parts_.self.address) : "does not listen";
  }

  // ---- the core's driver ----
  void run_io();
  void drive(gossip::Event event);
  void take_events();
  void arm_timer();
  void tick();
  void look_for_namesake();
  void report_steps();
  void lose_device(const std::string& why);
  void leave();

  void act(const gossip::Send& send) { parts_.links->send(send.to, send.message); }
  void act(const gossip::TryDial& asked) { connections_.try_dial(asked); }
  void act(const gossip::AnswerCall& call) { parts_.links->answer_call(call.to, call.purpose, call.number); }
  void act(const gossip::Prepare& prepare);
  void act(const gossip::FetchState& fetch) { parts_.exchanger->fetch_state(fetch.donor, fetch.afresh); }
  void act(const gossip::AbortFetch&) { parts_.exchanger->abort_fetch(); }
  void act(const gossip::AllowSamples& allow) { parts_.trainer->allow_samples(allow.samples); }
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
  void act(const gossip::Finish& finish) {
    discovery_.withdraw();
    shutdown_.begin(finish.how, finish.why);
  }
  void act(const gossip::Notice& notice) { parts_.events.tell(notice); }

  PeerOptions options_;  // `join` grows by peers that are discovered
  bool discovered_ = false;
  asio::io_context io_{1};
  Process process_;
  PeerParts parts_;
  asio::steady_timer timer_{io_};
  Teller teller_{parts_};
  Keeper keeper_{parts_, teller_};
  Preparation preparation_{parts_, [this](const std::string& why) {
                             parts_.events.say(spdlog::level::warn, "trainer", why);
                             leave();
                           }};
  Shutdown shutdown_{parts_, teller_, keeper_};
  Connections connections_{parts_, teller_, preparation_};
  Discovery discovery_{parts_, connections_};
  Front front_{parts_, teller_, [this] { leave(); }};
  std::deque<gossip::Event> events_;
  bool driving_ = false;  // take_events() is on the stack
  PeerId namesake_{};     // the latest that was reported
  std::atomic<bool> steps_posted_{false};

  // Last, so that their threads, which use the members above, end first.
  Background builder_, disk_;
};

// ---- setting up ----

Status Daemon::set_up() {
  process_.catch_signals();
  if (Status done = teller_.open_board(); !done) return done;
  if (Status done = keeper_.open(); !done) return done;
  if (Status done = connections_.listen(); !done) return done;
  if (Status done = keeper_.open_checkpoints(); !done) return done;
  if (!options_.trainer.socket.empty()) {
    parts_.attachment = std::make_unique<Attachment>(io_.get_executor());
    if (Status done = parts_.attachment->open(options_.trainer.socket); !done)
      return Error{"--trainer: " + done.error().message};
  }
  // Last: a process that waits for HTTP may then attach a trainer.
  if (Status done = front_.open(); !done) return done;
  training::PeerReport first;
  first.kind = training::PeerReport::Kind::listening;
  first.address = to_string(parts_.self.address);
  process_.connect_launcher(first);
  connections_.make_exchanger();
  return Done{};
}

void Daemon::obey(const std::string& command) {
  if (command == training::kEndCommand) return drive(gossip::EndRequested{});
  if (training::is_link_order(command)) connections_.obey(command);
}

// The run, or this peer's part in it, needs the layout of the trainer's parameters.
void Daemon::await_trainer() {
  spdlog::info("{} waits for a trainer at {}", parts_.self.name, options_.trainer.socket);
  parts_.attachment->listen_to({.ready = [this, begun = false]() mutable {
    if (!std::exchange(begun, true) && parts_.life < PeerLife::leaving) begin();
  }});
}

void Daemon::begin() {
  if (options_.discover) return discover();
  join_or_begin();
}

// The core begins once it is known whom to join.
void Daemon::discover() {
  discovery_.open([this](const Result<std::vector<Address>>& found) {
    if (parts_.life >= PeerLife::leaving) return;
    if (!found) return shutdown_.begin(gossip::Finish::How::failed, found.error().message);
    if (!found->empty()) {
      std::string list;
      for (const Address& address : *found) list += (list.empty() ? "" : ", ") + to_string(address);
      parts_.events.say(spdlog::level::info, "discovered",
                        fmt::format("discovered swarm '{}' at {}", options_.swarm, list));
      options_.join = *found;
      discovered_ = true;
    } else if (options_.join.empty()) {
      spdlog::info("no peer of swarm '{}' answers on this network{}", options_.swarm,
                   keeper_.remembers_swarm() ? "" : "; a new run begins");
    }
    join_or_begin();
  });
}

void Daemon::join_or_begin() {
  if (options_.join.empty() && !keeper_.remembers_swarm()) return begin_run();
  preparation_.load_own_data();
  asio::post(io_, [this] { start_core(std::nullopt); });
}

// The core needs the manifest, and the manifest needs the data and the model.
void Daemon::begin_run() {
  preparation_.build(std::nullopt, [this](const Status& built) {
    if (parts_.life == PeerLife::ending) return;
    if (!built) return shutdown_.begin(gossip::Finish::How::failed, built.error().message);
    start_core(preparation_.own_manifest());
  });
}

void Daemon::start_core(std::optional<wire::Manifest> begun) {
  const wire::Hello& self = parts_.self;
  gossip::PeerOptions peer;
  peer.identity = parts_.identity.get();
  peer.incarnation = seconds_since_2020();
  peer.name = self.name;
  const bool anywhere = is_any_host(self.address.host);
  if (!anywhere) peer.address = self.address;
  auto& reach = peer.membership.reach;
  reach.finds_address = anywhere;
  const auto& advertise = parts_.options.reach.advertise;
  if (!advertise.empty()) reach.also.assign(advertise.begin() + 1, advertise.end());
  reach.relays = parts_.options.reach.relay;
  peer.http = teller_.http_address();
  peer.seed = entropy();
  if (const auto& allow = parts_.options.allow) peer.membership.observers = allow->observers();
  peer.membership.expected = parts_.options.process.expected;
  if (parts_.resumed) peer.earlier = parts_.resumed->earlier;
  peer.contacts = parts_.options.join;
  keeper_.add_contacts(peer);
  if (begun) {
    peer.manifest = std::move(*begun);
  } else if (parts_.options.join.empty()) {
    keeper_.search_swarm(peer);
  } else {
    peer.join = peer.contacts;  // members of an earlier life can welcome it, too
  }
  spdlog::info("{} {}, swarm '{}'", self.name, listening_text(), self.swarm);
  if (!process_.is_launched()) advise();
  parts_.core.emplace(std::move(peer));
  events_.push_front(gossip::Start{});
  take_events();
}

// Says how others join and where the page is.
void Daemon::advise() const {
  const PeerOptions& options = parts_.options;
  const Address& own = parts_.self.address;
  if (own) {
    const std::string at = is_any_host(own.host) ? fmt::format("ADDRESS:{}", own.port) : to_string(own);
    spdlog::info("others join with: starling peer --join {}{}{}", at,
                 options.key_file.empty() ? "" : " --key " + options.key_file,
                 options.swarm == PeerOptions{}.swarm ? "" : " --swarm " + options.swarm);
  }
  if (const std::string page = teller_.http_address(); !page.empty())
    spdlog::info("page: http://{}/", page);
  else if (!parts_.http)
    spdlog::info("no page: --http {} serves one", "127.0.0.1:7180");
  if (const std::string file = export_path(options, parts_.self.name); !file.empty())
    spdlog::info("at the end the model is written to {}", file);
  else if (!process_.saves() && options.checkpoints.folder.empty())
    spdlog::info("the model is not kept; --export FILE keeps it");
}

void Daemon::act(const gossip::Prepare& prepare) {
  parts_.manifest = prepare.manifest;
  look_for_namesake();  // among the members that were there before
  if (discovered_) {
    const std::string ignored = ignored_settings(options_.given, options_.experiment, prepare.manifest);
    if (!ignored.empty())
      spdlog::warn("the run that was discovered has its own settings; ignored: {}", ignored);
  }
  if (parts_.replica) return asio::post(io_, [this] { prepared(); });
  spdlog::info("the swarm trains {} on {}", prepare.manifest.model, prepare.manifest.data);
  preparation_.build(prepare.manifest, [this](const Status& built) {
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

PeerOutcome Daemon::run(std::shared_ptr<const std::atomic<bool>> over) {
  if (const Status done = set_up(); !done) return {2, done.error().message};
  teller_.manager().ready(listening_text());
  process_.start({.leave = [this] { leave(); },
                  .command = [this](const std::string& command) { obey(command); },
                  .tick = [this] { tick(); }});
  keeper_.keep_cache();
  if (parts_.attachment) {
    await_trainer();
  } else {
    begin();
  }
  run_io();
  shutdown_.end_process_soon(std::move(over));
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
  parts_.restart_may_help = true;
  if (parts_.is_running()) drive(gossip::ReplicaGone{why});
}

void Daemon::drive(gossip::Event event) {
  if (!parts_.core && events_.size() >= kEarlyEventsMax) return;
  events_.push_back(std::move(event));
  if (parts_.core && !driving_) take_events();  // else take_events() is running, and handles it next
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
    keeper_.leave_snapshot_if_due();  // report_steps() does so in training
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
  if (parts_.is_running()) look_for_namesake();
  teller_.tick();
  front_.tick();
  if (parts_.outside != nullptr && parts_.is_running()) parts_.outside->tell(teller_.swarm_progress());
  discovery_.tick();
  keeper_.checkpoint_if_due();
}

// A member whose name others know must not be shut out by one that takes it, so only a newcomer gives way.
void Daemon::look_for_namesake() {
  const auto namesake = find_namesake(parts_.core->view().membership);
  if (!namesake || namesake->id == namesake_) return;
  namesake_ = namesake->id;
  const bool newcomer = !parts_.options.join.empty() && !parts_.resumed && parts_.now() < Instant{kNewcomer};
  if (newcomer && namesake->began_before && parts_.life < PeerLife::settling) {
    shutdown_.refuse(namesake->sentence);
    return leave();
  }
  parts_.events.say(spdlog::level::warn, "namesake", namesake->sentence, namesake->id);
}

void Daemon::report_steps() {
  steps_posted_ = false;
  Trainer& trainer = *parts_.trainer;
  if (const auto why = trainer.failure()) return lose_device(*why);
  const std::uint64_t steps = trainer.steps();
  drive(gossip::Stepped{steps, trainer.samples()});
  if (trainer.non_finite()) drive(gossip::ReplicaDiverged{});
  keeper_.leave_snapshot_if_due();
  keeper_.checkpoint_if_due();
  trainer.handled(steps);
}

void Daemon::leave() {
  if (parts_.life == PeerLife::leaving) return;
  if (parts_.life == PeerLife::ending) return shutdown_.hurry();
  parts_.advance(PeerLife::leaving);
  discovery_.withdraw();
  parts_.events.say(spdlog::level::info, "leaving", "leaving the swarm");
  if (parts_.core) return drive(gossip::LeaveRequested{});
  shutdown_.begin(gossip::Finish::How::left);
}

// ---- actions ----

void Daemon::act(const gossip::StartTraining& start) {
  discovery_.take_part();
  preparation_.initialize();
  preparation_.follow_schedule();
  const std::size_t parameters = parts_.replica->plan.layout.parameter_count();
  if (!start.steps) {
    spdlog::info("serving begins: {} parameters, trained by others", parameters);
    parts_.advance(PeerLife::serving);
    if (parts_.attachment)
      parts_.attachment->say(
          "this peer is a server: it makes no steps, and its trainer only declares the tensors");
    return teller_.begin_serving();
  }
  const training::Experiment& run = parts_.experiment;
  const std::string by =
      parts_.outside != nullptr
          ? "a trainer"
          : fmt::format("{} {}, batches of {}", run.training.workers,
                        run.training.workers == 1 ? "worker" : "workers", run.training.batch_size);
  parts_.events.say(
      spdlog::level::info, "training",
      fmt::format("training begins: {} parameters, {}, on {}{}", parameters, by, parts_.replica->devices(),
                  parts_.replica->split.empty() ? "" : " (" + parts_.replica->split + ")"));
  if (parts_.outside == nullptr) {
    for (const std::string& warning :
         {training::warning_of_workers(run), training::warning_of_precision(run, false)})
      if (!warning.empty()) spdlog::warn("{}", warning);
  }
  if (!process_.is_launched()) {
    const std::string end = ends_after(run.end);
    spdlog::info(
        "{}", end.empty() ? "the run has no end: stop this peer with Ctrl-C" : "the run ends after " + end);
  }
  parts_.advance(PeerLife::training);
  teller_.begin_training();
  parts_.trainer->start();
}

void Daemon::act(const gossip::StopTraining&) {
  teller_.account_time().train(false);
  parts_.trainer->stop();
  parts_.mixer->settle();
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
  teller_.begin_exchange(begin.exchange, begin.partner.id);
  parts_.exchanger->begin(begin.exchange, begin.partner, begin.terms);
}

void Daemon::act(const gossip::AbortExchange& abort) {
  parts_.exchanger->abort(abort.exchange);
  teller_.end_exchange(abort.exchange);
}

void Daemon::act(const gossip::AnswerOffer& answer) {
  ActivityClock& activity = teller_.account_time();
  if (answer.accept) activity.answers(answer.from, answer.exchange);
  parts_.exchanger->answer(answer);
}

void Daemon::act(const gossip::Rewired& rewired) {
  parts_.events.say(
      spdlog::level::info, "rewired",
      "the swarm's topology is " + topologies::shown_name(rewired.topology).substr(0, 200) + " from now on");
  // Also in the manifest: a peer that restarts the swarm from the cache uses this topology.
  for (wire::Setting& setting : parts_.manifest->settings)
    if (setting.key == "gossip.topology") setting.value = rewired.topology;
}

}  // namespace

PeerOutcome run_peer(const PeerOptions& options) {
  const auto over = std::make_shared<std::atomic<bool>>(false);
  PeerOutcome outcome = Daemon(options).run(over);
  *over = true;
  return outcome;
}

}  // namespace starling::node
