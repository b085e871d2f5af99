#include "lab/world/network/network_conditions.h"

#include <algorithm>
#include <utility>

namespace starling::lab {
namespace {

std::uint64_t way_key(std::uint32_t from, std::uint32_t to) { return std::uint64_t{from} << 32 | to; }

}  // namespace

bool NetworkConditions::Shape::concerns(std::uint32_t from, std::uint32_t to) const {
  const auto is_in = [](const std::vector<bool>& set, std::uint32_t i) { return i < set.size() && set[i]; };
  if (others.empty()) return is_in(machines, from) || is_in(machines, to);
  return (is_in(machines, from) && is_in(others, to)) || (is_in(machines, to) && is_in(others, from));
}

NetworkConditions::OfPacket NetworkConditions::of(Instant now, std::uint32_t from, std::uint32_t to) const {
  LinkChange all;
  for (const Shape& it : shapes_) {
    if (it.interval.covers(now) && it.concerns(from, to)) all = worse(all, it.shape);
  }
  return {all.latency.value_or(latency_), all.bandwidth.value_or(bandwidth_), all.drop};
}

// When the last byte of a packet that begins at `at` leaves.
Instant NetworkConditions::sent_by(std::uint32_t from, std::uint32_t to, Instant at, std::size_t bytes,
                                   double bandwidth) const {
  double left = static_cast<double>(bytes) * 8 / bandwidth;
  if (const auto found = clogs_.find(way_key(from, to)); found != clogs_.end()) {
    for (const Clog& clog : found->second) {
      if (clog.interval.to <= at) continue;
      const double before = to_seconds(clog.interval.from - at);
      if (before >= left) break;
      if (before > 0) {
        left -= before;
        at = clog.interval.from;
      }
      const double within = to_seconds(clog.interval.to - at) / clog.factor;
      if (within >= left) return at + from_seconds(left * clog.factor);
      left -= within;
      at = clog.interval.to;
    }
  }
  return at + from_seconds(left);
}

bool NetworkConditions::are_dials_blocked(Instant now, std::uint32_t machine) const {
  return machine < no_dials_.size() &&
         std::ranges::any_of(no_dials_[machine], [now](const TimeRange& it) { return it.covers(now); });
}

Instant NetworkConditions::clear_of_cuts(Instant now, std::uint32_t from, std::uint32_t to) const {
  Instant clear = now;
  const auto found = cuts_.find(way_key(from, to));
  if (found == cuts_.end()) return clear;
  for (const TimeRange& cut : found->second) {  // ordered by beginning
    if (cut.covers(clear)) clear = cut.to;
  }
  return clear;
}

void NetworkConditions::cut(std::uint32_t from, std::uint32_t to, TimeRange interval) {
  auto& cuts = cuts_[way_key(from, to)];
  cuts.push_back(interval);
  std::ranges::sort(cuts, {}, &TimeRange::from);
}

void NetworkConditions::clog(std::uint32_t a, std::uint32_t b, TimeRange interval, double factor) {
  for (const std::uint64_t key : {way_key(a, b), way_key(b, a)}) {
    auto& clogs = clogs_[key];
    clogs.push_back({interval, factor});
    std::sort(clogs.begin(), clogs.end(),
              [](const Clog& x, const Clog& y) { return x.interval.from < y.interval.from; });
  }
}

void NetworkConditions::shape(const std::vector<std::uint32_t>& machines,
                              const std::vector<std::uint32_t>& others, TimeRange interval,
                              const LinkChange& shape) {
  Shape made{{}, {}, interval, shape};
  const auto fill = [](std::vector<bool>& set, const std::vector<std::uint32_t>& indices) {
    for (const std::uint32_t i : indices) {
      if (i >= set.size()) set.resize(i + std::size_t{1});
      set[i] = true;
    }
  };
  fill(made.machines, machines);
  fill(made.others, others);
  shapes_.push_back(std::move(made));
}

void NetworkConditions::block_dials(std::uint32_t machine, TimeRange interval) {
  no_dials_.resize(std::max<std::size_t>(no_dials_.size(), machine + std::size_t{1}));
  no_dials_[machine].push_back(interval);
}

void NetworkConditions::hide(std::uint32_t machine) {
  hidden_.resize(std::max<std::size_t>(hidden_.size(), machine + std::size_t{1}));
  hidden_[machine] = true;
}

}  // namespace starling::lab
