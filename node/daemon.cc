#include "node/daemon.h"

#include <unistd.h>

#include <atomic>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "node/peer/discovery.h"
#include "node/peer/entropy.h"
#include "node/peer/front.h"
#include "node/peer/keeper.h"
#include "node/peer/listening.h"
#include "node/peer/lives.h"
#include "node/peer/namesake.h"
#include "node/peer/preparation.h"
#include "node/peer/shutdown.h"
#include "node/peer/teller.h"
#include "node/trainer_news.h"
#include "topologies/graph_file.h"
#include "training/learning/recipe.h"
#include "training/runs/experiment/check.h"

namespace starling::node {
namespace {

constexpr std::size_t kEarlyEventsMax = 256;  // kept until the core begins
// A joiner ends if a namesake shows up within this time after its start; later both stay.
constexpr Duration kNewcomer = std::chrono::seconds(30);

// Waits for another trainer if one ends before the peer trains; from then on OutsideTrainer does.
class TrainersReturn {
 public:
  TrainersReturn(Started& started, std::function<void(const std::string&)> gave_up)
      : started_(started), gave_up_(std::move(gave_up)), timer_(started.io) {}

  void await() {
    const Duration grace = started_.options.trainer.grace;
    if (started_.stage >= PeerStage::leaving) return;
    spdlog::warn("the trainer has ended; the peer leaves unless another one attaches within {:.0f} s",
                 to_seconds(grace));
    timer_.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(grace));
    timer_.async_wait([this, grace](const asio::error_code& error) {
      if (!error && started_.stage < PeerStage::training) gave_up_(nobody_attached(grace));
    });
  }
  void await_no_more() { timer_.cancel(); }

 private:
  Started& started_;
  const std::function<void(const std::string&)> gave_up_;
  asio::steady_timer timer_;
};

// Drives the core of a peer that listens, until the peer ends.
class Daemon {
 public:
  Daemon(Started& started, Listening& listening);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // `over`: becomes true when the daemon and the threads are gone, or do not end in time.
  PeerOutcome run(std::shared_ptr<std::atomic<bool>> over, const LastWords& last_words);

 private:
  // ---- until the core begins ----
  Status open_to_users();
  void await_trainer();
  void obey(const std::string& command);
  void begin();
  void join_or_begin();
  void begin_run();
  void start_core(std::optional<wire::Manifest> begun);
  void advise() const;
  void prepared();

  std::string listening_text() const {
    const Address& own = listening_.self().address;
    return own ? "listens at " + to_string(own) : "does not listen";
  }

  // ---- the core's driver ----
  void run_io();
  void drive(gossip::Event event);
  void take_exchanged(gossip::Event event);
  void take_events();
  void arm_timer();
  void tick();
  void look_for_namesake();
  void report_steps();
  void lose_device(const std::string& why);
  void leave();

  void act(const gossip::Send& send) { listening_.links().send(send.to, send.message); }
  void act(const gossip::TryDial& asked) { listening_.try_dial(asked); }
  void act(const gossip::AnswerCall& call) {
    listening_.links().answer_call(call.to, call.purpose, call.number);
  }
  void act(const gossip::Prepare& prepare);
  void act(const gossip::FetchState& fetch) { listening_.exchanger().fetch_state(fetch.donor, fetch.afresh); }
  void act(const gossip::AbortFetch&) { listening_.exchanger().abort_fetch(); }
  void act(const gossip::AllowSamples& allow) { lives_.equipped->trainer->allow_samples(allow.samples); }
  void act(const gossip::HoldTraining&) {
    discovery_.take_part();
    preparation_.initialize();
  }
  void act(const gossip::StartTraining& start);
  void act(const gossip::StopTraining&);
  void act(const gossip::PauseTraining& pause);
  void act(const gossip::ResumeTraining& resume);
  void act(const gossip::BeginRound& begin) { lives_.equipped->mixer->begin_round(begin.round); }
  void act(const gossip::TrainingEnded&);
  void act(const gossip::BeginExchange& begin);
  void act(const gossip::AbortExchange& abort);
  void act(const gossip::AnswerOffer& answer);
  void act(const gossip::Rewired& rewired);
  void act(const gossip::Finish& finish) {
    discovery_.withdraw();
    shutdown_.begin(finish.how, finish.why, finish.other_version);
  }
  void act(const gossip::Notice& notice) { news_.tell(notice, started_.events.tell(notice)); }
  void act(const gossip::TrustReplica&) { lives_.equipped->mixer->trust(); }

