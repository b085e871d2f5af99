// Finds peers of the swarm on the local network and announces this one there (--discover). A peer that begins
// or joins no run yet looks for a while for peers to join. Later, a peer of the same swarm that this one does
// not know is introduced to the core, so that runs that began apart merge. Used by the daemon's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <asio/steady_timer.hpp>

#include "base/result.h"
#include "node/discovery/avahi.h"
#include "node/discovery/neighborhood.h"
#include "node/front/log_limiter.h"
#include "node/peer/listening.h"
#include "node/peer/lives.h"

namespace starling::node {

class Discovery {
 public:
  Discovery(Started& started, Listening& listening, const Lives& lives, Drive drive)
      : started_(started),
        listening_(listening),
        lives_(lives),
        drive_(std::move(drive)),
        timer_(started.io) {}

  // Begins to browse, and calls `found` once, later: with the addresses of peers that have answered, after
  // two or three seconds; with none at once if the options already name peers to join; or with an Error, one
  // sentence, if no Avahi daemon answers. REQUIRES: the peer has its id, name and links.
  using Found = std::function<void(const Result<std::vector<Address>>& found)>;
  void open(Found found);
  // The peer takes part in the run: it is announced, and introduces to the core whom it finds.
  void take_part();
  // It leaves or ends: it is not announced any more.
  void withdraw();
  // To be called several times a second.
  void tick();

 private:
  enum class Stage : std::uint8_t { closed, opening, searching, joining, taking_part };

  void opened(const Status& status);
  void changed(bool answers);
  void wait_for(Duration time, std::function<void()> then);
  void finish_search();
  void decide(const Result<std::vector<Address>>& found);
  void try_peers();
  void tried(const Endpoint& peer, const transport::LinkStatus& status);
  void introduce(const Endpoint& peer);
  std::vector<std::string> tags() const;
  void announce();

  Started& started_;
  Listening& listening_;
  const Lives& lives_;
  const Drive drive_;
  Stage stage_ = Stage::closed;
  Found found_;
  asio::steady_timer timer_;
  std::unique_ptr<Neighborhood> neighborhood_;  // once open
  std::vector<std::string> tags_;
  std::size_t trying_ = 0;  // peers
  Instant next_try_{};
  bool window_over_ = false;                     // only peers that are already being tried are waited for
  LogLimiter lines_{64, std::chrono::hours(1)};  // about announcements, by kind and host
  std::unique_ptr<Avahi> avahi_;                 // last: its thread ends first
};

}  // namespace starling::node
