#include "node/daemon.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>

#include "gossip/peer.h"
#include "gossip/rules.h"
#include "node/activity.h"
#include "node/work/background.h"
#include "node/front/board.h"
#include "node/keep/checkpoint_news.h"
#include "node/keep/checkpointer.h"
#include "node/entropy.h"
#include "node/front/event_log.h"
#include "node/exchange/exchanger.h"
#include "node/front/front.h"
#include "node/launch/launcher_link.h"
#include "node/launch/notify.h"
#include "node/keep/peer_cache.h"
#include "node/work/replica.h"
#include "node/work/self_judge.h"
#include "node/front/status.h"
#include "node/work/trainer.h"
#include "training/experiment/control.h"
#include "training/exchange/make.h"
#include "training/replica/manifest.h"
#include "training/replica/recipe.h"
#include "training/experiment/schedule.h"
#include "transport/link_table.h"
#include "transport/signal.h"
#include "transport/spawn.h"
#include "transport/tcp.h"

namespace starling::node {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Duration kReportInterval = std::chrono::milliseconds(250);
constexpr Duration kVitalsInterval = std::chrono::seconds(2);  // of speed and loss, which others are told
constexpr Duration kLogInterval = std::chrono::seconds(5);
// From a signal to the process's end: the core's leave_limit, then the longest of the first three of these
// (which go on side by side), then the others.
constexpr Duration kFlushLimit = std::chrono::milliseconds(700);
constexpr Duration kWriteLimit = std::chrono::milliseconds(700);  // of one that leaves
constexpr Duration kLastReportLimit = std::chrono::milliseconds(300);
constexpr Duration kThreadLimit = std::chrono::milliseconds(250);
constexpr int kSilentDialsMax = 3;
constexpr Duration kHandshakeLimit = std::chrono::seconds(3);
constexpr std::size_t kEarlyEventsMax = 256;  // kept for a core that does not live yet
constexpr std::size_t kSavesMax = 4;          // copies of the parameters that wait for the disk

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "peer";
  return name;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

transport::TcpOptions with_key(const PeerOptions& options) {
  transport::TcpOptions tcp;
  tcp.tls = options.tls;
  return tcp;
}

// Of all that ever took part, but for this life.
std::uint64_t others_samples(const gossip::Peer::View& view) {
  return view.swarm_samples - view.membership.self().samples;
}

// Ends the process if its threads do not let it end by itself in a moment.
void end_process_soon(const PeerOutcome& outcome) {
  std::thread([outcome] {
    std::this_thread::sleep_for(kThreadLimit);
    if (!outcome.error.empty()) spdlog::error("{}", outcome.error);
    std::_Exit(outcome.exit_code);
  }).detach();
}

class Daemon final : private FrontHost {
 public:
  explicit Daemon(const PeerOptions& options)
      : options_(options),
        experiment_(options.experiment),
        transport_(io_.get_executor(), with_key(options)),
        timer_(io_),
        report_timer_(io_),
        cache_timer_(io_),
        signals_(io_),
        wrapping_up_(io_.get_executor()),
        builder_(io_.get_executor()),
        disk_(io_.get_executor()),
        self_judge_(io_.get_executor()) {}

  PeerOutcome run();

 private:
  void run_io();
  void lose_device(const std::string& why);

  // ---- setting up ----
  std::optional<PeerOutcome> set_up();
  std::optional<PeerOutcome> open_cache();
  std::optional<PeerOutcome> find_checkpoint();
  std::optional<PeerOutcome> open_checkpoints();
  Result<std::unique_ptr<Replica>> with_state(Result<std::unique_ptr<Replica>> replica);
  std::optional<PeerOutcome> listen();
  std::optional<PeerOutcome> serve_http();
  std::string http_address() const;
  void connect_launcher();
  void shape_link(const std::string& command);
  void make_exchanger();
  void watch_signals();
  void begin_run();
  void start_core(std::optional<wire::Manifest> begun);
  Result<std::unique_ptr<Replica>> build(const wire::Manifest& manifest);
  std::uint64_t own_order() const { return resumed_ ? resumed_->order : self_.id.value; }
  void prepared(const wire::Manifest& manifest);
  void initialize();
  void follow_schedule();

  bool is_hopeless(const Address& address, transport::LinkErrorKind kind);

  // ---- the core's driver ----
  Instant now() const { return Instant{std::chrono::duration_cast<Duration>(Clock::now() - origin_)}; }
  void drive(gossip::Event event);
  void take_events();
  void arm_timer();

  void act(const gossip::Send& send) { links_->send(send.to, send.message); }
  void act(const gossip::Prepare& prepare);
  void act(const gossip::FetchState& fetch) { exchanger_->fetch_state(fetch.donor, fetch.address, fetch.afresh); }
  void act(const gossip::AbortFetch&) { exchanger_->abort_fetch(); }
  void act(const gossip::StartTraining& start);
  void act(const gossip::StopTraining&);
  void act(const gossip::PauseTraining& pause) {
    trainer_->pause(pause.discard);
    resting_ = true;
  }
  void act(const gossip::ResumeTraining& resume);
  void act(const gossip::BeginRound& begin) { mixer_->begin_round(begin.round); }
  void act(const gossip::TrainingEnded&);
  void act(const gossip::BeginExchange& begin) {
    look_at_time();
    latest_partner_ = begin.partner;
    exchanging_[begin.exchange] = begin.partner;
    activity_.began(begin.exchange, resting_);
    exchanger_->begin(begin.exchange, begin.partner, begin.address, begin.terms);
  }
  void act(const gossip::AbortExchange& abort) {
    exchanger_->abort(abort.exchange);
    exchanging_.erase(abort.exchange);
    look_at_time();
    activity_.ended(abort.exchange);
  }
  void act(const gossip::AnswerOffer& answer) {
    look_at_time();
    if (answer.accept) activity_.answers(answer.from, answer.exchange);
    exchanger_->answer(answer);
  }
  void act(const gossip::Rewired& rewired);
  void act(const gossip::Finish& finish);
  void act(const gossip::Notice& notice) { events_log_.tell(notice); }

  // ---- telling ----
  void look_at_time() { activity_.account(now(), trainer_ ? trainer_->idle() : Duration{0}); }
  training::PeerReport make_report(training::PeerReport::Kind kind) const;
  std::uint64_t of_this_life(std::uint64_t samples) const;
  void measure_vitals();
  void look_at_itself();
  void write_board();
  void report_and_log();