  Drive driver() {
    return [this](gossip::Event event) { drive(std::move(event)); };
  }

  Started& started_;
  Listening& listening_;
  std::atomic<bool> steps_posted_{false};  // the trainer's threads use it
  Lives lives_;
  asio::steady_timer timer_{started_.io};
  Teller teller_{started_, listening_, lives_, driver()};
  TrainerNews news_{listening_, lives_, teller_};
  Keeper keeper_{started_, listening_, lives_, teller_};
  const std::function<void(const std::string&)> lose_trainer_ = [this](const std::string& why) {
    started_.events.say(why == kLastStep ? spdlog::level::info : spdlog::level::warn, "trainer", why);
    leave();
  };
  TrainersReturn trainers_return_{started_, lose_trainer_};
  Preparation preparation_{started_, listening_, lives_, lose_trainer_};
  Shutdown shutdown_{started_, listening_, lives_, teller_, keeper_};
  Discovery discovery_{started_, listening_, lives_, driver()};
  Front front_{started_, listening_, lives_, teller_, driver(), [this] { leave(); }};
  std::deque<gossip::Event> events_;
  bool driving_ = false;  // take_events() is on the stack
  bool discovered_ = false;
  PeerId namesake_{};  // the latest that was reported
};

Daemon::Daemon(Started& started, Listening& listening) : started_(started), listening_(listening) {
  listening_.listen_to({.core = driver(),
                        .exchanged = [this](gossip::Event event) { take_exchanged(std::move(event)); },
                        .is_member = [this](PeerId peer) { return lives_.is_member(peer); },
                        .steps = [this] { return lives_.equipped ? lives_.equipped->trainer->steps() : 0; }});
}

// What runs on the threads, and what arrives, uses the members.
Daemon::~Daemon() {
  started_.builder.end();
  started_.disk.end();
  listening_.exchanger().close();
  listening_.listen_to({});
}

// ---- until the core begins ----

// Last: a process that waits for HTTP may then attach a trainer.
Status Daemon::open_to_users() {
  if (Status done = front_.open(); !done) return done;
  training::PeerReport first;
  first.kind = training::PeerReport::Kind::listening;
  first.address = to_string(listening_.self().address);
  started_.process.connect_launcher(first);
  return Done{};
}

void Daemon::obey(const std::string& command) {
  if (command == training::kEndCommand) return drive(gossip::EndRequested{});
  if (training::is_link_order(command)) listening_.obey(command);
}

// The run, or this peer's part in it, needs the layout of the trainer's parameters.
void Daemon::await_trainer() {
  spdlog::info("{} waits for a trainer at {}", listening_.self().name, started_.options.trainer.socket);
  const auto ready = [this, begun = false]() mutable {
    trainers_return_.await_no_more();
    if (!std::exchange(begun, true) && started_.stage < PeerStage::leaving) begin();
  };
  listening_.attachment()->listen_to({.ready = ready, .gone = [this] { trainers_return_.await(); }});
}

// The core begins once it is known whom to join.
void Daemon::begin() {
  if (!started_.options.discover) return join_or_begin();
  discovery_.open([this](const Result<std::vector<Address>>& found) {
    if (started_.stage >= PeerStage::leaving) return;
    if (!found) return shutdown_.begin(gossip::Finish::How::failed, found.error().message);
    if (!found->empty()) {
      std::string list;
      for (const Address& address : *found) list += (list.empty() ? "" : ", ") + to_string(address);
      started_.events.say(spdlog::level::info, "discovered",
                          fmt::format("discovered swarm '{}' at {}", started_.options.swarm, list));
      started_.options.join = *found;
      discovered_ = true;
    } else if (started_.options.join.empty()) {
      spdlog::info("no peer of swarm '{}' answers on this network{}", started_.options.swarm,
                   keeper_.remembers_swarm() ? "" : "; a new run begins");
    }
    join_or_begin();
  });
}

void Daemon::join_or_begin() {
  if (started_.options.join.empty() && !keeper_.remembers_swarm()) return begin_run();
  preparation_.load_copy();
  asio::post(started_.io, [this] { start_core(std::nullopt); });
}

// The core needs the manifest, and the manifest needs the data and the model.
void Daemon::begin_run() {
  Remembered& remembered = listening_.remembered();
  if (listening_.attachment() != nullptr && !remembered.resumed) {
    const Made& made = listening_.attachment()->declaration().made;
    remembered.earlier = {.steps = made.steps,
                          .samples = made.samples,
                          .swarm_samples = made.swarm_samples,
                          .elapsed = std::chrono::seconds(made.seconds),
                          .last = {}};
    if (remembered.earlier.steps > 0)
      spdlog::info("the run continues: its trainer has made {} steps, {} samples", remembered.earlier.steps,
                   remembered.earlier.samples);
  }
  preparation_.build(std::nullopt, [this](const Status& built) {
    if (started_.stage == PeerStage::ending) return;
    if (!built) return shutdown_.begin(gossip::Finish::How::failed, built.error().message);
    start_core(preparation_.own_manifest());
  });
}

void Daemon::start_core(std::optional<wire::Manifest> begun) {
  const wire::Hello& self = listening_.self();
  gossip::PeerOptions peer;
  peer.identity = &listening_.identity();
  peer.incarnation = seconds_since_2020();
  peer.name = self.name;
  peer.program = own_program();
  auto& reach = peer.membership.reach;
  reach.finds_address = is_any_host(self.address.host);
  if (!reach.finds_address) peer.address = self.address;
  const auto& advertise = started_.options.reach.advertise;
  if (!advertise.empty()) reach.also.assign(advertise.begin() + 1, advertise.end());
  reach.relays = started_.options.reach.relay;
  peer.http = teller_.http_address();
  peer.seed = entropy();
  if (const auto& allow = started_.options.allow) peer.membership.observers = allow->observers();
  peer.membership.expected = started_.options.process.expected;
  peer.membership.awaits_expected = true;
  peer.earlier = listening_.remembered().earlier;
  peer.contacts = started_.options.join;
  keeper_.add_contacts(peer);
  if (begun) {
    peer.manifest = std::move(*begun);
  } else if (started_.options.join.empty()) {
    keeper_.search_swarm(peer);
  } else {
    peer.join = peer.contacts;  // members of an earlier life can welcome it, too
    peer.unwelcomed.fails = started_.options.reach.join_timeout;
    if (peer.unwelcomed.fails) started_.restart_may_help = true;  // the swarm may come later
  }
  spdlog::info("{} {}, swarm '{}', v{}", self.name, listening_text(), self.swarm, peer.program.version);
  if (!started_.process.is_launched()) advise();
  lives_.running.emplace(std::move(peer));
  events_.push_front(gossip::Start{});
  take_events();
}

// Says how others join and where the page is.
void Daemon::advise() const {
  const DaemonOptions& options = started_.options;
  const Address& own = listening_.self().address;
  if (own) {
    const std::string at = is_any_host(own.host) ? fmt::format("ADDRESS:{}", own.port) : to_string(own);
    const bool outside = listening_.attachment() != nullptr;
    spdlog::info("others join with: {}starling peer {}--join {}{}{}",
                 outside ? fmt::format("join=\"{}\" in starling.gossip, or ", at) : "",
                 outside ? "--trainer SOCKET " : "", at,
                 options.key_file.empty() ? "" : " --key " + options.key_file,
                 options.swarm == DaemonOptions{}.swarm ? "" : " --swarm " + options.swarm);
  }
  if (const std::string page = teller_.http_address(); !page.empty())
    spdlog::info("page: http://{}/", page);
  else if (!options.http)
    spdlog::info("no page: --http {} serves one", "127.0.0.1:7180");
  if (const std::string file = export_path(options, listening_.self().name); !file.empty())
    spdlog::info("at the end the model is written to {}", file);
  else if (listening_.attachment() == nullptr && !started_.process.saves() &&
           options.checkpoints.folder.empty())
    spdlog::info("the model is not kept; --export FILE keeps it");
}

void Daemon::act(const gossip::Prepare& prepare) {
  lives_.running->manifest = prepare.manifest;
  look_for_namesake();  // among the members that were there before
  if (discovered_) {
    const std::string ignored =
        ignored_settings(started_.options.given, started_.options.experiment, prepare.manifest);
    if (!ignored.empty())
      spdlog::warn("the run that was discovered has its own settings; ignored: {}", ignored);
  }
  if (lives_.built) return asio::post(started_.io, [this] { prepared(); });
  spdlog::info("the swarm trains {} on {}", prepare.manifest.model, prepare.manifest.data);
  preparation_.build(prepare.manifest, [this](const Status& built) {
    if (!lives_.is_running()) return;
    if (!built) return drive(gossip::PrepareFailed{built.error().message});
    prepared();
  });
}

void Daemon::prepared() {
  if (!lives_.is_running()) return;
  auto rules = preparation_.attach([this] {
    if (!steps_posted_.exchange(true)) asio::post(started_.io, [this] { report_steps(); });
  });
  if (!rules) return drive(gossip::PrepareFailed{rules.error().message});
  drive(gossip::Prepared{std::move(*rules), lives_.built->replica->devices()});
}

PeerOutcome Daemon::run(std::shared_ptr<std::atomic<bool>> over, const LastWords& last_words) {
  if (const Status done = open_to_users(); !done) return {2, done.error().message};
  teller_.manager().ready(listening_text());
  started_.process.start({.leave = [this] { leave(); },
                          .command = [this](const std::string& command) { obey(command); },
                          .tick = [this] { tick(); }});
  keeper_.keep_cache();
  if (listening_.attachment()) {
    await_trainer();
  } else {
    begin();
  }
  run_io();
  shutdown_.end_process_soon(std::move(over), last_words);
  return shutdown_.outcome();
}

// ---- the core's driver ----

// A device may fail in any handler that mixes chunks on it.
void Daemon::run_io() {
  while (!started_.io.stopped()) {
    try {
      started_.io.run();
    } catch (const kernels::DeviceError& error) {
      driving_ = false;
      lose_device(error.what());
    }
  }
}

void Daemon::lose_device(const std::string& why) {
  started_.restart_may_help = true;
  if (lives_.is_running()) drive(gossip::ReplicaGone{why});
}

void Daemon::drive(gossip::Event event) {
  auto* const diverged = std::get_if<gossip::ReplicaDiverged>(&event);
  if (diverged != nullptr && lives_.is_running() && !lives_.running->core.view().diverged)
    diverged->where = preparation_.unacceptable_tensor();
  if (!lives_.running && events_.size() >= kEarlyEventsMax) return;
  events_.push_back(std::move(event));
  if (lives_.running && !driving_) take_events();  // else take_events() is running, and handles it next
}

// An event of the exchanger.
void Daemon::take_exchanged(gossip::Event event) {
  if (const auto* ended = std::get_if<gossip::ExchangeEnded>(&event)) {
    const PeerId partner = teller_.end_exchange(ended->exchange);
    if (lives_.equipped) lives_.equipped->trainer->mixed();
    news_.exchanged(partner);
  } else if (const auto* advanced = std::get_if<gossip::ExchangeAdvanced>(&event)) {
    teller_.account_time().advanced(advanced->exchange);
  } else if (const auto* answered = std::get_if<gossip::AnswerEnded>(&event)) {
    teller_.account_time().answered(answered->from, answered->exchange);
    if (lives_.equipped) lives_.equipped->trainer->mixed();
    news_.exchanged(answered->from);
  } else if (std::holds_alternative<gossip::StateArrived>(event)) {
    preparation_.take_copied_parameters();
  }
  drive(std::move(event));
}

void Daemon::take_events() {
  driving_ = true;
  std::vector<gossip::Action> actions;
  while (!events_.empty() && lives_.is_running()) {
    const gossip::Event next = std::move(events_.front());
    events_.pop_front();
    actions.clear();
    lives_.running->core.step(started_.now(), next, actions);
    for (const auto& action : actions) std::visit([this](const auto& a) { act(a); }, action);
    preparation_.follow_schedule();
  }
  driving_ = false;
  if (started_.stage == PeerStage::serving)
    keeper_.leave_snapshot_if_due();  // report_steps() does so in training
  if (lives_.is_running()) arm_timer();
}

void Daemon::arm_timer() {
  const Instant deadline = lives_.running->core.next_deadline();
  if (deadline == kNever) return;
  timer_.expires_at(started_.origin + deadline.since_start);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) drive(gossip::Tick{});
  });
}

