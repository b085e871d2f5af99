#include "node/front/log_limiter.h"

namespace starling::node {

std::optional<std::uint64_t> LogLimiter::count(Clock::time_point now, const std::string& kind,
                                               const std::string& source) {
  const Key key{kind, source};
  const auto is_over = [&](const Entry& entry) { return now - entry.logged >= interval_; };
  auto known = entries_.find(key);
  if (known == entries_.end() && entries_.size() >= sources_max_) {
    std::erase_if(entries_, [&](const auto& one) { return is_over(one.second); });
  }
  if (known == entries_.end() && entries_.size() < sources_max_) {
    entries_[key] = {now, 0};
    return 0;
  }
  if (known == entries_.end() && !others_.contains(kind)) {
    others_[kind] = {now, 0};
    return 0;
  }
  Entry& entry = known == entries_.end() ? others_.at(kind) : known->second;
  if (!is_over(entry)) {
    ++entry.unlogged;
    return std::nullopt;
  }
  const std::uint64_t unlogged = entry.unlogged;
  entry = {now, 0};
  return unlogged;
}

std::string with_unlogged(const std::string& text, std::uint64_t unlogged) {
  if (unlogged == 0) return text;
  return text + "; " + std::to_string(unlogged) +
         (unlogged == 1 ? " more like this was not logged" : " more like this were not logged");
}

}  // namespace starling::node
