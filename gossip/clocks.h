// Bounded staleness at a server (SSP: Ho et al., "More effective distributed ML via a stale synchronous
// parallel parameter server", NIPS 2013). A worker's clock counts its pushes. Each push is an offer that
// carries its number, and no worker makes the next push before the last is answered. A server answers push c
// once every worker has begun push c + 1 - s. So no worker ever begins a push that is more than s ahead of
// the slowest worker's latest.
//
// A new worker starts at the slowest clock; if it offers less, the rejection carries that number. A worker
// that failed or stopped training holds nobody back. One that comes back is new.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "gossip/offer.h"

namespace starling::gossip {

class Clocks {
 public:
  explicit Clocks(std::uint64_t staleness) : staleness_(staleness) {}

  // This worker trains: it is waited for from now on.
  void meet(PeerId worker) { clocks_.try_emplace(worker, slowest()); }
  // Workers that do not train any more are not waited for.
  template <class Trains>
  void keep(Trains trains) {
    std::erase_if(clocks_, [&](const auto& entry) { return !trains(entry.first); });
  }

  // The least number of any worker's latest push; 0 without workers.
  std::uint64_t slowest() const {
    std::uint64_t least = clocks_.empty() ? 0 : UINT64_MAX;
    for (const auto& [worker, clock] : clocks_) least = std::min(least, clock);
    return least;
  }
  // The least number that this worker may offer.
  std::uint64_t of(PeerId worker) const {
    const auto found = clocks_.find(worker);
    return found == clocks_.end() ? 0 : found->second;
  }

  // What to do with a push now. It is rejected if it is behind of(its worker). Peers that do not train are
  // always accepted.
  Verdict judge(const Offer& offer) {
    const auto found = clocks_.find(offer.from);
    if (found == clocks_.end()) return Verdict::accept;
    if (offer.round < found->second) return Verdict::reject;
    found->second = offer.round;
    return slowest() + staleness_ > offer.round ? Verdict::accept : Verdict::hold;
  }

  void hold(const Offer& offer) { held_.push_back(offer); }
  // Drops a held offer; false if there is none.
  bool withdraw(PeerId from, std::uint64_t exchange) {
    return std::erase_if(held_, [&](const Offer& it) { return it.from == from && it.exchange == exchange; }) >
           0;
  }
  // Each of these removes and returns a held offer. A worker makes one push at a time: if it offers another
  // one, it has given up the held one.
  std::optional<Offer> take_held_of(PeerId from) {
    return take([&](const Offer& it) { return it.from == from; });
  }
  std::optional<Offer> take_ripe() {  // one that need not be held any longer
    return take([this](const Offer& it) { return judge(it) != Verdict::hold; });
  }
  std::optional<Offer> take_any() {
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
  std::map<PeerId, std::uint64_t> clocks_;  // number of the latest push that each worker began
  std::vector<Offer> held_;                 // oldest first
};

}  // namespace starling::gossip
