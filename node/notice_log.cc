#include "node/notice_log.h"

#include <spdlog/spdlog.h>

namespace starling::node {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kWaitingInterval = std::chrono::seconds(5);
constexpr std::size_t kWaitingTextsMax = 64;

}  // namespace

void NoticeLog::tell(const gossip::Notice& notice) {
  using What = gossip::Notice::What;
  switch (notice.what) {
    case What::joined:
      spdlog::info("member {} has joined", notice.text);
      return;
    case What::suspected:
      spdlog::info("member {} is suspected to be down", notice.text);
      return;
    case What::recovered:
      spdlog::info("member {} is alive", notice.text);
      return;
    case What::failed:
      spdlog::warn("member {} has failed", notice.text);
      return;
    case What::left:
      spdlog::info("member {} has left", notice.text);
      return;
    case What::quarantined:
      spdlog::warn("member {} sends unusable parameters; no exchange with it for a while", notice.text);
      return;
    case What::refuted:
      spdlog::warn("{} said that this peer is down; it has been told otherwise", notice.text);
      return;
    case What::unwired:
      spdlog::warn("the swarm has another topology from now on, which this program cannot follow: {}", notice.text);
      return;
    case What::diverged:
      spdlog::warn("this peer's own parameters are not finite any more; it copies those of another member");
      return;
    case What::waiting: {
      if (waiting_.size() > kWaitingTextsMax) waiting_.clear();
      Clock::time_point& said = waiting_[notice.text];
      if (said != Clock::time_point{} && Clock::now() - said < kWaitingInterval) return;
      said = Clock::now();
      spdlog::warn("{}; trying again", notice.text);
      return;
    }
  }
}

}  // namespace starling::node
