#include "gossip/rounds.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace starling::gossip {

void Rounds::open(std::vector<Edge> edges, std::uint64_t lead) {
  STARLING_CHECK(!open_ && round_ > 0);
  open_ = true;
  edges_ = std::move(edges);
  lead_ = lead;
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
  return std::all_of(edges_.begin(), edges_.end(), [this](const Edge& edge) {
    return edge.state == Edge::State::over ||
           (edge.state == Edge::State::waiting && !edge.own && !in_step(edge.partner));
  });
}

bool Rounds::in_step(PeerId partner) const {
  return std::any_of(in_step_.begin(), in_step_.end(),
                     [&](const InStep& it) { return it.partner == partner && it.from <= round_; });
}

void Rounds::comes_in(PeerId partner, std::uint64_t round) {
  std::erase_if(in_step_, [&](const InStep& it) { return it.partner == partner; });
  in_step_.push_back({partner, round});
}

void Rounds::meet(PeerId partner, bool completed) {
  if (Edge* const edge = this->edge(partner)) edge->state = Edge::State::over;
  comes_in(partner, 0);
  if (!completed) in_step_.pop_back();
}

Rounds::Verdict Rounds::judge(const Offer& offer) {
  if (offer.round > round_ + kAheadMost) return Verdict::refuse;
  if (offer.round < expected()) {  // it comes as soon as it has made its step: or it would run behind for ever
    comes_in(offer.from, 0);
    return Verdict::refuse;
  }
  const Edge* const edge = this->edge(offer.from);
  const bool waiting = edge != nullptr && edge->state == Edge::State::waiting;
  if (open_ && offer.round == round_) {
    if (waiting) return Verdict::accept;
    const bool crossing = edge != nullptr && edge->state == Edge::State::under_way && edge->answered == 0;
    return crossing ? Verdict::hold : Verdict::refuse;  // as long as this peer's own offer is on its way
  }
  if (waiting) meet(offer.from, false);
  left_behind(offer.round);
  return Verdict::hold;
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