  // ---- what its front asks (FrontHost) ----
  const gossip::Membership* membership() const override { return peer_ ? &peer_->view().membership : nullptr; }
  std::string unready() const override;
  PeerStatus status() const override;
  std::vector<MemberStatus> members() const override;
  EventLog& events() override { return events_log_; }
  training::ConsensusModel consensus_model() const override { return training::consensus_model(experiment_); }
  Status rest(bool paused) override;
  HttpAnswer introduce(const Address& address) override;
  HttpAnswer set_topology(const std::string& name) override;

  // ---- keeping ----
  void leave_snapshot_if_due();
  std::string in_out(const std::string& name) const { return options_.out + "/" + name + ".safetensors"; }
  void save(const std::string& to, std::function<void(std::string path)> done);
  void checkpoint_if_due();
  CheckpointFacts checkpoint_facts() const;
  void tell_of_checkpoint(const Result<std::string>& written);
  void write_checkpoint(std::function<training::PeerState()> state);
  void judge_own_replica() const;
  void write_cache();
  void write_cache_now_and_then();

  // ---- ending ----
  void leave() override;
  void end();
  void log_faults() const;
  asio::awaitable<void> stop();

  const PeerOptions& options_;
  training::Experiment experiment_;  // of the run: a joiner's after the manifest
  asio::io_context io_{1};
  transport::TcpTransport transport_;
  asio::steady_timer timer_, report_timer_, cache_timer_;
  asio::signal_set signals_;
  Clock::time_point origin_ = Clock::now();

  wire::Hello self_;
  std::unique_ptr<PeerCache> cache_;
  wire::Manifest cached_manifest_;
  std::vector<CachedPeer> remembered_;  // found in the cache, without this peer itself
  std::optional<Resumption> resumed_;
  std::vector<float> first_parameters_;  // of a file; empty: drawn from the seed
  std::unique_ptr<Checkpointer> checkpointer_;
  CheckpointNews checkpoint_news_;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<training::Mixer> mixer_;  // of the replica
  std::unique_ptr<transport::LinkTable> links_;
  std::unique_ptr<Exchanger> exchanger_;
  std::unique_ptr<LauncherLink> launcher_;
  std::optional<wire::Manifest> manifest_;  // of the run, from Prepare on
  std::unique_ptr<Trainer> trainer_;
  training::Schedule schedule_;                         // of the run, once the trainer is there
  std::optional<Result<datasets::DataPair>> own_data_;  // a joiner's copy, read while it looks for the swarm
  std::optional<gossip::Peer> peer_;                    // of the daemon's thread alone
  ActivityClock activity_;
  bool serves_ = false;                                 // others' steps, and makes none
  bool resting_ = false;                                // the core has paused the training
  bool state_copied_ = false;                           // of another member, all of it

  std::deque<gossip::Event> events_;
  bool driving_ = false;
  bool device_lost_ = false;
  bool locked_out_ = false;  // by a key, somewhere
  std::atomic<bool> step_posted_{false};
  std::optional<Clock::time_point> training_start_, training_end_;
  std::string before_settling_path_, final_path_;
  bool exported_ = false;
  std::uint64_t snapshots_ = 0;
  std::size_t saves_ = 0, cache_writes_ = 0;  // under way
  Clock::time_point last_log_ = Clock::now();
  Duration loop_lag_{0};
  EventLog events_log_;
  std::unique_ptr<Board> board_;  // for TensorBoard
  PeerId latest_partner_{};
  std::map<std::uint64_t, PeerId> exchanging_;  // exchanges of its own, and with whom
  bool paused_ = false;                         // by its owner
  // For the speed of late, which others are told.
  Clock::time_point measured_at_ = Clock::now();
  std::uint64_t measured_samples_ = 0;
  double late_samples_per_second_ = 0;
  ServiceNotifier manager_;
  std::map<Address, int> silent_dials_;
  bool cache_warned_ = false;

  bool signalled_ = false, leaving_ = false, ending_ = false;
  bool launcher_gone_ = false;
  std::string state_;
  PeerOutcome outcome_;
  bool wrapped_up_ = false;  // everything is written
  Clock::time_point give_up_at_ = Clock::time_point::max();
  transport::Signal wrapping_up_;  // one of the two has changed

