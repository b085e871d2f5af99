// What the world keeps of one virtual machine; of no concern to anybody but the world's own files.
#pragma once

#include <algorithm>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lab/world/world.h"
#include "training/exchange/offering.h"
#include "training/exchange/serving.h"

namespace starling::lab {

// An exchange that this machine began.
struct World::Own {
  std::uint32_t partner;
  Connection* connection;
  std::uint32_t epoch;  // of the connection
  training::Offering offering;
  struct Flight {
    training::Parcel sent;
    Block room;  // holds its values
    Instant lent_at;
    bool lied = false;  // the partner got other values than these
    // The reply, once the responder has sent it; for energy().
    training::Parcel reply{};
    Block reply_room{};
  };
  std::deque<Flight> flights{};  // beside each chunk that the offering has in flight

  std::uint64_t exchange() const { return offering.session().exchange; }
  const Flight* covering(std::size_t offset) const {
    for (const Flight& f : flights) {
      if (f.sent.offset <= offset && offset < f.sent.offset + f.sent.floats) return &f;
    }
    return nullptr;
  }
};

// An exchange that another machine began with this one.
struct World::Answer {
  PeerId from;
  const Connection* connection;
  std::uint32_t epoch;
  training::Serving serving;
  std::deque<Packet> waiting{};  // chunks that arrived before the offer was accepted
};

struct World::Machine {
  MachineOptions options;
  MachineState state = MachineState::waiting;
  Address address;
  Random random;
  std::uint32_t life = 0;  // counts its instances
  PeerId id;
  std::optional<gossip::Peer> peer;
  std::unique_ptr<models::Arena> arena;
  std::unique_ptr<training::Mixer> mixer;
  std::unique_ptr<Learner> learner;
  Instant tick_at = kNever;  // of the tick that is scheduled and counts

  // What befalls it.
  double clock_rate = 0;  // its clock runs at 1 + rate
  std::vector<Slow> slow;
  std::vector<Interval> pauses;
  std::vector<SlowDisk> disks;
  std::vector<Poison> poisons;
  bool silent = false;  // lost its power

  bool has_parameters = false;
  struct Fetch {
    std::uint64_t attempt = 0;  // chunks of earlier ones are dropped
    bool active = false;
    Connection* connection = nullptr;
    std::uint32_t epoch = 0;
    std::size_t in_place = 0;  // chunks, of whatever donor
  } fetch;

  bool training = false;
  bool resting = false;        // its core has paused its training
  std::uint64_t era = 0;       // counts the discards: a step of an earlier era is thrown away
  std::vector<bool> stepping;  // per worker
  bool started = false;        // what it has is its replica from now on
  std::optional<Instant> training_since;
  std::uint64_t steps = 0, samples = 0;                  // of this instance
  std::uint64_t earlier_steps = 0, earlier_samples = 0;  // of its former ones, as the next two
  gossip::ExchangeCounts earlier_exchanges;
  training::MixCounters earlier_mixed;  // of them, what was refused
  std::uint64_t steps_begun = 0;        // of all
  std::list<Own> owns;                  // one at most, but of a rule in lock-step or with servers
  std::list<Answer> answers;
  std::uint64_t half_applied_chunks = 0, bytes_sent = 0;
  std::vector<float> first_values;  // of one that lies by sending these for ever
  std::vector<float> before_settling;
  std::vector<Address> cache;  // as it lies on disk

  Machine(MachineOptions o, Random r, std::size_t floats, const training::MixOptions& mix)
      : options(std::move(o)), address{options.name, 7100}, random(r) {
    renew_replica(floats, mix);
  }

  void renew_replica(std::size_t floats, const training::MixOptions& mix) {
    mixer.reset();
    arena = std::make_unique<models::Arena>(floats);
    mixer = training::make_mixer(*arena, mix);
  }

  // Of the instance that is no more. REQUIRES: it was started.
  void keep_counts() {
    const gossip::ExchangeCounts& counts = peer->view().exchanges;
    earlier_exchanges.completed += counts.completed;
    earlier_exchanges.aborted += counts.aborted;
    earlier_exchanges.rejected += counts.rejected;
    earlier_exchanges.answered += counts.answered;
    const auto& refused = mixer->counters().refused;
    for (std::size_t k = 0; k < refused.size(); ++k) earlier_mixed.refused[k] += refused[k];
  }

  // One's own exchange of this number; null where it is over.
  Own* own(std::uint64_t exchange) {
    const auto found =
        std::find_if(owns.begin(), owns.end(), [&](const Own& it) { return it.exchange() == exchange; });
    return found == owns.end() ? nullptr : &*found;
  }
  // What is lent there, of whichever exchange; null where nothing is.
  const Own::Flight* covering(std::size_t offset) const {
    for (const Own& own : owns) {
      if (const Own::Flight* const flight = own.covering(offset)) return flight;
    }
    return nullptr;
  }

  bool up() const { return state == MachineState::running; }
  // By how much a step takes longer that begins now, and by how much the median one does.
  double slowness_of_step(Instant at, std::uint64_t step) const {
    return lab::slowness_of_step(slow, at, step);
  }
  double slowness(Instant at) const {
    double factor = 1;
    for (const Slow& s : slow) {
      if (s.from <= at && at < s.to) factor *= s.factor.median();
    }
    return factor;
  }
  Duration disk_access(Instant at) const {
    Duration access{0};
    for (const SlowDisk& d : disks) {
      if (d.from <= at && at < d.to) access = std::max(access, d.access);
    }
    return access;
  }
  // What spoils its chunks now, the likeliest of several; null where nothing does.
  const Poison* poison(Instant at) const {
    const Poison* likeliest = nullptr;
    for (const Poison& p : poisons) {
      if (p.from <= at && at < p.to && (likeliest == nullptr || p.chance > likeliest->chance)) likeliest = &p;
    }
    return likeliest;
  }
  Instant awake(Instant at) const { return awake_at(pauses, at); }

  // Its own clock, and back: the first instant of virtual time at which the clock shows `local`.
  Instant local(Instant at) const {
    if (clock_rate == 0 || at == kNever) return at;
    return Instant{
        Duration{static_cast<std::int64_t>(static_cast<double>(at.since_start.count()) * (1 + clock_rate))}};
  }
  Instant true_time(Instant at_local) const {
    if (clock_rate == 0 || at_local == kNever) return at_local;
    Instant at{Duration{
        static_cast<std::int64_t>(static_cast<double>(at_local.since_start.count()) / (1 + clock_rate))}};
    while (local(at) < at_local) at = at + Duration{1};
    return at;
  }
};

template <class Happening>
void World::later(Instant at, std::uint32_t i, Happening happening) {
  struct Late {
    World* world;
    std::uint32_t i, life;
    Happening happening;
    void operator()() {
      const Machine& m = *world->machines_[i];
      if (!m.up() || m.life != life) return;
      if (const Instant awake = m.awake(world->now()); awake > world->now()) {
        world->queue_.schedule(awake, std::move(*this));
      } else {
        happening();
      }
    }
  };
  queue_.schedule(at, Late{this, i, machines_[i]->life, std::move(happening)});
}

}  // namespace starling::lab
