#include "gossip/rounds.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace starling::gossip {

void Rounds::open(std::vector<Edge> edges) {
  STARLING_CHECK(!open_ && round_ > 0);
  open_ = true;
  edges_ = std::move(edges);
}

Rounds::Edge* Rounds::edge(PeerId partner) {
  const auto found =
      std::find_if(edges_.begin(), edges_.end(), [&](const Edge& edge) { return edge.partner == partner; });
  return open_ && found != edges_.end() ? &*found : nullptr;
}

Rounds::Edge* Rounds::next_own() {
  const auto found = std::find_if(edges_.begin(), edges_.end(), [](const Edge& edge) {
    return edge.own && edge.state == Edge::State::waiting;
  });
  return open_ && found != edges_.end() ? &*found : nullptr;
}

bool Rounds::all_over() const {
  return std::all_of(edges_.begin(), edges_.end(),
                     [](const Edge& edge) { return edge.state == Edge::State::over; });
}

Rounds::Verdict Rounds::judge(const Offer& offer) {
  if (offer.round < expected() || offer.round > round_ + kAheadMost) return Verdict::refuse;
  Edge* const edge = this->edge(offer.from);
  const bool awaited = edge != nullptr && !edge->own && edge->state == Edge::State::waiting;
  if (open_ && offer.round == round_) return awaited ? Verdict::accept : Verdict::refuse;
  if (awaited) edge->state = Edge::State::over;
  return Verdict::hold;
}

void Rounds::hold(const Offer& offer) {
  held_.push_back(offer);
  if (round_ == 0 || offer.round > round_ + kAheadUsual) left_behind(offer.round);
}

bool Rounds::withdraw(PeerId from, std::uint64_t exchange) {
  return std::erase_if(held_, [&](const Offer& offer) {
           return offer.from == from && offer.exchange == exchange;
         }) > 0;
}

std::optional<Rounds::Offer> Rounds::held_of(PeerId from) const {
  const auto found =
      std::find_if(held_.begin(), held_.end(), [&](const Offer& offer) { return offer.from == from; });
  return found == held_.end() ? std::nullopt : std::optional(*found);
}

std::optional<Rounds::Offer> Rounds::ripe() {
  for (auto it = held_.begin(); it != held_.end(); ++it) {
    if (judge(*it) == Verdict::hold) continue;
    const Offer offer = *it;
    held_.erase(it);
    return offer;
  }
  return std::nullopt;
}

}  // namespace starling::gossip