  // Last, so that they end first: their threads use what stands above.
  Background builder_;  // loads the data, builds the replica
  Background disk_;     // writes; judges
  SelfJudge self_judge_;
  std::unique_ptr<Front> front_;
};

// ---- setting up ----

std::optional<PeerOutcome> Daemon::set_up() {
  if (!options_.tensorboard.empty()) {
    auto board = Board::open(options_.tensorboard);
    if (!board) return PeerOutcome{2, "--tensorboard: " + board.error().message};
    board_ = std::move(*board);
  }
  if (auto bad = open_cache()) return bad;
  if (auto bad = find_checkpoint()) return bad;
  if (auto bad = listen()) return bad;
  if (auto bad = open_checkpoints()) return bad;
  if (auto bad = serve_http()) return bad;
  connect_launcher();
  make_exchanger();
  return std::nullopt;
}

std::optional<PeerOutcome> Daemon::open_cache() {
  if (options_.state.empty()) return std::nullopt;
  auto cache = PeerCache::open(options_.state);
  if (!cache) return PeerOutcome{2, "--state: " + cache.error().message};
  cache_ = std::move(*cache);
  auto loaded = cache_->load(options_.swarm);
  if (!loaded.warning.empty()) spdlog::warn("{}", loaded.warning);
  if (loaded.swarm) {
    cached_manifest_ = std::move(loaded.swarm->manifest);
    remembered_ = std::move(loaded.swarm->members);
  }
  return std::nullopt;
}

std::optional<PeerOutcome> Daemon::find_checkpoint() {
  if (options_.resume.empty()) return std::nullopt;
  // The command that begins a peer is the one that goes on with it: then there is nothing yet, or not even the folder.
  const bool own_folder = options_.checkpoints.folder == options_.resume;
  std::error_code ignored;
  if (!own_folder || std::filesystem::exists(options_.resume, ignored)) {
    auto found = find_resumption(options_.resume, options_.name);
    if (!found) return PeerOutcome{2, "--resume: " + found.error().message};
    resumed_ = std::move(*found);
  }
  if (!resumed_) {
    if (!own_folder)
      return PeerOutcome{2, "--resume: there is no checkpoint in the folder " + options_.resume};
    spdlog::info("no checkpoint in {} yet: the peer begins anew", options_.resume);
    return std::nullopt;
  }
  for (const std::string& warning : resumed_->warnings) events_log_.say(spdlog::level::warn, "checkpoint", warning);
  events_log_.say(spdlog::level::info, "checkpoint",
                  fmt::format("resumes from {}: {} steps, {} samples", resumed_->path, resumed_->earlier.steps,
                              resumed_->earlier.samples));
  if (!options_.join.empty()) return std::nullopt;
  auto experiment = resumed_experiment(*resumed_, experiment_, options_.given, options_.data);
  if (!experiment) return PeerOutcome{2, "--resume: " + experiment.error().message};
  experiment_ = std::move(*experiment);
  // A state folder that has nothing yet: the swarm may still be where it was.
  if (cache_ && cached_manifest_.model.empty()) {
    cached_manifest_ = resumed_->run.manifest;
    remembered_ = resumed_->run.members;
  }
  return std::nullopt;
}

std::optional<PeerOutcome> Daemon::open_checkpoints() {
  if (options_.checkpoints.folder.empty()) return std::nullopt;
  auto opened = Checkpointer::open(options_.checkpoints, self_.name, resumed_ ? &*resumed_ : nullptr);
  if (!opened) return PeerOutcome{2, "--checkpoints: " + opened.error().message};
  checkpointer_ = std::move(*opened);
  return std::nullopt;
}

// On the builder's thread: what is not the seed's to say of how it begins.
Result<std::unique_ptr<Replica>> Daemon::with_state(Result<std::unique_ptr<Replica>> replica) {
  if (!replica) return replica;
  if (!resumed_ && experiment_.init && options_.join.empty()) {
    auto first = training::starting_parameters(experiment_, (*replica)->plan);
    if (!first) return first.error();
    first_parameters_ = std::move(*first);
  }
  if (!resumed_) return replica;
  if (const Status read = read_state(*resumed_, (*replica)->plan.layout); !read)
    return Error{"--resume: " + read.error().message};
  return replica;
}

std::optional<PeerOutcome> Daemon::listen() {
  transport_.shape_links(
      {options_.experiment.latency.value_or(Duration{0}), options_.experiment.bandwidth.value_or(0), 0});
  self_.swarm = options_.swarm;
  self_.id = PeerId{entropy()};

  transport::LinkTableEvents events;
  events.on_message = [this](PeerId from, const Address& at, wire::Message message) {
    drive(gossip::Received{from, at, std::move(message)});
  };
  events.on_unreachable = [this](const Address& address, transport::LinkErrorKind kind, std::string why) {
    const bool hopeless = is_hopeless(address, kind);
    if (hopeless && silent_dials_.contains(address)) why += "; it does not seem to be a Starling peer";
    const bool locked_out = kind == transport::LinkErrorKind::wrong_key || kind == transport::LinkErrorKind::no_key;
    locked_out_ = locked_out_ || locked_out;
    drive(gossip::Unreachable{address, hopeless, std::move(why), locked_out});
  };
  events.on_bulk = [this](transport::LinkPtr link, wire::Hello remote) {
    exchanger_->serve(std::move(link), std::move(remote));
  };
  events.on_refused = [](transport::LinkErrorKind, const std::string& why) {
    spdlog::warn("refused a connection: {}", why);
  };
  transport::LinkTableOptions limits;
  limits.handshake_limit = kHandshakeLimit;
  links_ = std::make_unique<transport::LinkTable>(io_.get_executor(), transport_, self_, std::move(events),
                                                  limits);

  const bool anywhere = options_.listen.host == "0.0.0.0" || options_.listen.host == "::";
  if (anywhere && !options_.advertise) {
    return PeerOutcome{2, "--listen " + to_string(options_.listen) +
                              " names no address that others could dial; add --advertise HOST:PORT"};
  }
  if (!options_.tls && !is_loopback(options_.listen.host)) {
    spdlog::warn("--listen {} without --key: whoever reaches it can join, and read and change what is trained; "
                 "`starling key new FILE` makes a key",
                 to_string(options_.listen));
  }
  const auto listening = links_->listen(options_.listen);
  if (!listening) return PeerOutcome{2, listening.error().message};
  self_.address = options_.advertise.value_or(*listening);
  if (self_.address.port == 0) self_.address.port = listening->port;
  const std::string name = options_.name.empty() && resumed_ ? resumed_->name : options_.name;
  self_.name = name.empty() ? host_name() + "-" + std::to_string(self_.address.port) : name;
  links_->set_hello(self_);
  spdlog::set_default_logger(spdlog::default_logger()->clone(self_.name));  // what JSON logs call the peer

  std::erase_if(remembered_, [&](const CachedPeer& peer) { return peer.address == self_.address; });
  return std::nullopt;
}

std::optional<PeerOutcome> Daemon::serve_http() {
  if (!options_.http) return std::nullopt;
  auto front = Front::open(*options_.http, options_.token, *this,
                           [this](std::function<void()> work) { asio::post(io_, std::move(work)); }, builder_);
  if (!front) return PeerOutcome{2, "--http: " + front.error().message};
  front_ = std::move(*front);
  spdlog::info("HTTP at {}", to_string(front_->address()));
  if (!is_loopback(options_.http->host)) {
    spdlog::warn("--http {}: whoever reaches it can read this peer; {}", to_string(*options_.http),
                 options_.token.empty() ? "orders are taken from this machine alone, as there is no --token-file"
                                        : "orders take its token");
  }
  return std::nullopt;
}

// Where others' pages find this peer's: of one that listens everywhere, at the host at which it is dialed.
std::string Daemon::http_address() const {
  Address at = front_->address();
  if (at.host == "0.0.0.0" || at.host == "::") at.host = self_.address.host;
  return to_string(at);
}

void Daemon::connect_launcher() {
  if (options_.control_fd < 0) return;
  launcher_ = std::make_unique<LauncherLink>(
      io_.get_executor(), options_.control_fd,
      [this](const std::string& command) {
        if (command == training::kEndCommand) drive(gossip::EndRequested{});
        if (command == training::kLeaveCommand) leave();
        if (training::is_link_order(command)) shape_link(command);
      },
      [this] {
        launcher_gone_ = true;
        leave();
      });
  training::PeerReport report;
  report.kind = training::PeerReport::Kind::listening;
  report.address = to_string(self_.address);
  launcher_->report(report);
}

void Daemon::shape_link(const std::string& command) {
  const auto order = training::parse_link_order(command);
  if (!order) return spdlog::warn("{}", order.error().message);
  transport_.shape_links_to(order->to, {order->latency, order->bandwidth, order->drop});
}

void Daemon::make_exchanger() {
  ExchangerEvents exchanges;
  exchanges.on_ended = [this](std::uint64_t exchange, gossip::Outcome how, std::uint64_t round) {
    look_at_time();
    activity_.ended(exchange);
    exchanging_.erase(exchange);
    drive(gossip::ExchangeEnded{exchange, how, round});
  };
  exchanges.on_advanced = [this](std::uint64_t exchange, std::uint64_t cells) {
    look_at_time();
    activity_.advanced(exchange);
    drive(gossip::ExchangeAdvanced{exchange, cells});
  };
  exchanges.on_offered = [this](PeerId from, std::uint64_t exchange, std::uint64_t round) {
    drive(gossip::ExchangeOffered{from, exchange, round});
  };
  exchanges.on_answer_ended = [this](PeerId from, std::uint64_t exchange, bool completed, bool poisoned) {
    look_at_time();
    activity_.answered(from, exchange);
    const gossip::Outcome unfinished = poisoned ? gossip::Outcome::poisoned : gossip::Outcome::aborted;
    drive(gossip::AnswerEnded{from, exchange, completed ? gossip::Outcome::completed : unfinished});
  };
  exchanges.on_state_advanced = [this](std::uint64_t chunks, std::uint64_t total) {
    drive(gossip::StateAdvanced{chunks, total});
  };
  exchanges.on_state_arrived = [this] {
    state_copied_ = true;
    mixer_->adopt();
    drive(gossip::StateArrived{});
  };
  exchanges.on_diverged = [this] { drive(gossip::ReplicaDiverged{}); };
  exchanges.on_state_lost = [this](std::string why, bool poisoned) {
    drive(gossip::StateLost{std::move(why), poisoned});
  };
  exchanges.steps = [this] { return trainer_ ? trainer_->steps() : 0; };
  ExchangerOptions limits;
  const auto& mine = options_.experiment;
  if (const auto cells = training::chunk_cells(mine)) limits.chunk_cells = *cells;
  if (mine.window > 0) limits.window = mine.window;
  exchanger_ = std::make_unique<Exchanger>(io_.get_executor(), *links_, std::move(exchanges), limits);
}

void Daemon::watch_signals() {
  signals_.async_wait([this](const asio::error_code& error, int) {
    if (error) return;
    if (signalled_) std::_Exit(130);  // asked twice: at once
    signalled_ = true;
    leave();
    watch_signals();
  });
}

// A beginner's: the core needs to know the manifest, and the manifest takes the data.
void Daemon::begin_run() {
  const auto made = std::make_shared<std::optional<Result<std::unique_ptr<Replica>>>>();
  builder_.run(
      [this, made] {
        made->emplace(with_state(make_replica(experiment_, options_.data_root, options_.slot, own_order())));
      },
      [this, made] {
        if (ending_) return;
        if (!**made) {
          outcome_ = {2, (*made)->error().message};
          state_ = "failed";
          return end();
        }
        replica_ = std::move(***made);
        start_core(training::manifest_of<wire::Manifest>(experiment_, replica_->plan.layout, replica_->data.name));
      });
}

void Daemon::start_core(std::optional<wire::Manifest> begun) {
  gossip::PeerOptions peer;
  peer.id = self_.id;
  peer.name = self_.name;
  peer.address = self_.address;
  if (front_) peer.http = http_address();
  peer.seed = entropy();
  if (resumed_) peer.earlier = resumed_->earlier;
  peer.join = options_.join;
  peer.contacts = options_.join;
  for (const CachedPeer& member : remembered_) peer.contacts.push_back(member.address);
  if (begun) {
    peer.manifest = std::move(*begun);
  } else if (options_.join.empty()) {
    peer.join = peer.contacts;
    peer.manifest = cached_manifest_;
    peer.begin_after = from_seconds(to_seconds(options_.begin_after) * Random(entropy()).uniform(1, 1.5));
    spdlog::info("looking for the swarm that {} remembers: {} addresses", options_.state, remembered_.size());
    const std::string unheard = unheard_settings(options_.given, options_.experiment, cached_manifest_);
    if (!unheard.empty())
      spdlog::warn(
          "the run that {} remembers goes on as it was begun; not heard: {}; another run needs another "
          "folder",
          options_.state, unheard);
  }
  spdlog::info("{} listens at {}, swarm '{}'", self_.name, to_string(self_.address), self_.swarm);
  peer_.emplace(std::move(peer));
  events_.push_front(gossip::Start{});
  take_events();
}

// Whether whoever listens there will never let us join: no Starling peer, another version, swarm or key, or, time
// and again, somebody who takes the connection and stays silent.
bool Daemon::is_hopeless(const Address& address, transport::LinkErrorKind kind) {
  using Kind = transport::LinkErrorKind;
  // Among the addresses this peer was told to join alone: what others claim, or what was once true, is no
  // reason to give up, and must not fill the map.
  if (std::find(options_.join.begin(), options_.join.end(), address) == options_.join.end()) return false;
  switch (kind) {
    case Kind::bad_magic:
    case Kind::bad_version:
    case Kind::wrong_swarm:
    case Kind::wrong_key:
    case Kind::no_key:
    case Kind::refused:
    case Kind::same_peer:
      return true;
    case Kind::timed_out:
    case Kind::closed_by_peer:
    case Kind::broken:
      return ++silent_dials_[address] >= kSilentDialsMax;
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
  if (options_.expected_model && options_.experiment.layers != experiment_.layers) {
    return Error{"the swarm's model '" + manifest.model +
                 "' has other layers than the one that --model names; leave "
                 "--model out to train what the swarm trains"};
  }
  experiment_.seed = manifest.seed;
  experiment_.data = options_.data.value_or(manifest.data);
  auto data = own_data_ ? std::move(*own_data_) : datasets::load(experiment_.data, options_.data_root);
  if (!data) return data.error();
  auto replica = make_replica(experiment_, std::move(*data), options_.slot, own_order());
  if (!replica) return replica;
  if ((*replica)->plan.layout.fingerprint() != manifest.fingerprint) {
    return Error{"the model '" + manifest.model + "' for the data '" + (*replica)->data.name +
                 "' has another layout here than in the swarm (which trains on '" + manifest.data +
                 "'); --data must name a copy of the same data"};
  }
  return with_state(std::move(replica));
}

PeerOutcome Daemon::run() {
  signals_.add(SIGINT);
  signals_.add(SIGTERM);
  if (auto bad = set_up()) return *bad;
  manager_.ready("listens at " + to_string(self_.address));
  watch_signals();
  report_and_log();
  write_cache_now_and_then();
  if (options_.join.empty() && remembered_.empty()) {
    begin_run();
  } else {
    if (options_.data) {
      builder_.run([this] { own_data_.emplace(datasets::load(*options_.data, options_.data_root)); });
    }
    asio::post(io_, [this] { start_core(std::nullopt); });
  }
  run_io();
  end_process_soon(outcome_);
  return outcome_;
}

// A device that fails while chunks are mixed on it fails whatever handler did so.
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
  device_lost_ = true;
  if (peer_ && !peer_->view().over) drive(gossip::ReplicaGone{why});
}

// ---- the core's driver ----

void Daemon::drive(gossip::Event event) {
  if (!peer_ && events_.size() >= kEarlyEventsMax) return;
  events_.push_back(std::move(event));
  if (peer_ && !driving_) take_events();  // else called from inside an action: take_events() goes on
}

void Daemon::take_events() {
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
    follow_schedule();
  }
  driving_ = false;
  if (serves_) leave_snapshot_if_due();  // who trains does at its steps
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
  manifest_ = prepare.manifest;
  if (replica_) {
    asio::post(io_, [this] { prepared(*manifest_); });
    return;
  }
  spdlog::info("the swarm trains {} on {}", prepare.manifest.model, prepare.manifest.data);
  const auto built = std::make_shared<std::optional<Result<std::unique_ptr<Replica>>>>();
  builder_.run([this, manifest = prepare.manifest, built] { built->emplace(build(manifest)); },
               [this, built] {
                 if (peer_->view().over) return;
                 if (!**built) return drive(gossip::PrepareFailed{(*built)->error().message});
                 replica_ = std::move(***built);
                 prepared(*manifest_);
               });
}

