// Bounded staleness at a server (SSP: Ho et al., "More effective distributed ML via a stale synchronous
// parallel parameter server", NIPS 2013). A worker's clock counts its pushes; each push is an offer that
// names its number, and no worker makes the next one before the last is answered. A server answers the c-th
// when every worker has begun its (c + 1 - s)-th: then nobody ever begins one that is more than s ahead of
// the slowest worker's latest.
//
// Who is new counts as far as the slowest, and is told so when it offers less: it goes on from there. Who has
// failed or stopped training holds nobody back; who comes back is new.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "gossip/rounds.h"

namespace starling::gossip {

class Clocks {
 public:
  using Offer = Rounds::Offer;
  using Verdict = Rounds::Verdict;

  explicit Clocks(std::uint64_t staleness) : staleness_(staleness) {}

  // Who trains is waited for from now on.
  void meet(PeerId worker) { clocks_.try_emplace(worker, slowest()); }
  // Of those that it has met, who does not train any more is waited for no longer.
  template <class Trains>
  void keep(Trains trains) {
    std::erase_if(clocks_, [&](const auto& entry) { return !trains(entry.first); });
  }

  // The least number of a worker's latest push; 0: there is no worker.
  std::uint64_t slowest() const {
    std::uint64_t least = clocks_.empty() ? 0 : UINT64_MAX;
    for (const auto& [worker, clock] : clocks_) least = std::min(least, clock);
    return least;
  }
  // The number that a worker goes on from at least.
  std::uint64_t of(PeerId worker) const {
    const auto found = clocks_.find(worker);
    return found == clocks_.end() ? 0 : found->second;
  }

  // What becomes of a push now. Refused: it is behind of(its worker). Whoever does not train is always
  // served.
  Verdict judge(const Offer& offer) {
    const auto found = clocks_.find(offer.from);
    if (found == clocks_.end()) return Verdict::accept;
    if (offer.round < found->second) return Verdict::refuse;
    found->second = offer.round;
    return slowest() + staleness_ > offer.round ? Verdict::accept : Verdict::hold;
  }

  void hold(const Offer& offer) { held_.push_back(offer); }
  // It is held no more; false where it was not.
  bool withdraw(PeerId from, std::uint64_t exchange) {
    return std::erase_if(held_, [&](const Offer& it) { return it.from == from && it.exchange == exchange; }) >
           0;
  }
  // A worker makes one push at a time: an earlier one of its that is held has come to nothing there.
  std::optional<Offer> take_held_of(PeerId from) {
    return take([&](const Offer& it) { return it.from == from; });
  }
  // A held one that is to be held no longer, taken out; nullopt where there is none.
  std::optional<Offer> ripe() {
    return take([this](const Offer& it) { return judge(it) != Verdict::hold; });
  }
  // Any.
  std::optional<Offer> any_held() {
    return take([](const Offer&) { return true; });
  }

 private:
  template <class Fits>
  std::optional<Offer> take(Fits fits) {
    const auto found = std::find_if(held_.begin(), held_.end(), fits);
    if (found == held_.end()) return std::nullopt;
    const Offer offer = *found;
    held_.erase(found);
    return offer;
  }

  std::uint64_t staleness_;
  std::map<PeerId, std::uint64_t> clocks_;  // of the latest push that was begun
  std::vector<Offer> held_;                 // in the order they came
};

}  // namespace starling::gossip
