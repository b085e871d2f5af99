#include "gossip/rounds.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace starling::gossip {

void Rounds::open(std::vector<Edge> edges, std::uint64_t lead) {
  STARLING_CHECK(!open_ && current() > 0);
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
                     [&](const InStep& it) { return it.partner == partner && it.from <= current(); });
}

void Rounds::comes_in(PeerId partner, std::uint64_t round) {
  std::erase_if(in_step_, [&](const InStep& it) { return it.partner == partner; });
  in_step_.push_back({partner, round});
}

void Rounds::meet(PeerId partner, Met how) {
  if (Edge* const edge = this->edge(partner)) edge->state = Edge::State::over;
  comes_in(partner, 0);
  if (how == Met::failed) in_step_.pop_back();
}

Verdict Rounds::judge(const Offer& offer) {
  if (offer.round > current() + kAheadMost) return Verdict::reject;
  if (offer.round < expected()) {  // it comes after its next step; else it would stay behind forever
    comes_in(offer.from, 0);
    return Verdict::reject;
  }
  const Edge* const edge = this->edge(offer.from);
  const bool waiting = edge != nullptr && edge->state == Edge::State::waiting;
  if (open_ && offer.round == current()) {
    if (waiting) return Verdict::accept;
    // This peer's own offer is on its way.
    const bool crossing = edge != nullptr && edge->state == Edge::State::under_way && edge->answered == 0;
    return crossing ? Verdict::hold : Verdict::reject;
  }
  if (waiting) meet(offer.from, Met::failed);
  left_behind(offer.round);
  return Verdict::hold;
}

bool Rounds::withdraw(PeerId from, std::uint64_t exchange) {
  return std::erase_if(
             held_, [&](const Offer& offer) { return offer.from == from && offer.exchange == exchange; }) > 0;
}

std::optional<Offer> Rounds::held_of(PeerId from) const {
  const auto found =
      std::find_if(held_.begin(), held_.end(), [&](const Offer& offer) { return offer.from == from; });
  return found == held_.end() ? std::nullopt : std::optional(*found);
}

std::optional<Offer> Rounds::take_ripe() {
  for (auto it = held_.begin(); it != held_.end(); ++it) {
    if (judge(*it) == Verdict::hold) continue;
    const Offer offer = *it;
    held_.erase(it);
    return offer;
  }
  return std::nullopt;
}

std::optional<Offer> Rounds::take_any() {
  if (held_.empty()) return std::nullopt;
  const Offer offer = held_.front();
  held_.erase(held_.begin());
  return offer;
}

}  // namespace starling::gossip