void Daemon::prepared(const wire::Manifest& manifest) {
  if (peer_->view().over) return;
  auto rules = gossip::rules_from(manifest, replica_->data.train.size());
  if (!rules) return drive(gossip::PrepareFailed{rules.error().message});
  const auto mix = training::mix_options(experiment_);
  if (!mix) return drive(gossip::PrepareFailed{mix.error().message});
  const auto schedule = training::make_schedule(experiment_);
  if (!schedule) return drive(gossip::PrepareFailed{schedule.error().message});
  schedule_ = *schedule;
  const std::uint32_t number = options_.slot ? options_.slot->first : 0;
  trainer_ = std::make_unique<Trainer>(std::move(replica_->workers), replica_->arena,
                                       TrainerOptions{.pace = experiment_.pace,
                                                      .slowdowns = slowdowns_of(options_.experiment, number, experiment_.seed),
                                                      .average_every = experiment_.average_every,
                                                      .last_step = rules->end.steps.value_or(UINT64_MAX),
                                                      .in_turn = gossip::traits(rules->rule).lets_wait()},
                                       [this] {
                                         if (step_posted_.exchange(true)) return;
                                         asio::post(io_, [this] {
                                           step_posted_ = false;
                                           if (const auto why = trainer_->failure()) return lose_device(*why);
                                           const std::uint64_t steps = trainer_->steps();
                                           drive(gossip::Stepped{steps, trainer_->samples()});
                                           if (trainer_->non_finite()) drive(gossip::ReplicaDiverged{});
                                           trainer_->heard(steps);
                                           leave_snapshot_if_due();
                                           checkpoint_if_due();
                                         });
                                       },
                                       replica_->group.get());
  if (resumed_)
    for (const std::string& lost : trainer_->restore(resumed_->state))
      events_log_.say(spdlog::level::warn, "checkpoint", resumed_->path + ": " + lost);
  mixer_ = training::make_mixer(replica_->arena, *mix);
  exchanger_->attach(replica_->arena, manifest.fingerprint, *mixer_);
  drive(gossip::Prepared{std::move(*rules), replica_->devices()});
}