void Daemon::tick() {
  if (started_.stage == PeerStage::ending) return;
  if (lives_.is_running()) look_for_namesake();
  teller_.tick();
  front_.tick();
  if (OutsideTrainer* const outside = lives_.outside(); outside != nullptr && lives_.is_running())
    outside->tell(teller_.swarm_progress());
  discovery_.tick();
  keeper_.checkpoint_if_due();
}

// A member whose name others know must not be shut out by one that takes it, so only a newcomer gives way.
void Daemon::look_for_namesake() {
  const bool newcomer = !started_.options.join.empty() && !listening_.remembered().resumed &&
                        started_.now() < Instant{kNewcomer};
  const auto namesake = find_namesake(lives_.running->core.view().membership, newcomer);
  if (!namesake || namesake->id == namesake_) return;
  namesake_ = namesake->id;
  if (newcomer && namesake->began_before && started_.stage < PeerStage::settling) {
    shutdown_.refuse(namesake->sentence);
    return leave();
  }
  started_.events.say(spdlog::level::warn, "namesake", namesake->sentence, namesake->id);
}

void Daemon::report_steps() {
  steps_posted_ = false;
  Trainer& trainer = *lives_.equipped->trainer;
  if (const auto why = trainer.failure()) return lose_device(*why);
  const std::uint64_t steps = trainer.steps();
  drive(gossip::Stepped{steps, trainer.samples()});
  if (trainer.non_finite()) drive(gossip::ReplicaDiverged{});
  keeper_.leave_snapshot_if_due();
  keeper_.checkpoint_if_due();
  trainer.handled(steps);
}

