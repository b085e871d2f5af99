// Which checkpoints become events (node/front/event_log.h keeps 256): the first one, the first failure, and
// the first success after a failure. Repetitions become events at growing intervals, with the number of those
// left out. Used by one thread; instants come from the caller's clock and never decrease.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace starling::node {

class CheckpointNews {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  // The event's text for a checkpoint that was written, or failed and why; nullopt: it is not an event.
  std::optional<std::string> written(const std::string& path, Instant now);
  std::optional<std::string> failed(const std::string& why, Instant now);

  static constexpr std::chrono::minutes kShortestGap{1}, kLongestGap{60};  // between two events of a kind

 private:
  struct Kind {
    std::optional<Instant> reported;
    std::chrono::minutes gap = kShortestGap;
    std::uint64_t unreported = 0;
  };
  std::optional<std::string> tell(Kind& kind, bool changed, std::string sentence, Instant now);

  Kind written_, failed_;
  bool failing_ = false;
};

}  // namespace starling::node
