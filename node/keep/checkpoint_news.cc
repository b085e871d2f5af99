#include "node/keep/checkpoint_news.h"

#include <algorithm>
#include <utility>

namespace starling::node {

std::optional<std::string> CheckpointNews::written(const std::string& path, Instant now) {
  return tell(written_, std::exchange(failing_, false), "checkpoint written: " + path, now);
}

std::optional<std::string> CheckpointNews::failed(const std::string& why, Instant now) {
  return tell(failed_, !std::exchange(failing_, true), "no checkpoint, but training continues: " + why, now);
}

// A change between success and failure is an event already a minute after the last one of its kind: a disk
// that comes and goes must not fill the list either.
std::optional<std::string> CheckpointNews::tell(Kind& kind, bool changed, std::string sentence, Instant now) {
  const auto gap = changed ? kShortestGap : kind.gap;
  if (kind.told && now - *kind.told < gap) {
    ++kind.untold;
    return std::nullopt;
  }
  if (kind.told && !changed) kind.gap = std::min(2 * kind.gap, kLongestGap);
  kind.told = now;
  if (const auto untold = std::exchange(kind.untold, 0); untold > 0)
    sentence += "; " + std::to_string(untold) + " more since the last such event";
  return sentence;
}

}  // namespace starling::node