// Whoever begins a run, for the first time, after a blackout or from a checkpoint, has copied nothing.
void Daemon::initialize() {
  if (training_start_) return;
  if (state_copied_) {
    if (resumed_) {
      trainer_->moved();
      resumed_->state = {};
    }
    return;
  }
  if (resumed_) {
    replica_->arena.write(0, resumed_->state.parameters);
    resumed_->state = {};
  } else if (!first_parameters_.empty()) {
    replica_->arena.write(0, first_parameters_);
    first_parameters_ = {};
  } else {
    training::write_first_parameters(replica_->plan, experiment_.seed, replica_->arena);
  }
  mixer_->adopt();
}

// The learning rate goes by what the core knows of the swarm's progress.
void Daemon::follow_schedule() {
  if (!trainer_) return;
  trainer_->set_rate_factor(training::step_rate_factor(schedule_, peer_->view().swarm_samples,
                                                       experiment_.batch_size, replica_->data.train.size()));
}

void Daemon::act(const gossip::StartTraining& start) {
  initialize();
  follow_schedule();
  if (!start.steps) {
    spdlog::info("serving begins: {} parameters, which others train", replica_->plan.layout.parameter_count());
    training_start_ = Clock::now();
    serves_ = true;
    return;
  }
  events_log_.say(spdlog::level::info, "training",
                  fmt::format("training begins: {} parameters, {} workers, batches of {}, on {}",
                              replica_->plan.layout.parameter_count(), experiment_.workers, experiment_.batch_size,
                              replica_->devices()));
  if (const std::string warning = training::warning_of_workers(experiment_); !warning.empty())
    spdlog::warn("{}", warning);
  measured_samples_ = trainer_->samples();  // those of earlier lives say nothing of its speed
  training_start_ = Clock::now();
  look_at_time();
  activity_.train(true);
  trainer_->start();
}

void Daemon::act(const gossip::StopTraining&) {
  look_at_time();
  activity_.train(false);
  trainer_->stop();
}

void Daemon::act(const gossip::ResumeTraining& resume) {
  if (resume.renewed) {
    mixer_->adopt();
    exchanger_->renewed();
  }
  resting_ = false;
  if (paused_ && !resume.renewed) return;
  trainer_->resume(resume.renewed);
  if (paused_) trainer_->pause(false);
}

void Daemon::act(const gossip::Rewired& rewired) {
  events_log_.say(spdlog::level::info, "rewired",
                  "the swarm's topology is " + rewired.topology.substr(0, 200) + " from now on");
  // Whoever restarts the swarm from this peer's cache goes on with it.
  for (wire::Setting& setting : manifest_->settings)
    if (setting.key == "gossip.topology") setting.value = rewired.topology;
}

