#include "transport/links/shaped.h"

#include <algorithm>
#include <utility>

#include "wire/loss.h"

namespace starling::transport {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

// The bytes that arrive together: few on a slow link, so that they arrive gradually as on a real one.
std::size_t piece_bytes(const LinkShape& shape) {
  if (shape.bandwidth == 0) return DelayLine::kPieceMax;
  constexpr double kLeast = 1500;
  const double in_time = shape.bandwidth / 8 * to_seconds(DelayLine::kPieceTime);
  return static_cast<std::size_t>(std::clamp(in_time, kLeast, static_cast<double>(DelayLine::kPieceMax)));
}

}  // namespace

std::shared_ptr<const LinkShape> LinkShapes::to(const Address& remote) {
  if (const auto found = remotes_.find(remote); found != remotes_.end()) return found->second.shape;
  std::erase_if(remotes_,
                [](const auto& entry) { return !entry.second.own && entry.second.shape.use_count() == 1; });
  return remotes_.emplace(remote, Remote{std::make_shared<LinkShape>(*all_), false}).first->second.shape;
}

void LinkShapes::set_all(const LinkShape& shape) {
  *all_ = shape;
  for (auto& [address, remote] : remotes_) {
    if (!remote.own) *remote.shape = shape;
  }
}

void LinkShapes::set_to(const Address& address, const LinkShape& shape) {
  Remote& remote = remotes_[address];
  remote.own = true;
  if (!remote.shape) remote.shape = std::make_shared<LinkShape>();
  *remote.shape = shape;
}

Duration LinkPacer::arrival(const LinkShape& shape, Duration now, std::size_t bytes, Duration late) {
  free_ = std::max(free_, now);
  if (shape.bandwidth > 0) free_ += from_seconds(8 * static_cast<double>(bytes) / shape.bandwidth);
  last_arrival_ = std::max(last_arrival_, free_ + shape.latency + late);
  return last_arrival_;
}

std::optional<Duration> DelayLine::draw_lateness(const LinkShape& shape) {
  const Duration late = resent_after(shape.drop, shape.latency, kLossLimit, losses_);
  if (late > kLossLimit) return std::nullopt;
  return late;
}

asio::awaitable<void> DelayLine::stand_still(std::shared_ptr<DelayLine> self, Duration time) {
  const Duration until = now() + time;
  while (!self->closed_ && now() < until) co_await room_.wait_until(TimePoint(until));
}

asio::awaitable<bool> DelayLine::put(std::shared_ptr<DelayLine> self, const LinkShape& shape, Bytes bytes,
                                     Duration late) {
  while (!bytes.empty()) {
    while (!self->closed_ && (pacer_.free() > now() + kBacklog || bytes_ >= kBytesMax)) {
      const Duration later = bytes_ >= kBytesMax ? now() + std::chrono::hours(1) : pacer_.free() - kBacklog;
      co_await room_.wait_until(TimePoint(later));
    }
    if (closed_) co_return false;
    const Bytes piece = bytes.first(std::min(bytes.size(), piece_bytes(shape)));
    pieces_.push_back({pacer_.arrival(shape, now(), piece.size(), late), {piece.begin(), piece.end()}});
    bytes_ += piece.size();
    bytes = bytes.subspan(piece.size());
    if (pieces_.size() == 1) wake_.raise();
  }
  co_return true;
}

asio::awaitable<std::vector<std::byte>> DelayLine::take(std::shared_ptr<DelayLine> self) {
  while (!self->closed_ && (pieces_.empty() || pieces_.front().arrives > now())) {
    if (pieces_.empty()) {
      co_await wake_.wait();
    } else {
      co_await wake_.wait_until(TimePoint(pieces_.front().arrives));
    }
  }
  if (closed_) co_return std::vector<std::byte>{};
  std::vector<std::byte> bytes = std::move(pieces_.front().bytes);
  pieces_.pop_front();
  bytes_ -= bytes.size();
  if (bytes_ + bytes.size() >= kBytesMax) room_.raise();
  co_return bytes;
}

void DelayLine::close() {
  closed_ = true;
  wake_.raise();
  room_.raise();
}

}  // namespace starling::transport
