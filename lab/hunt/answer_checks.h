// Statement 13: how many exchanges of others a peer answers at once, and which of these answers end to make
// room. It counts wasted answers itself, so it does not depend on gossip::AnswerBudget. A check returns a
// sentence if the statement is violated.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gossip/events.h"
#include "lab/world/world.h"

namespace starling::lab {

class AnswerChecks {
 public:
  using Finding = std::optional<std::string>;

  void watch(const World& world);
  // A new instance: it answers nobody.
  void started(std::uint32_t machine) { of_[machine] = {}; }
  void event(std::uint32_t machine, const gossip::Event& event);  // before the core receives it
  // An answer may be displaced for one of the same peer if that peer has as many as it may, and it moved
  // least recently of them. Else it must have no chunk or be under way for a while, and its peer must have
  // wasted most answers of those that have no chunk, and no fewer than `further`.
  Finding changed(std::uint32_t machine, const AnswerChange& change);
  // Between happenings: no peer has more answers than it may, and where the core limits them, no machine has.
  Finding look(std::uint32_t machine) const;

 private:
  struct Answer {
    PeerId from;
    std::uint64_t exchange;
    Instant began, moved;
    bool has_chunk = false;
  };
  struct Answers {
    std::vector<Answer> under_way{};  // accepted
    std::map<PeerId, std::uint64_t> wasted{};
  };

  Finding displaced(std::uint32_t machine, const AnswerChange& change, const Answer& ended) const;
  static std::uint64_t wasted(const Answers& answers, PeerId peer);
  static std::size_t count(const Answers& answers, PeerId peer);
  static Answer* find(Answers& answers, PeerId from, std::uint64_t exchange);
  const std::string& name(PeerId peer) const;

  const World* world_ = nullptr;
  std::vector<Answers> of_;  // by machine
};

}  // namespace starling::lab