void Daemon::leave() {
  if (started_.stage == PeerStage::leaving) return;
  if (started_.stage == PeerStage::ending) return shutdown_.hurry();
  started_.advance(PeerStage::leaving);
  discovery_.withdraw();
  started_.events.say(spdlog::level::info, "leaving", "leaving the swarm");
  if (lives_.running) return drive(gossip::LeaveRequested{});
  shutdown_.begin(gossip::Finish::How::left);
}

// ---- actions ----

void Daemon::act(const gossip::StartTraining& start) {
  discovery_.take_part();
  preparation_.initialize();
  preparation_.follow_schedule();
  const std::size_t parameters = lives_.built->replica->plan.layout.parameter_count();
  if (!start.steps) {
    spdlog::info("serving begins: {} parameters, trained by others", parameters);
    started_.advance(PeerStage::serving);
    if (Attachment* const attachment = listening_.attachment())
      attachment->say("this peer is a server: it makes no steps, and its trainer only declares the tensors");
    return teller_.begin_serving();
  }
  const training::Experiment& run = lives_.built->experiment;
  const std::string by =
      lives_.outside() != nullptr
          ? "a trainer"
          : fmt::format("{} {}, batches of {}", run.training.workers,
                        run.training.workers == 1 ? "worker" : "workers", run.training.batch_size);
  const Replica& replica = *lives_.built->replica;
  const auto& split = replica.described.split;
  started_.events.say(spdlog::level::info, "training",
                      fmt::format("training begins: {} parameters, {}, on {}{}", parameters, by,
                                  replica.devices(), split ? " (" + *split + ")" : ""));
  if (lives_.outside() == nullptr) {
    for (const std::string& warning :
         {training::warning_of_workers(run), training::warning_of_vertical_sync(run),
          training::warning_of_precision(run, false)})
      if (!warning.empty()) spdlog::warn("{}", warning);
  }
  if (!started_.process.is_launched()) {
    const std::string end = ends_after(run.end);
    const char* const endless = lives_.outside() != nullptr
                                    ? "the run has no end: this peer leaves when its trainer has ended"
                                    : "the run has no end: stop this peer with Ctrl-C";
    spdlog::info("{}", end.empty() ? endless : "the run ends after " + end);
  }
  started_.advance(PeerStage::training);
  teller_.begin_training();
  if (OutsideTrainer* const outside = lives_.outside()) outside->tell(teller_.swarm_progress());
  lives_.equipped->trainer->start();
}

