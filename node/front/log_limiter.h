// Limits log lines that other machines can cause. An event of one kind from one source is logged the first
// time; after that it is logged at most once per interval, with the number of events in between. Only the
// most recent sources are remembered: while all of them are within their interval, the events of further
// sources share one line per kind. So the lines per interval are bounded, whatever arrives. Used by one
// thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/time.h"

namespace starling::node {

class LogLimiter {
 public:
  using Clock = std::chrono::steady_clock;

  // `sources_max`: pairs of kind and source that are remembered.
  explicit LogLimiter(std::size_t sources_max, Duration interval = std::chrono::minutes(1))
      : sources_max_(sources_max), interval_(interval) {}

  // Counts an event. If it is to be logged, returns the number of such events that were not logged since the
  // last line; nullopt: it is not to be logged. Kinds must come from a small fixed set.
  std::optional<std::uint64_t> count(Clock::time_point now, const std::string& kind,
                                     const std::string& source);

 private:
  struct Entry {
    Clock::time_point logged;
    std::uint64_t unlogged = 0;
  };
  using Key = std::pair<std::string, std::string>;  // kind and source

  std::size_t sources_max_;
  Duration interval_;
  std::map<Key, Entry> entries_;
  std::map<std::string, Entry> others_;  // by kind, of sources that are not remembered
};

// The text of the line: "TEXT; 12 more like this were not logged", or only the text for 0.
std::string with_unlogged(const std::string& text, std::uint64_t unlogged);

}  // namespace starling::node
