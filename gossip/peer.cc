#include "gossip/peer.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace starling::gossip {

using wire::Phase;

namespace {

enum Stream : std::uint64_t { kMembershipStream = 1, kPartnerStream, kOwnStream, kPaceStream };

wire::Member self_of(const PeerOptions& options) {
  wire::Member self;
  self.id = options.id;
  self.name = options.name;
  self.address = options.address;
  self.http = options.http;
  return self;
}

}  // namespace

Peer::Peer(PeerOptions options)
    : options_(std::move(options)),
      random_(Random(options_.seed).split(kOwnStream)),
      membership_(self_of(options_), options_.membership, Random(options_.seed).split(kMembershipStream)),
      join_hopeless_(options_.join.size()),
      join_delay_(options_.join_retry_min),
      state_delay_(options_.state_retry_min),
      patience_(options_.exchange_timeout) {
  membership_.set_progress(options_.earlier.steps, 0);
}

void Peer::step(Instant now, const Event& event, std::vector<Action>& out) {
  STARLING_CHECK(!over_);
  STARLING_CHECK(now >= now_);
  now_ = now;
  if (deadline_ <= now) {
    // Woken late (stopped, or starved of processor time): the others' answers may lie unread.
    const Duration late = now - deadline_;
    membership_.slept(late);
    for (InFlight& exchange : in_flight_) exchange.deadline = exchange.deadline + late;
    if (copy_) copy_->deadline = copy_->deadline + late;
  }
  std::visit([&](const auto& e) { handle(e, out); }, event);
  if (!over_) run_timers(out);
  // Whatever was due has been done; anything that still claims to be is woken for at the next instant.
  deadline_ = over_ ? kNever : std::max(earliest_deadline(), now_ + Duration{1});
}

Instant Peer::earliest_deadline() const {
  Instant next = std::min(
      {membership_.next_deadline(), next_join_, begin_at_, next_state_request_, linger_until_, leave_by_});
  if (copy_) next = std::min(next, copy_->deadline);
  if (phase() == Phase::training && rules_->end.time) next = std::min(next, run_start_ + *rules_->end.time);
  if (diverged_) return std::min(next, recover_by_);
  if (rounds_.open()) next = std::min({next, round_deadline_, round_doubt_});
  for (const InFlight& exchange : in_flight_) next = std::min({next, exchange.deadline, exchange.doubt});
  if (!in_flight_.empty()) return next;
  if (rule().meeting == Meeting::never || rounds_.open()) return next;
  if (roster_ && !push_is_due()) return next;
  if (phase() == Phase::training) next = std::min(next, pacer_->next_deadline(now_));
  if (phase() == Phase::settling && pacer_->not_before() > now_) next = std::min(next, pacer_->not_before());
  return next;
}

void Peer::run_timers(std::vector<Action>& out) {
  membership_.tick(now_, out);
  if (begin_at_ <= now_) begin_run(out);
  if (next_join_ <= now_) send_joins(out);
  if (next_state_request_ <= now_) ask_for_state(out);
  watch_copy(out);
  watch_recovery(out);
  if (over_) return;
  watch_exchanges(out);
  maybe_end_training(out);
  keep_in_step(out);
  refresh_roster();
  start_when_served(out);
  close_push();
  maybe_exchange(out);
  keep_staleness(out);
  maybe_leave(out);
  if (!over_) maybe_finish(out);
}

// ---- joining ----

void Peer::handle(const Start&, std::vector<Action>& out) {
  run_start_ = now_;
  membership_.start(now_);
  for (const auto& address : options_.contacts) membership_.add_contact(address);
  if (options_.join.empty()) return begin_run(out);
  for (const auto& address : options_.join) membership_.add_contact(address);
  next_join_ = now_;
  if (options_.begin_after) begin_at_ = now_ + *options_.begin_after;
}

