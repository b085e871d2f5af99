#include "lab/world.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "wire/codec.h"
#include "wire/frame.h"

namespace starling::lab {

namespace {

constexpr std::size_t kJoinAddresses = 8;

std::size_t message_bytes(const wire::Message& message) {
  return wire::kFrameHeaderBytes + wire::encode(message).size();
}

}  // namespace

// An exchange this machine began: which chunks are under way, and what was sent for each.
struct World::Own {
  std::uint64_t exchange;
  std::uint32_t partner;
  std::size_t next_chunk = 0;
  std::size_t completed = 0;
  struct Flight {
    std::shared_ptr<std::vector<float>> a;
    // Once the responder has answered: what travels back. For energy() alone.
    std::shared_ptr<std::vector<float>> b;
    float w = 0;
  };
  std::map<std::size_t, Flight> flights;
};

struct World::Machine {
  MachineOptions options;
  MachineState state = MachineState::waiting;
  PeerId id;
  Address address;
  std::optional<gossip::Peer> peer;
  models::Arena arena;
  training::PairwiseMixer mixer;
  std::unique_ptr<Learner> learner;
  std::set<Instant> ticks;  // those that are scheduled

  bool has_parameters = false;
  std::uint64_t fetch_attempt = 0;  // the current one; chunks of earlier ones are dropped
  std::uint32_t donor = 0;
  bool fetching = false;

  bool training = false;
  std::uint64_t steps = 0, samples = 0;
  std::optional<Own> own;
  std::set<std::pair<std::uint32_t, std::uint64_t>> answering;              // (initiator, exchange)
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::size_t> answered;  // chunks so far
  std::uint64_t half_applied_chunks = 0, bytes_sent = 0;
  std::vector<float> before_settling;

  Machine(MachineOptions o, std::size_t floats, std::size_t chunk_floats)
      : options(std::move(o)), arena(floats), mixer(arena, chunk_floats) {}