void Daemon::act(const gossip::TrainingEnded&) {
  initialize();  // where the run was over before it began
  training_end_ = Clock::now();
  events_log_.say(spdlog::level::info, "settling",
                  fmt::format("training ends after {} steps; settling", trainer_->steps()));
  if (launcher_ && !options_.out.empty())
    save(in_out(self_.name + ".before-settling"),
         [this](std::string path) { before_settling_path_ = std::move(path); });
}

// ---- telling ----

std::uint64_t Daemon::of_this_life(std::uint64_t samples) const {
  return samples - std::min(samples, resumed_ ? resumed_->earlier.samples : 0);
}

training::PeerReport Daemon::make_report(training::PeerReport::Kind kind) const {
  training::PeerReport report;
  report.kind = kind;
  report.state = "joining";
  if (!state_.empty()) report.state = state_;
  if (replica_) report.device = replica_->devices();
  if (trainer_) {
    report.steps = trainer_->steps();
    report.samples = trainer_->samples();
    report.loss = trainer_->loss();
    report.learning_rate = training::resolved_learning_rate(experiment_) * trainer_->rate_factor();
  }
  report.bytes_sent = links_->counters().traffic.sent;
  if (training_start_) {
    report.seconds =
        std::chrono::duration<double>(training_end_.value_or(Clock::now()) - *training_start_).count();
    if (report.seconds > 0)
      report.samples_per_second = static_cast<double>(of_this_life(report.samples)) / report.seconds;
  }
  report.computing_seconds = to_seconds(activity_.sums().computing);
  report.exchanging_seconds = to_seconds(activity_.sums().exchanging);
  report.waiting_seconds = to_seconds(activity_.sums().waiting);
  report.staleness = exchanger_->counters().staleness;
  report.distance = exchanger_->counters().distance;
  if (!peer_) return report;
  const auto view = peer_->view();
  if (state_.empty()) report.state = phase_name(view.membership.self().phase);
  // Its own are as many as `samples` says: the core hears of a step a little later.
  report.swarm_samples = others_samples(view) + of_this_life(report.samples);
  report.members = static_cast<std::uint32_t>(1 + view.membership.live_others());
  report.answered = view.exchanges.answered;
  report.exchanges = {view.exchanges.completed, view.exchanges.aborted, view.exchanges.rejected,
                      exchanger_->counters().half_applied_chunks};
  if (mixer_) report.exchanges.refused_chunks = training::refused_by_reason(mixer_->counters());
  return report;
}

PeerStatus Daemon::status() const {
  const auto report = make_report(training::PeerReport::Kind::status);
  const auto view = peer_->view();
  const auto links = links_->counters();
  PeerStatus status;
  status.name = self_.name;
  status.id = to_string(self_.id);
  status.swarm = self_.swarm;
  status.address = to_string(self_.address);
  status.version = STARLING_VERSION;
  if (manifest_) {
    status.model = manifest_->model;
    status.data = manifest_->data;
  }
  if (replica_) status.device = replica_->devices();
  if (trainer_) status.device_spread = trainer_->spread();
  if (view.topology != nullptr) status.topology = view.topology->name();
  if (manifest_) {
    status.rule = experiment_.rule;
    status.payload = experiment_.payload;
  }
  status.paused = paused_;
  if (const auto& seen = self_judge_.latest()) {
    status.accuracy = seen->accuracy;
    status.accuracy_steps = seen->steps;
  }
  if (replica_) status.epoch_samples = replica_->data.train.size();
  status.distance = report.distance;
  status.staleness = report.staleness.mean();
  for (std::size_t i = 0; i < transport::kLinkErrorKinds; ++i) {
    if (links.faults[i] > 0)
      status.connections_refused[std::string(name(static_cast<transport::LinkErrorKind>(i)))] = links.faults[i];
  }
  status.phase = phase_name(view.membership.self().phase);
  status.steps = report.steps;
  status.samples = report.samples;
  status.swarm_samples = report.swarm_samples;
  status.samples_per_second = report.samples_per_second;
  status.loss = report.loss;
  status.learning_rate = report.learning_rate;
  status.uptime_seconds = to_seconds(now().since_start);
  status.incarnation = view.membership.self().incarnation;
  status.members_live = report.members;
  status.members_known = 1 + view.membership.others().size();
  status.exchanges.begun = view.exchanges.begun;
  status.exchanges.completed = view.exchanges.completed;
  status.exchanges.aborted = view.exchanges.aborted;
  status.exchanges.rejected = view.exchanges.rejected;
  status.exchanges.answered = view.exchanges.answered;
  status.exchanges.half_applied_chunks = exchanger_->counters().half_applied_chunks;
  if (mixer_) status.exchanges.count(mixer_->counters());
  status.bytes_sent = links.traffic.sent;
  status.bytes_received = links.traffic.received;
  status.links_open = links_->links();
  status.bulk_links_open = exchanger_->idle() + exchanger_->servers();
  status.memory_bytes = resident_bytes();
  status.loop_lag_seconds = to_seconds(loop_lag_);
  return status;
}

std::string Daemon::unready() const {
  if (!peer_) return "the peer is still loading its data";
  if (leaving_ || ending_) return "the peer is leaving";
  const wire::Phase phase = peer_->view().membership.self().phase;
  if (phase == wire::Phase::joining) return "the peer is joining the run";
  return phase == wire::Phase::finished ? "the peer has finished the run" : "";
}

std::vector<MemberStatus> Daemon::members() const {
  std::vector<PeerId> exchanging;
  for (const auto& [exchange, partner] : exchanging_) exchanging.push_back(partner);
  auto members = list_members(peer_->view().membership, now(), exchanging);
  for (MemberStatus& member : members) {
    if (member.this_peer && front_) member.http = http_address();
  }
  return members;
}

// No step begins until it goes on; others are answered all the while.
Status Daemon::rest(bool paused) {
  if (!trainer_ || serves_ || !training_start_) return Error{"this peer makes no steps now"};
  if (paused == paused_) return Done{};
  paused_ = paused;
  events_log_.say(spdlog::level::info, paused ? "paused" : "resumed",
                  paused ? "this peer rests until it is told to resume" : "this peer goes on");
  if (resting_) return Done{};  // the core has it rest as well
  look_at_time();
  if (paused) {
    trainer_->pause(false);
  } else {
    trainer_->resume(false);
  }
  measure_vitals();
  return Done{};
}

HttpAnswer Daemon::introduce(const Address& address) {
  if (address == self_.address)
    return http_refusal(400, "this peer itself listens at " + to_string(address));
  drive(gossip::Introduced{address});
  return {200, introduction_json(address)};
}