void Peer::begin_run(std::vector<Action>& out) {
  if (!locked_out_.empty()) {
    return finish(Finish::How::failed,
                  "the swarm that this peer remembers lives and does not let it in, so it does not begin the "
                  "run anew: " +
                      locked_out_,
                  out);
  }
  begin_at_ = next_join_ = kNever;
  beginner_ = true;
  membership_.add_samples(options_.earlier.swarm_samples);
  manifest_ = options_.manifest;
  out.push_back(Prepare{*manifest_});
}

void Peer::send_joins(std::vector<Action>& out) {
  for (std::size_t i = 0; i < options_.join.size(); ++i) {
    if (join_hopeless_[i]) continue;
    // Before the Join, so that whoever answers counts it and welcomes with the whole sum.
    if (options_.earlier.last.id)
      out.push_back(
          Send{options_.join[i], wire::Gossip{{membership_.self()}, false, {options_.earlier.last}}});
    out.push_back(Send{options_.join[i], wire::Join{membership_.self()}});
  }
  next_join_ = now_ + from_seconds(to_seconds(join_delay_) * random_.uniform(0.75, 1.25));
  join_delay_ = std::min(2 * join_delay_, options_.join_retry_max);
}

void Peer::handle(const Introduced& introduced, std::vector<Action>& out) {
  membership_.add_contact(introduced.address);
  membership_.sync_with(introduced.address, out);
}

void Peer::handle(const Received& received, std::vector<Action>& out) {
  const PeerId from = received.from;
  const Address& address = received.address;
  if (const auto* ping = std::get_if<wire::Ping>(&received.message)) {
    membership_.on_ping(now_, from, address, *ping, out);
  } else if (const auto* request = std::get_if<wire::PingRequest>(&received.message)) {
    membership_.on_ping_request(now_, from, address, *request, out);
  } else if (const auto* ack = std::get_if<wire::Ack>(&received.message)) {
    membership_.on_ack(now_, from, address, *ack, out);
  } else if (const auto* gossip = std::get_if<wire::Gossip>(&received.message)) {
    membership_.on_gossip(now_, from, address, *gossip, out);
  } else if (const auto* digest = std::get_if<wire::Digest>(&received.message)) {
    membership_.on_digest(now_, from, address, *digest, out);
    correct_topology(address, digest->topology, out);
  } else if (const auto* view = std::get_if<wire::View>(&received.message)) {
    membership_.on_view(now_, from, address, *view, out);
    correct_topology(address, view->topology, out);
  } else if (const auto* leave = std::get_if<wire::Leave>(&received.message)) {
    membership_.on_leave(now_, from, *leave, out);
  } else if (const auto* join = std::get_if<wire::Join>(&received.message)) {
    on(received, *join, out);
  } else if (const auto* welcome = std::get_if<wire::Welcome>(&received.message)) {
    on(received, *welcome, out);
  } else if (const auto* refusal = std::get_if<wire::Refusal>(&received.message)) {
    on(received, *refusal, out);
  } else if (const auto* rewire = std::get_if<wire::Rewire>(&received.message)) {
    on(received, *rewire, out);
  }
}

void Peer::on(const Received& from, const wire::Join& join, std::vector<Action>& out) {
  if (join.self.id != from.from) return;
  membership_.merge(now_, from.from, {&join.self, 1}, out);
  membership_.heard(now_, from.from, from.address, out);
  if (!manifest_) {
    out.push_back(Send{from.address,
                       wire::Refusal{wire::RefusalReason::not_ready, "this peer is still joining itself"}});
    return;
  }
  auto members = membership_.introduction(from.from);
  const std::uint64_t retired = membership_.retired_samples(members);
  out.push_back(
      Send{from.address, wire::Welcome{*manifest_, now_ - run_start_, std::move(members), retired}});
  correct_topology(from.address, {}, out);
}

void Peer::on(const Received& from, const wire::Welcome& welcome, std::vector<Action>& out) {
  if (manifest_) {  // another address of the same swarm was quicker
    membership_.merge(now_, from.from, welcome.members, out);
    return membership_.heard(now_, from.from, from.address, out);
  }
  manifest_ = welcome.manifest;
  membership_.welcomed(now_, from.from, welcome.members, welcome.retired_samples, out);
  membership_.add_progress(now_, options_.earlier.last);
  membership_.heard(now_, from.from, from.address, out);
  membership_.sync_with(from.address, out);  // the members that the Welcome left out
  run_start_ = now_ - welcome.elapsed;
  next_join_ = begin_at_ = kNever;
  out.push_back(Prepare{*manifest_});
}

