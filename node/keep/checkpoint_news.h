// Which checkpoints deserve a place among a peer's happenings (node/event_log.h keeps 256). The first does,
// the first failure and the first success behind one do; what only goes on is told ever more seldom, with how
// many went untold. A value, of one thread; instants are whatever the caller's clock gives, and do not go
// back.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace starling::node {

class CheckpointNews {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  // The sentence to tell of a checkpoint that was written, or was not and why; nothing where that is no news.
  std::optional<std::string> written(const std::string& path, Instant now);
  std::optional<std::string> failed(const std::string& why, Instant now);

  static constexpr std::chrono::minutes kShortestGap{1}, kLongestGap{60};  // between two of a kind

 private:
  struct Kind {
    std::optional<Instant> told;
    std::chrono::minutes gap = kShortestGap;
    std::uint64_t untold = 0;
  };
  std::optional<std::string> tell(Kind& kind, bool changed, std::string sentence, Instant now);

  Kind written_, failed_;
  bool failing_ = false;
};

}  // namespace starling::node