HttpAnswer Daemon::set_topology(const std::string& name) {
  const auto view = peer_->view();
  if (view.topology == nullptr || ending_)
    return http_refusal(503, "this peer takes no part in the run yet, or no more");
  const auto topology = topologies::Topology::parse(name);
  if (!topology) return http_refusal(400, topology.error().message);
  std::uint32_t trained = 1;
  for (const gossip::Record& record : view.membership.others())
    trained += record.is_live() && record.member.phase >= wire::Phase::training;
  if (const Status exists = topology->exists(trained); !exists)
    return http_refusal(400, "among the swarm's " + std::to_string(trained) + " peers now: " + exists.error().message);
  if (const auto why = peer_->obstacle_to_setting(*topology)) return http_refusal(409, *why);
  drive(gossip::RewireRequested{name});
  return {200, topology_request_json(name)};
}

// What others are told of this peer, and show on their pages.
void Daemon::measure_vitals() {
  if (!peer_ || peer_->view().over) return;
  const auto report = make_report(training::PeerReport::Kind::status);
  const auto at = Clock::now();
  const double seconds = std::chrono::duration<double>(at - measured_at_).count();
  if (seconds > 0)
    late_samples_per_second_ = static_cast<double>(report.samples - measured_samples_) / seconds;
  measured_at_ = at;
  measured_samples_ = report.samples;
  const auto told = [](const std::optional<double>& value) {
    return value ? std::optional(static_cast<float>(*value)) : std::nullopt;
  };
  wire::Vitals vitals;
  vitals.samples_per_second = static_cast<float>(late_samples_per_second_);
  vitals.loss = told(report.loss);
  vitals.distance = told(report.distance);
  vitals.staleness = told(report.staleness.mean());
  vitals.partner = latest_partner_;
  vitals.paused = paused_;
  drive(gossip::VitalsMeasured{vitals});
}

// For whoever looks at it.
void Daemon::look_at_itself() {
  const bool somebody_looks = front_ || (board_ && board_->is_open());
  if (!somebody_looks || !training_start_ || serves_ || !peer_ || peer_->view().over) return;
  if (peer_->view().membership.self().phase == wire::Phase::training && !peer_->view().diverged)
    self_judge_.look_if_due(*replica_, trainer_->steps());
}

void Daemon::write_board() {
  if (!board_ || !training_start_ || !board_->is_due()) return;
  board_->show(status(), late_samples_per_second_, self_judge_.latest(), disk_, [this](const std::string& problem) {
    events_log_.say(spdlog::level::warn, "refused", problem + "; TensorBoard hears no more");
  });
}

void Daemon::report_and_log() {
  if (ending_) return;
  look_at_time();
  const auto report = make_report(training::PeerReport::Kind::status);
  if (launcher_) launcher_->report(report);
  if (Clock::now() - measured_at_ >= kVitalsInterval) measure_vitals();
  look_at_itself();
  if (front_) front_->tick();
  write_board();
  manager_.alive(report.state);
  if (training_start_ && Clock::now() - last_log_ >= kLogInterval) {
    last_log_ = Clock::now();
    spdlog::info(
        "{}: {} steps, {:.0f} samples/s, loss {:.4f}, {} members, {} exchanges begun and {} answered",
        report.state, report.steps, report.samples_per_second, report.loss.value_or(0), report.members,
        peer_->view().exchanges.completed, peer_->view().exchanges.answered);
  }
  checkpoint_if_due();
  report_timer_.expires_after(kReportInterval);
  report_timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    loop_lag_ = Clock::now() - report_timer_.expiry();
    report_and_log();
  });
}

// ---- keeping ----

void Daemon::leave_snapshot_if_due() {
  if (options_.snapshots == 0 || options_.out.empty() || peer_->view().over) return;
  const auto view = peer_->view();
  if (view.membership.self().phase != wire::Phase::training) return;
  const std::uint64_t due = view.swarm_samples * options_.snapshots / replica_->data.train.size();
  if (due <= snapshots_ || saves_ >= kSavesMax) return;
  snapshots_ = due;
  save(in_out(self_.name + ".snapshot-" + std::to_string(due)),
       [this, report = make_report(training::PeerReport::Kind::snapshot), due](std::string path) mutable {
         if (!launcher_ || path.empty()) return;
         report.snapshot = due;
         report.path = std::move(path);
         launcher_->report(report);
       });
}

// Writes the parameters as they are now; `done` gets the file's path, nothing where it could not be written.
void Daemon::save(const std::string& to, std::function<void(std::string path)> done) {
  auto parameters = std::make_shared<std::vector<float>>(replica_->arena.size());
  replica_->arena.read(0, *parameters);
  const auto path = std::make_shared<std::string>(to);
  ++saves_;
  disk_.run(
      [this, parameters, path] {
        const Status written = write_replica(*path, *replica_, experiment_, *parameters);
        if (written) return;
        spdlog::error("{}", written.error().message);
        path->clear();
      },
      [this, path, done = std::move(done)] {
        --saves_;
        done(std::move(*path));
      });
}

// Copied while the workers go on, written on the disk's thread.
void Daemon::checkpoint_if_due() {
  if (!checkpointer_ || !trainer_ || !training_start_ || training_end_ || ending_ || peer_->view().over) return;
  const std::uint64_t steps = trainer_->steps();
  if (!checkpointer_->is_due(steps)) return;
  if (serves_) {
    checkpointer_->begins(steps);
    return write_checkpoint([this] { return trainer_->remains(); });
  }
  const bool asked = trainer_->capture([this](std::shared_ptr<training::PeerState> state) {
    asio::post(io_, [this, state = std::move(state)] {
      if (!ending_) write_checkpoint([state] { return std::move(*state); });
    });
  });
  if (asked) checkpointer_->begins(steps);
}

CheckpointFacts Daemon::checkpoint_facts() const {
  const auto view = peer_->view();
  CheckpointFacts facts;
  facts.run = {self_.swarm, *manifest_, peers_to_cache(view.membership, remembered_)};
  facts.model = {experiment_.model, experiment_.layers};
  facts.source = experiment_.data;
  facts.name = self_.name;
  facts.id = self_.id;
  facts.incarnation = view.membership.self().incarnation;
  facts.order = own_order();
  facts.earlier_samples = resumed_ ? resumed_->earlier.samples : 0;
  facts.others_samples = others_samples(view);
  facts.elapsed = now() - view.run_start;
  return facts;
}

