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

// A change between success and failure is an event if the last one of its kind was a minute ago: an
// unreliable disk must not fill the list.
std::optional<std::string> CheckpointNews::tell(Kind& kind, bool changed, std::string sentence, Instant now) {
  const auto gap = changed ? kShortestGap : kind.gap;
  if (kind.reported && now - *kind.reported < gap) {
    ++kind.unreported;
    return std::nullopt;
  }
  if (kind.reported && !changed) kind.gap = std::min(2 * kind.gap, kLongestGap);
  kind.reported = now;
  if (const auto unreported = std::exchange(kind.unreported, 0); unreported > 0)
    sentence += "; " + std::to_string(unreported) + " more since the last such event";
  return sentence;
}

}  // namespace starling::node
