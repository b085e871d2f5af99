#include "node/flow.h"

#include <algorithm>
#include <cmath>

namespace starling::node {
namespace {

constexpr double kGain = 1.25;

double shortest(double a, double b) {
  if (a == 0) return b;
  return b == 0 ? a : std::min(a, b);
}

}  // namespace

double Flow::rate() const {
  return std::max(rate_.now, rate_.before);
}

Duration Flow::delay() const {
  return from_seconds(shortest(delay_.now, delay_.before));
}

void Flow::turn(Duration now) {
  if (!turned_) turned_ = now;
  if (now - *turned_ < kMemory) return;
  const bool stale = now - *turned_ >= 2 * kMemory;  // nothing was heard in between
  for (Extreme* extreme : {&rate_, &delay_}) *extreme = {0, stale ? 0 : extreme->now};
  turned_ = now;
}

void Flow::answered(Duration now, const Sent& sent) {
  answered_ += sent.bytes;
  if (now <= sent.at) return;  // the clock is too coarse for this link
  turn(now);
  const double took = to_seconds(now - sent.at);
  delay_.now = shortest(delay_.now, took);
  rate_.now = std::max(rate_.now, static_cast<double>(answered_ - sent.answered) / took);
  adapt();
}

void Flow::adapt() {
  const double cell = static_cast<double>(options_.cell_bytes);
  const double flight = kGain * rate() * to_seconds(delay());
  const auto chunks_of = [&](std::size_t cells) { return std::ceil(flight / (cell * static_cast<double>(cells))) + 1; };
  if (!options_.chunk_cells) {
    const double in_time = rate() * to_seconds(kChunkTimeMax) / cell;
    chunk_cells_ = static_cast<std::size_t>(std::clamp(in_time, 1.0, static_cast<double>(kChunkCells)));
    // A long fat link: larger chunks rather than more of them.
    constexpr double kMany = 32;
    if (chunk_cells_ == kChunkCells && chunks_of(kChunkCells) > kMany) chunk_cells_ = kChunkCellsMax;
  }
  const std::size_t chunk_bytes = options_.cell_bytes * chunk_cells();
  const std::size_t most = std::clamp(options_.flight_bytes_max / chunk_bytes, kWindowMin, kWindowMax);
  window_ = static_cast<std::size_t>(
      std::clamp(chunks_of(chunk_cells()), static_cast<double>(kWindowMin), static_cast<double>(most)));
}

}  // namespace starling::node