// All are in the log, the failures as far as they differ; among the happenings are those that are news.
void Daemon::tell_of_checkpoint(const Result<std::string>& written) {
  const std::string& what = written ? *written : written.error().message;
  const auto news = written ? checkpoint_news_.written(what, Clock::now()) : checkpoint_news_.failed(what, Clock::now());
  const bool logged = written || checkpointer_->is_news(what);
  if (news) {
    events_log_.say(written ? spdlog::level::info : spdlog::level::warn, "checkpoint", *news);
  } else if (written) {
    spdlog::info("checkpoint written: {}", what);
  } else if (logged) {
    spdlog::warn("no checkpoint, and training goes on: {}", what);
  }
}

void Daemon::write_checkpoint(std::function<training::PeerState()> state) {
  const auto written = std::make_shared<std::optional<Result<std::string>>>();
  disk_.run(
      [this, written, state = std::move(state), facts = checkpoint_facts()] {
        written->emplace(checkpointer_->write(replica_->plan.layout, state(), facts));
      },
      [this, written] {
        checkpointer_->ends();
        tell_of_checkpoint(**written);
      });
}

// Nobody changes it any more: the exchanger is closed, and the workers are over, whose memory serves the judge.
void Daemon::judge_own_replica() const {
  trainer_->give_back();
  replica_->arena.wait();
  const auto score = training::Evaluator(replica_->plan, replica_->backend(), replica_->data.test)
                         .evaluate(replica_->arena.data());
  spdlog::info("accuracy {:.4f}, loss {:.4f} on {} test samples of {}", score.accuracy, score.loss,
               replica_->data.test.size(), replica_->data.name);
}

// What a peer has not been able to build it does not remember either.
void Daemon::write_cache() {
  if (!cache_ || !trainer_) return;
  ++cache_writes_;
  const CachedSwarm swarm{self_.swarm, *manifest_, peers_to_cache(peer_->view().membership, remembered_)};
  const auto problem = std::make_shared<std::string>();
  disk_.run(
      [this, problem, text = to_json(swarm)] {
        if (const Status written = cache_->write(text); !written) *problem = written.error().message;
      },
      [this, problem] {
        --cache_writes_;
        if (!problem->empty() && !cache_warned_) spdlog::warn("{}", *problem);
        cache_warned_ = !problem->empty();
      });
}

void Daemon::write_cache_now_and_then() {
  if (!cache_ || ending_) return;
  if (cache_writes_ == 0) write_cache();  // else the disk is slower than that
  cache_timer_.expires_after(options_.cache_interval);
  cache_timer_.async_wait([this](const asio::error_code& error) {
    if (!error) write_cache_now_and_then();
  });
}

// ---- ending ----

void Daemon::leave() {
  if (leaving_) return;
  leaving_ = true;
  if (ending_) {  // by itself; now it has to hurry
    give_up_at_ = Clock::now() + kWriteLimit;
    return wrapping_up_.raise();
  }
  events_log_.say(spdlog::level::info, "leaving", "leaving the swarm");
  if (peer_) return drive(gossip::LeaveRequested{});
  state_ = "left";
  end();
}

void Daemon::act(const gossip::Finish& finish) {
  switch (finish.how) {
    case gossip::Finish::How::finished:
      state_ = "finished";
      break;
    case gossip::Finish::How::left:
      state_ = "left";
      break;
    case gossip::Finish::How::failed:
      state_ = "failed";
      // Of a swarm that is remembered it is not known on whose side the key is wrong, and who is started anew reads it again.
      outcome_ = {device_lost_ || (locked_out_ && options_.join.empty()) ? 1 : 2, finish.why};
      break;
  }
  end();
}

void Daemon::end() {
  ending_ = true;
  manager_.stopping();
  timer_.cancel();
  report_timer_.cancel();
  cache_timer_.cancel();
  if (trainer_) trainer_->stop();
  transport::spawn(io_.get_executor(),
                   [](Daemon* self) -> asio::awaitable<void> { co_await self->stop(); }(this));
}

// What was refused or broke on this peer's connections, and which chunks were not mixed, by reason.
void Daemon::log_faults() const {
  const auto links = links_->counters();
  std::string connections;
  for (std::size_t i = 0; i < transport::kLinkErrorKinds; ++i) {
    if (links.faults[i] == 0) continue;
    if (!connections.empty()) connections += ", ";
    connections += std::string(name(static_cast<transport::LinkErrorKind>(i))) + " " +
                   std::to_string(links.faults[i]);
  }
  if (!connections.empty()) spdlog::info("connections refused or broken: {}", connections);

  PeerStatus::Exchanges exchanges;
  if (mixer_) exchanges.count(mixer_->counters());
  exchanges.half_applied_chunks = exchanger_->counters().half_applied_chunks;
  if (const std::string lost = exchanges.losses(); !lost.empty()) spdlog::info("chunks refused or lost: {}", lost);
}

asio::awaitable<void> Daemon::stop() {
  log_faults();
  exchanger_->close();
  const bool trained = (training_start_ || training_end_) && state_ != "failed";
  const bool saves = trained && !options_.out.empty(), exports = trained && !options_.export_to.empty();
  if (saves) save(in_out(self_.name), [this](std::string path) { final_path_ = std::move(path); });
  if (exports) save(options_.export_to, [this](std::string path) { exported_ = !path.empty(); });
  write_cache();
  if (trained && checkpointer_) write_checkpoint([this] { return trainer_->remains(); });  // the last one
  if (trained && state_ == "finished" && !launcher_) disk_.run([this] { judge_own_replica(); });
  disk_.run([] {},
            [this] {
              wrapped_up_ = true;
              wrapping_up_.raise();
            });
  if (leaving_) give_up_at_ = Clock::now() + kWriteLimit;
  co_await links_->shut_down(kFlushLimit);
  while (!wrapped_up_ && Clock::now() < give_up_at_) co_await wrapping_up_.wait_until(give_up_at_);
  if (saves && final_path_.empty())
    outcome_ = {1, "the final parameters could not be written to " + options_.out};
  if (exports && !exported_) outcome_ = {1, "the final parameters could not be written to " + options_.export_to};
  if (launcher_) {
    auto report = make_report(training::PeerReport::Kind::finished);
    report.path = final_path_;
    report.path_before_settling = before_settling_path_;
    if (!launcher_gone_) launcher_->report_last(report, kLastReportLimit);
  }
  if (!final_path_.empty()) spdlog::info("parameters written to {}", final_path_);
  if (exported_) spdlog::info("parameters written to {}", options_.export_to);
  if (trained) spdlog::info("memory: at most {:.1f} MB", 1e-6 * static_cast<double>(most_resident_bytes()));
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