void Peer::on(const Received& from, const wire::Refusal& refusal, std::vector<Action>& out) {
  membership_.heard(now_, from.from, from.address, out);
  if (manifest_) return;
  out.push_back(Notice{Notice::What::waiting, from.from, to_string(from.address) + " says: " + refusal.text});
}

void Peer::handle(const Unreachable& unreachable, std::vector<Action>& out) {
  membership_.unreachable(now_, unreachable.address, out);
  if (manifest_) return;
  bool hope = options_.begin_after.has_value();
  bool ours = false;
  for (std::size_t i = 0; i < options_.join.size(); ++i) {
    if (options_.join[i] == unreachable.address) {
      ours = true;
      if (unreachable.final) join_hopeless_[i] = true;
      if (unreachable.locked_out) locked_out_ = unreachable.why;
    }
    hope = hope || !join_hopeless_[i];
  }
  if (!ours) return;
  if (!hope) {
    finish(Finish::How::failed, unreachable.why, out);
  } else {
    out.push_back(Notice{Notice::What::waiting, {}, unreachable.why});
  }
}

// ---- the topology, which may change while the swarm runs ----

void Peer::handle(const RewireRequested& requested, std::vector<Action>& out) {
  if (rewire_.revision.number >= wire::kRevisionMax) return;
  const auto topology = topologies::Topology::parse(requested.topology);
  if (const auto why = topology ? obstacle_to(*topology) : std::nullopt)
    return out.push_back(Notice{Notice::What::unwired, {}, *why});  // nobody else is to hear of it
  take_over({{rewire_.revision.number + 1, options_.id}, requested.topology}, out);
}

void Peer::on(const Received& from, const wire::Rewire& rewire, std::vector<Action>& out) {
  membership_.heard(now_, from.from, from.address, out);
  if (rewire.revision > rewire_.revision) return take_over(rewire, out);
  correct_topology(from.address, rewire.revision, out);
}

// Whoever follows an older revision is told the newer one.
void Peer::correct_topology(const Address& address, const wire::Revision& theirs, std::vector<Action>& out) {
  if (theirs < rewire_.revision) out.push_back(Send{address, rewire_});
}

// The first to hear of it tells others at once; comparing digests finds those that this misses.
void Peer::take_over(const wire::Rewire& rewire, std::vector<Action>& out) {
  rewire_ = rewire;
  membership_.set_topology(rewire_.revision);
  membership_.tell_some(rewire_, out);
  follow_topology(out);
}

std::optional<std::string> Peer::obstacle_to_setting(const topologies::Topology& topology) const {
  if (rewire_.revision.number >= wire::kRevisionMax) {
    return "the swarm's topology is at revision " + std::to_string(wire::kRevisionMax) +
           ", the greatest there is, and cannot be set any more";
  }
  return obstacle_to(topology);
}

// Why the run's rule cannot follow it, in a sentence.
std::optional<std::string> Peer::obstacle_to(const topologies::Topology& topology) const {
  if (!rule().undirected || !topology.among(4).directed()) return std::nullopt;
  return "'" + topology.name() + "' is directed, and the rule " + std::string(rule().name) +
         " asks for links that go both ways";
}

// An exchange in flight goes on: the topology decides about the next one.
void Peer::follow_topology(std::vector<Action>& out) {
  if (!rules_ || rewire_.revision.number == 0) return;
  auto topology = topologies::Topology::parse(rewire_.topology);
  if (!topology) {
    out.push_back(Notice{Notice::What::unwired, {}, topology.error().message});
    return;
  }
  if (const auto why = obstacle_to(*topology)) return out.push_back(Notice{Notice::What::unwired, {}, *why});
  rules_->topology = *topology;
  partners_->follow(std::move(*topology));
  round_version_ = kNoVersion;  // a round that goes on looks at its links anew
  out.push_back(Rewired{rewire_.topology});
}