void Daemon::act(const gossip::StopTraining&) {
  teller_.account_time().train(false);
  lives_.equipped->trainer->stop();
  lives_.equipped->mixer->settle();
}

void Daemon::act(const gossip::PauseTraining& pause) {
  lives_.equipped->trainer->pause(PausedBy::core);
  if (!pause.discard) return;
  lives_.equipped->trainer->discard_steps();
  listening_.exchanger().lost();
}

void Daemon::act(const gossip::ResumeTraining& resume) {
  if (resume.renewed) {
    lives_.equipped->mixer->adopt();
    listening_.exchanger().renewed();
    lives_.equipped->trainer->renew();
  }
  lives_.equipped->trainer->resume(PausedBy::core);
}

void Daemon::act(const gossip::TrainingEnded&) {
  preparation_.initialize();  // the run may have been over before this peer joined it
  started_.advance(PeerStage::settling);
  teller_.end_training();
  started_.events.say(
      spdlog::level::info, "settling",
      fmt::format("training ends after {} steps; settling", lives_.equipped->trainer->steps()));
  shutdown_.save_before_settling();
}

void Daemon::act(const gossip::BeginExchange& begin) {
  teller_.begin_exchange(begin.exchange, begin.partner.id);
  listening_.exchanger().begin(begin.exchange, begin.partner, begin.terms);
}

