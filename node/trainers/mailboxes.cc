#include "node/trainers/mailboxes.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include "transport/coroutines.h"

namespace starling::node {
namespace {

constexpr auto kReplyWait = std::chrono::milliseconds(250);
constexpr std::size_t kSliceFloats = std::size_t{1} << 17;

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

}  // namespace

void Mailboxes::begin(std::uint64_t era) {
  abandon();
  era_ = era;
  post_ = 0;
  posted_ = Clock::now();
  write_reply();
  region_.set(PeerWord::reply, post_);
}

void Mailboxes::abandon() {
  ++work_;
  stage_ = Stage::none;
}

void Mailboxes::write_reply() {
  mixes_ = arena_.mixes();
  arena_.read(0, region_.reply());
}

void Mailboxes::replace(std::uint64_t era) {
  abandon();
  era_ = era;
  write_reply();
  post_ = region_.get(TrainerWord::post);
  region_.set(PeerWord::reply, post_);
}

bool Mailboxes::take() {
  if (stage_ != Stage::none || region_.get(TrainerWord::post) != post_ + 1) return false;
  ++post_;
  stage_ = Stage::absorbing;
  transport::spawn(executor_, absorb());
  return true;
}

bool Mailboxes::reply_is_due(bool trainer_waits) const {
  if (stage_ != Stage::absorbed) return false;
  return trainer_waits || arena_.mixes() != post_mixes_ || Clock::now() - posted_ >= kReplyWait;
}

void Mailboxes::reply() {
  stage_ = Stage::replying;
  mixes_ = arena_.mixes();
  transport::spawn(executor_, write_slices());
}

// The first pass only looks, because a snapshot that is not finite must change nothing. The trainer may write
// between the two passes, so the second one checks again what it adds. Where nothing was mixed since the last
// reply, the arena has the snapshot to the last bit, and no rounded sum; so marks of frozen tensors stay
// marks.
asio::awaitable<void> Mailboxes::absorb() {
  const std::uint64_t work = work_;
  const auto snapshot = region_.post(), last = region_.reply();
  const bool outdated = region_.get(TrainerWord::post_era) != era_;
  bool finite = true;
  std::vector<float> news(std::min(kSliceFloats, snapshot.size())), sums(news.size());
  for (const bool looks : {true, false}) {
    for (std::size_t at = 0; !outdated && finite && at < snapshot.size(); at += kSliceFloats) {
      const std::size_t size = std::min(kSliceFloats, snapshot.size() - at);
      const auto part = std::span(news).first(size), sum = std::span(sums).first(size);
      arena_.read(at, sum);
      for (std::size_t i = 0; i < size; ++i) {
        const float posted = snapshot[at + i], before = last[at + i];
        part[i] = posted - before;
        sum[i] = sum[i] == before ? posted : sum[i] + part[i];
      }
      finite = all_finite(part);
      if (finite && !looks) arena_.write(at, sum);
      co_await asio::post(executor_, asio::use_awaitable);
      if (work != work_) co_return;
    }
  }
  stage_ = Stage::absorbed;
  posted_ = Clock::now();
  post_mixes_ = arena_.mixes();
  events_.absorbed(outdated ? Post::outdated : finite ? Post::added : Post::not_finite);
}

asio::awaitable<void> Mailboxes::write_slices() {
  const std::uint64_t work = work_;
  const auto to = region_.reply();
  for (std::size_t at = 0; at < to.size(); at += kSliceFloats) {
    arena_.read(at, to.subspan(at, std::min(kSliceFloats, to.size() - at)));
    co_await asio::post(executor_, asio::use_awaitable);
    if (work != work_) co_return;
  }
  region_.set(PeerWord::reply, post_);
  stage_ = Stage::none;
  events_.replied();
}

}  // namespace starling::node
