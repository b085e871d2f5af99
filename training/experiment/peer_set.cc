#include "training/experiment/peer_set.h"

#include <algorithm>

#include "training/experiment/quantities.h"

namespace starling::training {

Result<PeerSet> PeerSet::parse(std::string_view text) {
  if (text == "all") return all();
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges;
  for (const std::string_view part : split(text, ',')) {
    const std::size_t dash = std::min(part.find('-'), part.size());
    const auto first = parse_whole(part.substr(0, dash), 0, kMost);
    if (!first) return Error{first.error().message + ", several (0-3,8), or all"};
    auto last = first;
    if (dash < part.size()) last = parse_whole(part.substr(dash + 1), 0, kMost);
    if (!last) return Error{last.error().message + ", several (0-3,8), or all"};
    if (*last < *first) return Error{in_quotes(part) + " runs backwards; write the smaller number first"};
    ranges.emplace_back(static_cast<std::uint32_t>(*first), static_cast<std::uint32_t>(*last));
  }
  std::sort(ranges.begin(), ranges.end());
  PeerSet set;
  for (const auto& [first, last] : ranges) {
    if (set.ranges_.empty() || first > set.ranges_.back().second + 1) {
      set.ranges_.emplace_back(first, last);
    } else {
      set.ranges_.back().second = std::max(set.ranges_.back().second, last);
    }
  }
  return set;
}

std::string PeerSet::text() const {
  if (is_all()) return "all";
  std::string text;
  for (const auto& [first, last] : ranges_) {
    text += (text.empty() ? "" : ",") + std::to_string(first);
    if (last > first) text += "-" + std::to_string(last);
  }
  return text;
}

bool PeerSet::contains(std::uint32_t peer) const {
  return is_all() || std::any_of(ranges_.begin(), ranges_.end(), [peer](const auto& range) {
           return range.first <= peer && peer <= range.second;
         });
}

bool PeerSet::covers(std::uint32_t peers) const {
  return is_all() || (ranges_.front().first == 0 && ranges_.front().second + 1 >= peers);
}

std::vector<std::uint32_t> PeerSet::among(std::uint32_t peers) const {
  std::vector<std::uint32_t> numbers;
  if (is_all()) {
    for (std::uint32_t peer = 0; peer < peers; ++peer) numbers.push_back(peer);
    return numbers;
  }
  for (const auto& [first, last] : ranges_)
    for (std::uint32_t peer = first; peer <= last && peer < peers; ++peer) numbers.push_back(peer);
  return numbers;
}

}  // namespace starling::training
