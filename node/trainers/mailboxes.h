// The two mailboxes of copy mode, by which the parameters x of a trainer and the peer's arena E follow each
// other (docs/TRAINERS.md). With the posted snapshot s and the last reply r':
//
//   E += s - r',  r = E,  and the trainer does x += r - s.
//
// This is done on the daemon's thread, which also mixes exchanges, in slices, between which other work of
// that thread runs. So a post and an exchange lose nothing of each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include "models/arena.h"
#include "node/trainers/region.h"

namespace starling::node {

class Mailboxes {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Post : std::uint8_t {
    added,       // to the arena
    not_finite,  // and not added from the first slice on that has such a value
    outdated,    // of an earlier era, and not added
  };
  struct Events {
    std::function<void(Post)> absorbed;
    std::function<void()> replied;
  };
  // Region and arena outlive the mailboxes; the arena is the region's.
  Mailboxes(Region& region, models::Arena& arena, asio::any_io_executor executor, Events events)
      : region_(region), arena_(arena), executor_(std::move(executor)), events_(std::move(events)) {}

  // For a new trainer, in this era: the reply is the arena, nothing is posted yet.
  void begin(std::uint64_t era);
  // Begins to absorb the next post if it is there and the last one is answered; true if so.
  bool take();
  // Whether a post is absorbed and to be answered now. Unless the trainer waits for it, the reply follows the
  // exchange that the post gives rise to, for some time: so the trainer has the result soon, and one post is
  // enough.
  bool reply_is_due(bool trainer_waits) const;
  void reply();
  // Another replica is in the arena, a new era: the reply is the arena, and posts up to now are void.
  void replace(std::uint64_t era);
  // Drops what is under way. The trainer waits for a reply until begin() or replace().
  void abandon();
  // For the last time, without a post: the reply is the arena.
  void write_reply();

  bool is_absorbing() const { return stage_ == Stage::absorbing; }
  bool is_idle() const { return stage_ == Stage::none; }
  // Whether exchanges have changed the arena since the last reply, and no other reply is to come.
  bool has_news() const { return is_idle() && arena_.mixes() != mixes_; }
  Clock::time_point last_post() const { return posted_; }

 private:
  enum class Stage : std::uint8_t { none, absorbing, absorbed, replying };

  asio::awaitable<void> absorb();
  asio::awaitable<void> write_slices();

  Region& region_;
  models::Arena& arena_;
  asio::any_io_executor executor_;
  Events events_;
  Stage stage_ = Stage::none;
  std::uint64_t work_ = 0;  // a coroutine that began with another number has nothing to do any more
  std::uint64_t post_ = 0;  // the latest that was taken
  std::uint64_t era_ = 0;
  std::uint64_t mixes_ = 0, post_mixes_ = 0;  // of the arena at the last reply, and at the latest post
  Clock::time_point posted_{};
};

}  // namespace starling::node
