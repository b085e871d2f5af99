#include "node/front/event_log.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace starling::node {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kWaitingInterval = std::chrono::seconds(5);
constexpr std::size_t kWaitingTextsMax = 64;

}  // namespace

void EventLog::say(spdlog::level::level_enum level, std::string what, std::string text, PeerId peer) {
  spdlog::log(level, "{}", text);
  const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
  kept_.push_back(
      {next_++, seconds, std::chrono::system_clock::now(), level, std::move(what), peer, std::move(text)});
  if (kept_.size() > kKept) kept_.pop_front();
}

std::vector<Happening> EventLog::since(std::uint64_t number) const {
  std::vector<Happening> found;
  for (const Happening& happening : kept_) {
    if (happening.number > number) found.push_back(happening);
  }
  return found;
}

void EventLog::tell(const gossip::Notice& notice) {
  using What = gossip::Notice::What;
  using spdlog::level::info, spdlog::level::warn;
  const std::string member = "member " + notice.text;
  switch (notice.what) {
    case What::joined:
      return say(info, "joined", member + " has joined", notice.peer);
    case What::suspected:
      return say(info, "suspected", member + " is suspected to be down", notice.peer);
    case What::recovered:
      return say(info, "recovered", member + " is alive", notice.peer);
    case What::failed:
      return say(warn, "failed", member + " has failed", notice.peer);
    case What::left:
      return say(info, "left", member + " has left", notice.peer);
    case What::quarantined:
      return say(warn, "quarantined", member + " sends unusable parameters; no exchange with it for a while",
                 notice.peer);
    case What::refuted:
      return say(warn, "refuted",
                 notice.text + " reported that this peer is down; this peer has refuted that");
    case What::unwired:
      return say(warn, "unwired",
                 "the swarm changed to a topology that this version does not support: " + notice.text);
    case What::diverged:
      return say(warn, "diverged",
                 "this peer's own parameters are no longer finite; it copies those of another member");
    case What::waiting: {
      if (waiting_.size() > kWaitingTextsMax) waiting_.clear();
      Clock::time_point& logged = waiting_[notice.text];
      if (logged != Clock::time_point{} && Clock::now() - logged < kWaitingInterval) return;
      logged = Clock::now();
      return say(warn, "waiting", notice.text + "; trying again");
    }
  }
}

}  // namespace starling::node