  bool up() const { return state == MachineState::running; }
  double slowness(Instant at) const {
    double factor = 1;
    for (const auto& slow : options.slow) {
      if (slow.from <= at && at < slow.to) factor *= slow.factor;
    }
    return factor;
  }
  // The end of the pause that covers `at`, or `at`.
  Instant awake(Instant at) const {
    for (const auto& pause : options.pauses) {
      if (pause.from <= at && at < pause.to) return pause.to;
    }
    return at;
  }
};

World::World(WorldOptions options, MakeLearner make_learner, std::vector<float> first_parameters)
    : options_(std::move(options)),
      make_learner_(std::move(make_learner)),
      random_(options_.seed),
      network_(options_.network, random_.split(1)) {
  STARLING_CHECK(!options_.machines.empty());
  STARLING_CHECK(options_.rules.has_value());
  STARLING_CHECK(first_parameters.size() == options_.arena_floats);
  Random ids = random_.split(2);
  for (std::uint32_t i = 0; i < options_.machines.size(); ++i) {
    auto machine =
        std::make_unique<Machine>(options_.machines[i], options_.arena_floats, options_.chunk_floats);
    do {
      machine->id = PeerId{ids.bits()};
    } while (!machine->id || by_id_.contains(machine->id));
    machine->address = Address{machine->options.name, 7100};
    by_address_[machine->address] = i;
    by_id_[machine->id] = i;
    machines_.push_back(std::move(machine));
  }
  for (std::uint32_t i = 1; i < machines_.size(); ++i) {
    if (machines_[i]->options.start < machines_[beginner_]->options.start) beginner_ = i;
  }
  machines_[beginner_]->arena.write(0, first_parameters);
  machines_[beginner_]->has_parameters = true;
  for (std::uint32_t i = 0; i < machines_.size(); ++i) {
    queue_.schedule(machines_[i]->options.start, [this, i] { start_machine(i); });
  }
}

World::~World() = default;

void World::start_machine(std::uint32_t i) {
  Machine& m = *machines_[i];
  m.state = MachineState::running;
  m.learner = make_learner_(i);
  gossip::PeerOptions peer;
  peer.id = m.id;
  peer.name = m.options.name;
  peer.address = m.address;
  peer.seed = random_.split(1000 + i).bits();
  peer.membership = options_.membership;
  if (i == beginner_) {
    peer.manifest = options_.manifest;
  } else {
    // As somebody would who starts a peer by hand: an address of whoever is there; the beginner's, if nobody
    // is yet.
    for (const auto& other : machines_) {
      if (other->up() && other.get() != &m && peer.join.size() < kJoinAddresses)
        peer.join.push_back(other->address);
    }
    if (peer.join.empty()) peer.join.push_back(machines_[beginner_]->address);
  }
  m.peer.emplace(std::move(peer));
  if (m.options.crash)
    queue_.schedule(std::max(*m.options.crash, now()), [this, i] {
      if (machines_[i]->up()) take_down(i, MachineState::crashed);
    });
  if (m.options.leave)
    later(std::max(*m.options.leave, now()), i, [this, i] { step(i, gossip::LeaveRequested{}); });
  later(now(), i, [this, i] { step(i, gossip::Start{}); });
}

bool World::run_one() {
  if (queue_.empty() || queue_.next() == kNever) return false;  // what a pause without end holds up
  queue_.run_one();
  return true;
}

void World::run() {
  const auto over = [](const auto& m) {
    return m->state != MachineState::running && m->state != MachineState::waiting;
  };
  while (!std::all_of(machines_.begin(), machines_.end(), over) && run_one()) {
  }
}

void World::end_all() {
  for (std::uint32_t i = 0; i < machines_.size(); ++i) {
    if (machines_[i]->up()) later(now(), i, [this, i] { step(i, gossip::EndRequested{}); });
  }
}

World::MachineView World::machine(std::uint32_t i) const {
  const Machine& m = *machines_[i];
  static const gossip::ExchangeCounts kNone;
  return {m.options.name,
          m.state,
          m.arena,
          m.steps,
          m.samples,
          m.peer ? m.peer->view().exchanges : kNone,
          m.half_applied_chunks,
          m.bytes_sent,
          m.learner ? m.learner->loss() : 0,
          m.slowness(now()),
          m.before_settling,
          m.has_parameters,
          m.peer ? m.peer->view().membership.self().phase : wire::Phase::joining,
          m.id,
          m.peer ? &m.peer->view().membership : nullptr};
}

// ---- the driver's loop ----

void World::step(std::uint32_t i, const gossip::Event& event) {
  Machine& m = *machines_[i];
  if (!m.up()) return;
  trace(i, event.index(), 0);
  std::vector<gossip::Action> actions;
  m.peer->step(now(), event, actions);
  carry_out(i, actions);
  if (!m.up()) return;
  const Instant deadline = m.peer->next_deadline();
  STARLING_CHECK(deadline > now());
  // Only what is earlier than all that is scheduled needs another; a deadline that moved later costs a
  // spurious tick.
  if (deadline != kNever && (m.ticks.empty() || deadline < *m.ticks.begin())) {
    m.ticks.insert(deadline);
    later(deadline, i, [this, i, deadline] {
      machines_[i]->ticks.erase(deadline);
      step(i, gossip::Tick{});
    });
  }
}

void World::carry_out(std::uint32_t i, std::vector<gossip::Action>& actions) {
  for (const auto& action : actions) {
    trace(i, 100 + action.index(), 0);
    std::visit([&](const auto& a) { act(i, a); }, action);
  }
}

void World::later(Instant at, std::uint32_t i, std::function<void()> happening) {
  queue_.schedule(at, [this, i, happening = std::move(happening)]() mutable {
    const Machine& m = *machines_[i];
    if (!m.up()) return;
    const Instant awake = m.awake(now());
    if (awake > now()) {
      later(awake, i, std::move(happening));
    } else {
      happening();
    }
  });
}

VirtualNetwork::Passage World::transmit(std::uint32_t from, std::uint32_t to, wire::Purpose purpose,
                                        std::size_t bytes, std::function<void()> arrive,
                                        std::function<void()> lost) {
  machines_[from]->bytes_sent += bytes;
  const auto passage = network_.send(now(), from, to, purpose, bytes);
  queue_.schedule(passage.arrival,
                  [this, from, to, arrive = std::move(arrive), lost = std::move(lost)]() mutable {
                    if (machines_[to]->up()) {
                      later(now(), to, std::move(arrive));
                    } else {
                      later(now() + network_.latency(), from, std::move(lost));
                    }
                  });
  return passage;
}

void World::act(std::uint32_t i, const gossip::Send& send) {
  const auto found = by_address_.find(send.to);
  STARLING_CHECK(found != by_address_.end());
  const std::uint32_t to = found->second;
  trace(i, 200, hash64(to_string(send.to)));
  transmit(
      i, to, wire::Purpose::control, message_bytes(send.message),
      [this, i, to, message = send.message] {
        step(to, gossip::Received{machines_[i]->id, machines_[i]->address, message});
      },
      [this, i, address = send.to] {
        step(i, gossip::Unreachable{address, false, to_string(address) + " does not answer"});
      });
}

void World::act(std::uint32_t i, const gossip::Prepare&) {
  later(now(), i, [this, i] { step(i, gossip::Prepared{*options_.rules}); });
}

void World::act(std::uint32_t, const gossip::Notice&) {}

// ---- a joiner's first copy ----

void World::act(std::uint32_t i, const gossip::FetchState& fetch) {
  Machine& m = *machines_[i];
  m.fetching = true;
  m.donor = index_of(fetch.donor);
  const std::uint64_t attempt = ++m.fetch_attempt;
  const auto lost = [this, i, attempt] {
    if (machines_[i]->fetching && machines_[i]->fetch_attempt == attempt) {
      machines_[i]->fetching = false;
      step(i, gossip::StateLost{"the donor is gone"});
    }
  };
  transmit(
      i, m.donor, wire::Purpose::bulk, message_bytes(wire::StateRequest{}),
      [this, i, donor = m.donor, attempt] { send_state(donor, i, 0, attempt); }, lost);
}

void World::act(std::uint32_t i, const gossip::AbortFetch&) {
  machines_[i]->fetching = false;
}

void World::send_state(std::uint32_t donor, std::uint32_t to, std::size_t chunk, std::uint64_t attempt) {
  Machine& d = *machines_[donor];
  const auto& grid = d.mixer.grid();
  auto values = std::make_shared<std::vector<float>>(grid.floats(chunk));
  d.arena.read(grid.offset(chunk), *values);
  const auto passage = transmit(
      donor, to, wire::Purpose::bulk, wire::kChunkPrefixBytes + 4 * values->size(),
      [this, to, chunk, values, attempt] {
        Machine& m = *machines_[to];
        if (!m.fetching || m.fetch_attempt != attempt) return;
        const auto& g = m.mixer.grid();
        m.arena.write(g.offset(chunk), *values);
        if (chunk + 1 < g.count()) return;
        m.fetching = false;
        m.has_parameters = true;
        step(to, gossip::StateArrived{});
      },
      [] {});
  if (chunk + 1 < grid.count()) {
    later(passage.departure, donor,
          [this, donor, to, chunk, attempt] { send_state(donor, to, chunk + 1, attempt); });
  }
}

// ---- training ----

void World::act(std::uint32_t i, const gossip::StartTraining&) {
  Machine& m = *machines_[i];
  m.training = true;
  if (!training_began_) training_began_ = now();
  for (std::uint32_t worker = 0; worker < m.options.workers; ++worker) begin_step(i, worker);
}

void World::begin_step(std::uint32_t i, std::uint32_t worker) {
  Machine& m = *machines_[i];
  m.learner->begin_step(worker, m.arena);
  const Duration time = std::max(Duration{1}, from_seconds(to_seconds(m.options.step) * m.slowness(now())));
  later(now() + time, i, [this, i, worker] {
    Machine& machine = *machines_[i];
    if (!machine.training) return;  // stopped meanwhile: the step is thrown away
    const std::uint64_t consumed = machine.learner->end_step(worker, machine.arena);
    ++machine.steps;
    machine.samples += consumed;
    samples_ += consumed;
    step(i, gossip::Stepped{machine.steps, machine.samples});
    if (machine.up() && machine.training) begin_step(i, worker);
  });
}

void World::act(std::uint32_t i, const gossip::StopTraining&) {
  machines_[i]->training = false;
}

void World::act(std::uint32_t i, const gossip::TrainingEnded&) {
  Machine& m = *machines_[i];
  m.before_settling.resize(m.arena.size());
  m.arena.read(0, m.before_settling);
}

// ---- exchanges ----

void World::act(std::uint32_t i, const gossip::BeginExchange& begin) {
  Machine& m = *machines_[i];
  STARLING_CHECK(!m.own);
  m.own.emplace();
  m.own->exchange = begin.exchange;
  m.own->partner = index_of(begin.partner);
  const auto lost = [this, i, exchange = begin.exchange] {
    if (machines_[i]->own && machines_[i]->own->exchange == exchange) end_own(i, gossip::Outcome::aborted);
  };
  transmit(
      i, m.own->partner, wire::Purpose::bulk, message_bytes(wire::ExchangeOffer{}),
      [this, i, to = m.own->partner, exchange = begin.exchange] {
        // A connection that broke before its offer was read offers nothing: nobody would end the answer.
        const Machine& initiator = *machines_[i];
        if (!initiator.up() || !initiator.own || initiator.own->exchange != exchange) return;
        step(to, gossip::ExchangeOffered{machines_[i]->id, exchange});
      },
      lost);
  send_chunks(i);
}

void World::send_chunks(std::uint32_t i) {
  Machine& m = *machines_[i];
  Own& own = *m.own;
  const auto& grid = m.mixer.grid();
  while (own.flights.size() < options_.window && own.next_chunk < grid.count()) {
    const std::size_t chunk = own.next_chunk++;
    auto a = std::make_shared<std::vector<float>>(grid.floats(chunk));
    m.mixer.lend(chunk, *a);
    own.flights[chunk].a = a;
    transmit(
        i, own.partner, wire::Purpose::bulk, wire::kChunkPrefixBytes + 4 * a->size(),
        [this, i, to = own.partner, exchange = own.exchange, chunk, a] {
          answer_chunk(to, i, exchange, chunk, a);
        },
        [] {});  // the offer's loss has told already, or take_down will
  }
}

void World::act(std::uint32_t i, const gossip::AnswerOffer& answer) {
  const std::uint32_t initiator = index_of(answer.from);
  if (answer.accept) {
    machines_[i]->answering.insert({initiator, answer.exchange});
    return;
  }
  transmit(
      i, initiator, wire::Purpose::bulk, message_bytes(wire::ExchangeRefusal{}),
      [this, initiator, exchange = answer.exchange] {
        Machine& m = *machines_[initiator];
        if (m.own && m.own->exchange == exchange) {
          m.own->flights.clear();  // nobody mixed: nothing is half applied
          end_own(initiator, gossip::Outcome::rejected);
        }
      },
      [] {});
}

void World::answer_chunk(std::uint32_t i, std::uint32_t from, std::uint64_t exchange, std::size_t chunk,
                         const std::shared_ptr<std::vector<float>>& a) {
  Machine& m = *machines_[i];
  if (!m.answering.contains({from, exchange})) return;  // refused, or broken off
  auto b = std::make_shared<std::vector<float>>(a->size());
  const auto w = m.mixer.answer(chunk, *a, *b);
  STARLING_CHECK(w.ok());
  trace(i, 300, chunk);
  Machine& initiator = *machines_[from];
  if (initiator.own && initiator.own->exchange == exchange) {
    auto& flight = initiator.own->flights.at(chunk);
    flight.b = b;
    flight.w = *w;
  }
  transmit(
      i, from, wire::Purpose::bulk, wire::kChunkPrefixBytes + 4 * b->size(),
      [this, from, exchange, chunk, b, weight = *w] { take_reply(from, exchange, chunk, b, weight); }, [] {});
  if (++m.answered[{from, exchange}] == m.mixer.grid().count()) end_answer(i, from, exchange);
}

void World::take_reply(std::uint32_t i, std::uint64_t exchange, std::size_t chunk,
                       const std::shared_ptr<std::vector<float>>& b, float w) {
  Machine& m = *machines_[i];
  if (!m.own || m.own->exchange != exchange) return;  // given up meanwhile; counted then
  STARLING_CHECK(m.mixer.complete(chunk, *b, w).ok());
  m.own->flights.erase(chunk);
  if (++m.own->completed == m.mixer.grid().count()) {
    end_own(i, gossip::Outcome::completed);
  } else {
    send_chunks(i);
  }
}

void World::give_up(std::uint32_t i) {
  Machine& m = *machines_[i];
  const auto& grid = m.mixer.grid();
  for (std::size_t chunk = 0; chunk < grid.count(); ++chunk) {
    if (m.mixer.lent(chunk)) m.mixer.give_up(chunk);
  }
  m.half_applied_chunks += m.own->flights.size();
  const std::uint32_t partner = m.own->partner;
  const std::uint64_t exchange = m.own->exchange;
  m.own.reset();
  // The connection closes; the responder learns of it.
  later(now() + network_.latency(), partner,
        [this, partner, i, exchange] { end_answer(partner, i, exchange); });
}

void World::end_own(std::uint32_t i, gossip::Outcome outcome) {
  const std::uint64_t exchange = machines_[i]->own->exchange;
  if (outcome == gossip::Outcome::completed) {
    machines_[i]->own.reset();
  } else {
    give_up(i);
  }
  step(i, gossip::ExchangeEnded{exchange, outcome});
}

void World::act(std::uint32_t i, const gossip::AbortExchange& abort) {
  STARLING_CHECK(machines_[i]->own && machines_[i]->own->exchange == abort.exchange);
  give_up(i);
}

void World::end_answer(std::uint32_t i, std::uint32_t from, std::uint64_t exchange) {
  Machine& m = *machines_[i];
  const bool completed = m.answered[{from, exchange}] == m.mixer.grid().count();
  m.answered.erase({from, exchange});
  if (m.answering.erase({from, exchange}) == 0) return;
  step(i, gossip::AnswerEnded{machines_[from]->id, exchange, completed});
}

// ---- ending ----

void World::act(std::uint32_t i, const gossip::Finish& finish) {
  switch (finish.how) {
    case gossip::Finish::How::finished:
      return take_down(i, MachineState::finished);
    case gossip::Finish::How::left:
      return take_down(i, MachineState::left);
    case gossip::Finish::How::failed:
      return take_down(i, MachineState::failed);
  }
}

void World::take_down(std::uint32_t i, MachineState state) {
  Machine& m = *machines_[i];
  m.state = state;
  m.training = false;
  trace(i, 400, static_cast<std::uint64_t>(state));
  // Its connections break. What is lent stays lent on a machine that is no more; the others learn of it.
  const Instant then = now() + network_.latency();
  for (std::uint32_t j = 0; j < machines_.size(); ++j) {
    const Machine& other = *machines_[j];
    if (j == i || !other.up()) continue;
    if (other.own && other.own->partner == i) {
      later(then, j, [this, j, exchange = other.own->exchange] {
        if (machines_[j]->own && machines_[j]->own->exchange == exchange)
          end_own(j, gossip::Outcome::aborted);
      });
    }
    if (other.fetching && other.donor == i) {
      later(then, j, [this, j, attempt = other.fetch_attempt] {
        if (!machines_[j]->fetching || machines_[j]->fetch_attempt != attempt) return;
        machines_[j]->fetching = false;
        step(j, gossip::StateLost{"the donor is gone"});
      });
    }
    for (const auto& [from, exchange] : other.answering) {
      if (from == i) later(then, j, [this, j, i, e = exchange] { end_answer(j, i, e); });
    }
  }
}

void World::trace(std::uint32_t i, std::uint64_t kind, std::uint64_t detail) {
  const std::array<std::uint64_t, 4> words{static_cast<std::uint64_t>(now().since_start.count()), i, kind,
                                           detail};
  trace_ = hash64(std::as_bytes(std::span(words)), trace_);
}

std::uint32_t World::index_of(PeerId id) const {
  return by_id_.at(id);
}

// ---- what checkers look at ----

bool World::quiet() const {
  return std::none_of(machines_.begin(), machines_.end(),
                      [](const auto& m) { return m->up() && m->own.has_value(); });
}

double World::energy() const {
  // Parts (mass, value) per float; the mean of all parts is the machines' mean.
  struct Part {
    double mass;
    double value;
  };
  double energy = 0;
  std::vector<Part> parts;
  for (std::size_t f = 0; f < options_.arena_floats; ++f) {
    parts.clear();
    const std::size_t chunk = f / options_.chunk_floats;
    const std::size_t within = f % options_.chunk_floats;
    for (const auto& m : machines_) {
      if (!m->has_parameters) continue;
      const double x = m->arena.data()[f];
      const Own::Flight* flight = nullptr;
      if (m->own) {
        const auto found = m->own->flights.find(chunk);
        if (found != m->own->flights.end()) flight = &found->second;
      }
      if (flight == nullptr) {
        parts.push_back({1, x});
        continue;
      }
      const double a = (*flight->a)[within];
      parts.push_back({0.5, 2 * x - a});
      if (flight->b) {
        parts.push_back({flight->w, (*flight->b)[within]});
        parts.push_back({0.5 - flight->w, a});
      } else {
        parts.push_back({0.5, a});
      }
    }
    double mass = 0, sum = 0;
    for (const auto& part : parts) {
      mass += part.mass;
      sum += part.mass * part.value;
    }
    const double mean = sum / mass;
    for (const auto& part : parts) energy += part.mass * (part.value - mean) * (part.value - mean);
  }
  return energy;
}

}  // namespace starling::lab
