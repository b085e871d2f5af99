// Observes a world for a run's report: exactly what each machine does when, and the staleness of what it
// mixes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "lab/world/world.h"
#include "training/runs/records/staleness.h"
#include "training/runs/records/timeline.h"

namespace starling::lab {

// Adds what a machine did from `from` to `to`, except during its pauses, when it is stopped.
inline void add_around_pauses(training::Timeline& timeline, std::span<const TimeRange> pauses, Instant from,
                              Instant to, const training::Activity& doing) {
  const auto add = [&](Instant begin, Instant end, const training::Activity& activity) {
    timeline.add(to_seconds(begin.since_start), to_seconds(end.since_start), activity);
  };
  for (const TimeRange& pause : pauses) {
    const Instant begin = std::clamp(pause.from, from, to), end = std::clamp(pause.to, from, to);
    if (!(begin < end)) continue;
    add(from, begin, doing);
    add(begin, end, {.stopped = 1});
    from = end;
  }
  add(from, to, doing);
}

class RunWatch final : public Watcher {
 public:
  explicit RunWatch(std::size_t machines) {
    const training::Timeline empty(training::Timeline::most_cells(machines));
    seen_.reserve(machines);
    for (std::size_t i = 0; i < machines; ++i) seen_.push_back(Seen{.timeline = empty});
  }

  // Sets the world to observe, before its first happening.
  void look_at(const World& world) { world_ = &world; }

  // Up to the world's current time. Seconds count from its beginning.
  const training::Timeline& timeline(std::uint32_t machine) {
    account(machine);
    return seen_[machine].timeline;
  }
  const training::Staleness& staleness() const { return staleness_; }

  void started(std::uint32_t machine) override {
    account(machine);
    Seen& seen = seen_[machine];
    seen.up = true;
    seen.training = false;
    seen.stepping = 0;
    seen.owns.clear();
    seen.answers.clear();
    seen.lent.clear();
  }

  void ended(std::uint32_t machine, MachineState) override {
    account(machine);
    seen_[machine].up = false;
  }

  void event(std::uint32_t machine, const gossip::Event& event) override {
    Seen& seen = seen_[machine];
    if (const auto* ended = std::get_if<gossip::ExchangeEnded>(&event)) {
      const auto own = std::find_if(seen.owns.begin(), seen.owns.end(),
                                    [&](const Own& it) { return it.exchange == ended->exchange; });
      if (own == seen.owns.end()) return;
      account(machine);
      if (ended->outcome == gossip::Outcome::completed) staleness_.count(own->stale);
      forget(seen, ended->exchange);
    } else if (const auto* served = std::get_if<gossip::AnswerEnded>(&event)) {
      account(machine);
      std::erase_if(seen.answers, [&](const Answer& it) {
        return it.from == served->from && it.exchange == served->exchange;
      });
    }
  }

  void action(std::uint32_t machine, const gossip::Action& action) override {
    Seen& seen = seen_[machine];
    if (const auto* begin = std::get_if<gossip::BeginExchange>(&action)) {
      account(machine);
      seen.owns.push_back({begin->exchange});
    } else if (const auto* abort = std::get_if<gossip::AbortExchange>(&action)) {
      account(machine);
      forget(seen, abort->exchange);
    } else if (const auto* answer = std::get_if<gossip::AnswerOffer>(&action);
               answer != nullptr && answer->accept) {
      account(machine);
      seen.answers.push_back({answer->from, answer->exchange});
      const auto initiator = world_->machine_of(answer->from);
      if (!initiator) return;
      account(*initiator);
      for (Own& own : seen_[*initiator].owns) {
        if (own.exchange == answer->exchange) own.accepted = true;
      }
    } else if (std::holds_alternative<gossip::StartTraining>(action)) {
      account(machine);
      seen.training = true;
    } else if (std::holds_alternative<gossip::StopTraining>(action)) {
      account(machine);
      seen.training = false;
    }
  }

  void lent(std::uint32_t machine, const training::Parcel& parcel) override {
    Seen& seen = seen_[machine];
    seen.lent.push_back({parcel.offset, seen.steps});
  }
  void step_began(std::uint32_t machine, Duration) override {
    if (seen_[machine].stepping == 0) account(machine);
    ++seen_[machine].stepping;
  }

  void step_ended(std::uint32_t machine) override {
    account(machine);
    Seen& seen = seen_[machine];
    --seen.stepping;
    ++seen.steps;
    seen.timeline.add_step(to_seconds(world_->now().since_start));
  }

  void step_discarded(std::uint32_t machine) override {
    account(machine);
    --seen_[machine].stepping;
  }

  void completed(const Mix& mix) override {
    Seen& seen = seen_[mix.machine];
    const auto lent = std::find_if(seen.lent.begin(), seen.lent.end(),
                                   [&](const Lent& it) { return it.offset == mix.offer.offset; });
    if (lent == seen.lent.end()) return;
    for (Own& own : seen.owns) {
      if (own.exchange == mix.exchange) own.stale = std::max(own.stale, seen.steps - lent->steps);
    }
    seen.lent.erase(lent);
  }

 private:
  struct Own {  // an exchange that the machine began
    std::uint64_t exchange;
    bool accepted = false;    // by the partner; until then the machine waits
    std::uint64_t stale = 0;  // steps since the oldest chunk was lent
  };
  struct Answer {
    PeerId from;
    std::uint64_t exchange;
  };
  struct Lent {
    std::size_t offset;   // floats
    std::uint64_t steps;  // of the machine when it lent the chunk
  };
  struct Seen {
    bool up = false, training = false;
    std::uint32_t stepping = 0;  // workers
    std::uint64_t steps = 0;
    Instant since{};  // the time line is complete up to here
    std::vector<Own> owns{};
    std::vector<Answer> answers{};
    std::vector<Lent> lent{};
    training::Timeline timeline;
  };

  // Adds what the machine did since the last call. Called before its activity changes.
  void account(std::uint32_t machine) {
    Seen& seen = seen_[machine];
    const Instant now = world_->now();
    if (!(seen.since < now)) return;
    training::Activity doing;
    if (!seen.up) {
      doing.stopped = 1;
    } else {
      doing.computing = seen.training && seen.stepping > 0 ? 1 : 0;
      const bool moves = !seen.answers.empty() || std::any_of(seen.owns.begin(), seen.owns.end(),
                                                              [](const Own& own) { return own.accepted; });
      doing.exchanging = moves ? 1 : 0;
      if (doing.computing == 0 && doing.exchanging == 0) doing.waiting = 1;
    }
    add_around_pauses(seen.timeline, seen.up ? world_->pauses(machine) : std::span<const TimeRange>(),
                      seen.since, now, doing);
    seen.since = now;
  }

  void forget(Seen& seen, std::uint64_t exchange) {
    std::erase_if(seen.owns, [exchange](const Own& own) { return own.exchange == exchange; });
    if (seen.owns.empty()) seen.lent.clear();
  }

  const World* world_ = nullptr;
  std::vector<Seen> seen_;
  training::Staleness staleness_;
};

}  // namespace starling::lab