void Peer::handle(const Prepared& prepared, std::vector<Action>& out) {
  rules_ = prepared.rules;
  membership_.set_device(prepared.device);
  partners_.emplace(rules_->topology, rules_->partners, Random(options_.seed).split(kPartnerStream));
  follow_topology(out);
  pacer_.emplace(rules_->pace, Random(options_.seed).split(kPaceStream));
  if (rule().meeting == Meeting::served) {
    roster_.emplace(rules_->servers);
    if (rule().bounded && role_of(options_.name, rules_->servers).kind != Role::Kind::worker)
      clocks_.emplace(rules_->servers.staleness);
    refresh_roster();
  }
  if (beginner_) {
    run_start_ = now_ - options_.earlier.elapsed;
    start_training(out);
  } else {
    ask_for_state(out);
  }
}

void Peer::handle(const PrepareFailed& failed, std::vector<Action>& out) {
  membership_.say_goodbye(out);
  finish(Finish::How::failed, failed.why, out);
}

void Peer::ask_for_state(std::vector<Action>& out) {
  std::vector<const wire::Member*> donors;
  for (const Record& record : membership_.others()) {
    if (record.may_exchange(now_) && record.member.phase >= Phase::training) donors.push_back(&record.member);
  }
  // A server's replica is good in the part that it serves; where workers have one, theirs is whole.
  if (rule().meeting == Meeting::served) {
    const auto is_server = [&](const wire::Member* m) {
      return role_of(m->name, rules_->servers).kind != Role::Kind::worker;
    };
    if (!std::all_of(donors.begin(), donors.end(), is_server)) std::erase_if(donors, is_server);
  }
  if (donors.size() > 1) std::erase_if(donors, [&](const wire::Member* m) { return m->id == last_donor_; });
  if (donors.empty()) {
    out.push_back(Notice{Notice::What::waiting, {}, "no member of the swarm has parameters to copy yet"});
    next_state_request_ = now_ + options_.state_retry_min;
    return;
  }
  const auto& donor = *donors[random_.below(donors.size())];
  next_state_request_ = kNever;
  copy_ = Copy{donor.id, now_ + options_.state_stall, 0, now_, 0};
  out.push_back(FetchState{donor.id, donor.address, std::exchange(copy_afresh_, false)});
}

void Peer::handle(const StateAdvanced& advanced, std::vector<Action>& out) {
  if (!copy_) return;
  state_delay_ = options_.state_retry_min;
  copy_->deadline = now_ + options_.state_stall;
  if (copy_->window_chunks == 0) copy_->window_chunks = copy_->chunks = advanced.chunks;
  copy_->chunks = advanced.chunks;
  const double seconds = to_seconds(now_ - copy_->window_began);
  if (seconds < to_seconds(options_.state_stall)) return;
  // A donor that has become much slower than one that was seen is given up for another.
  const double rate = static_cast<double>(copy_->chunks - copy_->window_chunks) / seconds;
  if (rate < best_copy_rate_ / 4) {
    best_copy_rate_ = rate;  // once: if all are slow now, slow is what there is
    return drop_donor(out);
  }
  best_copy_rate_ = std::max(best_copy_rate_, rate);
  copy_->window_began = now_;
  copy_->window_chunks = copy_->chunks;
}

void Peer::watch_copy(std::vector<Action>& out) {
  if (!copy_) return;
  const Record* const donor = membership_.find(copy_->donor);
  const bool trusted = donor != nullptr && donor->member.liveness == wire::Liveness::alive;
  if (!trusted || copy_->deadline <= now_) drop_donor(out);
}

void Peer::drop_donor(std::vector<Action>& out) {
  last_donor_ = copy_->donor;
  copy_.reset();
  out.push_back(AbortFetch{});
  next_state_request_ = now_ + options_.state_retry_min;
}