void Daemon::act(const gossip::AbortExchange& abort) {
  listening_.exchanger().abort(abort.exchange);
  teller_.end_exchange(abort.exchange);
}

void Daemon::act(const gossip::AnswerOffer& answer) {
  ActivityClock& activity = teller_.account_time();
  if (answer.accept) activity.answers(answer.from, answer.exchange);
  listening_.exchanger().answer(answer);
}

void Daemon::act(const gossip::Rewired& rewired) {
  started_.events.rewired(topologies::shown_name(rewired.topology).substr(0, 200));
  // Also in the manifest: a peer that restarts the swarm from the cache uses this topology.
  change_setting(lives_.running->manifest, "gossip.topology", rewired.topology);
}

}  // namespace

int run_peer(const DaemonOptions& options, const LastWords& last_words) {
  const LastWords last = [&](const PeerOutcome& outcome) {
    const ProcessOptions& process = options.process;
    std::error_code ignored;
    if (!process.parent_folder.empty() && has_ended(process.parent))
      std::filesystem::remove_all(process.parent_folder, ignored);
    return last_words(outcome);
  };
  const auto over = std::make_shared<std::atomic<bool>>(false);
  const auto live = [&]() -> PeerOutcome {
    Started started(options);
    started.process.catch_signals();
    const auto listening = Listening::open(started);
    if (!listening) return {2, listening.error().message};
    return Daemon(started, **listening).run(over, last);
  };
  const PeerOutcome outcome = live();
  while (over->exchange(true)) ::pause();  // the process ends elsewhere
  return last(outcome);
}

}  // namespace starling::node
