// The figures that a peer reports about itself, with their JSON names. Control reports, the status, the
// members' table, the live page's history and the records of a run each use some of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/recent_figures.h"

namespace starling::training {

struct PeerFigures : RecentFigures {
  std::string device{};                   // "cpu", "cuda:0", several with commas; empty: not known yet
  std::string precision{};                // of its products: "f32", "bf16", "tf32"; empty: not known yet
  std::uint64_t steps = 0, samples = 0;   // its own
  std::uint64_t swarm_samples = 0;        // of all that ever took part
  std::optional<double> learning_rate{};  // in effect
  std::optional<double> accuracy{};       // of its own replica
  std::uint64_t bytes_sent = 0, bytes_received = 0;
};

template <class T, class Figures>
struct Figure {
  const char* name;
  T Figures::*member;
};
// Clang 16 does not deduce the arguments of aggregates itself.
template <class T, class Figures>
Figure(const char*, T Figures::*) -> Figure<T, Figures>;

namespace figure {
inline constexpr Figure device{"device", &PeerFigures::device};
inline constexpr Figure precision{"precision", &PeerFigures::precision};
inline constexpr Figure paused{"paused", &PeerFigures::paused};
inline constexpr Figure steps{"steps", &PeerFigures::steps};
inline constexpr Figure samples{"samples", &PeerFigures::samples};
inline constexpr Figure swarm_samples{"swarm_samples", &PeerFigures::swarm_samples};
inline constexpr Figure samples_per_second{"samples_per_second", &PeerFigures::samples_per_second};
inline constexpr Figure loss{"loss", &PeerFigures::loss};
inline constexpr Figure learning_rate{"learning_rate", &PeerFigures::learning_rate};
inline constexpr Figure accuracy{"accuracy", &PeerFigures::accuracy};
inline constexpr Figure distance{"distance", &PeerFigures::distance};
inline constexpr Figure bytes_sent{"bytes_sent", &PeerFigures::bytes_sent};
inline constexpr Figure bytes_received{"bytes_received", &PeerFigures::bytes_received};
}  // namespace figure

// Visits these figures of `holder`, in this order.
template <class Visitor, class Holder, class... T, class... Figures>
void visit_figures(Visitor& visit, Holder& holder, const Figure<T, Figures>&... figures) {
  (visit(figures.name, holder.*figures.member), ...);
}

}  // namespace starling::training