void Peer::handle(const StateLost& lost, std::vector<Action>& out) {
  if (!copy_) return;
  last_donor_ = copy_->donor;
  if (lost.poisoned) membership_.poisoned_by(now_, copy_->donor, out);
  copy_.reset();
  next_state_request_ = now_ + from_seconds(to_seconds(state_delay_) * random_.uniform(0.75, 1.25));
  state_delay_ = std::min(2 * state_delay_, options_.state_retry_max);
  out.push_back(Notice{Notice::What::waiting, {}, lost.why});
}

void Peer::handle(const StateArrived&, std::vector<Action>& out) {
  if (!copy_) return;
  copy_.reset();
  if (diverged_) return recovered(out);
  start_training(out);
}

// ---- recovering from the loss of one's own replica ----

void Peer::handle(const ReplicaDiverged&, std::vector<Action>& out) {
  if (phase() == Phase::joining || diverged_ || leave_by_ != kNever) return;
  diverged_ = copy_afresh_ = true;
  waits_for_push_ = false;  // it is resumed with the copy
  const std::uint64_t steps = membership_.self().steps;
  if (recoveries_ > 0 && steps - recovered_steps_ >= options_.recovery_steps)
    recoveries_ = 0;  // that one lasted
  Duration delay{0};
  if (recoveries_ > 0)
    delay =
        std::min(options_.state_retry_min * (1 << std::min(recoveries_ - 1, 16U)), options_.state_retry_max);
  recover_by_ = now_ + delay + options_.recovery_limit;
  out.push_back(Notice{Notice::What::diverged, {}, {}});
  out.push_back(PauseTraining{true});
  for (const InFlight& exchange : in_flight_) {  // through no fault of their partners'
    out.push_back(AbortExchange{exchange.exchange});
    ++exchanges_.aborted;
  }
  in_flight_.clear();
  abandon_round(out);
  rounds_.lose_step();
  best_copy_rate_ = 0;
  state_delay_ = options_.state_retry_min;
  next_state_request_ = now_ + delay;
}

void Peer::handle(const ReplicaGone& gone, std::vector<Action>& out) {
  if (phase() == Phase::training) out.push_back(StopTraining{});
  if (copy_) out.push_back(AbortFetch{});
  for (const InFlight& exchange : in_flight_) {
    out.push_back(AbortExchange{exchange.exchange});
    ++exchanges_.aborted;
  }
  in_flight_.clear();
  membership_.say_goodbye(out);
  finish(Finish::How::failed, gone.why, out);
}

void Peer::watch_recovery(std::vector<Action>& out) {
  if (!diverged_ || leave_by_ != kNever) return;
  if (recoveries_ >= options_.recoveries_max) {
    membership_.say_goodbye(out);
    return finish(
        Finish::How::failed,
        "the parameters were not finite again within " + std::to_string(options_.recovery_steps) +
            " steps after each of " + std::to_string(recoveries_) +
            " copies of a neighbor's: this peer's own steps diverge; a lower training.learning_rate "
            "would help",
        out);
  }
  const auto& others = membership_.others();
  const bool alone = std::none_of(others.begin(), others.end(), [](const Record& record) {
    return record.member.liveness <= wire::Liveness::failed &&
           !record.superseded;  // the failed may come back
  });
  if (recover_by_ > now_ && !alone) return;
  if (copy_) {  // a donor that goes on giving is waited for
    recover_by_ = copy_->deadline;
    if (recover_by_ > now_) return;
  }
  membership_.say_goodbye(out);
  finish(
      Finish::How::failed,
      "the parameters are not finite any more, and no member has finite ones to copy: all replicas are lost; "
      "the usual cause is a training.learning_rate that is too high",
      out);
}

void Peer::recovered(std::vector<Action>& out) {
  diverged_ = false;
  recover_by_ = kNever;
  ++recoveries_;
  recovered_steps_ = membership_.self().steps;
  pacer_->start(now_, membership_.self().steps);
  out.push_back(ResumeTraining{true});
}

// ---- training ----

void Peer::start_training(std::vector<Action>& out) {
  membership_.set_phase(Phase::training);
  pacer_->start(now_, membership_.self().steps);
  acceptance_.start(now_);
  if (roster_ && !serves()) {
    awaits_servers_ = true;
    return start_when_served(out);
  }
  if (!end_reached()) out.push_back(StartTraining{!serves()});
}

