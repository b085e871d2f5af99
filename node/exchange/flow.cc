#include "node/exchange/flow.h"

#include <cmath>
#include <utility>

namespace starling::node {
namespace {

constexpr double kGain = 1.25;

}  // namespace

void Flow::turn(Duration now) {
  if (!turned_) turned_ = now;
  if (now - *turned_ < kMemory) return;
  const bool stale = now - *turned_ >= 2 * kMemory;  // no reply in between
  rate_before_ = stale ? 0 : rate_;
  rate_ = 0;
  turned_ = now;
}

Flow::Sent Flow::sent(Duration now, std::size_t bytes) {
  if (std::exchange(rests_, false)) last_reply_ = last_sent_ = now;
  return {now, bytes, answered_, last_reply_, last_sent_, ++flying_ <= kWindowMin};
}

void Flow::answered(Duration now, const Sent& sent) {
  answered_ += sent.bytes;
  last_reply_ = now;
  last_sent_ = sent.at;
  if (flying_ > 0) --flying_;
  if (now <= sent.at) return;  // the clock is too coarse for this link
  turn(now);
  const double took = to_seconds(now - sent.at);
  if (delay_ == 0 || took <= delay_ || (probing_ && sent.alone)) {
    delay_ = took;
    delay_at_ = now;
    probing_ = false;
  } else if (now - delay_at_ >= kMemory) {
    probing_ = true;
  }
  // Replies that arrive together are no faster than their offers were sent.
  const double over = to_seconds(std::max(now - sent.last_reply, sent.at - sent.last_sent));
  rate_ = std::max(rate_, static_cast<double>(answered_ - sent.answered) / over);
  adapt();
}

void Flow::adapt() {
  const double cell = static_cast<double>(options_.cell_bytes);
  const double flight = kGain * rate() * to_seconds(delay());
  if (!options_.chunk_cells) {
    const double in_time = rate() * to_seconds(kChunkTimeMax) / cell;
    // On a link with a long delay: larger chunks rather than hundreds of them.
    constexpr double kMany = 64;
    const double cells = std::max(in_time, flight / (kMany * cell));
    chunk_cells_ = static_cast<std::size_t>(std::clamp(cells, 1.0, static_cast<double>(kChunkCells)));
  }
  const std::size_t chunk_bytes = options_.cell_bytes * chunk_cells();
  const std::size_t most = std::clamp(options_.flight_bytes_max / chunk_bytes, kWindowMin, kWindowMax);
  // More than the flight by less than a chunk: further waiting chunks would only displace others from the
  // caches.
  const double chunks = std::floor(flight / static_cast<double>(chunk_bytes)) + 1;
  window_ = static_cast<std::size_t>(
      std::clamp(chunks, static_cast<double>(kWindowMin), static_cast<double>(most)));
}

}  // namespace starling::node
