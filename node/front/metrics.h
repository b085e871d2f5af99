// A peer's figures in Prometheus' text format 0.0.4. Names follow its conventions: a prefix, base units,
// counters that end in _total, labels with few values. Only the .cc file uses the library.
#pragma once

#include <string>
#include <vector>

#include "node/front/status.h"

namespace starling::node {

inline constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

std::string metrics_text(const PeerStatus& status, const std::vector<MemberStatus>& members);

}  // namespace starling::node