void Peer::handle(const Stepped& stepped, std::vector<Action>&) {
  membership_.set_progress(stepped.steps,
                           stepped.samples - std::min(stepped.samples, options_.earlier.samples));
}

void Peer::handle(const VitalsMeasured& measured, std::vector<Action>&) {
  membership_.set_vitals(measured.vitals);
}

// ---- ending ----

bool Peer::end_reached() const {
  if (end_requested_) return true;
  const End& end = rules_->end;
  if (serves() && end.steps && workers_reached_end()) return true;
  return (end.swarm_samples && membership_.swarm_samples() >= *end.swarm_samples) ||
         (end.steps && membership_.self().steps >= *end.steps) ||
         (end.time && now_ - run_start_ >= *end.time);
}

void Peer::maybe_end_training(std::vector<Action>& out) {
  if (phase() != Phase::training || leave_by_ != kNever || diverged_ || !end_reached()) return;
  out.push_back(StopTraining{});
  out.push_back(TrainingEnded{});
  membership_.set_phase(Phase::settling);
  // Whoever reaches the swarm's end first lets the others know what it knows, so that they do not train far
  // beyond it.
  membership_.spread(now_, out);
  const std::uint64_t live = 1 + membership_.live_others();
  // 2 + log2 n exchanges bring the replicas together (rounded up); alone there is nothing to settle.
  settling_left_ = rule().meeting == Meeting::never || live < 2 ? 0 : 2 + std::bit_width(live - 1);
  // What was learned since the last push goes to the servers, which have nobody to settle with.
  if (rule().meeting == Meeting::served) settling_left_ = roster_->role().kind == Role::Kind::shard ? 0 : 1;
  settling_tries_ = 4 * settling_left_;
}

void Peer::maybe_finish(std::vector<Action>& out) {
  if (diverged_) return;
  if (phase() == Phase::settling && settling_left_ == 0 && in_flight_.empty() && !rounds_.open()) {
    // What was received since the last outer step counts too.
    if (rule().meeting == Meeting::outer_rounds) out.push_back(BeginRound{rounds_.begin()});
    membership_.set_phase(Phase::finished);
    linger_until_ = now_ + options_.linger;
    abandon_round(out);
  }
  if (phase() != Phase::finished) return;
  if (now_ < linger_until_) {
    if (!answers_.empty()) return;
    for (const Record& record : membership_.others()) {
      if (record.is_live() && record.member.phase != Phase::finished) return;
    }
  }
  membership_.say_goodbye(out);
  finish(Finish::How::finished, "", out);
}

void Peer::handle(const EndRequested&, std::vector<Action>& out) {
  end_requested_ = true;
  if (phase() == Phase::joining) handle(LeaveRequested{}, out);  // there is nothing to settle yet
}

// What this peer learned since its last exchange goes to a neighbor before it leaves.
void Peer::handle(const LeaveRequested&, std::vector<Action>& out) {
  if (leave_by_ != kNever) return;
  leave_by_ = now_ + options_.leave_limit;
  if (phase() == Phase::training) out.push_back(StopTraining{});
  if (copy_) {
    out.push_back(AbortFetch{});
    copy_.reset();
  }
  next_state_request_ = next_join_ = begin_at_ = kNever;
}

void Peer::maybe_leave(std::vector<Action>& out) {
  if (leave_by_ == kNever) return;
  if (leave_by_ <= now_) {
    while (!in_flight_.empty()) abort_exchange(in_flight_.front().exchange, out);
  } else if (!in_flight_.empty() || exchange_due()) {
    return;
  }
  membership_.say_goodbye(out);
  finish(Finish::How::left, "", out);
}

void Peer::finish(Finish::How how, std::string why, std::vector<Action>& out) {
  over_ = true;
  out.push_back(Finish{how, std::move(why)});
}

void Peer::handle(const Tick&, std::vector<Action>&) {}

}  // namespace starling::gossip
